"""Snapshots of filters in a folder or bucket that all machines see, so that a process need not read the whole graph
first.

    filter/MADE.bloom    the hash of what follows (32 bytes), the length of the head (4), the head as JSON, the blocks

MADE: when it was made, in ms since the epoch. A snapshot holds every edge that was not removed as of its position in
the log. A process that loads it follows the log from there. A snapshot with a wrong hash is not used. The newest two
are kept.
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
"""The share of absent edges for which the next layer is queried in vain. One in a hundred costs less than the memory
for a smaller share.
"""
FILTER_GROWTH_SHARE, FILTER_GROWTH_MIN = 0.25, 100_000
"""Room for growth in a new filter: this share of its edges, and at least this number."""
SNAPSHOTS_KEPT = 2
_FOLDER, _LENGTH, _HASH_BYTES = "filter", struct.Struct(">I"), 32
_log = structlog.get_logger("kith.checks")


class SnapshotHead(msgspec.Struct, frozen=True):
    """The head of the file. `graphs`: the number of each graph, by name."""

    graphs: dict[str, int]
    at: LogPosition
    made_ms: int
    edges: int


class Snapshot(NamedTuple):
    """A filter as of a position in the log."""

    head: SnapshotHead
    filter: Filter


class Files(Protocol):
    """A folder or bucket. Errors: StoreFull, StoreUnavailable; StoreMismatch for a missing file."""

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file, whole or not at all."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file."""
        ...

    def files(self, prefix: str) -> Iterator[_Named]:
        """All files in a folder of it."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class Snapshots:
    """The snapshots in one folder or bucket. Calls block on disk or network: run them in a thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._damaged: frozenset[str] = frozenset()  # names of damaged ones that still exist; not read again

    def names(self) -> list[str]:
        """The names of all snapshots, newest first."""
        snapshot_names = [file.name for file in self._files.files(_FOLDER) if file.name.endswith(".bloom")]
        return sorted(snapshot_names, key=_made_ms, reverse=True)

    def newest(self, after_ms: int = 0) -> Snapshot | None:
        """The newest usable snapshot made after `after_ms`; None if there is none."""
        names = self.names()
        self._damaged &= frozenset(names)
        for name in names:
            if _made_ms(name) <= after_ms:
                break
            if name in self._damaged:
                continue
            try:
                return self.load(name)
            except KithError as error:
                if isinstance(error, StoreMismatch):
                    self._damaged |= {name}
                _log.error("a snapshot of the filter cannot be used", name=name, error=error.message)
        return None

    def load(self, name: str) -> Snapshot:
        """One snapshot. StoreMismatch if it is damaged or of another version."""
        data = bytearray().join(self._files.read(name))
        if hashlib.sha256(memoryview(data)[_HASH_BYTES:]).digest() != data[:_HASH_BYTES]:
            raise StoreMismatch("its hash differs: the file is damaged")
        head_start = _HASH_BYTES + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, _HASH_BYTES)
        try:
            head = msgspec.json.decode(data[head_start : head_start + length], type=SnapshotHead)
        except msgspec.MsgspecError:
            raise StoreMismatch("it was written by another version") from None
        del data[: head_start + length]
        return Snapshot(head, Filter(data, head.edges))

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot, and delete all but the newest SNAPSHOTS_KEPT."""
        head = msgspec.json.encode(snapshot.head)
        beginning, blocks = _LENGTH.pack(len(head)) + head, snapshot.filter.blocks
        hashed = hashlib.sha256(beginning)
        hashed.update(blocks)
        parts = (memoryview(blocks)[start : start + (1 << 20)] for start in range(0, len(blocks), 1 << 20))
        name = f"{_FOLDER}/{snapshot.head.made_ms:015d}.bloom"
        self._files.put(name, (hashed.digest() + beginning, *map(bytes, parts)))
        self._files.delete(self.names()[SNAPSHOTS_KEPT:])


def _made_ms(name: str) -> int:
    digits = name.rpartition("/")[2].removesuffix(".bloom")
    return int(digits) if digits.isdecimal() else 0


def growth_allowance(edges: int) -> int:
    """How many edges may be added to a filter that was made with `edges` edges."""
    return max(int(edges * FILTER_GROWTH_SHARE), FILTER_GROWTH_MIN)


async def build(
    scans: Scans, graphs: dict[str, int], log_end: LogPosition, made_ms: int, edges_max: int
) -> Snapshot | None:
    """A filter of all edges of these graphs that are not removed. `log_end`: the end of the log before the scan.

    None, with an error in the log, if there are more than `edges_max` edges. The scan holds 8 bytes per edge in memory.
    """
    parts, edges = list[Hashes](), 0
    async for graph, chunk in _scan(scans, graphs):
        parts.append(_hashes(graph, chunk))
        edges += len(parts[-1])
        if edges > edges_max:
            _log.error("checks have no filter: there are more edges than `checks_edges_max`", more_than=edges_max)
            return None
    new_filter = Filter.sized(edges + growth_allowance(edges), FALSE_POSITIVES)
    for part in parts:
        new_filter.add_many(part)
    _log.info(
        "a filter is made",
        edges=edges,
        bytes=len(new_filter.blocks),
        bits_an_edge=round(len(new_filter.blocks) * 8 / max(1, edges), 1),
    )
    return Snapshot(SnapshotHead(graphs, log_end, made_ms, new_filter.edges), new_filter)


async def _scan(scans: Scans, graphs: dict[str, int]) -> AsyncIterator[tuple[int, list[Edge]]]:
    for graph in graphs.values():
        async for chunk in scans.stored(graph):
            yield graph, chunk


def _hashes(graph: int, chunk: Sequence[Edge]) -> Hashes:
    edges = [edge for edge in chunk if edge.state is not State.REMOVED]
    sources, destinations = (
        np.array([getattr(edge, end) for edge in edges], np.int64) for end in ("source", "destination")
    )
    return hashes_of(graph, sources, destinations)
