"""Jobs of FlockDB's clients: over a store that fails for a while, and run in another order than they were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import msgspec
import pytest
import structlog
from cast import START_MS
from coroutines import without_waits
from flockdb_client import ADD, ARCHIVE, ARCHIVED, HIGH, LOW, MEDIUM, POSITIVE, term
from reference_leases import own_leases

from kith.core.errors import Conflict, LeaseLost, Overloaded, StoreFull, StoreUnavailable, Unavailable
from kith.core.ids import NodeId
from kith.flockdb import jobs as queues
from kith.flockdb.interface import Priority
from kith.graph.edge import EdgeWrite, State

from .conftest import Service

ALICE, BOB, CAROL = 1, 2, 3
TURNS_MAX = 10_000


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(queues, "_POLL_S", 0.001)
    with without_waits():
        yield


@pytest.mark.parametrize("error", [Overloaded, StoreFull, StoreUnavailable, LeaseLost])
def test_jobs_continue_after_the_store_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: type[Unavailable]
) -> None:
    service.flock.execute(ADD, term(ALICE, others=[BOB]), priority=LOW)
    notes, left = service.graph.store.notes, 7

    async def sometimes(prefix: str) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error("not now")
        return await notes(prefix)

    monkeypatch.setattr(service.graph.store, "notes", sometimes)

    async def scene() -> None:
        running = asyncio.create_task(service.jobs.run(own_leases()))
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if running.done() or (left < 0 and not await service.jobs.waiting()):
                break
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    with structlog.testing.capture_logs() as logs:
        service.run(scene())
    assert service.flock.contains(ALICE, BOB)
    assert {"event": "jobs wait for the store", "error": "not now", "log_level": "warning"} in logs


def states(service: Service) -> tuple[list[int], int]:
    """The states of Alice's edges to Bob and Carol, and of her side."""
    edges = [service.flock.edge(ALICE, other).state_id for other in (BOB, CAROL)]
    return edges, service.flock.call("get_metadata", source_id=ALICE, graph_id=1).state_id


@pytest.mark.parametrize("order", list(permutations((LOW, MEDIUM, HIGH))))
@pytest.mark.parametrize(
    ("changes", "left"), [((ADD, ARCHIVE, ADD), POSITIVE), ((ARCHIVE, ADD, ARCHIVE), ARCHIVED)], ids=("back", "away")
)
def test_the_newest_operation_on_all_edges_decides_whichever_is_done_last(
    service: Service, changes: tuple[int, ...], left: int, order: tuple[int, ...]
) -> None:
    service.flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    for change, priority in zip(changes, order, strict=True):
        service.clock.ms += 1_000
        service.flock.execute(change, term(ALICE), priority=priority)
    service.settle()
    assert states(service) == ([left, left], left)
    service.flock.execute(ADD, term(ALICE, others=[4]))
    assert service.flock.edge(ALICE, 4).state_id == left


def test_a_retried_archive_does_not_undo_later_operations(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))

    async def refuses(*_: Any) -> None:
        raise Conflict("not now")

    service.clock.ms += 1_000
    flock.execute(ARCHIVE, term(ALICE))
    with monkeypatch.context() as patched:
        patched.setattr(queues.Executes, "of_list", refuses)
        service.settle()
    service.clock.ms += 1
    flock.execute(ADD, term(ALICE))
    service.settle()
    service.clock.ms += 60_000
    service.settle()
    assert service.run(service.jobs.waiting()) == 0
    assert states(service) == ([POSITIVE, POSITIVE], POSITIVE)


def test_an_archive_that_is_overtaken_between_two_pages_archives_nothing_more(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_PAGE", 1)
    flock, jobs, of_list = service.flock, service.jobs, queues.Executes.of_list
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    service.clock.ms += 1_000
    flock.execute(ARCHIVE, term(ALICE), priority=LOW)
    service.clock.ms += 1_000
    flock.execute(ADD, term(ALICE), priority=HIGH)

    async def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(queues.Executes, "of_list", of_list)
        await of_list(*arguments)
        await jobs._run_due(Priority.HIGH, lambda: None)

    monkeypatch.setattr(queues.Executes, "of_list", overtaken)
    service.run(jobs._run_due(Priority.LOW, lambda: None))
    assert service.run(jobs.waiting()) == 0
    assert states(service) == ([POSITIVE, POSITIVE], POSITIVE)


def test_a_side_may_have_the_number_of_a_user_who_was_removed(service: Service) -> None:
    side = 2 * service.graph.graphs.number("follows")
    service.run(service.graph.store.change_node(side, state=State.REMOVED))
    service.flock.execute(ADD, term(ALICE, others=[4]))
    service.flock.execute(ARCHIVE, term(ALICE))
    service.settle()
    service.flock.execute(ADD, term(ALICE, others=[5]))
    assert [service.flock.edge(ALICE, other).state_id for other in (4, 5)] == [ARCHIVED, ARCHIVED]


def all_die(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every job fail until it is dead."""

    async def refuses(*_: Any) -> None:
        raise Conflict("not now")

    with monkeypatch.context() as patched:
        patched.setattr(queues.Executes, "edges", refuses)
        for _ in range(queues.TRIES_MAX):
            service.clock.ms += 61_000
            service.settle()
    assert service.run(service.jobs.waiting()) == 0


def test_jobs_of_one_second_that_die_one_after_the_other_are_all_retried(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two are dead while the third, which has the version of the first, waits."""
    flock, at = service.flock, START_MS // 1000 + 10
    for other in (BOB, CAROL):
        flock.execute(ADD, term(ALICE, others=[other]), at=at, priority=LOW)
        all_die(service, monkeypatch)
    flock.execute(ADD, term(ALICE, others=[4]), at=at, priority=LOW)
    assert service.run(service.jobs.retry_dead()) == 2
    service.settle()
    assert all(flock.contains(ALICE, other) for other in (BOB, CAROL, 4))


def test_of_two_operations_for_one_second_the_one_that_comes_later_decides(service: Service) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    at = service.clock.ms // 1000 + 5
    service.clock.ms += 10_000
    for change, left in ((ARCHIVE, ARCHIVED), (ADD, POSITIVE), (ARCHIVE, ARCHIVED)):
        flock.execute(change, term(ALICE), at=at)
        service.settle()
        assert states(service)[1] == left


def test_many_operations_for_one_second_are_queued_with_a_write_each(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, put_note = 0, service.graph.store.put_note

    async def counted(*args: Any, **kwargs: Any) -> bool:
        nonlocal written
        written += 1
        return await put_note(*args, **kwargs)

    monkeypatch.setattr(service.graph.store, "put_note", counted)
    for other in range(100, 200):
        service.flock.execute(ADD, term(ALICE, others=[other]), at=START_MS // 1000, priority=LOW)
    assert written <= 102
    service.settle()
    assert service.flock.count(ALICE) == 100


def test_dead_jobs_of_one_version_and_different_priorities_are_all_retried(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, store, at = service.flock, service.graph.store, START_MS // 1000 + 10
    for other, priority in ((BOB, LOW), (CAROL, MEDIUM), (4, HIGH)):
        flock.execute(ADD, term(ALICE, others=[other]), at=at, priority=priority)

    all_die(service, monkeypatch)
    (key, raw), *_ = service.run(store.notes("flockdb/dead/")).items()
    service.run(store.put_note(key, None))
    service.run(store.put_note(f"flockdb/dead/{key.rpartition('/')[2]}", raw))  # as an older Kith wrote it
    assert service.run(service.jobs.retry_dead()) == 3
    service.settle()
    assert all(flock.contains(ALICE, other) for other in (BOB, CAROL, 4))
    assert service.run(service.jobs.retry_dead()) == 0


def test_an_edge_that_was_in_flight_is_archived_with_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was decided before the side was archived, and shows once the barrier is passed."""
    flock, store = service.flock, service.graph.store
    flock.execute(ADD, term(ALICE, others=[BOB]))
    (edge,) = service.run(store.get_many(service.graph.graphs.number("follows"), [(ALICE, BOB)]))
    service.clock.ms += 1_000
    flock.execute(ARCHIVE, term(ALICE))

    async def shows() -> None:
        await store.apply([EdgeWrite(msgspec.structs.replace(edge, destination=NodeId(CAROL)))])

    monkeypatch.setattr(store, "barrier", shows)
    service.settle()
    assert states(service) == ([ARCHIVED, ARCHIVED], ARCHIVED)


def test_an_operation_on_all_edges_waits_for_all_owners_and_blocks_no_other(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = service.flock
    flock.execute(ADD, term(ALICE, others=[BOB, CAROL]))
    service.clock.ms += 1_000
    flock.execute(ARCHIVE, term(ALICE), priority=LOW)
    flock.execute(ADD, term(BOB, others=[CAROL]), at=service.clock.ms // 1000, priority=LOW)

    async def away() -> None:
        raise StoreUnavailable("nobody decides for some of them")

    with monkeypatch.context() as patched:
        patched.setattr(service.graph.store, "barrier", away)
        for _ in range(2 * queues.TRIES_MAX):
            service.clock.ms += 61_000
            service.settle()
    assert flock.contains(BOB, CAROL)
    assert states(service)[0] == [POSITIVE, POSITIVE]
    service.clock.ms += 61_000
    service.settle()
    assert states(service) == ([ARCHIVED, ARCHIVED], ARCHIVED)
