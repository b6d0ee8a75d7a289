"""Filters in a folder or a bucket that all machines see, so that a process need not read the whole graph to begin.

    filter/MADE.bloom    the hash of what follows (32 bytes), the length of the head (4), the head as JSON, the blocks

MADE: when, in ms since the epoch. A snapshot holds every edge that is not removed as of its place in the log; a process
that loads it follows the log from there. One with a wrong hash is not used. The newest two are kept.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import structlog

from kith.checks.filter import Filter, Hashes, hashes_of
from kith.core.errors import KithError, StoreMismatch
from kith.core.events import LogPosition
from kith.graph.edge import Edge, State
from kith.graph.store import Scans

FALSE_POSITIVES = 0.01
"""The share of absent edges for which the next layer is asked in vain. One of a hundred costs less than the memory for
fewer."""
ROOM, LEAST_ROOM = 0.25, 100_000
"""Room of a new filter for more edges: this share of its edges, and at least this number."""
KEPT = 2
_FOLDER, _LENGTH, _HASH_BYTES = "filter", struct.Struct(">I"), 32
_log = structlog.get_logger("kith.checks")


class SnapshotHead(msgspec.Struct, frozen=True):
    """The head of the file. `graphs`: the number of each graph, by name."""

    graphs: dict[str, int]
    at: LogPosition
    made_ms: int
    edges: int


class Snapshot(NamedTuple):
    """A filter as of a place in the log."""

    head: SnapshotHead
    filter: Filter


class Files(Protocol):
    """A folder or a bucket. Errors: StoreFull, StoreUnavailable; StoreMismatch for a file that is not there."""

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file, whole or not at all."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Its content."""
        ...

    def files(self, prefix: str) -> Iterator[_Named]:
        """All files of a folder of it."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Remove files."""
        ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class Snapshots:
    """The snapshots in one folder or bucket. Its calls wait for the disk or the network: run them in a thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._spoilt: frozenset[str] = frozenset()  # of those that are there; not read again

    def names(self) -> list[str]:
        """All that are there, the newest first."""
        named = [one.name for one in self._files.files(_FOLDER) if one.name.endswith(".bloom")]
        return sorted(named, key=_made_ms, reverse=True)

    def newest(self, after_ms: int = 0) -> Snapshot | None:
        """The newest that can be used and was made after some moment."""
        names = self.names()
        self._spoilt &= frozenset(names)
        for name in names:
            if _made_ms(name) <= after_ms:
                break
            if name in self._spoilt:
                continue
            try:
                return self.load(name)
            except KithError as error:
                if isinstance(error, StoreMismatch):
                    self._spoilt |= {name}
                _log.error("a snapshot of the filter cannot be used", name=name, error=error.message)
        return None

    def load(self, name: str) -> Snapshot:
        """One snapshot. StoreMismatch where it is not as it was written."""
        stored = bytearray().join(self._files.read(name))
        if hashlib.sha256(memoryview(stored)[_HASH_BYTES:]).digest() != stored[:_HASH_BYTES]:
            raise StoreMismatch("its hash is another: it is not as it was written")
        begins = _HASH_BYTES + _LENGTH.size
        (length,) = _LENGTH.unpack_from(stored, _HASH_BYTES)
        try:
            head = msgspec.json.decode(stored[begins : begins + length], type=SnapshotHead)
        except msgspec.MsgspecError:
            raise StoreMismatch("it was written by another version") from None
        del stored[: begins + length]
        return Snapshot(head, Filter(stored, head.edges))

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of the others the newest."""
        head = msgspec.json.encode(snapshot.head)
        beginning, blocks = _LENGTH.pack(len(head)) + head, snapshot.filter.blocks
        hashed = hashlib.sha256(beginning)
        hashed.update(blocks)
        parts = (memoryview(blocks)[at : at + (1 << 20)] for at in range(0, len(blocks), 1 << 20))
        name = f"{_FOLDER}/{snapshot.head.made_ms:015d}.bloom"
        self._files.put(name, (hashed.digest() + beginning, *map(bytes, parts)))
        self._files.delete(self.names()[KEPT:])


def _made_ms(name: str) -> int:
    made = name.rpartition("/")[2].removesuffix(".bloom")
    return int(made) if made.isdecimal() else 0


def room_for(edges: int) -> int:
    """How many edges may be added to a filter that was made of so many."""
    return max(int(edges * ROOM), LEAST_ROOM)


async def build(scans: Scans, graphs: dict[str, int], at: LogPosition, made_ms: int, edges_max: int) -> Snapshot | None:
    """A filter of all edges of these graphs that are not removed; `at`: where the log ended before.

    None, and a word in our log, where there are more than `edges_max`. While it reads, it holds 8 bytes an edge.
    """
    parts, edges = list[Hashes](), 0
    async for graph, found in _scanned(scans, graphs):
        parts.append(_hashes(graph, found))
        edges += len(parts[-1])
        if edges > edges_max:
            _log.error("checks have no filter: there are more edges than `checks_edges_max`", more_than=edges_max)
            return None
    made = Filter.sized(edges + room_for(edges), FALSE_POSITIVES)
    for part in parts:
        made.add_many(part)
    _log.info(
        "a filter is made",
        edges=edges,
        bytes=len(made.blocks),
        bits_an_edge=round(len(made.blocks) * 8 / max(1, edges), 1),
    )
    return Snapshot(SnapshotHead(graphs, at, made_ms, made.edges), made)


async def _scanned(scans: Scans, graphs: dict[str, int]) -> AsyncIterator[tuple[int, list[Edge]]]:
    for graph in graphs.values():
        async for found in scans.stored(graph):
            yield graph, found


def _hashes(graph: int, found: Sequence[Edge]) -> Hashes:
    edges = [edge for edge in found if edge.state is not State.REMOVED]
    sources, destinations = (
        np.array([getattr(edge, end) for edge in edges], np.int64) for end in ("source", "destination")
    )
    return hashes_of(graph, sources, destinations)
