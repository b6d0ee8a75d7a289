"""What every EdgeStore must do, whatever it is made of. Each test is one claim of `graph.store.EdgeStore`.

Engines: the `store` fixture. What an engine may do late (`transactional = False`) is tested in `property`.
"""

from __future__ import annotations

import asyncio
import random
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import ReferenceEdges
from world import (
    ALICE,
    BOB,
    CAROL,
    DANA,
    START_MS,
    G,
    Run,
    all_pages,
    edge_of,
    marks_of,
    open_embedded,
    run_all,
    writes_of,
)

from kith.core.clock import hlc_of
from kith.core.errors import BadRequest
from kith.core.events import USER_LABELLED, Event
from kith.core.ids import ID_MAX
from kith.core.paging import Mark, Page, Window
from kith.engines.embedded import edges, runs
from kith.engines.embedded.commits import Batch
from kith.engines.embedded.edges import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.keys import list_prefix, list_row, pair_key
from kith.engines.embedded.log import EmbeddedLog
from kith.engines.embedded.pages import page_of
from kith.graph.audit import audit
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.store import EdgeStore, Listing, Node

OUT = Listing(G, ALICE, Direction.OUT)
FOLLOWERS_OF_DANA = Listing(G, DANA, Direction.IN)
SIZES = [0, 1, 2, 60, 61, 62, 63, 122, 123, 124, 125, 1000]  # around the borders of blocks of 61


async def fill(store: EdgeStore, size: int, seed: int = 0) -> list[Mark]:
    """Alice follows `size` others, written in random order; the list as it must be."""
    marks = [Mark(START_MS + at // 3, at) for at in range(size)]  # three share each position
    shuffled = random.Random(seed).sample(marks, size)
    for at in range(0, size, 250):
        await store.apply(writes_of(*(edge_of(ALICE, mark.id, mark.position) for mark in shuffled[at : at + 250])))
    return marks[::-1]


async def state_of(store: EdgeStore, ids: list[int]) -> dict[str, Any]:
    """Rows, lists and counts of all nodes in `ids`."""
    listings = [Listing(G, node, end, state) for node, end, state in product(ids, Direction, State)]
    rows = [edge async for chunk in store.edges(G) for edge in chunk]
    return {
        "rows": rows,
        "lists": {listing: await marks_of(store, listing) for listing in listings},
        "counts": dict(zip(listings, await store.count_many(listings), strict=True)),
    }


# --- rows ----------------------------------------------------------------------------------------------


def test_an_edge_is_read_back_as_it_was_written(store: EdgeStore, run: Run) -> None:
    ends = [0, 1, 2**31, 2**53 + 1, ID_MAX - 1, ID_MAX]
    positions = [POSITION_MIN, -1, 0, 1, START_MS, 2**48 - 1, 2**48, POSITION_MAX]
    versions = [0, 1, -(START_MS << 16), (2**46 - 1 - START_MS) << 16]
    chosen = random.Random(1)
    edges = [
        edge_of(source, destination, chosen.choice(positions), chosen.choice(list(State)), chosen.choice(versions))
        for source, destination in product(ends, ends)
    ]
    edges += [edge_of(7, 100 + at, position) for at, position in enumerate(positions)]
    run(store.apply(writes_of(*edges)))
    assert run(store.get_many(G, [(edge.source, edge.destination) for edge in edges])) == edges


def test_an_edge_that_never_was_is_none_and_does_not_exist(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, BOB))))
    pairs = [(BOB, ALICE), (ALICE, CAROL), (0, 0), (ID_MAX, ID_MAX)]
    assert run(store.get_many(G, pairs)) == [None] * 4
    assert run(store.exists_many(G, pairs)) == [False] * 4
    assert [run(store.exists_many(G, [pair])) for pair in pairs] == [[False]] * 4


def test_only_a_normal_edge_exists(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(*(edge_of(ALICE, 10 + state, state=state) for state in State))))
    pairs = [(ALICE, 10 + state) for state in State]
    assert run(store.exists_many(G, pairs)) == [True, False, False, False]
    assert [run(store.exists_many(G, [pair])) for pair in pairs] == [[True], [False], [False], [False]]


def test_empty_batches_are_answered_empty(store: EdgeStore, run: Run) -> None:
    assert run(store.apply([])) == []
    assert run(store.exists_many(G, [])) == []
    assert run(store.get_many(G, [])) == []
    assert run(store.count_many([])) == []
    assert run(store.contains(OUT, np.array([], np.int64))).tolist() == []
    assert run(store.nodes([])) == []
    run(store.repair([]))


def test_graphs_do_not_see_each_other(store: EdgeStore, run: Run) -> None:
    blocks = run(store.declare(["blocks"]))["blocks"]
    edge = edge_of(ALICE, BOB)
    run(store.apply(writes_of(edge)))
    assert run(store.get_many(blocks, [(ALICE, BOB)])) == [None]
    assert run(marks_of(store, OUT._replace(graph=blocks))) == []
    assert run(store.count_many([OUT._replace(graph=blocks), OUT])) == [0, 1]


# --- the merge law -------------------------------------------------------------------------------------


def test_one_answer_a_write_in_order_with_before_and_after(store: EdgeStore, run: Run) -> None:
    first, older, newer = edge_of(1, 2, version=5), edge_of(1, 2, 7, version=4), edge_of(1, 2, 9, version=6)
    changes = run(store.apply(writes_of(first, older, newer, newer)))
    assert [change.outcome for change in changes] == [
        Outcome.APPLIED,
        Outcome.UNCHANGED,
        Outcome.APPLIED,
        Outcome.UNCHANGED,
    ]
    assert [change.before for change in changes] == [None, first, first, newer]
    assert [change.after for change in changes] == [first, first, newer, newer]


def test_sequence_numbers_grow_by_one_an_applied_write(store: EdgeStore, run: Run) -> None:
    one = run(store.apply(writes_of(edge_of(1, 2), edge_of(1, 3), edge_of(1, 2))))
    two = run(store.apply(writes_of(edge_of(1, 4))))
    assert [change.sequence for change in one + two] == [1, 2, 0, 3]


def test_ties_of_version_go_to_the_higher_rank_then_to_the_greater_position(store: EdgeStore, run: Run) -> None:
    versions = [edge_of(ALICE, BOB, position, state) for position, state in product((5, 6), State)]
    run(store.apply(writes_of(*versions)))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 6, State.REMOVED)]
    run(store.apply(writes_of(edge_of(ALICE, BOB, 99, State.ARCHIVED), edge_of(ALICE, BOB, 1, version=1))))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 1, version=1)]


def test_every_order_of_four_writes_to_one_edge_leaves_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    edges = [
        edge_of(ALICE, BOB, 10, State.NORMAL, 1),
        edge_of(ALICE, BOB, 20, State.REMOVED, 1),
        edge_of(ALICE, BOB, 10, State.ARCHIVED, 2),
        edge_of(ALICE, BOB, 30, State.NORMAL, 2),
    ]

    async def left(store: EdgeStore, order: tuple[Edge, ...]) -> dict[str, Any]:
        await store.declare(["follows"])
        for edge in order:
            await store.apply(writes_of(edge))
        return await state_of(store, [ALICE, BOB])

    expected = run_all(left(ReferenceEdges(), tuple(edges)))
    for order in permutations(edges):
        with open_embedded(tmp_path_factory.mktemp("order")) as (_, store):
            assert run_all(left(store, order)) == expected


some_edges = st.builds(
    edge_of, st.integers(1, 4), st.integers(1, 4), st.integers(-2, 2), st.sampled_from(State), st.integers(0, 3)
)


@given(
    st.lists(some_edges, max_size=8) | st.lists(some_edges, min_size=20, max_size=60),
    st.randoms(use_true_random=False),
    st.integers(1, 20),
)
def test_any_order_and_repetition_of_batches_leaves_the_same_rows_lists_and_counts(
    tmp_path_factory: pytest.TempPathFactory, edges: list[Edge], chance: random.Random, batch: int
) -> None:
    async def left(store: EdgeStore, order: list[Edge]) -> dict[str, Any]:
        await store.declare(["follows"])
        for at in range(0, len(order), batch):
            await store.apply(writes_of(*order[at : at + batch]))
        assert await store.check_counts(G, False) == []
        return await state_of(store, [1, 2, 3, 4])

    expected = run_all(left(ReferenceEdges(), edges))
    again = edges + chance.sample(edges, len(edges) // 2)
    chance.shuffle(again)
    assert run_all(left(ReferenceEdges(), again)) == expected
    with open_embedded(tmp_path_factory.mktemp("merge")) as (_, store):
        assert run_all(left(store, again)) == expected


# --- conditions ----------------------------------------------------------------------------------------


def test_keep_live_leaves_a_normal_edge_in_its_place(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, BOB, 5))))
    (change,) = run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 9, version=1), keep_live=True)]))
    assert (change.outcome, change.sequence) == (Outcome.UNCHANGED, 0)
    assert run(marks_of(store, OUT)) == [Mark(5, BOB)]


@pytest.mark.parametrize("state", [State.NEGATIVE, State.ARCHIVED, State.REMOVED, None])
def test_keep_live_does_not_hold_back_a_write_to_any_other_edge(
    store: EdgeStore, run: Run, state: State | None
) -> None:
    if state is not None:
        run(store.apply(writes_of(edge_of(ALICE, BOB, 5, state))))
    (change,) = run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 9, version=1), keep_live=True)]))
    assert change.outcome is Outcome.APPLIED
    assert run(marks_of(store, OUT)) == [Mark(9, BOB)]


@pytest.mark.parametrize("stored", [*State, None])
@pytest.mark.parametrize("allowed", State)
def test_only_from_applies_to_the_states_it_names_and_no_row_counts_as_removed(
    store: EdgeStore, run: Run, stored: State | None, allowed: State
) -> None:
    if stored is not None:
        run(store.apply(writes_of(edge_of(ALICE, BOB, 5, stored))))
    write = EdgeWrite(edge_of(ALICE, BOB, 9, State.NEGATIVE, 1), only_from=frozenset({allowed}))
    (change,) = run(store.apply([write]))
    held = (State.REMOVED if stored is None else stored) == allowed
    assert change.outcome is (Outcome.APPLIED if held else Outcome.UNCHANGED)


def test_out_limit_counts_the_normal_edges_of_the_source_only(store: EdgeStore, run: Run) -> None:
    others = [
        edge_of(ALICE, 10, state=State.ARCHIVED),
        edge_of(ALICE, 11, state=State.REMOVED),
        edge_of(BOB, 12),
        edge_of(12, ALICE),
    ]
    run(store.apply(writes_of(*others)))
    changes = run(store.apply([EdgeWrite(edge_of(ALICE, at), out_limit=2) for at in (20, 21, 22)]))
    assert [change.outcome for change in changes] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.OVER_LIMIT]
    assert run(store.get_many(G, [(ALICE, 22)])) == [None]
    assert run(store.count_many([OUT])) == [2]


def test_at_the_limit_one_may_still_move_remove_and_replace(store: EdgeStore, run: Run) -> None:
    def limited(edge: Edge) -> Outcome:
        (change,) = run(store.apply([EdgeWrite(edge, out_limit=1)]))
        return change.outcome

    assert limited(edge_of(ALICE, BOB)) is Outcome.APPLIED
    assert limited(edge_of(ALICE, BOB, 9, version=1)) is Outcome.APPLIED  # the same edge adds none
    assert limited(edge_of(ALICE, CAROL)) is Outcome.OVER_LIMIT
    assert limited(edge_of(ALICE, BOB, 9, State.REMOVED, 2)) is Outcome.APPLIED
    assert limited(edge_of(ALICE, CAROL)) is Outcome.APPLIED
    assert limited(edge_of(ALICE, BOB, 9, version=3)) is Outcome.OVER_LIMIT


def test_superseding_writes_win_over_whatever_is_stored(store: EdgeStore, run: Run) -> None:
    stored = edge_of(ALICE, BOB, 5, State.REMOVED, 100)
    run(store.apply(writes_of(stored)))
    (change,) = run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 3, version=1), supersede=True)]))
    expected = edge_of(ALICE, BOB, 3, version=101)
    assert (change.outcome, change.before, change.after) == (Outcome.APPLIED, stored, expected)
    assert run(store.get_many(G, [(ALICE, BOB)])) == [expected]
    run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 2, State.ARCHIVED, 500), supersede=True)]))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 2, State.ARCHIVED, 500)]


def test_keep_place_leaves_the_stored_position_and_takes_the_new_one_where_none_is(store: EdgeStore, run: Run) -> None:
    for position, expected in ((7, 7), (9, 7)):
        write = EdgeWrite(edge_of(ALICE, BOB, position), supersede=True, keep_place=True)
        (change,) = run(store.apply([write]))
        assert change.after.position == expected
    assert run(marks_of(store, OUT)) == [Mark(7, BOB)]


def test_a_write_is_forbidden_while_an_edge_that_bars_it_is_normal_or_archived(store: EdgeStore, run: Run) -> None:
    blocks = run(store.declare(["blocks"]))["blocks"]

    def barred(state: State, version: int) -> Outcome:
        block = Edge(blocks, BOB, ALICE, state, 1, edge_of(1, 2, version=version).updated_at)
        bars = ((blocks, ALICE, BOB), (blocks, BOB, ALICE))
        follow = EdgeWrite(edge_of(ALICE, BOB, version=version), unless=bars, out_limit=0)
        return run(store.apply([EdgeWrite(block), follow]))[1].outcome

    for version, state in enumerate(State):
        assert barred(state, version) is (
            Outcome.FORBIDDEN if state in (State.NORMAL, State.ARCHIVED) else Outcome.OVER_LIMIT
        )
    assert run(store.get_many(G, [(ALICE, BOB)])) == [None]


# --- lists ---------------------------------------------------------------------------------------------


def test_both_ends_list_newest_first_and_greatest_id_first_among_equals(store: EdgeStore, run: Run) -> None:
    edges = [edge_of(id_, DANA, position) for position, id_ in product((-5, 0, 7), (0, 3, ID_MAX - 1, 2**40))]
    run(store.apply(writes_of(*random.Random(2).sample(edges, len(edges)))))  # the last of each pair's positions holds
    run(store.apply(writes_of(*(edge_of(DANA, id_, id_ % 2) for id_ in (0, 1, 2, 3)))))
    expected = sorted((Mark(edge.position, edge.source) for edge in edges if edge.position == 7), reverse=True)
    assert run(marks_of(store, FOLLOWERS_OF_DANA)) == expected
    assert run(marks_of(store, Listing(G, DANA, Direction.OUT))) == [Mark(1, 3), Mark(1, 1), Mark(0, 2), Mark(0, 0)]


def test_extreme_positions_and_ids_keep_their_order(store: EdgeStore, run: Run) -> None:
    positions = [POSITION_MIN, POSITION_MIN + 1, -(2**48), -1, 0, 1, 2**48 - 1, 2**48, POSITION_MAX - 1, POSITION_MAX]
    ids = [0, 1, 2**32, ID_MAX - 1, ID_MAX]
    edges = [edge_of(10 + at, id_, position) for at, (position, id_) in enumerate(product(positions, ids))]
    run(store.apply(writes_of(*edges)))
    for edge in edges:
        assert run(marks_of(store, Listing(G, edge.source, Direction.OUT))) == [Mark(edge.position, edge.destination)]
    run(store.apply(writes_of(*(edge_of(ALICE, at, position, version=1) for at, position in enumerate(positions)))))
    expected = [Mark(position, at) for at, position in enumerate(positions)][::-1]
    listing = Listing(G, ALICE, Direction.OUT)
    for limit in (1, 3, 1000):
        assert run(all_pages(lambda window: store.page(listing, window), limit)) == expected
    assert run(store.page(listing, Window(3, before=Mark(POSITION_MAX, ID_MAX)))).items == []
    assert run(store.page(listing, Window(3, after=Mark(POSITION_MIN, 0)))).items == []


@pytest.mark.parametrize("size", SIZES)
def test_pages_both_ways_give_the_whole_list_once_at_any_limit(store: EdgeStore, run: Run, size: int) -> None:
    expected = run(fill(store, size))
    assert run(store.count_many([OUT])) == [size]
    for limit in (1, 7, 61, 1000) if size < 1000 else (20, 61, 1000):
        for backward in (False, True):
            assert run(all_pages(lambda window: store.page(OUT, window), limit, backward=backward)) == expected


@pytest.mark.parametrize("size", [1, 2, 61, 62, 63, 124])
def test_page_flags_say_exactly_if_there_is_more_on_either_side(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    between = [Mark(marks[0].position + 1, 0), *marks, Mark(marks[-1].position - 1, 0)]
    around = between if size < 10 else [*between[:3], *between[58:66], *between[-3:]]

    async def check(window: Window, items: list[Mark], newer: int, older: int) -> None:
        assert await store.page(OUT, window) == Page(items, older > 0, newer > 0), window

    async def check_all() -> None:
        for limit, mark in product((1, 2, size - 1 or 1, size, size + 1), around):
            older = [other for other in marks if other < mark]
            newer = [other for other in marks if other > mark]
            at_most = older[:limit]
            await check(Window(limit, after=mark), at_most, size - len(older), len(older) - len(at_most))
            at_most = newer[-limit:]
            await check(Window(limit, before=mark), at_most, len(newer) - len(at_most), size - len(newer))
        for limit in (1, size, size + 1):
            await check(Window(limit), marks[:limit], 0, max(0, size - limit))

    run(check_all())


def test_pages_of_an_empty_list_say_that_there_is_nothing(store: EdgeStore, run: Run) -> None:
    for window in (Window(5), Window(5, after=Mark(3, 3)), Window(5, before=Mark(3, 3))):
        assert run(store.page(OUT, window)) == Page([], False, False)


def test_a_list_ends_where_the_list_of_the_next_node_begins(store: EdgeStore, run: Run) -> None:
    neighbours = [0, 1, 2, 3, 255, 256, 257, ID_MAX]
    edges = [edge_of(node, 1000 + at, at, state) for node in neighbours for at, state in enumerate(State)]
    run(store.apply(writes_of(*edges)))
    for node, (at, state) in product(neighbours, enumerate(State)):
        listing = Listing(G, node, Direction.OUT, state)
        for window in (Window(9), Window(9, after=Mark(at + 1, 0)), Window(9, before=Mark(at - 1, 0))):
            assert [mark.id for mark in run(store.page(listing, window)).items] == [1000 + at]
        assert run(store.page(listing, Window(9, after=Mark(at - 1, 0)))).items == []
        assert run(store.page(listing, Window(9, before=Mark(at + 1, 0)))).items == []
        assert run(store.ids(listing)).tolist() == [1000 + at]


def test_lists_survive_random_removal_and_return(store: EdgeStore, run: Run) -> None:
    async def check() -> None:
        chance = random.Random(3)
        shown = {mark.id: mark.position for mark in await fill(store, 200)}
        for version in range(1, 31):
            chosen = chance.sample(range(200), chance.choice((1, 10, 60, 150)))
            writes = []
            for id_ in chosen:
                if id_ in shown:
                    writes.append(edge_of(ALICE, id_, shown.pop(id_), State.REMOVED, version))
                else:
                    shown[id_] = START_MS + chance.randrange(100)
                    writes.append(edge_of(ALICE, id_, shown[id_], State.NORMAL, version))
            await store.apply(writes_of(*writes))
            expected = sorted((Mark(position, id_) for id_, position in shown.items()), reverse=True)
            assert await all_pages(lambda window: store.page(OUT, window), 50) == expected
            assert await store.count_many([OUT, OUT._replace(state=State.REMOVED)]) == [
                len(shown),
                200 - len(shown),
            ]

    run(check())


def test_a_list_emptied_from_either_end_is_empty_and_can_be_filled_again(store: EdgeStore, run: Run) -> None:
    for round_, newest_first in enumerate((True, False)):
        marks = run(fill(store, 130)) if round_ == 0 else run(marks_of(store, OUT))
        assert len(marks) == 130
        for at, mark in enumerate(marks if newest_first else marks[::-1]):
            run(store.apply(writes_of(edge_of(ALICE, mark.id, mark.position, State.REMOVED, 2 * round_ + 1))))
            left = marks[at + 1 :] if newest_first else marks[: 129 - at]
            assert run(store.page(OUT, Window(3))).items == left[:3]
        assert run(store.count_many([OUT])) == [0]
        run(store.apply(writes_of(*(edge_of(ALICE, m.id, m.position, version=2 * round_ + 2) for m in marks))))
        assert run(marks_of(store, OUT)) == marks


def test_a_change_of_state_moves_an_edge_between_lists_at_both_ends(store: EdgeStore, run: Run) -> None:
    lists = [Listing(G, *end, state) for end in ((ALICE, Direction.OUT), (DANA, Direction.IN)) for state in State]
    for version, (before, state) in enumerate(permutations(State, 2)):
        run(store.apply(writes_of(edge_of(ALICE, DANA, 1, before, 2 * version))))
        run(store.apply(writes_of(edge_of(ALICE, DANA, 2, state, 2 * version + 1))))
        assert run(store.count_many(lists)) == 2 * [int(other == state) for other in State]
        for listing in lists:
            other = DANA if listing.direction is Direction.OUT else ALICE
            assert run(marks_of(store, listing)) == ([Mark(2, other)] if listing.state == state else [])


def test_a_change_of_position_moves_an_edge_within_its_list_and_counts_it_once(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(*(edge_of(ALICE, at, at) for at in range(100)))))
    for version, position in enumerate((200, -200, 50, 50), 1):
        run(store.apply(writes_of(edge_of(ALICE, 10, position, version=version))))
        marks = run(marks_of(store, OUT))
        assert marks == sorted(marks, reverse=True)
        assert [mark for mark in marks if mark.id == 10] == [Mark(position, 10)]
        assert run(store.count_many([OUT])) == [100] == [len(marks)]


def test_counts_are_exact_per_state_and_direction(store: EdgeStore, run: Run) -> None:
    chance = random.Random(4)
    edges = {
        (source, destination): edge_of(source, destination, 0, chance.choice(list(State)))
        for source, destination in product(range(12), range(12))
    }
    run(store.apply(writes_of(*edges.values())))
    listings = [Listing(G, node, end, state) for node, end, state in product(range(13), Direction, State)]
    expected = [
        sum(edge.state == state and (edge.source, edge.destination)[end] == node for edge in edges.values())
        for _, node, end, state in listings
    ]
    assert run(store.count_many(listings)) == expected
    for direction in Direction:
        of_all = run(store.counts(G, direction, np.array([12, *range(13), 3], np.int64)))
        assert of_all.dtype == np.int64
        normal = [run(store.count_many([Listing(G, node, direction)]))[0] for node in range(13)]
        assert of_all.tolist() == [normal[12], *normal, normal[3]]
    assert run(store.counts(G, Direction.OUT, np.array([], np.int64))).tolist() == []


def test_counts_reach_the_greatest_id_and_take_arrays_that_are_views(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ID_MAX, 0), edge_of(ID_MAX, 1), edge_of(0, ID_MAX))))
    asked = np.array([0, 7, ID_MAX, 7, 5, 7], np.int64)[::2]
    assert run(store.counts(G, Direction.OUT, asked)).tolist() == [1, 2, 0]
    assert run(store.counts(G, Direction.IN, asked)).tolist() == [1, 1, 0]


def test_an_edge_to_oneself_is_listed_at_both_ends(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, ALICE, 3))))
    for direction in Direction:
        assert run(marks_of(store, Listing(G, ALICE, direction))) == [Mark(3, ALICE)]


@pytest.mark.parametrize("newest", [1, 61, 62, 500, 30_000])
def test_many_lists_are_read_at_once_each_newest_first(store: EdgeStore, run: Run, newest: int) -> None:
    users = [ALICE, CAROL, BOB, DANA, ALICE]  # one twice, two of nobody
    for user, size in ((ALICE, 124), (BOB, 1), (DANA, 700)):
        edges = [edge_of(user, 10_000 + at, START_MS + at // 3) for at in random.Random(size).sample(range(size), size)]
        run(store.apply(writes_of(*edges)))
    listings = [Listing(G, user, Direction.OUT) for user in users]
    ids, lengths = run(store.ids_many(listings, newest))
    each = [run(store.ids(listing, newest)).tolist() for listing in listings]
    assert lengths.tolist() == [len(one) for one in each]
    assert ids.tolist() == [id_ for one in each for id_ in one]
    assert ids.dtype == lengths.dtype == np.int64
    assert [len(part) for part in run(store.ids_many([], newest))] == [0, 0]


def test_degrees_name_every_node_of_a_stored_edge_with_its_counts(store: EdgeStore, run: Run) -> None:
    assert run(store.degrees(G, None, 10)) == []
    edges = [edge_of(0, DANA), edge_of(BOB, DANA), edge_of(BOB, ALICE), edge_of(ALICE, 77)]
    run(store.apply(writes_of(*edges)))
    run(store.apply(writes_of(edge_of(ALICE, 77, state=State.REMOVED, version=9))))
    known = [(0, 1, 0), (ALICE, 0, 1), (BOB, 2, 0), (77, 0, 0), (DANA, 0, 2)]
    assert run(store.degrees(G, None, 10)) == known
    for limit in (1, 2, 5):
        found: list[Any] = []
        while part := run(store.degrees(G, found[-1][0] if found else None, limit)):
            assert len(part) <= limit
            found += part
        assert found == known


@pytest.mark.parametrize("size", [0, 1, 61, 62, 125, 1000])
def test_ids_are_the_list_in_its_order_or_its_newest_part(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    for newest in (None, 0, 1, 2, 60, 61, 62, 123, size, size + 1, 10**6):
        ids = run(store.ids(OUT, newest))
        assert ids.dtype == np.int64
        assert ids.shape == (min(size, size if newest is None else newest),)
        assert ids.tolist() == [mark.id for mark in marks][:newest]


def test_ids_at_the_greatest_id_are_whole(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, ID_MAX, 5), edge_of(ALICE, 0, 4))))
    assert run(store.ids(OUT)).tolist() == [ID_MAX, 0]


def test_contains_asks_one_list_in_any_order_and_repetition(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, 0), edge_of(ALICE, ID_MAX), edge_of(ALICE, 5, state=State.ARCHIVED))))
    asked = np.array([ID_MAX, 5, 0, 4, ID_MAX, 0], np.int64)
    found = run(store.contains(OUT, asked))
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False, True, False, True, True]
    assert run(store.contains(OUT._replace(state=State.ARCHIVED), asked)).tolist() == [False, True] + 4 * [False]
    assert run(store.contains(Listing(G, 0, Direction.IN), np.array([ALICE, BOB], np.int64))).tolist() == [True, False]
    assert run(store.contains(Listing(G, ALICE, Direction.IN), asked)).tolist() == [False] * 6


def test_contains_takes_arrays_that_are_views(store: EdgeStore, run: Run) -> None:
    run(fill(store, 100))
    asked = run(store.ids(OUT))[::-3]
    assert run(store.contains(OUT, asked)).all()
    assert len(asked) == 34


# --- time ranges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 61, 62, 125, 400])
def test_a_range_is_a_list_of_its_own_paged_both_ways(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    edges = sorted({-1, 0, 1, 19, 20, 21, 41, size // 3 - 1, size // 3, size // 3 + 1})
    for since, until in product([None, *(START_MS + at for at in edges)], repeat=2):
        expected = [mark for mark in marks if Window(1, since=since, until=until).spans(mark)]

        async def ranged(window: Window, since: int | None = since, until: int | None = until) -> Page:
            return await store.page(OUT, window._replace(since=since, until=until))

        for limit in (1, 61) if size < 100 else (50,):
            for backward in (False, True):
                assert run(all_pages(ranged, limit, backward=backward)) == expected, (since, until)


def test_since_is_inclusive_and_until_exclusive(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(*(edge_of(ALICE, at, position) for position in (5, 6, 7) for at in (10 * position,)))))
    run(store.apply(writes_of(edge_of(ALICE, 0, 6), edge_of(ALICE, ID_MAX, 6))))
    page = run(store.page(OUT, Window(9, since=6, until=7)))
    assert page == Page([Mark(6, ID_MAX), Mark(6, 60), Mark(6, 0)], False, False)
    assert run(store.page(OUT, Window(9, since=6, until=6))) == Page([], False, False)
    assert run(store.page(OUT, Window(9, since=7, until=6))) == Page([], False, False)


bounds = st.none() | st.sampled_from([POSITION_MIN, POSITION_MAX]) | st.integers(-4, 4)
places = st.none() | st.builds(Mark, st.integers(-4, 4), st.sampled_from([0, 1, 2, ID_MAX]))


@given(
    st.dictionaries(st.integers(0, 150), st.sampled_from([POSITION_MIN, -3, -1, 0, 2, POSITION_MAX]), max_size=150),
    st.lists(st.tuples(st.integers(1, 4) | st.just(200), places, st.booleans(), bounds, bounds), max_size=20),
)
def test_a_page_of_any_range_is_what_the_reference_says(
    tmp_path_factory: pytest.TempPathFactory,
    positions: dict[int, int],
    asked: list[tuple[int, Mark | None, bool, int | None, int | None]],
) -> None:
    windows = [
        Window(limit, None if back else place, place if back else None, since, until)
        for limit, place, back, since, until in asked
    ]

    async def pages(store: EdgeStore) -> list[Page]:
        await store.declare(["follows"])
        await store.apply(writes_of(*(edge_of(ALICE, id_, position) for id_, position in positions.items())))
        return [await store.page(OUT, window) for window in windows]

    expected = run_all(pages(ReferenceEdges()))
    with open_embedded(tmp_path_factory.mktemp("ranges")) as (_, store):
        for window, page, right in zip(windows, run_all(pages(store)), expected, strict=True):
            assert page == right, window


class Counted:
    """A cursor that counts its moves from block to block."""

    def __init__(self, cursor: Any) -> None:
        self._cursor, self.moves = cursor, 0

    def __getattr__(self, name: str) -> Any:
        self.moves += name in ("set_range", "set_key", "next", "prev")
        return getattr(self._cursor, name)


def test_a_page_of_a_range_costs_the_same_however_deep_it_lies(
    embedded: tuple[Environment, EmbeddedEdges], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sought, not scanned for: how many blocks are looked at depends on the page alone."""
    _, store = embedded
    run(store.declare(["follows"]))
    run(store.apply(writes_of(*(edge_of(ALICE, at, at) for at in range(20_000)))))
    cursors: list[Counted] = []

    def counted(cursor: Any, prefix: bytes, window: Window) -> Page:
        cursors.append(Counted(cursor))
        return page_of(cursors[-1], prefix, window)  # type: ignore[arg-type]

    monkeypatch.setattr(edges, "page_of", counted)
    for since, until in ((19_000, 19_500), (10_000, 10_500), (30, 530), (0, 19_990), (10_000, 10_001)):
        for place in ({}, {"after": Mark(until - 5, 0)}, {"before": Mark(since, 0)}):
            page = run(store.page(OUT, Window(20, since=since, until=until, **place)))  # type: ignore[arg-type]
            assert len(page.items) == 20 or until - since < 20
    assert max(cursor.moves for cursor in cursors) <= 6, [cursor.moves for cursor in cursors]


# --- the scan ------------------------------------------------------------------------------------------


def test_the_scan_shows_every_row_once_in_order_and_resumes_after_any(store: EdgeStore, run: Run) -> None:
    async def scanned(after: tuple[int, int] | None = None) -> list[Edge]:
        found = [ends async for chunk in store.edges(G, after) for ends in chunk]
        assert all(ends.agree for ends in found)
        return [ends.edge for ends in found]

    ids = [0, 1, 255, 256, ID_MAX]
    edges = [edge_of(*pair, state=State((pair[0] + pair[1]) % 4)) for pair in product(ids, ids)]
    run(store.apply(writes_of(*edges[::-1])))
    assert run(scanned()) == edges
    for at, edge in enumerate(edges):
        assert run(scanned((edge.source, edge.destination))) == edges[at + 1 :]
    assert run(scanned((1, 17))) == edges[7:]  # after a pair that is no row


def test_the_scan_of_an_empty_graph_has_no_rows(store: EdgeStore, run: Run) -> None:
    async def scanned() -> list[Any]:
        return [ends async for chunk in store.edges(G) for ends in chunk]

    assert run(scanned()) == []


def test_the_scan_crosses_its_chunks_without_loss(store: EdgeStore, run: Run) -> None:
    async def chunks() -> list[int]:
        return [len(chunk) async for chunk in store.edges(G)]

    run(store.apply(writes_of(*(edge_of(at // 50, at % 50) for at in range(4_001)))))
    sizes = run(chunks())
    assert sum(sizes) == 4_001
    assert len(sizes) > 1
    assert all(sizes)


def test_a_sound_store_has_nothing_to_repair(store: EdgeStore, run: Run) -> None:
    run(fill(store, 200))
    run(store.repair([edge_of(ALICE, 3)]))
    assert run(store.check_counts(G, True)) == []
    assert run(audit(store, "follows", G, repair=True)).clean
    assert run(store.count_many([OUT])) == [200]


# --- nodes, notes, graphs ------------------------------------------------------------------------------


def test_a_change_of_a_node_leaves_what_it_does_not_name(store: EdgeStore, run: Run) -> None:
    assert run(store.nodes([ALICE, DANA, 0])) == [Node()] * 3
    for change, expected in [
        ({"state": State.ARCHIVED}, Node(State.ARCHIVED)),
        ({"private": True}, Node(State.ARCHIVED, True)),
        ({"state": State.REMOVED, "private": False}, Node(State.REMOVED)),
        ({}, Node(State.REMOVED)),
        ({"private": True}, Node(State.REMOVED, True)),
        ({"state": State.NORMAL}, Node(private=True)),
        ({"labels": 5}, Node(private=True, labels=5)),
        ({"private": False}, Node(labels=5)),
        ({"state": State.ARCHIVED, "labels": 2}, Node(State.ARCHIVED, labels=2)),
        ({"state": State.NORMAL}, Node(labels=2)),
        ({"labels": 0}, Node()),
    ]:
        assert run(store.change_node(DANA, **change)) == expected
        assert run(store.nodes([ALICE, DANA, 0, DANA])) == [Node(), expected, Node(), expected]


def test_a_node_changes_only_from_the_state_that_is_asked_for(store: EdgeStore, run: Run) -> None:
    assert run(store.change_node(DANA, state=State.ARCHIVED, only_from=State.REMOVED)) == Node()
    assert run(store.change_node(DANA, private=True, only_from=State.ARCHIVED)) == Node()
    assert run(store.nodes([DANA])) == [Node()]
    assert run(store.change_node(DANA, state=State.ARCHIVED, only_from=State.NORMAL)) == Node(State.ARCHIVED)
    assert run(store.change_node(DANA, private=True, only_from=State.ARCHIVED)) == Node(State.ARCHIVED, True)


def test_a_change_of_a_node_is_told_to_the_log_once_and_only_if_it_is_one(store: EdgeStore, run: Run) -> None:
    event = Event(0, 0, None, USER_LABELLED, DANA, 0, 0, hlc_of(START_MS))
    for change in (
        {"labels": 5},
        {"labels": 5},
        {},
        {"labels": 1, "only_from": State.ARCHIVED},
        {"labels": 0},
    ):
        run(store.change_node(DANA, tell=event, **change))
    run(store.change_node(DANA, private=True))
    if isinstance(store, ReferenceEdges):
        told: Any = store.log
    else:
        assert isinstance(store, EmbeddedEdges)
        told = EmbeddedLog(store._environment, store._commits).read(0, 9)
    assert [(one.state, one.source) for one in told] == [(USER_LABELLED, DANA)] * 2


@pytest.mark.parametrize("away", [ALICE, BOB])
@pytest.mark.parametrize("state", [State.ARCHIVED, State.REMOVED])
def test_an_edge_added_to_a_node_that_is_away_is_stored_in_its_state(
    store: EdgeStore, run: Run, away: int, state: State
) -> None:
    run(store.change_node(away, state=state))
    (change,) = run(store.apply(writes_of(edge_of(ALICE, BOB, 4))))
    assert change.after == edge_of(ALICE, BOB, 4, state)
    run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 9), supersede=True, keep_place=True)]))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 4, state, 1)]
    run(store.apply(writes_of(edge_of(ALICE, CAROL, 1, State.NEGATIVE))))
    assert run(store.get_many(G, [(ALICE, CAROL)])) == [edge_of(ALICE, CAROL, 1, State.NEGATIVE)]


def test_a_write_for_a_node_in_one_state_is_skipped_in_another(store: EdgeStore, run: Run) -> None:
    def write(version: int) -> Outcome:
        edge = edge_of(ALICE, BOB, state=State.ARCHIVED, version=version)
        return run(store.apply([EdgeWrite(edge, while_node=(ALICE, State.ARCHIVED))]))[0].outcome

    assert write(1) is Outcome.UNCHANGED
    run(store.change_node(ALICE, state=State.ARCHIVED))
    assert write(2) is Outcome.APPLIED
    run(store.change_node(ALICE, state=State.NORMAL))
    assert write(3) is Outcome.UNCHANGED


def test_notes_are_kept_found_by_prefix_and_removed(store: EdgeStore, run: Run) -> None:
    assert run(store.get_note("job/1")) is None
    for key, value in (("job/1", b"a"), ("job/2", b""), ("job", b"x"), ("jobs", b"y"), ("job0", b"z")):
        run(store.put_note(key, value))
    run(store.put_note("job/1", b"b"))
    assert run(store.get_note("job/1")) == b"b"
    assert run(store.notes("job/")) == {"job/1": b"b", "job/2": b""}
    run(store.put_note("job/1", None))
    run(store.put_note("job/9", None))
    assert run(store.get_note("job/1")) is None
    assert run(store.notes("job/")) == {"job/2": b""}


def test_declaring_gives_each_name_one_number_for_ever(store: EdgeStore, run: Run) -> None:
    first = dict(run(store.declare(["follows", "likes", "saves"])))
    assert first["follows"] == G
    assert len(set(first.values())) == 3
    again = run(store.declare(["shares", "saves", "follows"]))
    assert {name: again[name] for name in first} == first
    assert again["shares"] not in first.values()
    assert dict(run(store.declare([]))) == dict(again)


def test_a_bad_name_declares_nothing(store: EdgeStore, run: Run) -> None:
    for name in ("", "Follows", "1st", "a" * 33, "a-b"):
        with pytest.raises(BadRequest):
            run(store.declare(["fine", name]))
    assert dict(run(store.declare([]))) == {"follows": G}


def test_no_more_graphs_can_exist_than_one_byte_counts(store: EdgeStore, run: Run) -> None:
    numbers = run(store.declare([f"g{at}" for at in range(254)]))
    assert sorted(numbers.values()) == list(range(1, 256))
    with pytest.raises(BadRequest):
        run(store.declare(["one_more"]))
    edge = Edge(255, ALICE, BOB, State.NORMAL, 1, edge_of(1, 2).updated_at)
    run(store.apply(writes_of(edge)))
    assert run(store.get_many(255, [(ALICE, BOB)])) == [edge]


def test_the_embedded_store_is_the_same_after_it_is_opened_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("again")

    async def write(store: EdgeStore) -> dict[str, Any]:
        await store.declare(["follows"])
        await fill(store, 130)
        await store.change_node(DANA, state=State.ARCHIVED)
        await store.put_note("job/1", b"x")
        return await read(store)

    async def read(store: EdgeStore) -> dict[str, Any]:
        return {
            "edges": await state_of(store, [ALICE, *range(5)]),
            "graphs": dict(await store.declare([])),
            "kept": (await store.nodes([DANA]), await store.notes("")),
        }

    with open_embedded(folder) as (_, store):
        before = run_all(write(store))
    with open_embedded(folder) as (_, store):
        assert run_all(read(store)) == before


# --- damage: embedded only, through its own files ------------------------------------------------------


class Damaged:
    """An embedded store with Alice's list of 130 and a few others, and the means to break it."""

    def __init__(self, opened: tuple[Environment, EmbeddedEdges], run: Run) -> None:
        self.environment, self.store = opened
        self._run = run
        run(self.store.declare(["follows"]))
        self.marks = run(fill(self.store, 130))
        run(self.store.apply(writes_of(edge_of(BOB, CAROL, 1), edge_of(BOB, ALICE, 2, State.ARCHIVED))))
        self.sound = run(state_of(self.store, [ALICE, BOB, CAROL]))

    def unlist(self, listing: Listing, mark: Mark, *, count_too: bool = True) -> None:
        """Take an entry out of a list behind the row's back."""
        with self.environment.lmdb.begin(write=True) as txn:
            cursor, prefix = txn.cursor(self.environment.graph_db(G)), list_prefix(listing)
            before = runs.length(txn, self.environment.graph_db(G), prefix)
            assert runs.remove(cursor, prefix, list_row(*mark))
            if not count_too:
                runs.set_length(cursor, prefix, before)

    def list_ghost(self, listing: Listing, mark: Mark) -> None:
        """Put an entry into a list without a row that says so."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert runs.insert(txn.cursor(self.environment.graph_db(G)), list_prefix(listing), list_row(*mark))

    def set_count(self, listing: Listing, count: int) -> None:
        """Store a wrong count."""
        with self.environment.lmdb.begin(write=True) as txn:
            runs.set_length(txn.cursor(self.environment.graph_db(G)), list_prefix(listing), count)

    def lose_tail(self, listing: Listing) -> None:
        """Lose the newest block of a list, and its count with it."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert txn.delete(list_prefix(listing) + b"\1", db=self.environment.graph_db(G))

    def lose_row(self, source: int, destination: int) -> None:
        """Lose the row of an edge; its lists stay."""
        with self.environment.lmdb.begin(write=True) as txn:
            assert txn.delete(pair_key(source, destination), db=self.environment.graph_db(G))

    def state(self) -> dict[str, Any]:
        return self._run(state_of(self.store, [ALICE, BOB, CAROL]))

    def disagreeing(self) -> list[tuple[int, int]]:
        async def scan() -> list[tuple[int, int]]:
            chunks = [chunk async for chunk in self.store.edges(G)]
            return [(ends.edge.source, ends.edge.destination) for chunk in chunks for ends in chunk if not ends.agree]

        return self._run(scan())


@pytest.fixture
def damaged(embedded: tuple[Environment, EmbeddedEdges], run: Run) -> Damaged:
    """A store to break."""
    return Damaged(embedded, run)


@pytest.mark.parametrize("at", [0, 60, 129])
def test_repair_puts_back_an_entry_that_one_list_lost(damaged: Damaged, run: Run, at: int) -> None:
    mark = damaged.marks[at]
    damaged.unlist(OUT, mark)
    assert damaged.disagreeing() == [(ALICE, mark.id)]
    run(damaged.store.repair([edge_of(ALICE, mark.id)]))
    assert damaged.disagreeing() == []
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_lost_entries_at_both_ends(damaged: Damaged, run: Run) -> None:
    lost = damaged.marks[::13]
    for mark in lost:
        damaged.unlist(OUT, mark)
        damaged.unlist(Listing(G, mark.id, Direction.IN), Mark(mark.position, ALICE))
    seen = run(audit(damaged.store, "follows", G))
    assert (seen.edges, seen.disagreeing, seen.repaired) == (132, len(lost), 0)
    assert seen.consistent_share == 1 - len(lost) / 132
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_wrong_counts_are_found_and_mended(damaged: Damaged, run: Run) -> None:
    wrong = {OUT: 131, Listing(G, CAROL, Direction.IN): 0}
    for listing, count in wrong.items():
        damaged.set_count(listing, count)
    found = run(damaged.store.check_counts(G, False))
    assert found == [(OUT, 131, 130), (Listing(G, CAROL, Direction.IN), 0, 2)]
    assert run(damaged.store.check_counts(G, True)) == found
    assert run(damaged.store.check_counts(G, False)) == []
    assert damaged.state() == damaged.sound


@pytest.mark.parametrize("count", [0, 1, 8, 9, 61, 129, 10_000])
def test_a_lost_entry_under_a_wrong_count_is_put_back_in_its_place(damaged: Damaged, run: Run, count: int) -> None:
    """Whatever the stored count says; 8 and 9 are about the length of the tail, which a count once stood for."""
    damaged.unlist(OUT, damaged.marks[-1])
    damaged.set_count(OUT, count)
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_a_lost_tail_does_not_spoil_the_count_of_the_next_list(damaged: Damaged, run: Run) -> None:
    damaged.lose_tail(OUT)
    assert [found for found in run(damaged.store.check_counts(G, True)) if found[0] != OUT] == []


def test_the_audit_mends_a_lost_tail(damaged: Damaged, run: Run) -> None:
    damaged.lose_tail(OUT)
    run(audit(damaged.store, "follows", G, repair=True))
    assert run(audit(damaged.store, "follows", G)).clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_an_entry_left_in_the_list_of_another_state(damaged: Damaged, run: Run) -> None:
    damaged.list_ghost(OUT._replace(state=State.ARCHIVED), damaged.marks[5])
    found = run(audit(damaged.store, "follows", G, repair=True))
    assert not found.clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_and_mends_an_entry_left_at_another_position(damaged: Damaged, run: Run) -> None:
    damaged.list_ghost(OUT, Mark(-1, damaged.marks[5].id))
    found = run(audit(damaged.store, "follows", G, repair=True))
    assert not found.clean
    assert damaged.state() == damaged.sound


def test_the_audit_finds_entries_whose_row_is_lost(damaged: Damaged, run: Run) -> None:
    damaged.lose_row(BOB, CAROL)
    assert not run(audit(damaged.store, "follows", G)).clean


def test_a_write_to_a_list_with_a_wrong_count_leaves_it_in_order(damaged: Damaged, run: Run) -> None:
    damaged.set_count(OUT, 1)
    run(damaged.store.apply(writes_of(edge_of(ALICE, 500, START_MS - 1))))
    run(damaged.store.check_counts(G, True))
    assert run(marks_of(damaged.store, OUT)) == [*damaged.marks, Mark(START_MS - 1, 500)]


@pytest.mark.parametrize("count", [0, 1, 2, 129])
@pytest.mark.parametrize("at", [0, 129])
def test_a_removal_from_a_list_with_a_wrong_count_loses_no_other_entry(
    damaged: Damaged, run: Run, count: int, at: int
) -> None:
    gone = damaged.marks[at]
    damaged.set_count(OUT, count)
    run(damaged.store.apply(writes_of(edge_of(ALICE, gone.id, gone.position, State.REMOVED, 1))))
    run(damaged.store.check_counts(G, True))
    assert run(marks_of(damaged.store, OUT)) == [mark for mark in damaged.marks if mark != gone]
    assert run(damaged.store.count_many([OUT])) == [129]


def test_one_failing_job_of_a_group_harms_no_other(embedded: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    _, store = embedded
    run(store.declare(["follows"]))

    async def together() -> list[Any]:
        def fails(batch: Batch) -> None:
            raise ValueError("a job's own fault")

        jobs = [store.apply(writes_of(edge_of(ALICE, at))) for at in range(5)]
        return await asyncio.gather(*jobs[:2], store._commits.run(fails), *jobs[2:], return_exceptions=True)

    answers = run(together())
    assert [type(found).__name__ for found in answers] == ["list", "list", "ValueError", "list", "list", "list"]
    assert run(store.count_many([OUT])) == [5]
    assert [found[0].sequence for found in answers if isinstance(found, list)] == [1, 2, 3, 4, 5]


# --- forgetting ----------------------------------------------------------------------------------------


def test_what_is_forgotten_was_never_there(store: EdgeStore, run: Run) -> None:
    """Rows, lists and counts of any state; and nothing else, wherever in a long list it stood."""

    async def check() -> None:
        chance = random.Random(6)
        marks = await fill(store, 300)
        others = [edge_of(BOB, at, state=state) for at, state in enumerate(State)]
        await store.apply(writes_of(*others, edge_of(ALICE, ALICE, -5)))
        gone = {mark.id for mark in chance.sample(marks, 140)}
        pairs = [(ALICE, id_) for id_ in gone] + [(BOB, 0), (BOB, 3), (ALICE, ALICE)]
        await store.forget(G, [*pairs, (CAROL, DANA), *pairs[:3]])
        gone |= {ALICE}
        assert await store.get_many(G, pairs) == [None] * len(pairs)
        left = [mark for mark in [*marks, Mark(-5, ALICE)] if mark.id not in gone]
        assert await all_pages(lambda window: store.page(OUT, window), 50) == left
        assert await store.count_many([OUT]) == [len(left)]
        assert [await marks_of(store, Listing(G, BOB, Direction.OUT, state)) for state in State] == [
            [], [Mark(START_MS, 1)], [Mark(START_MS, 2)], [],
        ]  # fmt: skip
        for id_ in gone:
            assert ALICE not in [mark.id for mark in await marks_of(store, Listing(G, id_, Direction.IN))]
        assert (await store.check_counts(G, False), await store.strays(G, False)) == ([], 0)

    run(check())


def test_forgetting_is_no_change_and_an_older_write_comes_back(store: EdgeStore, run: Run) -> None:
    """So only what means nothing any more may be forgotten."""
    one = run(store.apply(writes_of(edge_of(ALICE, BOB, version=5))))
    run(store.forget(G, [(ALICE, BOB)]))
    older = edge_of(ALICE, BOB, version=1)
    two = run(store.apply(writes_of(older)))
    assert [change.sequence for change in one + two] == [1, 2]
    assert run(store.get_many(G, [(ALICE, BOB)])) == [older]
    run(store.forget(G, []))
