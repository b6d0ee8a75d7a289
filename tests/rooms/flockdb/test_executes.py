"""Writes of FlockDB: positions, versions, archived sides of nodes, and jobs that outlive a failure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from cast import START_MS
from coroutines import without_waits
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
    term,
)

from kith.core.errors import BadRequest, StoreFull
from kith.flockdb import jobs as queues
from kith.flockdb.interface import shapes
from kith.graph.store import EdgeStore

from .conftest import Service

ALICE, BOB, CAROL = 1, 2, 3
NOW_S = START_MS // 1000


@pytest.fixture(autouse=True)
def fast() -> Iterator[None]:
    with without_waits():
        yield


def test_adding_again_keeps_the_place_and_adding_after_a_removal_takes_a_new_one(service: Service) -> None:
    flock, clock = service.flock, service.clock
    flock.execute(ADD, term(ALICE, others=[BOB]))
    clock.ms += 5_000
    flock.execute(ADD, term(ALICE, others=[BOB]), position=77)
    assert flock.edge(ALICE, BOB).position == START_MS
    flock.execute(REMOVE, term(ALICE, others=[BOB]))
    removed = flock.edge(ALICE, BOB)
    assert (removed.state_id, removed.updated_at) == (REMOVED, NOW_S + 5)
    flock.execute(ADD, term(ALICE, others=[BOB]))
    assert flock.edge(ALICE, BOB).position == START_MS + 5_000


def test_adding_an_archived_edge_keeps_its_place_and_a_negative_one_gets_a_new_one(flock: FlockDbClient) -> None:
    for change, place in ((ARCHIVE, 5), (NEGATE, 99)):
        flock.execute(ADD, term(ALICE, others=[change]), position=5)
        flock.execute(change, term(ALICE, others=[change]))
        flock.execute(ADD, term(ALICE, others=[change]), position=99)
        edge = flock.edge(ALICE, change)
        assert (edge.state_id, edge.position) == (POSITIVE, place)


@pytest.mark.parametrize("at", [None, NOW_S - 10], ids=["now", "at a time"])
@pytest.mark.parametrize("was", [REMOVE, NEGATE])
def test_an_edge_added_again_while_a_side_is_archived_keeps_its_place(
    service: Service, at: int | None, was: int
) -> None:
    flock, add = service.flock, {} if at is None else {"at": at}
    flock.execute(ADD, term(ALICE, others=[BOB]), position=5, at=NOW_S - 30)
    flock.execute(was, term(ALICE, others=[BOB]), at=NOW_S - 25)
    flock.execute(ARCHIVE, term(BOB, forward=False), at=NOW_S - 20)
    service.settle()
    flock.execute(ADD, term(ALICE, others=[BOB]), position=99, **add)
    edge = flock.edge(ALICE, BOB)
    assert (edge.state_id, edge.position) == (ARCHIVED, 5)
    flock.execute(ADD, term(BOB, forward=False))
    service.settle()
    edge = flock.edge(ALICE, BOB)
    assert (edge.state_id, edge.position) == (POSITIVE, 5), "as in FlockDB, which gives places to positive edges alone"


def test_operations_of_one_call_have_the_result_of_single_calls(service: Service) -> None:
    """Two may name the same edge: whether the second one keeps the position depends on what the first one did."""
    flock, seed = service.flock, random.randrange(2**32)
    rng = random.Random(seed)
    for at_once, one_by_one in ((node, node + 1) for node in range(100, 130, 2)):
        asked = [
            (rng.choice([ADD, ADD, REMOVE, ARCHIVE, NEGATE]), rng.choices(range(1, 4), k=2), rng.randrange(5, 9))
            for _ in range(5)
        ]
        flock.execute_all(*((change, term(at_once, others=others), position) for change, others, position in asked))
        for change, others, position in asked:
            flock.execute(change, term(one_by_one, others=others), position=position)
        for other in {other for _, others, _ in asked for other in others}:
            told = [flock.edge(node, other) for node in (at_once, one_by_one)]
            assert len({(edge.state_id, edge.position) for edge in told}) == 1, f"seed {seed}: {asked}"


def test_missing_edges_and_missing_metadata_are_exceptions(flock: FlockDbClient) -> None:
    with pytest.raises(shapes.FlockException, match=r"Record not found: \(1, 1, 2\)"):
        flock.edge(ALICE, BOB)
    with pytest.raises(shapes.FlockException, match="Record not found"):
        flock.call("get_metadata", source_id=ALICE, graph_id=1)
    assert not flock.call("contains_metadata", source_id=ALICE, graph_id=1)
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    assert flock.call("contains_metadata", source_id=ALICE, graph_id=1)
    assert flock.call("get_metadata", source_id=ALICE, graph_id=1).count == 2


def test_operations_with_a_time_give_one_result_in_any_order(service: Service) -> None:
    flock = service.flock
    operations = [(ADD, 10), (REMOVE, 20), (NEGATE, 30), (ADD, 40), (ARCHIVE, 25), (REMOVE, 40), (NEGATE, 40)]
    rng = random.Random(5)
    results = set()
    for node in range(100, 112):
        for change, at in rng.sample(operations * 2, len(operations) * 2):
            flock.execute(change, term(node, others=[BOB]), at=NOW_S - 100 + at, position=at)
        edge = flock.edge(node, BOB)
        results.add((edge.state_id, edge.updated_at))
    assert results == {(REMOVED, NOW_S - 60)}, "at 40 the greatest state wins"


@pytest.mark.parametrize("priority", [LOW, HIGH])
@pytest.mark.parametrize("removed_first", [True, False])
def test_of_operations_of_one_second_the_greater_state_wins_wherever_they_stand_in_a_call(
    service: Service, priority: int, removed_first: bool
) -> None:
    flock = service.flock
    removes = [(REMOVE, term(ALICE, others=[BOB]), None)]
    adds = [(ADD, term(ALICE, others=[other]), None) for other in (CAROL, BOB)]
    for operations in (removes, adds) if removed_first else (adds, removes):
        flock.execute_all(*operations, at=NOW_S - 60, priority=priority)
    service.settle()
    assert flock.edge(ALICE, BOB).state_id == REMOVED
    flock.execute_all(*removes, *adds, at=NOW_S - 30, priority=priority)
    service.settle()
    assert flock.edge(ALICE, BOB).state_id == REMOVED
    assert flock.edge(ALICE, BOB).updated_at == NOW_S - 30


@pytest.mark.parametrize("at", [0, -5])
@pytest.mark.parametrize("priority", [LOW, HIGH])
def test_an_operation_with_the_time_0_is_older_than_every_edge(service: Service, at: int, priority: int) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[BOB]))
    flock.execute(REMOVE, term(ALICE, others=[BOB, CAROL]), at=at, priority=priority)
    flock.execute(REMOVE, term(ALICE), at=at, priority=priority)
    service.settle()
    assert flock.ids(ALICE) == [BOB]
    assert flock.edge(ALICE, CAROL).updated_at == 0


def test_an_operation_for_later_waits_and_beats_those_that_came_meanwhile(service: Service) -> None:
    flock, clock = service.flock, service.clock
    flock.execute(ADD, term(ALICE, others=[BOB]), at=NOW_S + 60)
    service.settle()
    assert not flock.contains(ALICE, BOB)
    clock.ms += 30_000
    flock.execute(REMOVE, term(ALICE, others=[BOB]))
    clock.ms += 30_000
    service.settle()
    assert flock.contains(ALICE, BOB)
    assert flock.edge(ALICE, BOB).updated_at == NOW_S + 60


def test_archiving_a_side_archives_its_edges_and_those_added_meanwhile(service: Service) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=range(10, 20)))
    flock.execute(ADD, term(BOB, others=[10]))
    flock.execute(ARCHIVE, term(ALICE))
    service.settle()
    assert flock.ids(ALICE) == []
    assert flock.count(ALICE, states=[ARCHIVED]) == 10
    assert flock.ids(10, forward=False) == [BOB]
    flock.execute(ADD, term(ALICE, others=[99]))
    assert flock.edge(ALICE, 99).state_id == ARCHIVED
    assert flock.call("get_metadata", source_id=ALICE, graph_id=1).state_id == ARCHIVED
    flock.execute(ADD, term(ALICE))
    service.settle()
    assert set(flock.ids(ALICE)) == {*range(10, 20), 99}
    assert flock.call("get_metadata", source_id=ALICE, graph_id=1).state_id == 0
    assert flock.contains(CAROL, 99) is False


def test_archiving_and_adding_all_take_negative_edges_along(service: Service) -> None:
    flock = service.flock
    flock.execute(NEGATE, term(ALICE, others=[BOB]), position=5)
    flock.execute(ARCHIVE, term(ALICE))
    service.settle()
    flock.execute(NEGATE, term(ALICE, others=[CAROL]), position=6)
    assert set(flock.ids(ALICE, states=[ARCHIVED])) == {BOB, CAROL}
    flock.execute(ADD, term(ALICE))
    service.settle()
    assert flock.ids(ALICE) == [CAROL, BOB]
    flock.execute(NEGATE, term(ALICE, others=[BOB]))
    flock.execute(ADD, term(ALICE))
    service.settle()
    assert [flock.edge(ALICE, other).position for other in flock.ids(ALICE)] == [6, 5]


def test_the_order_of_operations_with_a_time_decides_positions_alone(flock: FlockDbClient) -> None:
    adds = [(5, NOW_S - 20), (9, NOW_S - 10)]
    for node, order in ((ALICE, adds), (BOB, adds[::-1])):
        for position, at in order:
            flock.execute(ADD, term(node, others=[CAROL]), at=at, position=position)
    told = [flock.edge(node, CAROL) for node in (ALICE, BOB)]
    assert [(edge.state_id, edge.updated_at) for edge in told] == [(POSITIVE, NOW_S - 10)] * 2
    assert [edge.position for edge in told] == [5, 9], "its first position"


def test_an_edge_of_a_node_with_itself_is_stored(flock: FlockDbClient) -> None:
    flock.execute(ADD, term(ALICE, others=[ALICE]))
    assert flock.ids(ALICE) == flock.ids(ALICE, forward=False) == [ALICE]


def test_an_edge_stays_archived_while_its_other_end_is(service: Service) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    flock.execute(ARCHIVE, term(ALICE))
    service.settle()
    flock.execute(ARCHIVE, term(BOB, forward=False))
    service.settle()
    flock.execute(ADD, term(ALICE))
    service.settle()
    assert flock.ids(ALICE) == [CAROL]
    assert flock.edge(ALICE, BOB).state_id == ARCHIVED
    flock.execute(ADD, term(BOB, forward=False))
    service.settle()
    assert set(flock.ids(ALICE)) == {BOB, CAROL}


def test_removing_all_leaves_what_is_added_after_it(service: Service) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=range(10, 700)))
    flock.execute(NEGATE, term(ALICE, others=[10]))
    flock.execute(REMOVE, term(ALICE))
    flock.execute(ADD, term(ALICE, others=[11, 5]))
    service.settle()
    assert set(flock.ids(ALICE)) == {5, 11}
    assert flock.count(ALICE, states=[REMOVED]) == 689
    flock.execute(NEGATE, term(ALICE))
    service.settle()
    assert set(flock.ids(ALICE, states=[NEGATIVE])) == {5, 11}


def test_queues_do_not_block_each_other_and_urgent_work_is_done_first(service: Service) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[10]), priority=LOW)
    assert not flock.contains(ALICE, 10), "it waits for its turn"
    flock.execute(ADD, term(ALICE, others=[11]), priority=MEDIUM)
    flock.execute(ADD, term(ALICE, others=[12]), priority=HIGH)
    assert flock.contains(ALICE, 11)
    assert flock.contains(ALICE, 12)
    service.settle()
    assert flock.contains(ALICE, 10)


def test_a_job_that_is_cut_short_resumes_where_it_was(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, graph = service.flock, service.graph
    flock.execute(ADD, term(ALICE, others=range(10, 2_000)))
    flock.execute(ARCHIVE, term(ALICE))
    apply, calls = graph.store.apply, [0]

    async def dies(writes: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise StoreFull("the disk is full")
        return await apply(writes)

    monkeypatch.setattr(graph.store, "apply", dies)
    with pytest.raises(StoreFull):
        service.settle()
    assert 0 < flock.count(ALICE) < 1_990
    service.settle()
    assert flock.count(ALICE) == 0
    assert flock.count(ALICE, states=[ARCHIVED]) == 1_990
    assert service.run(service.jobs.waiting()) == 0


def test_a_job_that_fails_waits_then_dies_and_can_be_retried(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, executes = service.flock, queues.Executes
    of_list = executes.of_list

    async def refuses(*_: Any) -> None:
        raise BadRequest("not today")

    flock.execute(ADD, term(ALICE, others=[BOB]))
    flock.execute(NEGATE, term(ALICE))
    monkeypatch.setattr(executes, "of_list", refuses)
    for _ in range(queues.TRIES_MAX):
        assert service.run(service.jobs.waiting()) == 1
        service.settle()
        service.settle()  # nothing is retried before its time
        service.clock.ms += 61_000
    assert service.run(service.jobs.waiting()) == 0
    monkeypatch.setattr(executes, "of_list", of_list)
    assert service.run(service.jobs.retry_dead()) == 1
    service.settle()
    assert flock.ids(ALICE, states=[NEGATIVE]) == [BOB]


def test_fields_that_a_newer_kith_added_to_a_job_are_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_PAGE", 2)
    store, checkpoints = service.graph.store, list[Any]()
    service.flock.execute(ADD, term(ALICE, others=range(10, 15)))
    service.flock.execute(ARCHIVE, term(ALICE))
    ((key, raw),) = service.run(store.notes("flockdb/job/")).items()
    service.run(store.put_note(key, msgspec.msgpack.encode({"pace": [7], **msgspec.msgpack.decode(raw)})))
    put = store.put_note

    async def seen(key: str, value: bytes | None, **condition: Any) -> bool:
        checkpoints.extend([] if value is None else [msgspec.msgpack.decode(value)])
        return await put(key, value, **condition)

    monkeypatch.setattr(store, "put_note", seen)
    service.settle()
    assert service.flock.count(ALICE, states=[ARCHIVED]) == 5
    assert len(checkpoints) > 2
    assert all(one["pace"] == [7] for one in checkpoints)


def test_jobs_that_name_too_many_edges_together_are_refused_until_some_are_done(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "JOBS_BYTES_MAX", 2_000)

    def queue(node: int) -> None:
        service.flock.execute(ADD, term(node, others=range(100)), priority=LOW)

    for node in (1, 2):
        queue(node)
    with pytest.raises(shapes.FlockException, match="deferred operations are waiting"):
        queue(3)
    service.settle()
    queue(3)
    service.settle()
    assert [service.flock.count(node) for node in (1, 2, 3)] == [100, 100, 100]


def test_a_new_job_does_not_reread_all_waiting_ones(
    service: Service, store: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, notes = list[str](), store.notes

    async def seen(prefix: str) -> dict[str, bytes]:
        reads.append(prefix)
        return await notes(prefix)

    monkeypatch.setattr(store, "notes", seen)
    for node in range(250):
        service.flock.execute(ARCHIVE, term(node))
    assert len(reads) == 3


def test_too_many_jobs_or_edges_are_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "JOBS_MAX", 2)
    for node in (1, 2):
        service.flock.execute(ARCHIVE, term(node))
    with pytest.raises(shapes.FlockException, match="deferred operations are waiting"):
        service.flock.execute(ARCHIVE, term(3))
    with pytest.raises(shapes.FlockException, match="100000 edges at most"):
        service.flock.execute(ADD, term(1, others=[1] * 100_001))
    for fields, match in (({"priority": 9}, "priority"), ({"at": None}, "no operation")):
        with pytest.raises(shapes.FlockException, match=match):
            service.flock.execute(9 if "at" in fields else ADD, term(1, others=[2]), **fields)
