"""Bulk load of an empty graph by sorting: every page is written once, in order, and full.

    loading-<graph>/state.json    how much of the file has been read (written after each run)
    loading-<graph>/<k>.out.npy   a run: (n, 3) int64 source, destination, position, sorted by source
    loading-<graph>/<k>.in.npy    the same rows, sorted by destination

First the file is cut into runs of RUN_ROWS rows, each stored on disk in both orders. Then the nodes are cut into ranges
of about RANGE_ROWS rows. The rows of a range are taken from all runs, merged (of an edge that comes twice, the greater
position stays) and appended to the graph. Each range is one commit, which also notes the range's number. A killed load
resumes after the last run or range.

Memory holds one range; but the list of one node is packed as a whole, 16 bytes an edge. The graph must have no other
writer, and no server may serve it until the load is done. The note LOADING_NOTE says that a load is in progress. A
working folder without that note is left over from a load that had finished, or that had not begun.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from numpy.typing import NDArray

from kith.core.clock import Hlc, ms_of, wall_ms
from kith.core.errors import Conflict, StoreMismatch
from kith.engines.embedded import changes, runs
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.edge_rows import packed_edges
from kith.engines.embedded.environment import LOADING_NOTE, LOG_WHOLE_AFTER, Environment, put_note
from kith.engines.embedded.event_log import LogWriter, bulk_loaded
from kith.engines.embedded.keys import SIGN, list_tag
from kith.engines.embedded.store_file import sync_folder
from kith.graph.edge import Direction, State

RUN_ROWS = 2_000_000
RANGE_ROWS = 400_000
_STATE = "state.json"
_SOURCE, _DESTINATION, _POSITION = 0, 1, 2

EdgeRows = NDArray[np.int64]


class ReadProgress(msgspec.Struct):
    """How much of the file has been cut into runs."""

    file: str  # fingerprint
    updated_at: int
    source: str = ""  # the file's name and how it is read, for messages to a user who must run the import again
    line: int = 0
    runs: int = 0
    refused: int = 0
    complete: bool = False


class BulkLoad:
    """One load in progress: `add` all rows, then `finish`. To drop it, see `discard`."""

    def __init__(self, environment: Environment, graph: str, file: str, updated_at: Hlc, source: str = "") -> None:
        """Begin or resume a load of the file with this fingerprint. Restarts if the working folder is damaged.

        `source`: the file's name, and how it is read. Errors: Conflict if a load of another file is unfinished;
        StoreMismatch if the working folder is damaged and a range was written already.
        """
        self._environment, self._graph = environment, environment.graph_numbers()[graph]
        self._folder = _folder_of(environment, graph)
        self._state_file = self._folder / _STATE
        self._note = LOADING_NOTE + graph
        self._pending: list[EdgeRows] = []
        self._pending_rows = 0
        ranges_note = environment.get_note(self._note)
        saved = None if ranges_note is None else self._saved_progress()
        if saved is None and int(ranges_note or b"0"):
            raise StoreMismatch(
                f"{self._folder} is gone or damaged, and with it the rest of an import; {_discarding(graph)}"
            )
        self.reading = saved or ReadProgress(file, updated_at, source)
        if self.reading.file != file:
            raise Conflict(
                f"another import into {graph!r}{_of(self.reading)} was cut short: run it again as it was to finish it, "
                f"or {_discarding(graph)}"
            )
        if saved is None:
            if self._folder.exists():
                shutil.rmtree(self._folder)
            self._folder.mkdir(mode=0o700)
            self._save_reading()
            environment.put_note(self._note, b"0")

    def add(self, rows: EdgeRows, line: int, refused: int) -> None:
        """Add rows, up to line `line` of the file. `refused`: lines refused since the last call.

        `rows`: (n, 2) source, destination; (n, 3) with positions; (n, 4) if only some rows have a position: the last
        column is 1 for these and 0 for the others.
        """
        self._pending.append(self._with_positions(rows))
        self._pending_rows += len(rows)
        self.reading.line, self.reading.refused = line, self.reading.refused + refused
        if self._pending_rows >= RUN_ROWS:
            with translate_errors("load the graph", self._folder):
                self._spill()

    def finish(self, progress: Callable[[int, int], None]) -> int:
        """Append all rows to the graph. Returns the graph's number of edges.

        Calls `progress(rows done, rows in all)` at the start and after each range.
        """
        with translate_errors("load the graph", self._folder):
            if not self.reading.complete:
                self._spill(complete=True)
            outs, ins = self._runs(self.reading.runs)
            total = sum(map(len, outs))
            borders = _borders(outs, ins, total)
            ranges_done = int(self._environment.get_note(self._note) or b"0")
            ranges = len(borders) - 1
            progress(total * ranges_done // max(1, ranges), total)
            edges = sum(len(_edges(outs, borders, index)) for index in range(ranges_done))
            for index in range(ranges_done, ranges):
                edges += self._load_range(index, outs, ins, borders)
                progress(total * (index + 1) // ranges, total)
            self._complete(edges)
            return edges

    def _saved_progress(self) -> ReadProgress | None:
        """The progress that the working folder holds; None if any of its files is lost or damaged."""
        try:
            saved = msgspec.json.decode(self._state_file.read_bytes(), type=ReadProgress)
            self._runs(saved.runs)
        except (FileNotFoundError, EOFError, ValueError):
            return None
        return saved

    def _runs(self, count: int) -> tuple[list[EdgeRows], list[EdgeRows]]:
        """The first `count` runs: sorted by source, and sorted by destination."""
        outs, ins = (
            [np.load(self._folder / f"{run}.{end}.npy", mmap_mode="r") for run in range(count)] for end in ("out", "in")
        )
        return outs, ins

    def _with_positions(self, rows: EdgeRows) -> EdgeRows:
        default = ms_of(self.reading.updated_at)
        if rows.shape[1] == 4:
            rows[rows[:, -1] == 0, _POSITION] = default
        if rows.shape[1] >= 3:
            return rows[:, :3]
        return np.column_stack([rows, np.full(len(rows), default, np.int64)])

    def _spill(self, complete: bool = False) -> None:
        if self._pending_rows:
            rows = np.concatenate(self._pending)
            for end, column in (("out", _SOURCE), ("in", _DESTINATION)):
                with (self._folder / f"{self.reading.runs}.{end}.npy").open("wb") as target:
                    np.save(target, rows[np.argsort(rows[:, column], kind="stable")])
                    _sync(target)
            self._pending.clear()
            self._pending_rows = 0
            self.reading.runs += 1
        self.reading.complete = complete
        self._save_reading()

    def _save_reading(self) -> None:
        partial = self._state_file.with_suffix(".part")
        with partial.open("wb") as target:
            target.write(msgspec.json.encode(self.reading))
            _sync(target)
        partial.replace(self._state_file)
        sync_folder(self._folder)

    def _load_range(self, index: int, outs: list[EdgeRows], ins: list[EdgeRows], borders: list[int]) -> int:
        """Append the edges and lists of a range of nodes, in one commit. Returns how many edges."""
        out_rows = _edges(outs, borders, index)
        in_rows = _merged(_cut(ins, _DESTINATION, borders[index], borders[index + 1]), _DESTINATION, _SOURCE)
        items = _edge_items(out_rows, Hlc(self.reading.updated_at))
        items += _list_items(out_rows, Direction.OUT, _SOURCE, _DESTINATION)
        items += _list_items(in_rows, Direction.IN, _DESTINATION, _SOURCE)
        items.sort()  # three sorted stretches; the sort merges them in one pass
        database = self._environment.graph_db(self._graph)
        with self._environment.commit() as write:
            write.txn.cursor(database).putmulti(items, append=True)
            put_note(write.txn, self._environment.notes_db, self._note, str(index + 1).encode())
        return len(out_rows)

    def _complete(self, edges: int) -> None:
        with self._environment.commit() as write:
            txn = write.txn
            log = LogWriter(txn, self._environment.log, wall_ms())
            log.append(changes.announced(bulk_loaded(self._graph, edges, Hlc(self.reading.updated_at))))
            log.flush()
            put_note(txn, self._environment.notes_db, LOG_WHOLE_AFTER, str(log.last).encode())
            put_note(txn, self._environment.notes_db, self._note, None)
        shutil.rmtree(self._folder)


def has_begun(environment: Environment, graph: str) -> bool:
    """Whether a load of a graph is unfinished."""
    return environment.get_note(LOADING_NOTE + graph) is not None


def unfinished(environment: Environment) -> Iterator[str]:
    """A message for each unfinished load: which one it is, and how to finish or drop it."""
    for graph in environment.notes(LOADING_NOTE):
        source = ""
        with contextlib.suppress(OSError, ValueError):  # the message does not name the file then
            state = (_folder_of(environment, graph) / _STATE).read_bytes()
            source = _of(msgspec.json.decode(state, type=ReadProgress))
        yield (
            f"an import into {graph!r}{source} was cut short, or is under way: wait for it, or run the same "
            f"`kith import` again to finish it, or {_discarding(graph)}"
        )


def discard(environment: Environment, graph: str) -> None:
    """Drop an unfinished load with all rows of the graph: the graph was empty before.

    The working folder goes first, so that a disk which the load has filled has room for the commit.
    """
    shutil.rmtree(_folder_of(environment, graph), ignore_errors=True)
    with translate_errors("discard the import", environment.folder), environment.commit() as write:
        write.txn.drop(environment.graph_db(environment.graph_numbers()[graph]), delete=False)
        put_note(write.txn, environment.notes_db, LOADING_NOTE + graph, None)


def _folder_of(environment: Environment, graph: str) -> Path:
    return environment.folder / f"loading-{graph}"


def _of(reading: ReadProgress) -> str:
    return f" of {reading.source}" if reading.source else ""


def _discarding(graph: str) -> str:
    return f"drop all of it with `kith import discard --graph {graph}`"


def may_load(environment: Environment, graph: str) -> bool:
    """Whether a graph can be bulk loaded: a load of it has begun, or it is empty and all nodes are in state NORMAL."""
    if has_begun(environment, graph):
        return True
    with environment.lmdb.begin() as txn:
        if txn.stat(environment.graph_db(environment.graph_numbers()[graph]))["entries"]:
            return False
        return all(row[0] == State.NORMAL for row in txn.cursor(environment.nodes).iternext(keys=False))


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _borders(outs: list[EdgeRows], ins: list[EdgeRows], total: int) -> list[int]:
    """Node ids that cut all rows, each counted at both ends, into ranges of about equal size. 0 first, 2**63 last."""
    ranges = max(1, 2 * total // RANGE_ROWS)
    step = max(1, total // (ranges * 50))
    samples = [np.asarray(run[::step, column]) for runs_, column in ((outs, 0), (ins, 1)) for run in runs_]
    nodes = np.sort(np.concatenate(samples)) if samples else np.empty(0, np.int64)
    cuts = nodes[np.linspace(0, len(nodes) - 1, ranges + 1).astype(np.int64)[1:-1]] if len(nodes) else nodes
    return [0, *np.unique(cuts[cuts > 0]).tolist(), 1 << 63]


def _edges(outs: list[EdgeRows], borders: list[int], index: int) -> EdgeRows:
    """The edges of a range, sorted by source and destination."""
    return _merged(_cut(outs, _SOURCE, borders[index], borders[index + 1]), _SOURCE, _DESTINATION)


def _cut(sorted_runs: list[EdgeRows], column: int, low: int, high: int) -> EdgeRows:
    """The rows of all runs with `low` <= column < `high`."""
    parts = []
    for run in sorted_runs:
        start = np.searchsorted(run[:, column], low)
        end = len(run) if high == 1 << 63 else np.searchsorted(run[:, column], high)
        parts.append(np.asarray(run[start:end]))
    return np.concatenate(parts) if parts else np.empty((0, 3), np.int64)


def _merged(rows: EdgeRows, node: int, other_column: int) -> EdgeRows:
    """Rows sorted by (node, other end), each edge once, with its greatest position."""
    rows = rows[np.lexsort((rows[:, _POSITION], rows[:, other_column], rows[:, node]))]
    same_as_next = (rows[1:, :2] == rows[:-1, :2]).all(axis=1)
    is_kept: EdgeRows = rows[np.concatenate([~same_as_next, np.ones(min(1, len(rows)), np.bool_)])]
    return is_kept


def _edge_items(rows: EdgeRows, updated_at: Hlc) -> list[tuple[bytes, bytes]]:
    versions = np.full(len(rows), updated_at, np.uint64)
    states = np.full(len(rows), State.NORMAL, np.uint64)
    return packed_edges(rows[:, _SOURCE], rows[:, _DESTINATION], rows[:, _POSITION], versions, states)


def _list_items(rows: EdgeRows, direction: Direction, node: int, other_column: int) -> Iterator[tuple[bytes, bytes]]:
    rows = rows[np.lexsort((rows[:, other_column], rows[:, _POSITION], rows[:, node]))]
    prefixes = np.empty((len(rows), runs.PREFIX), np.uint8)
    prefixes[:, :8] = rows[:, node].astype(">i8").view(np.uint8).reshape(-1, 8)
    prefixes[:, 8] = list_tag(direction, State.NORMAL)
    entries = np.empty((len(rows), 2), ">u8")
    entries[:, 0] = rows[:, _POSITION].view(np.uint64) ^ np.uint64(SIGN)
    entries[:, 1] = rows[:, other_column].view(np.uint64)
    return runs.pack(prefixes, entries.view(np.uint8).reshape(-1, runs.ROW))
