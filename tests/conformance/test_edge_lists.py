"""What every EdgeStore must do about lists: order, pages, counts, ranges of time. See `test_edge_store`."""

from __future__ import annotations

import random
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run, run_coroutine
from edges import FOLLOWERS_OF_DANA, OUT, SIZES, G, all_pages, edge_of, fill, marks_of, writes_of
from engines import Engine, in_new_folder
from hypothesis import given
from hypothesis import strategies as st
from reference_edges import ReferenceEdges

from kith.core.ids import ID_MAX
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, State
from kith.graph.questions import Questions
from kith.graph.shapes import Listing, Node
from kith.graph.store import EdgeStore

PORT = "edges"


def test_both_ends_list_newest_first_and_greatest_id_first_among_equals(store: EdgeStore, run: Run) -> None:
    edges = [edge_of(id_, DANA, position) for position, id_ in product((-5, 0, 7), (0, 3, ID_MAX - 1, 2**40))]
    run(store.apply(writes_of(*random.Random(2).sample(edges, len(edges)))))  # the last position of each pair wins
    run(store.apply(writes_of(*(edge_of(DANA, id_, id_ % 2) for id_ in (0, 1, 2, 3)))))
    expected = sorted((Mark(edge.position, edge.source) for edge in edges if edge.position == 7), reverse=True)
    assert run(marks_of(store, FOLLOWERS_OF_DANA)) == expected
    assert run(marks_of(store, Listing(G, DANA, Direction.OUT))) == [Mark(1, 3), Mark(1, 1), Mark(0, 2), Mark(0, 0)]


def test_extreme_positions_and_ids_keep_their_order(store: EdgeStore, run: Run) -> None:
    positions = [POSITION_MIN, POSITION_MIN + 1, -(2**48), -1, 0, 1, 2**48 - 1, 2**48, POSITION_MAX - 1, POSITION_MAX]
    ids = [0, 1, 2**32, ID_MAX - 1, ID_MAX]
    edges = [edge_of(10 + index, id_, position) for index, (position, id_) in enumerate(product(positions, ids))]
    run(store.apply(writes_of(*edges)))
    for edge in edges:
        assert run(marks_of(store, Listing(G, edge.source, Direction.OUT))) == [Mark(edge.position, edge.destination)]
    run(
        store.apply(
            writes_of(*(edge_of(ALICE, index, position, version=1) for index, position in enumerate(positions)))
        )
    )
    expected = [Mark(position, index) for index, position in enumerate(positions)][::-1]
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
def test_page_flags_say_exactly_whether_there_is_more_on_either_side(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    between = [Mark(marks[0].position + 1, 0), *marks, Mark(marks[-1].position - 1, 0)]
    around = between if size < 10 else [*between[:3], *between[58:66], *between[-3:]]

    async def check(window: Window, items: list[Mark], newer: int, older: int) -> None:
        assert await store.page(OUT, window) == Page(items, older > 0, newer > 0), window

    async def check_all() -> None:
        for limit, mark in product((1, 2, size - 1 or 1, size, size + 1), around):
            older = [other_mark for other_mark in marks if other_mark < mark]
            newer = [other_mark for other_mark in marks if other_mark > mark]
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
    edges = [edge_of(node, 1000 + index, index, state) for node in neighbours for index, state in enumerate(State)]
    run(store.apply(writes_of(*edges)))
    for node, (index, state) in product(neighbours, enumerate(State)):
        listing = Listing(G, node, Direction.OUT, state)
        for window in (Window(9), Window(9, after=Mark(index + 1, 0)), Window(9, before=Mark(index - 1, 0))):
            assert [mark.id for mark in run(store.page(listing, window)).items] == [1000 + index]
        assert run(store.page(listing, Window(9, after=Mark(index - 1, 0)))).items == []
        assert run(store.page(listing, Window(9, before=Mark(index + 1, 0)))).items == []
        assert run(store.ids(listing, 9)).tolist() == [1000 + index]


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
        for index, mark in enumerate(marks if newest_first else marks[::-1]):
            run(store.apply(writes_of(edge_of(ALICE, mark.id, mark.position, State.REMOVED, 2 * round_ + 1))))
            remaining = marks[index + 1 :] if newest_first else marks[: 129 - index]
            assert run(store.page(OUT, Window(3))).items == remaining[:3]
        assert run(store.count_many([OUT])) == [0]
        run(store.apply(writes_of(*(edge_of(ALICE, m.id, m.position, version=2 * round_ + 2) for m in marks))))
        assert run(marks_of(store, OUT)) == marks


def test_a_change_of_state_moves_an_edge_between_lists_at_both_ends(store: EdgeStore, run: Run) -> None:
    lists = [Listing(G, *end, state) for end in ((ALICE, Direction.OUT), (DANA, Direction.IN)) for state in State]
    for version, (before, state) in enumerate(permutations(State, 2)):
        run(store.apply(writes_of(edge_of(ALICE, DANA, 1, before, 2 * version))))
        run(store.apply(writes_of(edge_of(ALICE, DANA, 2, state, 2 * version + 1))))
        assert run(store.count_many(lists)) == 2 * [int(listed_state == state) for listed_state in State]
        for listing in lists:
            listed_state = DANA if listing.direction is Direction.OUT else ALICE
            assert run(marks_of(store, listing)) == ([Mark(2, listed_state)] if listing.state == state else [])


def test_a_change_of_position_moves_an_edge_within_its_list_and_counts_it_once(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(*(edge_of(ALICE, index, index) for index in range(100)))))
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
    of_all = run(store.counts([(G, direction) for direction in Direction], np.array([12, *range(13), 3], np.int64)))
    assert of_all.dtype == np.int64
    for direction, counts_of_direction in zip(Direction, of_all.tolist(), strict=True):
        normal = [run(store.count_many([Listing(G, node, direction)]))[0] for node in range(13)]
        assert counts_of_direction == [normal[12], *normal, normal[3]]
    assert run(store.counts([(G, Direction.OUT)], np.array([], np.int64))).tolist() == [[]]
    assert run(store.counts([], np.array([1], np.int64))).shape == (0, 1)


def test_counts_reach_the_greatest_id_and_take_arrays_that_are_views(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ID_MAX, 0), edge_of(ID_MAX, 1), edge_of(0, ID_MAX))))
    queried = np.array([0, 7, ID_MAX, 7, 5, 7], np.int64)[::2]
    counted = run(store.counts([(G, Direction.OUT), (G, Direction.IN)], queried))
    assert counted.tolist() == [[1, 2, 0], [1, 1, 0]]


def test_totals_in_a_batch_of_questions_equal_the_counts(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(1, 2), edge_of(1, 3), edge_of(2, 1))))
    questions, sides = Questions(), [(G, Direction.OUT), (G, Direction.IN)]
    before, totals, of_nobody = questions.counts([OUT]), questions.totals(sides, [1, 2, 7]), questions.totals(sides, [])
    answers = run(store.answer(questions))
    assert totals(answers) == [[2, 1, 0], [1, 1, 0]]
    assert totals(answers) == run(store.counts(sides, np.array([1, 2, 7], np.int64))).tolist()
    assert of_nobody(answers) == [[], []]
    assert answers.counts[before] == run(store.count_many([OUT]))


def test_an_edge_to_oneself_is_listed_at_both_ends(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, ALICE, 3))))
    for direction in Direction:
        assert run(marks_of(store, Listing(G, ALICE, direction))) == [Mark(3, ALICE)]


@pytest.mark.parametrize("newest", [1, 61, 62, 500, 30_000])
def test_many_lists_are_read_at_once_each_newest_first(store: EdgeStore, run: Run, newest: int) -> None:
    users = [ALICE, CAROL, BOB, DANA, ALICE]  # one user twice, two without a list
    for user, size in ((ALICE, 124), (BOB, 1), (DANA, 700)):
        edges = [
            edge_of(user, 10_000 + index, START_MS + index // 3)
            for index in random.Random(size).sample(range(size), size)
        ]
        run(store.apply(writes_of(*edges)))
    listings = [Listing(G, user, Direction.OUT) for user in users]
    ids, lengths = run(store.ids_many(listings, newest))
    ids_of_lists = [run(store.ids(listing, newest)).tolist() for listing in listings]
    assert lengths.tolist() == [len(ids_of_list) for ids_of_list in ids_of_lists]
    assert ids.tolist() == [id_ for ids_of_list in ids_of_lists for id_ in ids_of_list]
    assert ids.dtype == lengths.dtype == np.int64
    assert [len(part) for part in run(store.ids_many([], newest))] == [0, 0]


def test_degrees_name_every_node_of_a_stored_edge_with_its_counts(store: EdgeStore, run: Run) -> None:
    assert run(store.degrees(G, None, 10)) == ([], None)
    edges = [edge_of(0, DANA), edge_of(BOB, DANA), edge_of(BOB, ALICE), edge_of(ALICE, 77)]
    run(store.apply(writes_of(*edges)))
    run(store.apply(writes_of(edge_of(ALICE, 77, state=State.REMOVED, version=9))))
    expected = [(0, 1, 0), (ALICE, 0, 1), (BOB, 2, 0), (77, 0, 0), (DANA, 0, 2)]
    for limit in (1, 2, 5, 10):
        degrees: list[Any] = []
        after = None
        for _ in range(9):
            if after is not None or not degrees:
                part, after = run(store.degrees(G, after, limit))
                assert len(part) <= limit
                degrees += part
        assert after is None
        assert sorted(degrees) == sorted(expected)


# --- time ranges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 61, 62, 125, 400])
def test_a_range_is_paged_both_ways_like_a_list(store: EdgeStore, run: Run, size: int) -> None:
    marks = run(fill(store, size))
    edges = sorted({-1, 0, 1, 19, 20, 21, 41, size // 3 - 1, size // 3, size // 3 + 1})
    for since, until in product([None, *(START_MS + offset for offset in edges)], repeat=2):
        expected = [mark for mark in marks if Window(1, since=since, until=until).spans(mark)]

        async def ranged(window: Window, since: int | None = since, until: int | None = until) -> Page:
            return await store.page(OUT, window._replace(since=since, until=until))

        for limit in (1, 61) if size < 100 else (50,):
            for backward in (False, True):
                assert run(all_pages(ranged, limit, backward=backward)) == expected, (since, until)


def test_since_is_inclusive_and_until_exclusive(store: EdgeStore, run: Run) -> None:
    run(
        store.apply(writes_of(*(edge_of(ALICE, user, position) for position in (5, 6, 7) for user in (10 * position,))))
    )
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
def test_a_page_of_any_range_equals_the_reference(
    compared: Engine,
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

    expected = run_coroutine(pages(ReferenceEdges()))
    assert compared.edges
    with in_new_folder(compared.edges) as store:
        for window, page, right in zip(windows, run_coroutine(pages(store)), expected, strict=True):
            assert page == right, window


def test_a_batch_of_questions_is_answered_like_each_question_alone(store: EdgeStore, run: Run) -> None:
    async def check() -> None:
        other_graph = (await store.declare(["other"]))["other"]
        await store.apply(writes_of(edge_of(ALICE, 5, 5), edge_of(ALICE, 6, 6, State.NEGATIVE), edge_of(9, DANA, 3)))
        await store.change_node(BOB, private=True)
        of_dana = Listing(G, DANA, Direction.IN)
        questions = Questions()
        rows = questions.states([(G, ALICE, 5), (G, ALICE, 6), (other_graph, ALICE, 5), (G, ALICE, 8)])
        towards = [questions.towards(G, ALICE, [8, 6, 5]), questions.towards(other_graph, ALICE, [5])]
        to_nobody = questions.towards(G, ALICE, [])
        members_asked = questions.members(OUT, np.array([4, 5, 6], np.int64))
        no_members = questions.members(OUT, np.array([], np.int64))
        nodes = questions.nodes([ALICE, BOB])
        first = questions.counts([OUT])
        second = questions.counts([of_dana, Listing(other_graph, ALICE, Direction.OUT)])
        page, empty_page = questions.page(OUT, Window(5)), questions.page(of_dana, Window(1, after=Mark(3, 9)))
        answers = await store.answer(questions)
        assert answers.states[rows] == [State.NORMAL, State.NEGATIVE, None, None]
        assert [answers.towards[index] for index in towards] == [[None, State.NEGATIVE, State.NORMAL], [None]]
        assert answers.towards[to_nobody] == []
        assert answers.members[members_asked].tolist() == [False, True, False]
        assert answers.members[no_members].tolist() == []
        assert answers.nodes[nodes] == [Node(), Node(private=True)]
        assert answers.counts[first] == [1]
        assert answers.counts[second] == [1, 0]
        assert answers.pages[page] == await store.page(OUT, Window(5))
        assert answers.pages[empty_page] == Page([], False, True)
        assert await store.answer(Questions()) == ([], [], [], [], [], [])

    run(check())
