"""Deferred writes: operations for a later time, of low priority, or on all edges of a node.

    note flockdb/job/<priority>/<version, 16 hex digits>    a Job as MessagePack; versions are in the order of arrival
    note flockdb/dead/<priority>/<version>    failed TRIES_MAX times; `kith flockdb --retry-dead` retries it. Older
                                              versions of Kith wrote the key without the priority

Each priority has its own queue and task, so a waiting job delays no other priority. A job goes page by page, with a
checkpoint after each; repeating a page leaves the same edges. A job that fails waits, longer each time, while others
continue. The process with the lease runs the jobs; any process may queue them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
import numpy as np
import structlog

from kith.core.backoff import pause_ms
from kith.core.clock import Hlc
from kith.core.errors import KithError, Overloaded, Unavailable
from kith.core.paging import Mark, Window
from kith.flockdb.executes import WRITES_A_COMMIT, Executes, ExecuteTask
from kith.flockdb.interface import ExecuteOperation, Priority
from kith.flockdb.selects import Term
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.leases.holding import HeldLease, Leases

JOBS_MAX = 10_000
"""Most waiting jobs; above that: OVERLOADED."""
JOBS_BYTES_MAX = 64 << 20
"""Most bytes of all waiting jobs, mostly the ids of their edges, because a queue is read whole."""
_COUNTED_EVERY = 100
"""After this many new jobs a process counts the waiting jobs again."""
TRIES_MAX = 10
_RAISED_MAX = 1_000
_JOB, _DEAD, LEASE = "flockdb/job/", "flockdb/dead/", "flockdb/jobs"
_POLL_S = 0.5
_PAUSE_MS, _PAUSE_MS_MAX = 1_000, 60_000
_PAGE = 500
_log = structlog.get_logger("kith.flockdb")


class ExecuteJob(msgspec.Struct, frozen=True):
    """One operation and its progress. `step`: finished lists. `after`: the last finished entry of the next list.

    `edges_version`: the version of the named edges; 0: `version`, which `_note` raises.
    """

    priority: Priority
    change: ExecuteOperation
    graph: int
    node: int
    direction: Direction
    others: bytes | None
    position: int | None
    version: int
    due_ms: int
    step: int = 0
    after: Mark | None = None
    done: int = 0  # how many of the named edges
    tries: int = 0
    error: str = ""
    edges_version: int = 0

    @property
    def key(self) -> str:
        """The key of its note."""
        return f"{_JOB}{self.priority.value}/{self.version:016x}"

    @property
    def dead_key(self) -> str:
        """The key of its note after it failed for good."""
        return f"{_DEAD}{self.priority.value}/{self.version:016x}"

    @property
    def task(self) -> ExecuteTask:
        """What remains to be done."""
        remaining = None if self.others is None else np.frombuffer(self.others, "<i8").astype(np.int64)[self.done :]
        term = Term(self.graph, self.node, self.direction, (State.NORMAL,), remaining)
        return ExecuteTask(self.change, term, self.position, Hlc(self.edges_version or self.version))


_decode = msgspec.msgpack.Decoder(ExecuteJob).decode
_NOTHING = msgspec.msgpack.encode({})


def _merge_into_note(raw: bytes, job: ExecuteJob) -> bytes:
    """The note of a job, written over an earlier note. Fields that a newer version of Kith added stay."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(raw), **msgspec.structs.asdict(job)})


class Jobs:
    """The queues. `now_ms`: wall-clock time in ms."""

    def __init__(self, graph: Graph, executes: Executes, now_ms: Callable[[], int]) -> None:
        self._store, self._executes, self._now_ms = graph.store, executes, now_ms
        self._bells = {priority: asyncio.Event() for priority in Priority}
        self._clock = graph.clock
        self._raised_to = dict[tuple[bool, Priority, int], int]()
        """The last version that was given in place of a taken one. Without it, the next job of that version would try
        every version between, and many jobs have one version: clients name a time in seconds.
        """
        self._room_jobs = self._room_bytes = 0
        """What may be added before the waiting jobs are counted again."""

    async def add(self, task: ExecuteTask, priority: Priority, due_ms: int) -> None:
        """Queue a job; it is durable when this returns. Errors: Overloaded."""
        packed = None if task.term.others is None else task.term.others.astype("<i8").tobytes()
        term, version = task.term, task.version or self._clock.next()
        job = ExecuteJob(
            priority, task.change, term.graph, term.node, term.direction, packed, task.position, version, due_ms,
            edges_version=0 if packed is None else version,
        )  # fmt: skip
        await self._reserve_room(0 if packed is None else len(packed))
        await self._note(job)
        self._bells[priority].set()

    async def _reserve_room(self, size: int) -> None:
        """Overloaded if a job whose edges take this many bytes may not wait. The waiting jobs are counted now and then
        only, because reading all of them for each new job gets slower the more there are.
        """
        if not self._room_jobs or size > self._room_bytes:
            waiting = await self._store.notes(_JOB)
            jobs, room = JOBS_MAX - len(waiting), JOBS_BYTES_MAX - sum(map(len, waiting.values()))
            if jobs < 1 or room < size:
                raise Overloaded(
                    f"{len(waiting)} deferred operations are waiting; at most {JOBS_MAX} may, with at most "
                    f"{JOBS_BYTES_MAX >> 20} MB of edges; try again when there are fewer"
                )
            self._room_jobs, self._room_bytes = min(jobs, _COUNTED_EVERY), room
        self._room_jobs, self._room_bytes = self._room_jobs - 1, self._room_bytes - size

    async def run(self, leases: Leases) -> None:
        """Run due jobs while this process has the lease, until cancelled."""
        while True:
            try:
                async with leases.hold(LEASE) as lease:
                    if lease is not None:
                        await lease.run_while_held(self._queues(lease))
            except* Unavailable as errors:  # an exception group if a queue raised it
                _log.warning("jobs wait for the store", error=str(errors.exceptions[0]))
            await asyncio.sleep(_POLL_S)

    async def run_due(self) -> None:
        """Run all jobs that are due now, the most urgent first."""
        for priority in sorted(Priority, reverse=True):
            await self._run_due(priority, lambda: None)

    async def retry_dead(self) -> int:
        """Queue the dead jobs again; returns how many."""
        dead = await self._store.notes(_DEAD)
        for key, raw in dead.items():
            await self._note(msgspec.structs.replace(_decode(raw), tries=0, due_ms=self._now_ms()), over=raw)
            await self._store.put_note(key, None)
        return len(dead)

    async def waiting(self) -> int:
        """How many jobs are not done."""
        return len(await self._store.notes(_JOB))

    async def _queues(self, lease: HeldLease) -> None:
        async with asyncio.TaskGroup() as group:
            for priority in Priority:
                group.create_task(self._queue(priority, lease))

    async def _queue(self, priority: Priority, lease: HeldLease) -> None:
        bell = self._bells[priority]
        while True:
            bell.clear()
            await self._run_due(priority, lease.check)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await bell.wait()

    async def _run_due(self, priority: Priority, check: Callable[[], None]) -> None:
        """Run the due jobs of a queue, oldest first. `check` raises if this process may not continue."""
        for raw in (await self._store.notes(f"{_JOB}{priority.value}/")).values():
            job = _decode(raw)
            if job.due_ms <= self._now_ms():
                check()
                await self._try(job)

    async def _try(self, job: ExecuteJob) -> None:
        """Run a job. If it fails, schedule a retry."""
        try:
            if job.others is None:
                await self._all_edges(job)
            else:
                await self._named_edges(job)
        except Unavailable:
            raise  # nothing can be written either
        except KithError as error:
            await self._failed(job, error.message)
        except Exception as error:
            _log.exception("a job failed", job=job.key)
            await self._failed(job, repr(error))

    async def _named_edges(self, job: ExecuteJob) -> None:
        while (other_ids := job.task.term.others) is not None and len(other_ids):
            task = job.task
            part = other_ids[:WRITES_A_COMMIT]
            await self._executes.edges([task._replace(term=task.term._replace(others=part))])
            job = await self._checkpoint(msgspec.structs.replace(job, done=job.done + len(part)))
        await self._store.put_note(job.key, None)

    async def _all_edges(self, job: ExecuteJob) -> None:
        listings = self._executes.listings(job.task) if await self._executes.mark(job.task) else []
        if listings and not await self._lists_are_current(job):
            return
        while job.step < len(listings):
            listing = listings[job.step]
            page = await self._store.page(listing, Window(_PAGE, after=job.after))
            await self._executes.of_list(job.task, listing, [mark.id for mark in page.items])
            if page.more_after and page.oldest is not None:
                job = await self._checkpoint(msgspec.structs.replace(job, after=page.oldest))
            else:
                job = await self._checkpoint(msgspec.structs.replace(job, step=job.step + 1, after=None))
        await self._store.put_note(job.key, None)

    async def _lists_are_current(self, job: ExecuteJob) -> bool:
        """Whether lists show every write that was decided earlier. If they do not, for example because a partition has
        no owner, the job is postponed and others continue.
        """
        try:
            await self._store.barrier()
        except Unavailable as error:
            _log.warning("an operation on all edges of a node waits", job=job.key, error=error.message)
            await self._checkpoint(msgspec.structs.replace(job, due_ms=self._now_ms() + _PAUSE_MS_MAX))
            return False
        return True

    async def _checkpoint(self, job: ExecuteJob) -> ExecuteJob:
        raw = await self._store.get_note(job.key)
        await self._store.put_note(job.key, msgspec.msgpack.encode(job) if raw is None else _merge_into_note(raw, job))
        return job

    async def _failed(self, job: ExecuteJob, error: str) -> None:
        """Postpone a failed job; after TRIES_MAX tries it is dead and waits for a person."""
        raw = await self._store.get_note(job.key)
        if raw is None:
            return
        tries = job.tries + 1
        due_ms = self._now_ms() + pause_ms(tries, _PAUSE_MS, _PAUSE_MS_MAX)
        failed_job = msgspec.structs.replace(_decode(raw), tries=tries, error=error, due_ms=due_ms)
        if tries < TRIES_MAX:
            await self._store.put_note(job.key, _merge_into_note(raw, failed_job))
            return
        _log.error("a job failed for good; `kith flockdb --retry-dead` tries again", job=job.key, error=error)
        await self._note(failed_job, over=raw, dead=True)
        await self._store.put_note(job.key, None)

    async def _note(self, job: ExecuteJob, *, over: bytes = _NOTHING, dead: bool = False) -> None:
        """Write a job under a free key: its version is raised until one is free. `over`: see `_merge_into_note`."""
        place = (dead, job.priority, job.version)
        job = msgspec.structs.replace(job, version=max(job.version, self._raised_to.get(place, 0) + 1))
        while not await self._store.put_note(
            job.dead_key if dead else job.key, _merge_into_note(over, job), only_if=None
        ):
            job = msgspec.structs.replace(job, version=job.version + 1)
        if job.version != place[-1]:
            if len(self._raised_to) >= _RAISED_MAX:
                self._raised_to.clear()
            self._raised_to[place] = job.version
