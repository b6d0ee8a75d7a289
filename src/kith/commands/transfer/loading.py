"""Imports edges: resumable, idempotent, in constant memory.

An empty graph that nobody serves is loaded in sorted order (the engine's `BulkLoad`). A graph in use is merged edge by
edge through the log, like any other write. Either way, the whole import has one version, fixed when it starts, and an
edge with several positions keeps the greatest. So repeating a part or all of it changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np

from kith.commands.transfer.formats import CHUNK_BYTES, LineChunk, read
from kith.commands.transfer.lines import NumberRows, RefusedLine
from kith.core.clock import Hlc, ms_of
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State, count_applied
from kith.graph.graph import Graph

ReadLines: TypeAlias = Callable[[Path, int, int], Iterator[LineChunk]]
"""Reads a file in chunks; arguments: path, lines to skip, bytes of a chunk. See `formats.read`."""
_MERGE_ROWS = 2_000
_MERGE_BYTES = 1 << 18
_FINGERPRINT_BYTES = 1 << 20
_NOTE = "import/"  # notes: import/<graph>/<fingerprint of the file> -> _Checkpoint as JSON, until it is done


class ImportResult(msgspec.Struct):
    """Result of an import. `refused`: number of refused lines; the report lists them."""

    rows: int = 0
    applied: int = 0
    refused: int = 0
    resumed_at_line: int = 0
    way: str = "merge"


class ImportProgress(Protocol):
    """Receives the progress of an import."""

    def reading(self, bytes_read: int, rows: int) -> None: ...
    def writing(self, rows_done: int, rows: int) -> None: ...


class Bulk(Protocol):
    """The engine's sorted load (see `engines/embedded/bulk.py`)."""

    reading: Any

    def add(self, rows: NumberRows, line: int, refused: int) -> None: ...
    def finish(self, progress: Callable[[int, int], None]) -> int: ...


def file_fingerprint(path: Path, *, mutual: bool = False) -> str:
    """Identifies an import for resuming it: the file's size, a hash of its first and last megabyte, and `mutual`.

    `mutual`: each row is an edge both ways.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.blake2b(file.read(_FINGERPRINT_BYTES), digest_size=12)
        file.seek(max(0, size - _FINGERPRINT_BYTES))
        digest.update(file.read())
    return f"{size}-{digest.hexdigest()}{'-mutual' if mutual else ''}"


class RefusalReport:
    """A file of refused lines. A row has the line number and the reason, separated by a tab."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            path.unlink(missing_ok=True)

    def add(self, refused: list[RefusedLine]) -> None:
        """Append refused lines. After a crash, some may be listed twice."""
        if refused:
            with self.path.open("a") as file:
                file.writelines(f"{line}\t{reason}\n" for line, reason in refused)


def load_bulk(
    path: Path,
    bulk: Bulk,
    report: RefusalReport,
    progress: ImportProgress,
    *,
    mutual: bool,
    read_file: ReadLines = read,
) -> ImportResult:
    """Load a file into an empty graph. `mutual`: each row is an edge both ways."""
    imported = ImportResult(resumed_at_line=bulk.reading.line, way="bulk")
    if not bulk.reading.complete:
        for chunk in read_file(path, bulk.reading.line, CHUNK_BYTES):
            report.add(chunk.refused)
            edges = both_ways(chunk.edges) if mutual else chunk.edges
            bulk.add(edges, chunk.line, len(chunk.refused))
            imported.rows += len(chunk.edges)
            progress.reading(chunk.bytes_read, imported.rows)
    imported.applied = bulk.finish(progress.writing)
    imported.refused = bulk.reading.refused
    return imported


class _Checkpoint(msgspec.Struct):
    updated_at: int
    line: int = 0
    applied: int = 0
    refused: int = 0


async def load_merging(
    path: Path,
    service: Graph,
    graph: str,
    report_path: Path,
    progress: ImportProgress,
    *,
    mutual: bool,
    read_file: ReadLines = read,
    version: Hlc | None = None,
) -> ImportResult:
    """Merge a file into a graph in use. A live edge gets the file's position if that is greater; else it stays.

    `version`: of the edges; None: the current time. Edges with a later version stay as they are.
    """
    number = service.graphs.number(graph)
    note = f"{_NOTE}{graph}/{file_fingerprint(path, mutual=mutual)}"
    raw = await service.store.get_note(note)
    point = msgspec.json.decode(raw, type=_Checkpoint) if raw else _Checkpoint(version or service.clock.next())
    report = RefusalReport(report_path, resume=point.line > 0)
    imported = ImportResult(resumed_at_line=point.line)
    for chunk in read_file(path, point.line, _MERGE_BYTES):
        report.add(chunk.refused)
        for rows in _slices(both_ways(chunk.edges) if mutual else chunk.edges):
            writes = await _writes(service, number, rows, Hlc(point.updated_at))
            changes, _ = await service.write(writes)
            point.applied += count_applied(changes)
        imported.rows += len(chunk.edges)
        point.line, point.refused = chunk.line, point.refused + len(chunk.refused)
        await service.store.put_note(note, msgspec.json.encode(point))
        progress.reading(chunk.bytes_read, imported.rows)
    await service.store.put_note(note, None)
    imported.applied, imported.refused = point.applied, point.refused
    return imported


def both_ways(edges: NumberRows) -> NumberRows:
    """The rows, followed by the same rows with source and destination swapped."""
    swapped = edges.copy()
    swapped[:, [0, 1]] = edges[:, [1, 0]]
    return np.concatenate([edges, swapped])


def _slices(edges: NumberRows) -> Iterator[NumberRows]:
    for start in range(0, len(edges), _MERGE_ROWS):
        yield edges[start : start + _MERGE_ROWS]


async def _writes(service: Graph, graph: int, rows: NumberRows, version: Hlc) -> list[EdgeWrite]:
    """One write for each edge, with its greatest position; none for a live edge whose position is at least as great.

    A row without a position gets the time of the import, and does not move an edge that was already live.
    """
    positions: dict[tuple[int, int], int] = {}
    placed = set()
    for source, destination, *rest in rows.tolist():
        ends, has_position = (source, destination), bool(rest and (len(rest) == 1 or rest[1]))
        position = rest[0] if has_position else ms_of(version)
        positions[ends] = max(positions.get(ends, position), position)
        if has_position:
            placed.add(ends)
    stored = await service.store.get_many(graph, list(positions))
    writes = []
    for before, (ends, position) in zip(stored, positions.items(), strict=True):
        if before is not None and before.state == State.NORMAL and before.position >= position:
            continue
        own_write = before is not None and before.updated_at == version
        edge = Edge(graph, NodeId(ends[0]), NodeId(ends[1]), State.NORMAL, position, version)
        writes.append(EdgeWrite(edge, keep_live=ends not in placed and not own_write))
    return writes
