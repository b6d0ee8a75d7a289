"""What every EdgeStore must do about nodes, notes, graphs and the scan of all edges. See `test_edge_store`."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, run_coroutine
from edges import OUT, G, edge_of, fill, state_of, writes_of
from engines import Engine

from kith.core.clock import Hlc
from kith.core.errors import BadRequest
from kith.core.ids import ID_MAX
from kith.graph.audit import audit
from kith.graph.edge import Edge, EdgeWrite, Outcome, State
from kith.graph.shapes import EdgeEnds, Node
from kith.graph.store import EdgeStore

PORT = "edges"

# --- the scan ------------------------------------------------------------------------------------------


async def stored(store: EdgeStore) -> list[Edge]:
    """All edges of the graph, by their rows."""
    return [edge async for chunk in store.stored(G) for edge in chunk]


def test_the_scan_shows_every_row_once_and_each_can_be_read_again(store: EdgeStore, run: Run) -> None:
    async def scanned() -> list[EdgeEnds]:
        return [ends async for chunk in store.edges(G) for ends in chunk]

    ids = [0, 1, 255, 256, ID_MAX]
    edges = [edge_of(*pair, state=State((pair[0] + pair[1]) % 4)) for pair in product(ids, ids)]
    run(store.apply(writes_of(*edges[::-1])))
    ends_by_pair = {(ends.edge.source, ends.edge.destination): ends for ends in run(scanned())}
    assert all(ends.agree for ends in ends_by_pair.values())
    assert [ends_by_pair[edge.source, edge.destination].edge for edge in edges] == edges
    assert len(run(scanned())) == len(edges)
    assert run(store.ends(G, [(1, 17), *ends_by_pair, (ID_MAX, 2)])) == [None, *ends_by_pair.values(), None]
    assert run(stored(store)) == [ends.edge for ends in ends_by_pair.values()]


def test_the_scan_of_an_empty_graph_has_no_rows(store: EdgeStore, run: Run) -> None:
    async def scanned() -> list[Any]:
        return [ends async for chunk in store.edges(G) for ends in chunk]

    assert run(scanned()) == run(stored(store)) == []


def test_the_scan_crosses_its_chunks_without_loss(store: EdgeStore, run: Run) -> None:
    async def chunks() -> list[int]:
        return [len(chunk) async for chunk in store.edges(G)]

    run(store.apply(writes_of(*(edge_of(index // 50, index % 50) for index in range(4_001)))))
    sizes = run(chunks())
    assert sum(sizes) == 4_001
    assert len(sizes) > 1
    assert all(sizes)
    assert len(run(stored(store))) == 4_001


def test_a_sound_store_has_nothing_to_repair(store: EdgeStore, run: Run) -> None:
    run(fill(store, 200))
    run(store.repair([edge_of(ALICE, 3)]))
    assert run(store.check_counts(G, True)) == []
    assert run(audit(store, "follows", G, repair=True)).clean
    assert run(store.count_many([OUT])) == [200]


# --- nodes, notes, graphs ------------------------------------------------------------------------------


def test_a_change_of_a_node_keeps_the_fields_it_does_not_name(store: EdgeStore, run: Run) -> None:
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
        assert run(store.change_node(DANA, **change)).node == expected
        assert run(store.nodes([ALICE, DANA, 0, DANA])) == [Node(), expected, Node(), expected]


def test_a_node_changes_only_from_the_required_state(store: EdgeStore, run: Run) -> None:
    assert run(store.change_node(DANA, state=State.ARCHIVED, only_from=State.REMOVED)).node == Node()
    assert run(store.change_node(DANA, private=True, only_from=State.ARCHIVED)).node == Node()
    assert run(store.nodes([DANA])) == [Node()]
    assert run(store.change_node(DANA, state=State.ARCHIVED, only_from=State.NORMAL)).node == Node(State.ARCHIVED)
    assert run(store.change_node(DANA, private=True, only_from=State.ARCHIVED)).node == Node(State.ARCHIVED, True)


@pytest.mark.parametrize("away", [ALICE, BOB])
@pytest.mark.parametrize("state", [State.ARCHIVED, State.REMOVED])
def test_an_edge_added_to_an_inactive_node_is_stored_in_the_state_of_the_node(
    store: EdgeStore, run: Run, away: int, state: State
) -> None:
    run(store.change_node(away, state=state))
    (change,) = run(store.apply(writes_of(edge_of(ALICE, BOB, 4))))
    assert change.after == edge_of(ALICE, BOB, 4, state)
    run(store.apply([EdgeWrite(edge_of(ALICE, BOB, 9), supersede=True, keep_place=True)]))
    assert run(store.get_many(G, [(ALICE, BOB)])) == [edge_of(ALICE, BOB, 4, state, 1)]
    run(store.apply(writes_of(edge_of(ALICE, CAROL, 1, State.NEGATIVE))))
    assert run(store.get_many(G, [(ALICE, CAROL)])) == [edge_of(ALICE, CAROL, 1, State.NEGATIVE)]


def test_a_post_does_not_take_the_state_of_a_user_with_the_same_id(store: EdgeStore, run: Run) -> None:
    """The app chooses the ids of users, so they may equal ids of posts."""
    numbers = run(store.declare(["follows", "likes", "comments"]))
    run(store.change_node(DANA, state=State.REMOVED))
    conditional = [
        ("likes", ALICE, DANA), ("comments", DANA, BOB), ("comments", BOB, DANA),
        ("likes", DANA, BOB), ("follows", ALICE, DANA), ("follows", DANA, BOB),
    ]  # fmt: skip
    for version in (1, 2):  # version 1 adds edges, version 2 merges with them
        edges = [Edge(numbers[graph], *ends, State.NORMAL, version, Hlc(version)) for graph, *ends in conditional]
        changes = [run(store.apply([EdgeWrite(edge)]))[0] for edge in edges]
        in_one_call = run(store.apply([EdgeWrite(msgspec.structs.replace(edge, updated_at=Hlc(10))) for edge in edges]))
        states = [edge.after.state for edge in changes if edge.after]
        assert states == [State.NORMAL] * 3 + [State.REMOVED] * 3
        assert [edge.after.state for edge in in_one_call if edge.after] == states
    active = EdgeWrite(Edge(numbers["likes"], BOB, DANA, State.NORMAL, 1, Hlc(1)), if_active=True)
    assert [edge.outcome for edge in run(store.apply([active]))] == [Outcome.APPLIED]


def test_a_write_for_one_state_of_a_node_is_skipped_in_another(store: EdgeStore, run: Run) -> None:
    def write(version: int) -> Outcome:
        edge = edge_of(ALICE, BOB, state=State.ARCHIVED, version=version)
        return run(store.apply([EdgeWrite(edge, while_node=(ALICE, State.ARCHIVED))]))[0].outcome

    assert write(1) is Outcome.UNCHANGED
    run(store.change_node(ALICE, state=State.ARCHIVED))
    assert write(2) is Outcome.APPLIED
    run(store.change_node(ALICE, state=State.NORMAL))
    assert write(3) is Outcome.UNCHANGED


@pytest.mark.parametrize("there", [True, False])
def test_a_write_on_condition_of_another_edge_is_skipped_if_that_does_not_hold(
    store: EdgeStore, run: Run, there: bool
) -> None:
    def outcome(version: int, *before: EdgeWrite) -> Outcome:
        write = EdgeWrite(edge_of(ALICE, BOB, version=version), while_edge=(G, ALICE, CAROL, there))
        return run(store.apply([*before, write]))[-1].outcome

    outcomes = {True: Outcome.APPLIED, False: Outcome.UNCHANGED}
    assert outcome(1) is outcomes[not there], "no row counts as no edge"
    for version, state in enumerate((State.NORMAL, State.NEGATIVE, State.NORMAL, State.ARCHIVED, State.REMOVED), 2):
        run(store.apply([EdgeWrite(edge_of(ALICE, CAROL, state=state), supersede=True)]))
        assert outcome(version) is outcomes[(state == State.NORMAL) == there]
    added = EdgeWrite(edge_of(ALICE, CAROL), supersede=True)
    assert outcome(9, added) is outcomes[there], "the condition sees the write before it"


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


def test_a_note_is_changed_only_from_the_value_that_its_writer_read(store: EdgeStore, run: Run) -> None:
    async def race() -> list[bool]:
        return await asyncio.gather(*(store.put_note("lease", b"%d" % number, only_if=b"free") for number in range(20)))

    assert run(store.put_note("lease", b"free", only_if=b"other")) is False
    assert run(store.get_note("lease")) is None
    assert run(store.put_note("lease", b"free", only_if=None)) is True
    assert run(store.put_note("lease", b"mine", only_if=None)) is False
    won = run(race())
    assert won.count(True) == 1
    assert run(store.get_note("lease")) == b"%d" % won.index(True)
    assert run(store.put_note("lease", None, only_if=b"free")) is False
    assert run(store.put_note("lease", None, only_if=b"%d" % won.index(True))) is True
    assert run(store.put_note("lease", b"")) is True, "without a condition it always writes"
    assert run(store.put_note("lease", None, only_if=None)) is False, "an empty note counts as a note"


def test_declaring_gives_each_name_one_number_for_ever(store: EdgeStore, run: Run) -> None:
    first = dict(run(store.declare(["follows", "likes", "saves"])))
    assert first["follows"] == G
    assert len(set(first.values())) == 3
    later_numbers = run(store.declare(["shares", "saves", "follows"]))
    assert {name: later_numbers[name] for name in first} == first
    assert later_numbers["shares"] not in first.values()
    assert dict(run(store.declare([]))) == dict(later_numbers)


def test_a_bad_name_declares_nothing(store: EdgeStore, run: Run) -> None:
    for name in ("", "Follows", "1st", "a" * 33, "a-b"):
        with pytest.raises(BadRequest):
            run(store.declare(["fine", name]))
    assert dict(run(store.declare([]))) == {"follows": G}


def test_at_most_255_graphs_can_be_declared(store: EdgeStore, run: Run) -> None:
    numbers = run(store.declare([f"g{number}" for number in range(254)]))
    assert sorted(numbers.values()) == list(range(1, 256))
    with pytest.raises(BadRequest):
        run(store.declare(["one_more"]))
    edge = Edge(255, ALICE, BOB, State.NORMAL, 1, edge_of(1, 2).updated_at)
    run(store.apply(writes_of(edge)))
    assert run(store.get_many(255, [(ALICE, BOB)])) == [edge]


def test_the_store_is_the_same_after_it_is_reopened(lasting: Engine, tmp_path: Path) -> None:
    assert lasting.edges

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

    with lasting.edges(tmp_path) as store:
        before = run_coroutine(write(store))
    with lasting.edges(tmp_path) as store:
        assert run_coroutine(read(store)) == before
