"""Set programs answer as Python's sets do, page by page, within their bounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cast import ALICE, BOB, DANA, START_MS, FakeClock
from coroutines import Run
from edges import G, all_pages, edge_of, leaf, writes_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_edges import ReferenceEdges

from kith.core.clock import HybridClock
from kith.core.errors import ProgramTooComplex
from kith.core.paging import Page, Window
from kith.graph import ordered_lists
from kith.graph import programs as set_programs
from kith.graph.edge import Direction, Edge, State
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.graph.ordered_lists import WINDOW_CACHED_MS, WINDOW_IDS, OrderedLists
from kith.graph.programs import (
    CHECKED_IDS_MAX,
    IDS_MAX_DEFAULT,
    WHOLE_LIST_MAX,
    Difference,
    Evaluator,
    Intersect,
    Leaf,
    Program,
    Union,
)
from kith.graph.shapes import Chunk, Ids, Listing
from kith.graph.store import EdgeStore

NUMBER = Graphs({"follows": G, "likes": 2}).number
LEAF = {"graph": "follows", "node": "1", "direction": "out"}


USERS = range(6)


def some_edges() -> list[Edge]:
    """A small dense graph: each pair has an edge of some state or none, and lists have very different lengths."""
    chance = random.Random(9)
    pairs = [pair for pair in product(USERS, range(40)) if chance.random() < (0.2, 0.5, 0.9, 0.05, 0.3, 0.0)[pair[0]]]
    pairs += [(source, DANA) for source in (0, 2)] + [(3, at) for at in range(100, 400)]
    return [edge_of(*pair, chance.randint(0, 9), chance.choice([State.NORMAL] * 3 + list(State))) for pair in pairs]


EDGES = some_edges()


def members(program: Program) -> set[int]:
    """The members of a program, by Python's sets."""
    match program:
        case Leaf(listings):
            return {
                (edge.destination, edge.source)[listing.direction]
                for edge, listing in product(EDGES, listings)
                if (edge.source, edge.destination)[listing.direction] == listing.node and edge.state == listing.state
            }
        case Union(parts):
            return set[int]().union(*map(members, parts))
        case Intersect(parts):
            return set.intersection(*map(members, parts))
        case Difference(parts):
            return members(parts[0]).difference(*map(members, parts[1:]))


leaves = st.builds(
    lambda node, direction, states: Leaf(tuple(Listing(G, node, direction, state) for state in states)),
    st.sampled_from([*USERS, 20, DANA]),
    st.sampled_from(Direction),
    st.lists(st.sampled_from(State), min_size=1, unique=True),
)
programs: st.SearchStrategy[Program] = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda operator, parts: operator(tuple(parts)),
        st.sampled_from([Union, Intersect, Difference]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=12,
)


@pytest.fixture
def filled(store: EdgeStore, run: Run) -> EdgeStore:
    """A store of each engine that holds EDGES."""
    run(store.apply(writes_of(*EDGES)))
    return store


def evaluator(store: EdgeStore, ids_max: int = IDS_MAX_DEFAULT) -> Evaluator:
    return Evaluator(store, OrderedLists(store), ids_max)


async def all_by_pages(
    store: EdgeStore, program: Program, limit: int, start: int | None = None, *, down: bool = True
) -> list[int]:
    found: list[int] = []
    place, lists = start, OrderedLists(store)
    for _ in range(1_000):
        page, checked_to = await Evaluator(store, lists).page(program, place, limit, down=down)
        assert page.dtype == np.int64
        assert len(page) <= limit
        found += page.tolist()
        if len(page) < limit and checked_to is None:
            return found
        place = int(page[-1]) if checked_to is None else checked_to
    raise AssertionError("the answer has no end")


@settings(max_examples=150)
@given(
    programs,
    st.integers(1, 40),
    st.sampled_from([(8, 256), (0, 1), (1, 3), (10**6, 2)]),
    st.sampled_from(
        [(WHOLE_LIST_MAX, CHECKED_IDS_MAX, WINDOW_IDS), (0, CHECKED_IDS_MAX, WINDOW_IDS), (0, 1, 2), (5, 7, 3)]
    ),
)
def test_a_program_equals_pythons_sets_whole_paged_and_counted(
    filled: EdgeStore, run: Run, program: Program, limit: int, tuning: tuple[int, int], bounds: tuple[int, int, int]
) -> None:
    expected = sorted(members(program), reverse=True)

    async def check() -> None:
        assert await all_by_pages(filled, program, 10**6) == expected
        assert await all_by_pages(filled, program, limit) == expected
        assert await all_by_pages(filled, program, limit, 0, down=False) == [id_ for id_ in expected[::-1] if id_ > 0]
        assert await evaluator(filled).count(program) == len(expected)
        for below in (0, 17, DANA, *expected[:2]):
            page, checked_to = await evaluator(filled).page(program, below, limit)
            left = [id_ for id_ in expected if id_ < below][:limit]
            assert page.tolist() == [id_ for id_ in left if checked_to is None or id_ >= checked_to]

    with (
        patch.multiple(set_programs, _PROBE_FACTOR=tuning[0], _FIRST_CHUNK=tuning[1], WHOLE_LIST_MAX=bounds[0]),
        patch.object(set_programs, "CHECKED_IDS_MAX", bounds[1]),
        patch.object(ordered_lists, "WINDOW_IDS", bounds[2]),
    ):
        run(check())


@given(programs, st.lists(st.sampled_from([*range(45), 120, DANA, DANA - 1]), max_size=30))
def test_membership_is_answered_for_any_ids_in_any_order(
    filled: EdgeStore, run: Run, program: Program, asked: list[int]
) -> None:
    async def check() -> list[bool]:
        sized = evaluator(filled)
        await sized.count(program)  # learns the sizes
        return (await sized.contains(program, np.array(asked, np.int64))).tolist()

    expected = members(program)
    assert run(check()) == [id_ in expected for id_ in asked]


def test_the_greatest_id_is_a_member_and_a_place(filled: EdgeStore, run: Run) -> None:
    program = Intersect((leaf(0, Direction.OUT, *State), leaf(2, Direction.OUT, *State)))
    assert run(evaluator(filled).page(program, None, 1)).ids.tolist() == [DANA]
    assert DANA not in run(evaluator(filled).page(program, DANA, 100)).ids.tolist()


class Counting(ReferenceEdges):
    """Counts the ids that are read and looked up."""

    read = asked = most_a_call = 0

    async def ids(self, listing: Listing, newest: int) -> Ids:
        found = await super().ids(listing, newest)
        self._count_read(len(found))
        return found

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        found = await super().chunk(listing, after, limit)
        self._count_read(len(found.ids))
        return found

    async def page(self, listing: Listing, window: Window) -> Page:
        found = await super().page(listing, window)
        self._count_read(len(found.items))
        return found

    def _count_read(self, ids: int) -> None:
        self.read, self.most_a_call = self.read + ids, max(self.most_a_call, ids)

    async def contains(self, listing: Listing, ids: Ids) -> Any:
        self.asked, self.most_a_call = self.asked + len(ids), max(self.most_a_call, len(ids))
        return await super().contains(listing, ids)


@pytest.fixture
def celebrity(run: Run) -> Counting:
    """Alice follows ten, of whom five follow Dana, who has a thousand followers."""
    store = Counting()
    run(store.apply(writes_of(*(edge_of(ALICE, 1000 + at) for at in range(10)))))
    run(store.apply(writes_of(*(edge_of(1005 + at, DANA) for at in range(1000)))))
    return store


@pytest.mark.parametrize("smallest_first", [True, False])
def test_an_intersection_costs_what_its_smallest_part_costs(
    celebrity: Counting, run: Run, smallest_first: bool
) -> None:
    parts = (leaf(ALICE), leaf(DANA, Direction.IN))[:: 1 if smallest_first else -1]
    assert run(evaluator(celebrity).page(Intersect(parts), None, 20)).ids.tolist() == [1009, 1008, 1007, 1006, 1005]
    assert celebrity.read == 10
    assert celebrity.asked == 10


def test_the_count_of_one_list_reads_no_ids(celebrity: Counting, run: Run) -> None:
    assert run(evaluator(celebrity, ids_max=0).count(leaf(DANA, Direction.IN))) == 1000
    assert celebrity.read == 0


def test_many_ids_are_sorted_in_a_thread(celebrity: Counting, run: Run) -> None:
    either = Union((leaf(ALICE), leaf(DANA, Direction.IN)))
    with patch.object(set_programs.asyncio, "to_thread", wraps=asyncio.to_thread) as beside:
        assert run(evaluator(celebrity).count(either)) == 1005
        beside.assert_not_called()
        with patch.object(set_programs, "_ON_LOOP_MAX", 100):
            assert run(evaluator(celebrity).count(either)) == 1005
        assert beside.call_count == 2, "the long list, and both together"


def test_counting_more_ids_than_allowed_is_refused(celebrity: Counting, run: Run) -> None:
    everyone = leaf(DANA, Direction.IN)
    for program in (Union((leaf(ALICE), everyone)), Difference((everyone, leaf(ALICE)))):
        with pytest.raises(ProgramTooComplex) as raised:
            run(evaluator(celebrity, ids_max=999).count(program))
        assert raised.value.details == {"maxIds": 999}
    assert run(evaluator(celebrity, ids_max=10).count(Intersect((everyone, leaf(ALICE))))) == 5
    assert celebrity.read <= 30


@pytest.mark.parametrize("down", [True, False])
def test_pages_at_any_depth_read_a_long_list_once(
    celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch, down: bool
) -> None:
    """Dana's thousand followers page by page, alone and combined with whom Alice follows: Dana's list is read once."""
    monkeypatch.setattr(set_programs, "WHOLE_LIST_MAX", 20)
    monkeypatch.setattr(ordered_lists, "LATE_WRITES_MAX", 1)
    everyone = leaf(DANA, Direction.IN)
    lists = OrderedLists(celebrity, FakeClock())

    async def found(program: Program) -> list[int]:
        ids: list[int] = []
        while True:
            page, _ = await Evaluator(celebrity, lists).page(program, ids[-1] if ids else None, 50, down=down)
            ids += page.tolist()
            if len(page) < 50:
                return ids

    expected = sorted(range(1005, 2005), reverse=down)
    assert run(found(everyone)) == expected
    assert celebrity.read <= 1000 + 1, "all, and the newest again, to notice later ones"
    assert run(found(Difference((everyone, leaf(ALICE))))) == [id_ for id_ in expected if id_ > 1009]
    assert run(found(Union((everyone, leaf(ALICE))))) == sorted(range(1000, 2005), reverse=down)
    assert celebrity.read <= 1001 + 42 * 10, "nothing of Dana's list"


def test_more_new_edges_than_are_looked_up_are_in_the_next_page_too(
    celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand new followers while a window is cached: the newest must not be left out."""
    monkeypatch.setattr(set_programs, "WHOLE_LIST_MAX", 20)
    monkeypatch.setattr(ordered_lists, "ADDED_MAX", 500)
    lists, everyone = OrderedLists(celebrity, FakeClock()), leaf(DANA, Direction.IN)

    def first_page() -> list[int]:
        return list(run(Evaluator(celebrity, lists).page(everyone, None, 3)).ids)

    assert first_page() == [2004, 2003, 2002]
    run(celebrity.apply(writes_of(*(edge_of(5000 + at, DANA, START_MS + at) for at in range(1000)))))
    assert first_page() == [5999, 5998, 5997]


def test_a_page_of_few_members_among_many_says_how_far_it_looked(
    celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_programs, "WHOLE_LIST_MAX", 20)
    monkeypatch.setattr(set_programs, "CHECKED_IDS_MAX", 256)
    run(celebrity.apply(writes_of(*(edge_of(BOB, 1000 + at) for at in range(1_500)))))
    program = Difference((leaf(DANA, Direction.IN), leaf(BOB), leaf(ALICE)))
    page, checked_to = run(evaluator(celebrity).page(program, None, 5))
    assert (len(page), checked_to) == (0, 1749), "it looked at the greatest 256"
    assert run(all_by_pages(celebrity, program, 5)) == []


def test_changes_since_a_list_was_read_are_seen(celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_programs, "WHOLE_LIST_MAX", 20)
    everyone, clock = leaf(DANA, Direction.IN), FakeClock()
    lists = OrderedLists(celebrity, clock)

    def top() -> list[int]:
        return run(Evaluator(celebrity, lists).page(everyone, None, 3)).ids.tolist()

    assert top() == [2004, 2003, 2002]
    later = edge_of(5000, DANA).position + 1
    run(celebrity.apply(writes_of(edge_of(2003, DANA, later, State.REMOVED, 1), edge_of(7000, DANA, later))))
    assert top() == [7000, 2004, 2002]
    run(celebrity.apply(writes_of(edge_of(6000, DANA, -5))))
    clock.ms += WINDOW_CACHED_MS
    assert top() == [7000, 6000, 2004], "an edge at an older position shows once the list is read again"


@pytest.mark.parametrize("late_ms", [0, 3])
def test_edges_of_the_same_millisecond_or_from_a_slower_process_are_seen(
    celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch, late_ms: int
) -> None:
    """Such an edge stands below the newest edge of the list that was read."""
    monkeypatch.setattr(set_programs, "WHOLE_LIST_MAX", 20)
    lists, newest = OrderedLists(celebrity, FakeClock()), edge_of(5000, DANA).position + 10_000
    run(celebrity.apply(writes_of(edge_of(7000, DANA, newest))))
    for added in (6999, 6998):
        assert added not in run(Evaluator(celebrity, lists).page(leaf(DANA, Direction.IN), None, 3)).ids
        run(celebrity.apply(writes_of(edge_of(added, DANA, newest - late_ms))))
        assert added in run(Evaluator(celebrity, lists).page(leaf(DANA, Direction.IN), None, 3)).ids


def test_no_call_reads_or_asks_more_than_its_bound_however_long_the_lists_are(
    celebrity: Counting, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_programs, "READ_MAX", 30)
    monkeypatch.setattr(set_programs, "LOOKUPS_MAX", 40)
    run(celebrity.apply(writes_of(*(edge_of(BOB, 1000 + at) for at in range(100)))))
    followers, both = leaf(DANA, Direction.IN), Intersect((leaf(BOB), leaf(DANA, Direction.IN)))
    assert run(evaluator(celebrity).count(Union((followers,)))) == 1000
    assert run(evaluator(celebrity).count(both)) == 95
    assert celebrity.read == 1000 + 100
    assert celebrity.asked == 100
    assert celebrity.most_a_call == 40


def test_a_list_that_is_longer_than_its_count_says_is_not_read_beyond_the_bound(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lagging(Counting):
        async def count_many(self, listings: Sequence[Listing]) -> list[int]:
            return [0] * len(listings)

    async def reading(store: Lagging) -> None:
        await store.apply(writes_of(*(edge_of(ALICE, 1000 + at) for at in range(500))))
        await evaluator(store, ids_max=100).page(leaf(ALICE), None, 5)

    store = Lagging()
    monkeypatch.setattr(set_programs, "READ_MAX", 30)
    with pytest.raises(ProgramTooComplex):
        run(reading(store))
    assert store.read < 100 + 30


def test_a_page_of_an_intersection_reads_no_more_than_a_walk_may(run: Run) -> None:
    """Bob follows the oldest 1,200 of the 5,000 whom Alice follows."""

    async def found(store: Counting) -> list[int]:
        await store.apply(writes_of(*(edge_of(ALICE, 10_000 + at, at) for at in range(5_000))))
        await store.apply(writes_of(*(edge_of(BOB, 10_000 + at, at) for at in range(1_200))))
        graph = Graph(store, Graphs({}), HybridClock(FakeClock()), walk_max=600)

        async def page(window: Window) -> Page:
            store.read = 0
            got = await graph.intersection(Listing(G, ALICE, Direction.OUT), Listing(G, BOB, Direction.OUT), window)
            assert store.read <= 3 * 512, "two chunks of a walk, and the start of the other list"
            return got

        return [mark.id for mark in await all_pages(page, 300)]

    assert run(found(Counting())) == [10_000 + at for at in reversed(range(1_200))]
