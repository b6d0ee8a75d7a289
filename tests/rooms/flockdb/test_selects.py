"""Queries of FlockDB: its known answers, pages both ways, and refused programs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from flockdb_client import (
    ADD,
    ARCHIVED,
    DIFFERENCE,
    INTERSECTION,
    NEGATE,
    NEGATIVE,
    POSITIVE,
    REMOVE,
    REMOVED,
    UNION,
    FlockDbClient,
    Selected,
    combining,
    message,
    packed,
    page,
    selected,
    simple,
    term,
)

from kith.flockdb import calls, selects
from kith.flockdb.interface import shapes
from kith.graph import programs
from kith.graph.edge import POSITION_MAX

from .conftest import Service

ALICE, BOB = 1, 2


def add(flock: FlockDbClient, source: int, *others: int, graph: int = 1, **fields: Any) -> None:
    flock.execute(ADD, term(source, graph, others=others), **fields)


def test_a_difference_pages_by_id_as_flockdb_does(flock: FlockDbClient) -> None:
    add(flock, ALICE, *range(1, 13))
    add(flock, BOB, 3, 4, 7, 11)
    program = [simple(ALICE), simple(BOB), combining(DIFFERENCE)]
    assert flock.select(program, 5) == ([12, 10, 9, 8, 6], 6, 0)
    assert flock.select(program, 5, 6) == ([5, 2, 1], 0, -5)
    assert flock.select(program, 5, -5) == ([12, 10, 9, 8, 6], 6, 0)


def test_where_in_pages_back_as_flockdb_does(flock: FlockDbClient) -> None:
    add(flock, ALICE, *range(0, 100, 5))
    program = [simple(ALICE, others=[55, 65, 75, 85, 86, 91])]
    assert flock.select(program, 2) == ([85, 75], 75, 0)
    assert flock.select(program, 2, 75) == ([65, 55], 0, -65)
    assert flock.select(program, 2, -65) == ([85, 75], 75, 0)


def test_a_lone_list_pages_by_position_both_ways(flock: FlockDbClient) -> None:
    for position in range(1, 8):
        add(flock, ALICE, 100 + position, position=position)
    program = [simple(ALICE)]
    assert flock.select(program, 3) == ([107, 106, 105], 5, 0)
    assert flock.select(program, 3, 5) == ([104, 103, 102], 2, -4)
    assert flock.select(program, 3, 2) == ([101], 0, -1)
    assert flock.select(program, 3, -1) == ([107, 106, 105], 5, 0), "-1 means the first page, as in FlockDB"
    assert flock.select(program, 3, -2) == ([105, 104, 103], 3, -5)
    assert flock.select(program, 3, -7) == ([], 0, 0)
    assert flock.select(program, 7) == ([107, 106, 105, 104, 103, 102, 101], 0, 0)


def test_edges_that_share_a_position_are_never_split_by_a_page(flock: FlockDbClient) -> None:
    add(flock, ALICE, 11, 12, 13, 14, position=50)
    add(flock, ALICE, 21, position=60)
    add(flock, ALICE, 1, 2, position=40)
    program = [simple(ALICE)]
    assert flock.select(program, 2) == ([21, 14, 13, 12, 11], 50, 0)
    assert flock.select(program, 2, 50) == ([2, 1], 0, -40)
    assert flock.select(program, 1, -40) == ([14, 13, 12, 11], 50, -50)


def test_edges_that_share_the_greatest_position_are_one_page(flock: FlockDbClient) -> None:
    add(flock, ALICE, 11, 12, position=POSITION_MAX)
    add(flock, ALICE, 1, position=40)
    program = [simple(ALICE)]
    assert flock.select(program, 1) == ([12, 11], POSITION_MAX, 0)
    assert flock.select(program, 1, POSITION_MAX) == ([1], 0, -40)
    assert flock.select(program, 1, -40) == ([12, 11], POSITION_MAX, 0)


def test_a_call_of_many_queries_yields_to_other_connections(service: Service) -> None:
    add(service.flock, ALICE, 11)
    queries = [shapes.SelectQuery(operations=[simple(ALICE)], page=page(1))] * 50

    async def turns_of_other_tasks() -> int:
        """How often other tasks had their turn until the call was answered."""
        calling = asyncio.create_task(service.calls.answer(message("select2", queries=queries)))
        turns = 0
        while not calling.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert service.run(turns_of_other_tasks()) >= 50


def test_more_ties_than_a_page_can_hold_are_refused_not_dropped(
    flock: FlockDbClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selects, "TIES_MAX", 5)
    add(flock, ALICE, *range(1, 8), position=50)
    with pytest.raises(shapes.FlockException, match="no cursor stands between them"):
        flock.select([simple(ALICE)], 2)


def test_every_page_of_every_program_adds_up_to_what_sets_say(flock: FlockDbClient) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    sets = {node: set(rng.sample(range(2, 40), rng.randrange(30))) for node in (1, 2, 3)}
    for node, others in sets.items():
        add(flock, node, *others)
    for _ in range(20):
        chosen = set(rng.sample(range(2, 40), 15))
        operands: list[tuple[Any, set[int]]] = [([simple(node)], others) for node, others in sets.items()]
        operands.append(([simple(1, others=sorted(chosen))], sets[1] & chosen))
        program, expected = rng.choice(operands)
        for _ in range(rng.randrange(1, 4)):
            kind = rng.choice([INTERSECTION, UNION, DIFFERENCE])
            more, others = rng.choice(operands)
            program = [*program, *more, combining(kind)]
            expected = {INTERSECTION: expected & others, UNION: expected | others, DIFFERENCE: expected - others}[kind]
        limit, cursor, found = rng.randrange(1, 8), -1, list[int]()
        while True:
            rows = flock.select(program, limit, cursor)
            found += rows.ids
            if rows.next == 0:
                break
            cursor = rows.next
        assert found == sorted(expected, reverse=True), f"seed {seed}"
        backward = walk_back(flock, program, limit, found)
        assert backward == found, f"seed {seed}"
        counted = flock.call("count2", queries=[program])
        assert int.from_bytes(counted, "little") == len(expected), f"seed {seed}"


def test_a_page_that_scanned_many_ids_ends_and_its_cursor_continues(
    flock: FlockDbClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("WHOLE_LIST_MAX", 5), ("CHECKED_IDS_MAX", 10), ("_FIRST_CHUNK", 4)):
        monkeypatch.setattr(programs, name, most)
    add(flock, ALICE, *range(100, 140))
    add(flock, BOB, *range(102, 140))
    program = [simple(ALICE), simple(BOB), combining(DIFFERENCE)]
    assert flock.select(program, 2) == ([], 120, 0)
    assert flock.select(program, 2, 120) == ([101, 100], 0, -101)
    assert flock.select(program, 1, 120) == ([101], 101, -101)
    assert flock.select(program, 2, -101) == ([], 0, -121)
    assert flock.select(program, 2, -121) == ([], 0, 0)
    assert flock.select(program, 2, -99) == ([101, 100], 0, -119), "there may be more above"


def walk_back(flock: FlockDbClient, program: list[Any], limit: int, found: list[int]) -> list[int]:
    """All ids of a query, by cursors that go back from the last one."""
    if not found:
        return []
    rows, seen = flock.select(program, limit, -found[-1]), [found[-1]]
    while rows.ids:
        seen = rows.ids + seen
        rows = flock.select(program, limit, rows.previous) if rows.previous else Selected([], 0, 0)
    return seen


def test_states_are_chosen_and_none_means_positive(flock: FlockDbClient) -> None:
    add(flock, ALICE, 10, 11, 12)
    flock.execute(NEGATE, term(ALICE, others=[11]))
    flock.execute(REMOVE, term(ALICE, others=[12]))
    assert flock.ids(ALICE) == flock.ids(ALICE, states=[]) == [10]
    assert flock.ids(ALICE, states=[NEGATIVE]) == [11]
    assert set(flock.ids(ALICE, states=[POSITIVE, REMOVED, NEGATIVE, ARCHIVED])) == {10, 11, 12}
    assert flock.select([simple(ALICE, others=[10, 11, 12], states=[REMOVED, NEGATIVE])], 9).ids == [12, 11]
    assert flock.count(ALICE, states=[POSITIVE, NEGATIVE]) == 2
    assert flock.contains(ALICE, 11), "negative edges are there"
    assert not flock.contains(ALICE, 12)
    assert flock.ids(10, forward=False) == [ALICE]


def test_the_deprecated_methods_answer_as_the_new_ones(flock: FlockDbClient) -> None:
    add(flock, ALICE, 10, 11)
    add(flock, BOB, 10)
    assert flock.call("count", operations=[simple(ALICE)]) == 2
    both = [simple(10, forward=False), simple(11, forward=False), combining(INTERSECTION)]
    assert selected(flock.call("select", operations=both, page=page(5))).ids == [ALICE]
    counts = flock.call("counts_of_destinations_for", source_ids=packed((1, 2, 3)), graph_id=1)
    assert counts == b"\x02\0\0\0\x01\0\0\0\0\0\0\0"
    counts = flock.call("counts_of_sources_for", destination_ids=packed((10,)), graph_id=1)
    assert counts == b"\x02\0\0\0"


def test_whole_edges_are_answered_by_position_or_by_id(flock: FlockDbClient) -> None:
    for position, other in enumerate((30, 10, 20), 5):
        add(flock, ALICE, other, position=position)
    lone = shapes.EdgeQuery(term=term(ALICE), page=page(2))
    among = shapes.EdgeQuery(term=term(ALICE, others=[10, 30, 31]), page=page(5))
    first, second = flock.call("select_edges", queries=[lone, among])
    assert [(edge.destination_id, edge.position) for edge in first.edges] == [(20, 7), (10, 6)]
    assert (first.next_cursor, first.prev_cursor) == (6, 0)
    assert [(edge.destination_id, edge.position, edge.state_id) for edge in second.edges] == [(30, 5, 0), (10, 6, 0)]


@pytest.mark.parametrize(
    ("program", "match"),
    [
        ([], "leaves 0"),
        ([simple(1), simple(2)], "leaves 2"),
        ([simple(1), combining(UNION)], "fewer"),
        ([combining(9)], "no operation 9"),
        ([simple(1, 99)], "no graph 99.*flockdb_graphs"),
        ([simple(-1)], "source_id"),
        ([simple(1, states=[7])], "states are"),
        ([simple(1, others=[-5])], "an id must"),
        ([shapes.SelectOperation(operation_type=1)], "lacks its term"),
        ([simple(1)] + [simple(1), combining(UNION)] * 64, "64 lists"),
    ],
    ids=[
        "empty",
        "two results",
        "one operand",
        "unknown",
        "no graph",
        "bad id",
        "bad state",
        "bad ids",
        "no term",
        "many",
    ],
)
def test_a_program_that_cannot_be_answered_says_why(flock: FlockDbClient, program: list[Any], match: str) -> None:
    with pytest.raises(shapes.FlockException, match=match):
        flock.select(program, 5)


@pytest.mark.parametrize("count", [0, -1, 50_001])
def test_a_page_of_no_rows_or_of_too_many_is_refused(flock: FlockDbClient, count: int) -> None:
    with pytest.raises(shapes.FlockException, match="a page has 1 to"):
        flock.select([simple(1)], count)


@pytest.mark.parametrize("others", [None, [2]], ids=["by position", "by id"])
def test_a_cursor_that_no_row_can_have_is_refused(flock: FlockDbClient, others: list[int] | None) -> None:
    with pytest.raises(shapes.FlockException, match=r"a cursor is -9223372036854775807 or more"):
        flock.select([simple(1, others=others)], 5, -(2**63))
    for furthest in (2**63 - 1, 1 - 2**63):
        assert flock.select([simple(1, others=others)], 5, furthest) == ([], 0, 0)


@pytest.mark.parametrize("method", ["select2", "count2", "select_edges"])
def test_a_call_that_lacks_its_queries_says_so(flock: FlockDbClient, method: str) -> None:
    with pytest.raises(shapes.FlockException, match="this one lacks it"):
        flock.call(method, queries=None)


@pytest.mark.parametrize(("method", "bound"), [("select2", "ROWS_MAX"), ("select_edges", "EDGE_ROWS_MAX")])
def test_the_answers_to_the_queries_of_a_call_are_bounded_together(
    flock: FlockDbClient, monkeypatch: pytest.MonkeyPatch, method: str, bound: str
) -> None:
    flock.execute(ADD, term(ALICE, others=[BOB, 3]))
    one = {
        "select2": shapes.SelectQuery(operations=[simple(ALICE)], page=page(10)),
        "select_edges": shapes.EdgeQuery(term=term(ALICE), page=page(10)),
    }[method]
    monkeypatch.setattr(calls, bound, 4)
    assert len(flock.call(method, queries=[one, one])) == 2
    with pytest.raises(shapes.FlockException, match="4 rows at most"):
        flock.call(method, queries=[one, one, one])
