"""Whatever clients do, every edge, list, count and page matches a naive model of FlockDB's rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from flockdb_client import (
    ADD,
    ARCHIVE,
    ARCHIVED,
    HIGH,
    LOW,
    MEDIUM,
    NEGATE,
    NEGATIVE,
    POSITIVE,
    REMOVE,
    REMOVED,
    FlockDbClient,
    Selected,
    simple,
    term,
)

from kith.flockdb.interface import shapes

from .conftest import Service

NODES = [2, 3, 4, 5]
"""Without 1: the cursor back from a page that begins with it would be -1, which means the first page."""
MADE = {ADD: POSITIVE, REMOVE: REMOVED, ARCHIVE: ARCHIVED, NEGATE: NEGATIVE}
CHANGED_BY = {
    ADD: (ARCHIVED, NEGATIVE),
    REMOVE: (POSITIVE, NEGATIVE, ARCHIVED),
    ARCHIVE: (POSITIVE, NEGATIVE),
    NEGATE: (POSITIVE,),
}
"""The states that an operation on all edges of a node changes."""


class Naive:
    """Edges as (state, position) by their ends, and the archived sides of nodes."""

    def __init__(self) -> None:
        self.edges: dict[tuple[int, int], tuple[int, int]] = {}
        self.away: dict[tuple[int, bool], bool] = {}  # by node and direction

    def is_away(self, source: int, destination: int) -> bool:
        return self.away.get((source, True), False) or self.away.get((destination, False), False)

    def change(self, kind: int, ends: tuple[int, int], position: int) -> None:
        stored = self.edges.get(ends)
        state = ARCHIVED if kind in (ADD, NEGATE) and self.is_away(*ends) else MADE[kind]
        keeps = stored is not None and (state != POSITIVE or stored[0] in (POSITIVE, ARCHIVED))
        self.edges[ends] = (state, stored[1] if stored and keeps else position)

    def change_all(self, kind: int, node: int, *, forward: bool) -> None:
        if kind == ARCHIVE or (kind == ADD and (node, forward) in self.away):
            self.away[node, forward] = kind == ARCHIVE
        for ends, (state, position) in self.edges.items():
            if ends[not forward] == node and state in CHANGED_BY[kind] and not (kind == ADD and self.is_away(*ends)):
                self.edges[ends] = (MADE[kind], position)

    def listed(self, node: int, states: Sequence[int], *, forward: bool) -> dict[int, int]:
        """The other ends of a node's edges in these states, each with its position."""
        return {
            ends[forward]: position
            for ends, (state, position) in self.edges.items()
            if ends[not forward] == node and state in states
        }


def walked(select: Callable[[int], Selected]) -> tuple[list[int], list[int]]:
    """All ids of a query, page by page to its end, and again page by page back to its start."""
    pages, cursor = list[Selected](), -1
    while cursor:
        pages.append(select(cursor))
        cursor = pages[-1].next
    back, cursor = pages[-1].ids, pages[-1].previous
    while cursor:
        page = select(cursor)
        back, cursor = page.ids + back, page.previous
    return [id_ for page in pages for id_ in page.ids], back


def check(flock: FlockDbClient, naive: Naive, rng: random.Random) -> None:
    for ends in [(source, destination) for source in NODES for destination in NODES]:
        stored = naive.edges.get(ends)
        assert flock.contains(*ends) is (stored is not None and stored[0] in (POSITIVE, NEGATIVE))
        if stored is None:
            with pytest.raises(shapes.FlockException, match="Record not found"):
                flock.edge(*ends)
        else:
            edge = flock.edge(*ends)
            assert (edge.state_id, edge.position) == stored
    node, forward, size = rng.choice(NODES), rng.random() < 0.5, rng.randint(1, 3)
    states = rng.choice([None, [], [REMOVED], [ARCHIVED], [POSITIVE, NEGATIVE], list(range(4))])
    there = naive.listed(node, states or [POSITIVE], forward=forward)
    assert flock.count(node, forward=forward, states=states) == len(there)
    for others in (None, rng.sample([*NODES, 9], 3)):
        query = [simple(node, forward=forward, states=states, others=others)]
        down, back = walked(lambda cursor, query=query: flock.select(query, size, cursor))  # type: ignore[misc]
        assert down == back
        if others is None:
            assert [there[id_] for id_ in down] == sorted(there.values(), reverse=True)
            assert sorted(down) == sorted(there)
        else:
            assert down == sorted(there.keys() & {*others}, reverse=True)
    if (node, True) in naive.away or any(source == node for source, _ in naive.edges):
        metadata = flock.call("get_metadata", source_id=node, graph_id=1)
        assert metadata.count == len(naive.listed(node, [POSITIVE], forward=True))
        assert metadata.state_id == (ARCHIVED if naive.away.get((node, True)) else POSITIVE)


@pytest.mark.parametrize("seed", range(2))
def test_edges_lists_and_pages_match_a_naive_model(service: Service, seed: int) -> None:
    rng, flock, naive = random.Random(seed), service.flock, Naive()
    for _ in range(50):
        service.clock.ms += 1
        kind, node, forward = (
            rng.choice([ADD, ADD, ADD, REMOVE, ARCHIVE, NEGATE]),
            rng.choice(NODES),
            rng.random() < 0.5,
        )
        if rng.random() < 0.7:
            others, position = rng.sample(NODES, rng.randint(1, 3)), rng.choice([None, rng.randint(2, 30)])
            named, priority = term(node, forward=forward, others=others), rng.choice([MEDIUM, HIGH])
            flock.execute(kind, named, position=position, priority=priority)
            for other in others:
                ends = (node, other) if forward else (other, node)
                naive.change(kind, ends, service.clock.ms if position is None else position)
        else:
            flock.execute(kind, term(node, forward=forward), priority=rng.choice([LOW, MEDIUM, HIGH]))
            service.settle()
            naive.change_all(kind, node, forward=forward)
        check(flock, naive, rng)
