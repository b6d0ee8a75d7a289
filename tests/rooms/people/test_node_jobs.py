"""Bulk jobs on accounts with several processes: one runs a job, another takes it over, and none is left half done."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run, without_waits
from reference_edges import ReferenceEdges
from reference_leases import ReferenceLeases, own_leases
from reference_records import records_over
from services import Services, service_over
from store_wrappers import RemoteStore

from kith.core.errors import StoreUnavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph import node_jobs
from kith.graph.edge import State
from kith.graph.node_jobs import Job, NodeJobs, NodeOperation
from kith.leases.holding import Leases
from kith.people.removal import account_jobs

JOB = "job/archive-1-1"
FOLLOWEES = [NodeId(user) for user in range(10, 20)]


@pytest.fixture(params=[False, True], ids=["at once", "distant"])
def room(run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Services:
    """Alice follows FOLLOWEES. A process was killed just after it began to archive her. A page has two edges."""
    monkeypatch.setattr(node_jobs, "_PAGE", 2)
    edges = ReferenceEdges()
    store: Any = RemoteStore(edges, random.Random(1)) if request.param else edges
    made: Services = run(Services.over(store, records_over(edges), clock))
    run(begun(made))
    return made


async def begun(room: Services) -> None:
    for user in FOLLOWEES:
        await room.people.follow(ALICE, user)
    job = Job(JOB.removeprefix("job/"), NodeOperation.ARCHIVE, ALICE)
    await room.edges.put_note(JOB, msgspec.json.encode(job))
    await room.edges.change_node(ALICE, state=State.ARCHIVED)


class Stalling:
    """The edges of one process: its second write sets `reached` and waits until `woken` is set."""

    def __init__(self, room: Services, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.woken, self.writes = asyncio.Event(), asyncio.Event(), 0
        self._apply = room.edges.apply
        monkeypatch.setattr(room.edges, "apply", self.apply)

    async def apply(self, writes: Any) -> Any:
        self.writes += 1
        if self.writes == 2:  # of the first process, in the middle of the list
            self.reached.set()
            await self.woken.wait()
        return await self._apply(writes)


async def is_archived(room: Services, jobs: NodeJobs) -> bool:
    """Whether the job is done and left no follow. The last edges of a replaced process may be counted by neither."""
    job = await jobs.get(JOB.removeprefix("job/"))
    following = await room.people.following(ALICE, Window(20))
    return job.done and 0 < job.edges <= len(FOLLOWEES) and not following.items


def test_of_processes_that_resume_a_job_one_runs_it(
    run: Run, room: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        stalling, leases = Stalling(room, monkeypatch), Leases(ReferenceLeases(clock), lambda: 0.0)
        stalling.woken.set()
        processes = [account_jobs(room.graph, leases) for _ in range(3)]
        for process in processes:
            await process.resume()
        for process in processes:
            await process.wait()
        assert await is_archived(room, processes[0])
        assert stalling.writes == len(FOLLOWEES) // 2

    run(play())


def test_a_job_of_a_dead_process_is_taken_over_once_its_lease_has_expired(
    run: Run, room: Services, clock: FakeClock
) -> None:
    async def play() -> None:
        store = ReferenceLeases(clock)
        assert await store.acquire(JOB, "killed", 30.0)
        jobs = account_jobs(room.graph, Leases(store, lambda: clock.ms / 1_000))
        await jobs.resume()
        await jobs.wait()
        assert not (await jobs.get(JOB.removeprefix("job/"))).done
        clock.ms += 30_000
        await jobs.resume()
        await jobs.wait()
        assert await is_archived(room, jobs)

    run(play())


@pytest.mark.parametrize("knows", [True, False], ids=["that it lost its lease", "nothing"])
def test_a_paused_process_that_wakes_up_saves_nothing(
    run: Run, room: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    """Whether its own clock continued or stood still during the pause."""

    async def play() -> None:
        store = ReferenceLeases(clock)
        paused = account_jobs(room.graph, Leases(store, (lambda: clock.ms / 1_000) if knows else lambda: 0.0))
        other = account_jobs(room.graph, Leases(store, lambda: clock.ms / 1_000))
        stalling = Stalling(room, monkeypatch)
        await paused.resume()
        await stalling.reached.wait()
        clock.ms += 30_000
        await other.resume()
        await other.wait()
        assert await is_archived(room, other)
        done = await room.edges.get_note(JOB)
        stalling.woken.set()
        await paused.wait()
        assert await room.edges.get_note(JOB) == done
        assert await is_archived(room, other)

    run(play())


def test_a_process_that_took_a_job_over_is_not_set_back_by_the_previous_one(
    run: Run, room: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in the middle of it: the first wakes while the second works, and must not set it back."""

    async def play() -> None:
        stalling = Stalling(room, monkeypatch)
        paused, other = (account_jobs(room.graph, own_leases()) for _ in range(2))
        await paused.resume()
        await stalling.reached.wait()
        saved: list[tuple[bool, int, int]] = []
        put = room.edges.put_note

        async def noted(key: str, value: bytes | None, **condition: Any) -> bool:
            stored = await put(key, value, **condition)
            job = await other.get(JOB.removeprefix("job/"))
            saved.append((job.done, job.step, job.edges))
            stalling.woken.set()  # once the other has taken over
            return stored

        monkeypatch.setattr(room.edges, "put_note", noted)
        await other.resume()
        await asyncio.gather(paused.wait(), other.wait())
        assert saved == sorted(saved)
        assert await is_archived(room, other)

    run(play())


def test_a_checkpoint_that_was_stored_despite_an_error_is_recognized(
    run: Run, room: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, tries = room.edges.put_note, []

    async def unsure(key: str, value: bytes | None, **condition: Any) -> bool:
        stored = await put(key, value, **condition)
        tries.append(key)
        if len(tries) % 3 == 0:
            raise StoreUnavailable("it may be stored or not")
        return stored

    async def play() -> None:
        jobs = account_jobs(room.graph, own_leases())
        monkeypatch.setattr(room.edges, "put_note", unsure)
        with without_waits():
            await jobs.resume()
            await jobs.wait()
        job = await jobs.get(JOB.removeprefix("job/"))
        assert job.done

    run(play())


def test_fields_that_a_newer_kith_added_to_a_job_are_kept(run: Run, room: Services) -> None:
    async def play() -> None:
        raw = await room.edges.get_note(JOB)
        assert raw is not None
        await room.edges.put_note(JOB, msgspec.json.encode({"pace": [7], **msgspec.json.decode(raw)}))
        jobs = account_jobs(room.graph, own_leases())
        with without_waits():
            await jobs.resume()
            await jobs.wait()
        done = await room.edges.get_note(f"job-done/{JOB.removeprefix('job/')}")
        assert done is not None
        assert msgspec.json.decode(done)["pace"] == [7]
        assert await is_archived(room, jobs)

    run(play())


def test_a_job_that_is_just_starting_is_not_ended_by_others(run: Run, clock: FakeClock) -> None:
    """Between its note and the change of the node, another process looks for jobs; it must not end this one."""

    async def play() -> None:
        room: Services = await Services.in_memory(clock=clock)
        await room.people.follow(ALICE, BOB)
        leases = Leases(ReferenceLeases(clock), lambda: 0.0)
        one, other = account_jobs(room.graph, leases), account_jobs(room.graph, leases)
        change = room.edges.change_node

        async def looked_at(*arguments: Any, **changes: Any) -> Any:
            await other.resume()
            await other.wait()
            return await change(*arguments, **changes)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(room.edges, "change_node", looked_at)
            await one.start(NodeOperation.ARCHIVE, ALICE)
            await one.wait()
        assert not (await room.people.following(ALICE, Window(20))).items

    run(play())


def test_the_job_forgets_a_removed_user_also_after_a_crash(
    run: Run, embedded: tuple[Environment, EmbeddedEdges], clock: FakeClock
) -> None:
    _, edges = embedded
    forgotten: list[int] = []

    async def forget(node: NodeId) -> None:
        forgotten.append(node)

    async def play() -> None:
        graph = await service_over(edges, clock)
        next_process = account_jobs(graph, own_leases(), forget=forget)
        job = Job("remove-1-1", NodeOperation.REMOVE, ALICE)
        await edges.put_note("job/remove-1-1", msgspec.json.encode(job))
        await edges.change_node(ALICE, state=State.REMOVED)
        await next_process.start(NodeOperation.ARCHIVE, BOB)
        await next_process.resume()
        await next_process.wait()

    run(play())
    assert forgotten == [ALICE]
