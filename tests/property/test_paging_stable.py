"""While edges are added and removed between pages, each edge that stays is seen exactly once and in order.

This includes lists that are filtered while they are walked: friends, mutuals, followers you know. For any size of the
steps and of the walk, their pages in both directions give the whole list. Changing the direction loses nothing.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from cast import ALICE, BOB, DANA, START_MS, FakeClock
from coroutines import Run, run_coroutine
from edges import G, all_pages, edge_of, writes_of
from engines import SERVICE_ENGINES, Engine, in_new_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_edges import cut_page
from services import service_over

from kith.core.paging import Mark, Page, Window, cut
from kith.graph import ordered_lists, programs
from kith.graph import walk as walk_module
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.ordered_lists import OrderedLists
from kith.graph.programs import WHOLE_LIST_MAX, Evaluator, Intersect, Leaf
from kith.graph.shapes import Listing

Fetch = Callable[[Window], Awaitable[Page]]
STAY, OTHERS = range(100, 160), range(200, 320)
SPREAD = 50  # a small range of positions, so that many edges share one


def ranged(window: Window) -> Window:
    """The same window over the middle of the positions."""
    return window._replace(since=START_MS + SPREAD // 4, until=START_MS + 3 * SPREAD // 4)


class Restless:
    """A list of Alice's. The edges to STAY keep their places; those to OTHERS are added, removed and moved."""

    def __init__(self, service: Graph, seed: int) -> None:
        self.service, self.chance = service, random.Random(seed)
        self._version = 0
        self.stay = [Mark(START_MS + self.chance.randrange(SPREAD), id_) for id_ in STAY]
        self.stay.sort(reverse=True)

    async def fill(self) -> None:
        """Write the edges of both directions, so that STAY and some of OTHERS are friends."""
        await self.service.write(writes_of(*(edge_of(ALICE, m.id, m.position, version=-1) for m in self.stay)))
        await self.service.write(writes_of(*(edge_of(m.id, ALICE, 7, version=-1) for m in self.stay)))
        await self.service.write(writes_of(*(edge_of(id_, ALICE, 7, version=-1) for id_ in OTHERS if id_ % 3)))
        await self.stir(60)

    async def stir(self, writes: int) -> None:
        """Add, move and remove edges to OTHERS at random positions."""
        edges = []
        for id_ in self.chance.choices(OTHERS, k=writes):
            self._version += 1
            state, position = self.chance.choice([State.NORMAL, State.REMOVED]), self.chance.randrange(SPREAD)
            edges.append(edge_of(ALICE, id_, START_MS + position, state, self._version))
        await self.service.write(writes_of(*edges))

    async def walk(self, fetch: Fetch, *, backward: bool) -> list[Mark]:
        """All items of the pages from one end to the other, in the order in which they were shown."""
        seen: list[Mark] = []
        window = Window(self.limit(), before=Mark(0, 0)) if backward else Window(self.limit())
        for _ in range(1_000):
            page = await fetch(window)
            assert page.items == sorted(page.items, reverse=True)
            seen += page.items[::-1] if backward else page.items
            if not (page.more_before if backward else page.more_after):
                return seen
            place = page.newest if backward else page.oldest
            assert place is not None, "a page with more items beyond it says where"
            window = Window(self.limit(), before=place) if backward else Window(self.limit(), after=place)
            await self.stir(self.chance.choice((0, 1, 10, 40)))
        raise AssertionError("the list has no end")

    def limit(self) -> int:
        return self.chance.choice((1, 3, 20))


@contextmanager
def opened(engine: Engine, walk: tuple[int, int] = (7, 10)) -> Iterator[Graph]:
    """A service over an empty store. It walks lists in steps of `walk[0]` and looks at `walk[1]` entries per page."""
    assert engine.edges
    with in_new_folder(engine.edges) as store, patch.object(walk_module, "_CHUNK", walk[0]):
        yield run_coroutine(service_over(store, FakeClock(), walk_max=walk[1]))


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["following", "friends", "mutuals", "a range", "friends in a range"])
@settings(max_examples=12)
@given(seed=st.integers(0, 2**16))
def test_edges_that_stay_are_seen_once_and_in_order(engine: Engine, name: str, backward: bool, seed: int) -> None:
    async def seen(service: Graph) -> tuple[list[Mark], list[Mark]]:
        alices = Restless(service, seed)
        await alices.fill()
        fetches: dict[str, Fetch] = {
            "following": lambda window: service.people.following(ALICE, window),
            "friends": lambda window: service.people.friends(ALICE, window),
            "mutuals": lambda window: service.people.mutuals(ALICE, ALICE, window),
            "a range": lambda window: service.people.following(ALICE, ranged(window)),
            "friends in a range": lambda window: service.people.friends(ALICE, ranged(window)),
        }
        stay = [mark for mark in alices.stay if "range" not in name or ranged(Window(1)).spans(mark)]
        return stay, await alices.walk(fetches[name], backward=backward)

    with opened(engine) as service:
        stay, shown = run_coroutine(seen(service))
    stayed = [mark for mark in shown if mark.id in STAY]
    assert (stayed[::-1] if backward else stayed) == stay


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**16), whole_max=st.sampled_from([WHOLE_LIST_MAX, 0]))
def test_edges_that_stay_are_seen_once_and_in_order_in_a_set_program(engine: Engine, seed: int, whole_max: int) -> None:
    program = Intersect((Leaf((Listing(G, ALICE, Direction.OUT),)), Leaf((Listing(G, ALICE, Direction.IN),))))

    async def seen(service: Graph) -> list[int]:
        alices = Restless(service, seed)
        await alices.fill()
        found: list[int] = []
        lists = OrderedLists(service.store)
        for _ in range(1_000):
            limit = alices.limit()
            page = (await Evaluator(service.store, lists).page(program, found[-1] if found else None, limit)).ids
            found += page.tolist()
            if len(page) < limit:
                return found
            await alices.stir(20)
        raise AssertionError("the answer has no end")

    with (
        opened(engine) as service,
        patch.object(programs, "WHOLE_LIST_MAX", whole_max),
        patch.object(ordered_lists, "WINDOW_IDS", 9),
    ):
        shown = run_coroutine(seen(service))
    assert shown == sorted(set(shown), reverse=True)
    assert [id_ for id_ in shown if id_ in STAY] == sorted(STAY, reverse=True)


# --- lists that are filtered while they are walked -----------------------------------------------------

ids = st.lists(st.integers(10, 60), max_size=40, unique=True)
walks = st.sampled_from([(1, 10_000), (3, 10_000), (3, 5), (1, 1), (512, 10_000)])


class Filtered:
    """The accounts that both Alice and Bob follow, in Alice's order."""

    def __init__(self, service: Graph, mine: list[int], theirs: list[int]) -> None:
        self.service = service
        positions = {id_: id_ * 7 % 11 for id_ in mine}
        self._writes = [edge_of(ALICE, id_, positions[id_]) for id_ in mine] + [edge_of(BOB, id_) for id_ in theirs]
        self.expected = sorted((Mark(positions[id_], id_) for id_ in mine if id_ in theirs), reverse=True)

    async def write(self) -> None:
        await self.service.write(writes_of(*self._writes))

    async def fetch(self, window: Window) -> Page:
        return await self.service.people.mutuals(ALICE, BOB, window)

    async def rest(self, page: Page, limit: int, *, backward: bool) -> list[Mark]:
        """All items beyond a page, on one side of it."""
        found: list[Mark] = []
        for _ in range(1_000):
            place = page.newest if backward else page.oldest
            if place is None:
                return found
            page = await self.fetch(Window(limit, before=place) if backward else Window(limit, after=place))
            found = [*page.items, *found] if backward else [*found, *page.items]
            if not (page.more_before if backward else page.more_after):
                return found
        raise AssertionError("the list has no end")


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@given(mine=ids, theirs=ids, limit=st.sampled_from([1, 2, 7, 50]), walk=walks)
def test_a_filtered_list_is_complete_both_ways(
    engine: Engine, mine: list[int], theirs: list[int], limit: int, walk: tuple[int, int]
) -> None:
    async def check(service: Graph) -> None:
        both = Filtered(service, mine, theirs)
        await both.write()
        assert await all_pages(both.fetch, limit) == both.expected
        assert await all_pages(both.fetch, limit, backward=True) == both.expected

    with opened(engine, walk) as service:
        run_coroutine(check(service))


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@given(mine=ids, theirs=ids, limit=st.sampled_from([1, 2, 7]), walk=walks)
def test_changing_direction_at_any_page_of_a_filtered_list_loses_nothing(
    engine: Engine, mine: list[int], theirs: list[int], limit: int, walk: tuple[int, int]
) -> None:
    async def check(service: Graph) -> None:
        both = Filtered(service, mine, theirs)
        await both.write()
        places = [*(Mark(position, id_) for position in (-1, 4, 20) for id_ in (0, 30)), *both.expected[::3]]
        windows = [Window(limit, after=place) for place in places] + [Window(limit, before=place) for place in places]
        for window in (Window(limit), *windows):
            page = await both.fetch(window)
            if page.newest is not None:
                newer = await both.rest(page, limit, backward=True)
                older = await both.rest(page, limit, backward=False)
                assert [*newer, *page.items, *older] == both.expected, window

    with opened(engine, walk) as service:
        run_coroutine(check(service))


def test_a_filtered_page_says_exactly_whether_there_is_more_ahead(service: Graph, run: Run) -> None:
    async def check() -> None:
        both = Filtered(service, list(range(10, 60)), list(range(30, 40)))
        await both.write()
        for limit in (1, 3, 10, 11):
            for place in both.expected:
                older = [mark for mark in both.expected if mark < place]
                page = await both.fetch(Window(limit, after=place))
                assert (page.items, page.more_after) == (older[:limit], len(older) > limit)
                newer = [mark for mark in both.expected if mark > place]
                page = await both.fetch(Window(limit, before=place))
                assert (page.items, page.more_before) == (newer[-limit:], len(newer) > limit)

    run(check())


def test_a_long_list_intersects_a_short_one_in_the_order_of_the_long_one(service: Graph, run: Run) -> None:
    """If the second list is much smaller, it is read and sorted instead. The result must not differ."""

    async def check() -> None:
        await service.write(writes_of(*(edge_of(ALICE, id_, id_ % 13) for id_ in range(100, 400))))
        await service.write(writes_of(*(edge_of(id_, DANA, -id_) for id_ in range(90, 130, 2))))
        expected = sorted((Mark(id_ % 13, id_) for id_ in range(100, 130, 2)), reverse=True)

        async def known(window: Window) -> Page:
            return await service.people.followers_you_know(ALICE, DANA, window)

        for limit in (1, 4, 15, 16):
            assert await all_pages(known, limit) == expected
            assert await all_pages(known, limit, backward=True) == expected

    run(check())


marks = st.builds(Mark, st.integers(-3, 3), st.integers(0, 5))


@given(st.lists(marks, unique=True, max_size=12), marks, st.integers(1, 5))
def test_cutting_a_page_from_a_whole_list_equals_the_reference(items: list[Mark], mark: Mark, limit: int) -> None:
    items.sort(reverse=True)
    for window in (Window(limit), Window(limit, after=mark), Window(limit, before=mark)):
        for since, until in ((None, None), (0, None), (None, 1), (-1, 2)):
            bounded = window._replace(since=since, until=until)
            assert cut(items, bounded) == cut_page(items, bounded)
