"""Remembers acknowledged writes, and checks that a store still has them.

- `Ledger.check_acknowledged`: each acknowledged write is stored, or a later one of the same edge or record.
- `Ledger.check_whole`: both ends of all edges and all counts agree. The log has no gap, holds every acknowledged change
  under its acknowledged number, and replays to exactly the stored edges, records and notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coroutines import run_coroutine
from edges import edge_in
from writer import content_of

from kith.core.clock import Hlc
from kith.core.events import NOTE_CHANGED, RECORD_CHANGED, Event
from kith.core.ids import NodeId
from kith.engines.embedded import event_log
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.audit import audit
from kith.graph.edge import Edge, State, merge, precedence
from kith.records.store import RecordKind

Key = tuple[int, int, int]  # graph, source, destination
NOTED = "noted/"
"""Prefix of the keys of the writer's notes."""


Rows = dict[int | str, tuple[int, bytes]]
"""Version and content: of records by id, and of notes by key (a note has version 0)."""


class Kept(NamedTuple):
    """An acknowledged record."""

    id: int
    version: int


def key_of(edge: Edge) -> Key:
    """The identity of an edge."""
    return (edge.graph, edge.source, edge.destination)


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """Open the data folder as a service does."""
    with Environment(folder, **settings) as environment:
        commits = CommitQueue(environment)
        try:
            yield environment, EmbeddedEdges(environment, commits)
        finally:
            commits.close()


def read_line(line: str) -> tuple[Edge | Kept, int]:
    """Parse a line of `writer.py`: an edge and its number in the log (0: it changed nothing), or a record."""
    if line.startswith("record "):
        return Kept(*map(int, line.split()[1:])), 0
    graph, source, destination, state, position, updated_at, sequence = map(int, line.split())
    return Edge(graph, NodeId(source), NodeId(destination), State(state), position, Hlc(updated_at)), sequence


def read_lines(text: str) -> list[tuple[Edge | Kept, int]]:
    """Parse all acknowledgements. An incomplete last line does not count."""
    return [read_line(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Ledger:
    """The acknowledged writes of one store, over any number of writers."""

    def __init__(self) -> None:
        self.edges: dict[Key, Edge] = {}
        self.records: dict[int, int] = {}  # the newest acknowledged version of each
        self.acknowledged = 0
        self._numbered: dict[int, Edge] = {}
        self._replayed: dict[Key, Edge] = {}
        self._replayed_rows: Rows = {}
        self.replayed_to = 0

    def add(self, acknowledged: Iterable[tuple[Edge | Kept, int]]) -> None:
        """Remember these acknowledgements."""
        for edge, sequence in acknowledged:
            self.acknowledged += 1
            if isinstance(edge, Kept):
                self.records[edge.id] = max(edge.version, self.records.get(edge.id, 0))
                continue
            self.edges[key_of(edge)] = merge(self.edges.get(key_of(edge)), edge)
            if sequence:
                assert self._numbered.setdefault(sequence, edge) == edge, f"two changes have the number {sequence}"

    def check_acknowledged(self, store: EmbeddedEdges, said: Iterable[tuple[Edge | Kept, int]] | None = None) -> None:
        """Check that each acknowledged edge is stored as acknowledged, or in a later version.

        `said`: check these acknowledgements only.
        """
        keys = self.edges.keys() if said is None else {key_of(edge) for edge, _ in said if not isinstance(edge, Kept)}
        for graph in {key[0] for key in keys}:
            expected = [self.edges[key] for key in keys if key[0] == graph]
            stored_edges = run_coroutine(store.get_many(graph, [(edge.source, edge.destination) for edge in expected]))
            lost_edges = [
                f"{edge} was acknowledged, {stored} is stored"
                for edge, stored in zip(expected, stored_edges, strict=True)
                if stored is None or precedence(stored) < precedence(edge)
            ]
            assert not lost_edges, f"{len(lost_edges)} of {len(expected)} edges are lost: {lost_edges[:3]}"

    def check_whole(self, environment: Environment, store: EmbeddedEdges) -> None:
        """Check both ends, counts and the log. Reads the log from where the last check ended."""
        self.check_acknowledged(store)
        rows = _rows(environment)
        for id_, version in self.records.items():
            assert rows.get(id_, (0,))[0] >= version, (
                f"record {id_} of version {version} was acknowledged, but is not stored"
            )
        for id_, (version, content) in rows.items():
            assert isinstance(id_, str) or content == content_of(id_, version), f"record {id_} has the wrong content"
        check_audit(environment, store)
        self._replay(environment)
        stored = {}
        for graph in environment.graph_numbers().values():
            stored.update({key_of(edge): edge for edge in run_coroutine(_all_edges(store, graph))})
        assert stored == self._replayed, _difference(stored, self._replayed)
        assert rows == self._replayed_rows

    def _replay(self, environment: Environment) -> None:
        with environment.lmdb.begin() as txn:
            first, last = event_log.bounds(txn, environment.log)
            assert first == 1, f"the log begins at {first}"
            for event in event_log.read(txn, environment.log, environment.positions, self.replayed_to, last):
                number = environment.positions.sequence(event.log_position)
                assert number == self.replayed_to + 1, f"{number} follows {self.replayed_to}"
                self.replayed_to = number
                if event.state > State.REMOVED:
                    self._replay_row(event)
                    continue
                edge = edge_in(event)
                before = self._replayed.get(key_of(edge))
                assert (None if before is None else before.state) == event.before, (
                    f"event {number} names the wrong state before it"
                )
                assert merge(before, edge) is edge, f"event {number} lost when it was applied"
                self._replayed[key_of(edge)] = edge
                numbered = self._numbered.pop(number, edge)
                assert numbered == edge, f"event {number} is {edge}, acknowledged was {numbered}"
            assert self.replayed_to == last
        assert not self._numbered, f"acknowledged, but not in the log: {sorted(self._numbered)[:5]} (it ends at {last})"

    def _replay_row(self, event: Event) -> None:
        """Replay an event of a record or a note. A note's data: length of the key, key, note."""
        if event.state == RECORD_CHANGED:
            self._replayed_rows[event.destination] = (event.updated_at, event.data)
        elif event.state == NOTE_CHANGED:
            end = 2 + int.from_bytes(event.data[:2], "big")
            self._replayed_rows.pop(event.data[2:end].decode(), None)
            if event.before is None:
                self._replayed_rows[event.data[2:end].decode()] = (0, event.data[end:])


def _rows(environment: Environment) -> Rows:
    """The stored records and notes of the writer."""
    with environment.lmdb.begin(environment.records) as txn:
        stored = {key: row for key, row in txn.cursor() if key[0] == RecordKind.POST}
    notes = {NOTED + key: (0, note) for key, note in environment.notes(NOTED).items()}
    return {
        int.from_bytes(key[1:], "big"): (int.from_bytes(row[:8], "big"), row[8:]) for key, row in stored.items()
    } | notes


def check_audit(environment: Environment, store: EmbeddedEdges) -> int:
    """Check that both ends of every edge agree in every graph, and every count. Returns the number of edges."""
    edges = 0
    for name, number in environment.graph_numbers().items():
        report = run_coroutine(audit(store, name, number))
        assert report.clean, report
        assert run_coroutine(store.check_counts(number, repair=False)) == []
        edges += report.edges
    return edges


async def _all_edges(store: EmbeddedEdges, graph: int) -> list[Edge]:
    return [ends.edge async for chunk in store.edges(graph) for ends in chunk]


def _difference(stored: dict[Key, Edge], replayed: dict[Key, Edge]) -> str:
    keys = [key for key in stored.keys() | replayed.keys() if stored.get(key) != replayed.get(key)]
    shown = [(stored.get(key), replayed.get(key)) for key in keys[:3]]
    return f"{len(keys)} edges differ between the store and its log: {shown}"
