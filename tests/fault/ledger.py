"""What a store owes: the acknowledged writes, and the checks that it still has them.

`Ledger.check_acknowledged`: every acknowledged write is there, or a later one of the same edge.
`Ledger.check_whole`: both ends and all counts agree, and the log is without a gap, holds every acknowledged
change under the number that was told, and replays to the very edges that are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coroutines import run_all
from edges import edge_in

from kith.core.clock import Hlc
from kith.core.ids import NodeId
from kith.engines.embedded import event_log
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.audit import audit
from kith.graph.edge import Edge, State, merge, precedence

Key = tuple[int, int, int]  # graph, source, destination


def key_of(edge: Edge) -> Key:
    """What an edge is known by."""
    return (edge.graph, edge.source, edge.destination)


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """The data folder as a service would open it."""
    with Environment(folder, **settings) as environment:
        commits = CommitQueue(environment)
        try:
            yield environment, EmbeddedEdges(environment, commits)
        finally:
            commits.close()


def read_line(line: str) -> tuple[Edge, int]:
    """One acknowledgement of `writer.py`: the edge and its number in the log (0: it changed nothing)."""
    graph, source, destination, state, position, updated_at, sequence = map(int, line.split())
    return Edge(graph, NodeId(source), NodeId(destination), State(state), position, Hlc(updated_at)), sequence


def read_lines(text: str) -> list[tuple[Edge, int]]:
    """All acknowledgements; a line without its end was never said."""
    return [read_line(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Ledger:
    """The acknowledged writes of one store, over any number of runs."""

    def __init__(self) -> None:
        self.edges: dict[Key, Edge] = {}
        self.acknowledged = 0
        self._numbered: dict[int, Edge] = {}
        self._replayed: dict[Key, Edge] = {}
        self.replayed_to = 0

    def add(self, acknowledged: Iterable[tuple[Edge, int]]) -> None:
        """Remember what was acknowledged."""
        for edge, sequence in acknowledged:
            self.acknowledged += 1
            self.edges[key_of(edge)] = merge(self.edges.get(key_of(edge)), edge)
            if sequence:
                assert self._numbered.setdefault(sequence, edge) == edge, f"two changes are number {sequence}"

    def check_acknowledged(self, store: EmbeddedEdges) -> None:
        """Each edge is stored as acknowledged, or as something later."""
        for graph in {key[0] for key in self.edges}:
            wanted = [edge for key, edge in self.edges.items() if key[0] == graph]
            found = run_all(store.get_many(graph, [(edge.source, edge.destination) for edge in wanted]))
            lost = [
                f"{edge} was acknowledged, {stored} is stored"
                for edge, stored in zip(wanted, found, strict=True)
                if stored is None or precedence(stored) < precedence(edge)
            ]
            assert not lost, f"{len(lost)} of {len(wanted)} lost: {lost[:3]}"

    def check_whole(self, environment: Environment, store: EmbeddedEdges) -> None:
        """Audit, counts, log; reads the log only from where it was read last."""
        self.check_acknowledged(store)
        check_audit(environment, store)
        self._replay(environment)
        stored = {}
        for graph in environment.graph_numbers().values():
            stored.update({key_of(edge): edge for edge in run_all(_all_edges(store, graph))})
        assert stored == self._replayed, _difference(stored, self._replayed)

    def _replay(self, environment: Environment) -> None:
        with environment.lmdb.begin() as txn:
            first, last = event_log.bounds(txn, environment.log)
            assert first == 1, f"the log begins at {first}"
            for event in event_log.read(txn, environment.log, environment.positions, self.replayed_to, last):
                number = environment.positions.sequence(event.mark)
                assert number == self.replayed_to + 1, f"{number} follows {self.replayed_to}"
                edge = edge_in(event)
                before = self._replayed.get(key_of(edge))
                assert (None if before is None else before.state) == event.before, f"event {number}"
                assert merge(before, edge) is edge, f"event {number} lost when it was applied"
                self._replayed[key_of(edge)] = edge
                told = self._numbered.pop(number, edge)
                assert told == edge, f"event {number} is {edge}, acknowledged was {told}"
                self.replayed_to = number
            assert self.replayed_to == last
        assert not self._numbered, f"acknowledged, but not in the log: {sorted(self._numbered)[:5]} (it ends at {last})"


def check_audit(environment: Environment, store: EmbeddedEdges) -> int:
    """Both ends of every edge of every graph agree, and every count; the number of edges."""
    edges = 0
    for name, number in environment.graph_numbers().items():
        found = run_all(audit(store, name, number))
        assert found.clean, found
        assert run_all(store.check_counts(number, repair=False)) == []
        edges += found.edges
    return edges


async def _all_edges(store: EmbeddedEdges, graph: int) -> list[Edge]:
    return [ends.edge async for chunk in store.edges(graph) for ends in chunk]


def _difference(stored: dict[Key, Edge], replayed: dict[Key, Edge]) -> str:
    keys = [key for key in stored.keys() | replayed.keys() if stored.get(key) != replayed.get(key)]
    shown = [(stored.get(key), replayed.get(key)) for key in keys[:3]]
    return f"{len(keys)} edges differ between the store and its log: {shown}"
