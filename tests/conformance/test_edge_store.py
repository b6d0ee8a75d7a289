"""What every EdgeStore must do, on any engine. Each test is one claim of `graph.store.EdgeStore`.

The fixture `store` opens each engine. Tests in `property` cover what an engine may do late (`transactional = False`).
"""

from __future__ import annotations

import random
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run, run_coroutine
from edges import OUT, G, all_pages, edge_of, fill, marks_of, state_of, writes_of
from engines import Engine, in_new_folder
from hypothesis import given
from hypothesis import strategies as st
from reference_edges import ReferenceEdges

from kith.core.events import NOWHERE
from kith.core.ids import ID_MAX
from kith.core.paging import Mark
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, Edge, EdgeLimit, EdgeWrite, Outcome, State
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore

# --- rows ----------------------------------------------------------------------------------------------

PORT = "edges"


def test_an_edge_is_read_back_as_it_was_written(store: EdgeStore, run: Run) -> None:
    ends = [0, 1, 2**31, 2**53 + 1, ID_MAX - 1, ID_MAX]
    positions = [POSITION_MIN, -1, 0, 1, START_MS, 2**48 - 1, 2**48, POSITION_MAX]
    versions = [0, 1, -(START_MS << 16), (2**46 - 1 - START_MS) << 16]
    chosen = random.Random(1)
    edges = [
        edge_of(source, destination, chosen.choice(positions), chosen.choice(list(State)), chosen.choice(versions))
        for source, destination in product(ends, ends)
    ]
    edges += [edge_of(7, 100 + index, position) for index, position in enumerate(positions)]
    run(store.apply(writes_of(*edges)))
    assert run(store.get_many(G, [(edge.source, edge.destination) for edge in edges])) == edges


def test_an_edge_that_was_never_written_is_none_and_does_not_exist(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, BOB))))
    pairs = [(BOB, ALICE), (ALICE, CAROL), (0, 0), (ID_MAX, ID_MAX)]
    assert run(store.get_many(G, pairs)) == [None] * 4
    assert run(store.exists_many(G, pairs)) == [False] * 4
    assert [run(store.exists_many(G, [pair])) for pair in pairs] == [[False]] * 4


@pytest.mark.parametrize("end", Direction)
def test_a_counted_write_returns_the_length_of_the_list_at_that_end(store: EdgeStore, run: Run, end: Direction) -> None:
    def counted(edge: Edge, **conditions: Any) -> int:
        (change,) = run(store.apply([EdgeWrite(edge, counted=end, **conditions)]))
        return change.length

    other_edges = ((edge_of(ALICE, 50 + index), edge_of(50 + index, DANA))[end] for index in range(70))
    run(store.apply(writes_of(*other_edges)))
    assert counted(edge_of(ALICE, DANA)) == 71
    assert counted(edge_of(ALICE, DANA)) == 71, "the edge was there already"
    assert counted(edge_of(ALICE, DANA, 5, version=1)) == 71, "the edge only moved"
    assert counted(edge_of(ALICE, DANA, version=2), only_from=frozenset({State.REMOVED})) == 71, (
        "the condition does not hold"
    )
    for version, state in enumerate((State.NEGATIVE, State.ARCHIVED, State.REMOVED), 3):
        assert counted(edge_of(ALICE, DANA, state=state, version=version)) == 70
    assert counted(edge_of(ALICE, DANA)) == 70, "an older write loses"
    assert counted(edge_of(BOB, CAROL, state=State.REMOVED)) == 0
    assert run(store.apply(writes_of(edge_of(ALICE, BOB))))[0].length == 0, "the write did not ask for it"


def test_a_write_returns_whether_a_list_has_an_entry(store: EdgeStore, run: Run) -> None:
    def any_listed(edge: Edge, *lists: Listing) -> bool:
        (change,) = run(store.apply([EdgeWrite(edge, any_of=lists)]))
        return change.any_listed

    archived = Listing(G, BOB, Direction.IN, State.ARCHIVED)
    assert not any_listed(edge_of(DANA, BOB)), "the write did not ask for it"
    assert not any_listed(edge_of(DANA, BOB), OUT, archived)
    assert any_listed(edge_of(ALICE, BOB), archived, OUT) == store.transactional, "the edge that it adds counts"
    assert any_listed(edge_of(ALICE, BOB), OUT) == store.transactional, "also if it changes nothing"
    assert any_listed(edge_of(CAROL, BOB, state=State.ARCHIVED), archived) == store.transactional
    assert not any_listed(edge_of(ALICE, BOB, version=2, state=State.REMOVED), OUT)


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


def test_each_write_is_answered_in_order_with_the_edge_before_and_after(store: EdgeStore, run: Run) -> None:
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


def test_every_applied_write_has_a_mark_and_each_call_its_own(store: EdgeStore, run: Run) -> None:
    first_call = run(store.apply(writes_of(edge_of(1, 2), edge_of(1, 3), edge_of(1, 2))))
    two = run(store.apply(writes_of(edge_of(1, 4))))
    first, second, unchanged, third = (change.log_position for change in first_call + two)
    assert unchanged == NOWHERE
    assert NOWHERE not in (first, second, third)
    assert third not in (first, second)
    assert first != second or not store.transactional


def test_of_equal_versions_the_higher_rank_wins_then_the_greater_position(store: EdgeStore, run: Run) -> None:
    versions = [edge_of(ALICE, BOB, position, state) for position, state in product((5, 6), State)]
    run(store.apply(writes_of(*versions)))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 6, State.REMOVED)]
    run(store.apply(writes_of(edge_of(ALICE, BOB, 99, State.ARCHIVED), edge_of(ALICE, BOB, 1, version=1))))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 1, version=1)]


def test_every_order_of_four_writes_to_one_edge_has_the_same_result(compared: Engine) -> None:
    assert compared.edges
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

    expected = run_coroutine(left(ReferenceEdges(), tuple(edges)))
    for order in permutations(edges):
        with in_new_folder(compared.edges) as store:
            assert run_coroutine(left(store, order)) == expected


some_edges = st.builds(
    edge_of, st.integers(1, 4), st.integers(1, 4), st.integers(-2, 2), st.sampled_from(State), st.integers(0, 3)
)


@given(
    st.lists(some_edges, max_size=8) | st.lists(some_edges, min_size=20, max_size=60),
    st.randoms(use_true_random=False),
    st.integers(1, 20),
)
def test_any_order_and_repetition_of_batches_gives_the_same_rows_lists_and_counts(
    compared: Engine, edges: list[Edge], chance: random.Random, batch: int
) -> None:
    async def left(store: EdgeStore, order: list[Edge]) -> dict[str, Any]:
        await store.declare(["follows"])
        for start in range(0, len(order), batch):
            await store.apply(writes_of(*order[start : start + batch]))
        assert await store.check_counts(G, False) == []
        return await state_of(store, [1, 2, 3, 4])

    expected = run_coroutine(left(ReferenceEdges(), edges))
    repeated = edges + chance.sample(edges, len(edges) // 2)
    chance.shuffle(repeated)
    assert run_coroutine(left(ReferenceEdges(), repeated)) == expected
    assert compared.edges
    with in_new_folder(compared.edges) as store:
        assert run_coroutine(left(store, repeated)) == expected


# --- conditions ----------------------------------------------------------------------------------------


def test_keep_live_keeps_the_place_of_a_normal_edge(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, BOB, 5))))
    (change,) = run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 9, version=1), keep_live=True)]))
    assert (change.outcome, change.log_position) == (Outcome.UNCHANGED, NOWHERE)
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
    is_allowed = (State.REMOVED if stored is None else stored) == allowed
    assert change.outcome is (Outcome.APPLIED if is_allowed else Outcome.UNCHANGED)


def test_limit_counts_the_normal_edges_of_the_source_only(store: EdgeStore, run: Run) -> None:
    other_edges = [
        edge_of(ALICE, 10, state=State.ARCHIVED),
        edge_of(ALICE, 11, state=State.REMOVED),
        edge_of(BOB, 12),
        edge_of(12, ALICE),
    ]
    run(store.apply(writes_of(*other_edges)))
    changes = run(store.apply([EdgeWrite(edge_of(ALICE, user), limit=EdgeLimit(2)) for user in (20, 21, 22)]))
    assert [change.outcome for change in changes] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.OVER_LIMIT]
    assert run(store.get_many(G, [(ALICE, 22)])) == [None]
    assert run(store.count_many([OUT])) == [2]


def test_a_limit_may_count_more_states_and_the_other_end(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(ALICE, BOB, state=State.NEGATIVE), edge_of(ALICE, 10, state=State.ARCHIVED))))
    both_states = EdgeLimit(2, states=(State.NORMAL, State.NEGATIVE))
    edges = [
        edge_of(ALICE, 20),
        edge_of(ALICE, 21),
        edge_of(ALICE, 21, state=State.NEGATIVE),
        edge_of(ALICE, BOB, 9, version=2),
    ]
    outcomes = [change.outcome for change in run(store.apply([EdgeWrite(edge, limit=both_states) for edge in edges]))]
    assert outcomes == [Outcome.APPLIED, Outcome.OVER_LIMIT, Outcome.OVER_LIMIT, Outcome.APPLIED]
    (change,) = run(store.apply([EdgeWrite(edge_of(CAROL, BOB), limit=EdgeLimit(1, Direction.IN))]))
    assert change.outcome is (Outcome.OVER_LIMIT if store.transactional else change.outcome)
    (change,) = run(store.apply([EdgeWrite(edge_of(CAROL, 20), limit=EdgeLimit(2, Direction.IN))]))
    assert change.outcome is Outcome.APPLIED


def test_at_the_limit_edges_can_still_be_moved_removed_and_replaced(store: EdgeStore, run: Run) -> None:
    def limited(edge: Edge) -> Outcome:
        (change,) = run(store.apply([EdgeWrite(edge, limit=EdgeLimit(1))]))
        return change.outcome

    assert limited(edge_of(ALICE, BOB)) is Outcome.APPLIED
    assert limited(edge_of(ALICE, BOB, 9, version=1)) is Outcome.APPLIED  # the same edge does not count twice
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


def test_keep_place_keeps_the_stored_position_and_uses_the_new_one_if_none_is_stored(
    store: EdgeStore, run: Run
) -> None:
    for position, expected in ((7, 7), (9, 7)):
        write = EdgeWrite(edge_of(ALICE, BOB, position), supersede=True, keep_place=True)
        (change,) = run(store.apply([write]))
        assert change.after.position == expected
    assert run(marks_of(store, OUT)) == [Mark(7, BOB)]


def test_a_write_is_forbidden_while_a_barring_edge_is_normal_or_archived(store: EdgeStore, run: Run) -> None:
    blocks = run(store.declare(["blocks"]))["blocks"]

    def barred(state: State, version: int) -> Outcome:
        block = Edge(blocks, BOB, ALICE, state, 1, edge_of(1, 2, version=version).updated_at)
        bars = ((blocks, ALICE, BOB), (blocks, BOB, ALICE))
        follow = EdgeWrite(edge_of(ALICE, BOB, version=version), unless=bars, limit=EdgeLimit(0))
        return run(store.apply([EdgeWrite(block), follow]))[1].outcome

    for version, state in enumerate(State):
        assert barred(state, version) is (
            Outcome.FORBIDDEN if state in (State.NORMAL, State.ARCHIVED) else Outcome.OVER_LIMIT
        )
    assert run(store.get_many(G, [(ALICE, BOB)])) == [None]


def test_a_refused_write_skips_all_writes_chained_to_it(store: EdgeStore, run: Run) -> None:
    run(store.apply(writes_of(edge_of(BOB, ALICE))))
    refused_write = EdgeWrite(edge_of(ALICE, BOB), unless=((G, BOB, ALICE),))
    chain = [EdgeWrite(edge_of(CAROL, end), chained=True) for end in (ALICE, BOB)]
    after = EdgeWrite(edge_of(CAROL, DANA))
    outcomes = [change.outcome for change in run(store.apply([refused_write, *chain, after, *chain[:1]]))]
    assert outcomes == [Outcome.FORBIDDEN, Outcome.UNCHANGED, Outcome.UNCHANGED, Outcome.APPLIED, Outcome.APPLIED]


# --- forgetting ----------------------------------------------------------------------------------------


def test_a_forgotten_edge_leaves_no_trace(store: EdgeStore, run: Run) -> None:
    """Removes rows, list entries and counts of edges in any state, anywhere in a long list; and nothing else."""

    async def check() -> None:
        chance = random.Random(6)
        marks = await fill(store, 300)
        other_edges = [edge_of(BOB, index, state=state) for index, state in enumerate(State)]
        await store.apply(writes_of(*other_edges, edge_of(ALICE, ALICE, -5)))
        forgotten = {mark.id for mark in chance.sample(marks, 140)}
        pairs = [(ALICE, id_) for id_ in forgotten] + [(BOB, 0), (BOB, 3), (ALICE, ALICE)]
        await store.forget(G, [*pairs, (CAROL, DANA), *pairs[:3]])
        forgotten |= {ALICE}
        assert await store.get_many(G, pairs) == [None] * len(pairs)
        remaining = [mark for mark in [*marks, Mark(-5, ALICE)] if mark.id not in forgotten]
        assert await all_pages(lambda window: store.page(OUT, window), 50) == remaining
        assert await store.count_many([OUT]) == [len(remaining)]
        assert [await marks_of(store, Listing(G, BOB, Direction.OUT, state)) for state in State] == [
            [], [Mark(START_MS, 1)], [Mark(START_MS, 2)], [],
        ]  # fmt: skip
        for id_ in forgotten:
            assert ALICE not in [mark.id for mark in await marks_of(store, Listing(G, id_, Direction.IN))]
        assert (await store.check_counts(G, False), await store.strays(G, False)) == ([], 0)

    run(check())


def test_forgetting_is_no_change_and_an_older_write_applies_again(store: EdgeStore, run: Run) -> None:
    """So only edges that no longer mean anything may be forgotten."""
    changes = run(store.apply(writes_of(edge_of(ALICE, BOB, version=5))))
    run(store.forget(G, [(ALICE, BOB)]))
    older = edge_of(ALICE, BOB, version=1)
    two = run(store.apply(writes_of(older)))
    assert len({change.log_position for change in changes + two} - {NOWHERE}) == 2
    assert run(store.get_many(G, [(ALICE, BOB)])) == [older]
    run(store.forget(G, []))
