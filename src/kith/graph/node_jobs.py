"""Bulk operations on all edges of a node: archive, restore, remove.

The node's own state is set first, so edges added meanwhile are stored in that state. Then a job rewrites every list of
the node page by page, with a checkpoint after each page. The process that holds the job's lease runs it; if that
process dies, another resumes from the checkpoint.

A process that was only paused cannot save a checkpoint any more: a checkpoint is saved only if the last one is
unchanged, and the process that takes over changes it first. The page that the paused process still rewrites does no
harm, because rewriting a page twice gives the same edges. If the store refuses a step, the job waits and retries. An
edge stays archived while its other end is archived.

The job does not know what edges stand for. It calls `erase` with each page before removing it, `forget` once the whole
node is removed, and `restored` once it is restored. `beside` names edges of other nodes that are archived and restored
with a page. Limit: restore brings back every archived edge, whoever archived it (as FlockDB does).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from kith.core.errors import KithError, LeaseLost, NotFound
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.shapes import Listing
from kith.leases.background import Background, with_retries
from kith.leases.holding import HeldLease, Leases

_PAGE = 500
_RUNNING_PREFIX, _FINISHED_PREFIX = "job/", "job-done/"
"""Key prefixes of the notes of running jobs, which are few, and of finished ones."""
_FINISHED_KEPT_S, _CLEANUP_EVERY_S = 86_400.0, 3_600.0


class NodeOperation(enum.Enum):
    """What to do with all edges of a node."""

    ARCHIVE = "archive"
    RESTORE = "restore"
    REMOVE = "remove"


_NODE_STATE = {
    NodeOperation.ARCHIVE: State.ARCHIVED,
    NodeOperation.RESTORE: State.NORMAL,
    NodeOperation.REMOVE: State.REMOVED,
}
_FROM = {
    NodeOperation.ARCHIVE: (State.NORMAL,),
    NodeOperation.RESTORE: (State.ARCHIVED,),
    NodeOperation.REMOVE: (State.NORMAL, State.NEGATIVE, State.ARCHIVED),
}


Erase = Callable[[Listing, Sequence[int]], Awaitable[None]]
"""Empties the records behind edges that are about to be removed. Called with a list of the node and other ends
in it.
"""

CompanionEdges = Callable[[Listing, Sequence[int]], Awaitable[Sequence[tuple[int, int, int]]]]
"""Returns the edges (graph, source, destination) that share the state of some of the node's edges. Called with a list
of the node and other ends in it.
"""

WhenDone = Callable[[NodeId], Awaitable[object]]
"""Called once all edges of a node are removed or restored. May be repeated."""


def _any_order(graph: str) -> int:
    return 0


def _removed(node: NodeId) -> KithError:
    return NotFound("this node was removed for good", id=str(node))


class Job(msgspec.Struct, frozen=True, rename="camel"):
    """A bulk operation, as saved after every page. `step` counts the finished lists."""

    id: str
    operation: NodeOperation
    node: int
    step: int = 0
    after: Mark | None = None
    edges: int = 0  # rewritten so far
    done: bool = False
    finished_at: float = 0.0  # seconds since the epoch
    token: int = 0  # of the lease of the process that runs it; 0: no process has yet


class _StoredJob(NamedTuple):
    """A job and its note."""

    raw: bytes
    job: Job

    @classmethod
    def rewritten(cls, raw: bytes, job: Job) -> _StoredJob:
        """The job written over an earlier note. Fields that a newer version of Kith added stay."""
        return cls(msgspec.json.encode({**msgspec.json.decode(raw), **msgspec.to_builtins(job)}), job)

    @classmethod
    def read(cls, raw: bytes) -> _StoredJob:
        """The job in a note."""
        return cls(raw, msgspec.json.decode(raw, type=Job))


class NodeJobs:
    """Starts, resumes and reports bulk operations.

    `leases`: of this process, so that only one process runs a job. `order`: ranks graphs by name. Lists of a lower rank
    are restored first, and archived or removed last. `removed`: makes the error for an operation on a node that was
    removed before.
    """

    def __init__(
        self,
        graph: Graph,
        leases: Leases,
        *erase: Erase,
        forget: WhenDone | None = None,
        restored: WhenDone | None = None,
        beside: CompanionEdges | None = None,
        order: Callable[[str], int] = _any_order,
        removed: Callable[[NodeId], KithError] = _removed,
    ) -> None:
        self._graph, self._store, self._erase, self._beside = graph, graph.store, erase, beside
        self._finish = {NodeOperation.REMOVE: forget, NodeOperation.RESTORE: restored}
        self._order, self._removed = order, removed
        self._background = Background(leases)
        self._cleanup_due_s = 0.0

    async def start(self, operation: NodeOperation, node: NodeId) -> Job:
        """Set the node's state, save the job, and run it in the background."""
        (known,) = await self._store.nodes([node])
        if known.state == State.REMOVED and operation is not NodeOperation.REMOVE:
            raise self._removed(node)
        await self._delete_old_notes()
        job = Job(f"{operation.value}-{node}-{self._graph.clock.next():x}", operation, int(node))

        async def begin(held: HeldLease) -> None:
            ours = msgspec.structs.replace(job, token=held.lease.token)
            await self._store.put_note(held.lease.name, msgspec.json.encode(ours))
            await self._mark(held, operation, node, known.state)

        await self._background.begin(_RUNNING_PREFIX + job.id, begin, self._run)
        return job

    async def _mark(self, held: HeldLease, operation: NodeOperation, node: NodeId, was: State) -> None:
        """Set the node's state. If the node was removed meanwhile, it stays removed; the job is deleted and refused."""
        state = _NODE_STATE[operation]
        while True:
            only_from = None if operation is NodeOperation.REMOVE else was
            was = (await self._store.change_node(node, state=state, only_from=only_from)).node.state
            if was == state:
                return
            if was == State.REMOVED:
                await self._store.put_note(held.lease.name, None)
                raise self._removed(node)

    async def resume(self) -> None:
        """Continue every unfinished job that no process runs."""
        for job in await self._noted(_RUNNING_PREFIX):
            if not job.done:
                self._background.start(_RUNNING_PREFIX + job.id, self._run)

    async def known(self) -> list[Job]:
        """All running jobs, and those that finished within a day. A few older ones may be included."""
        found = {job.id: job for prefix in (_FINISHED_PREFIX, _RUNNING_PREFIX) for job in await self._noted(prefix)}
        return list(found.values())

    async def _noted(self, prefix: str) -> list[Job]:
        notes = await self._store.notes(prefix)
        return [msgspec.json.decode(raw, type=Job) for raw in notes.values()]

    async def _delete_old_notes(self) -> None:
        """Now and then, delete the notes of jobs that finished more than a day ago: there may be many."""
        if time.monotonic() < self._cleanup_due_s:
            return
        self._cleanup_due_s = time.monotonic() + _CLEANUP_EVERY_S
        for prefix in (_RUNNING_PREFIX, _FINISHED_PREFIX):  # older versions left finished jobs under the first
            for job in await self._noted(prefix):
                if job.done and job.finished_at < time.time() - _FINISHED_KEPT_S:
                    await self._store.put_note(prefix + job.id, None)

    async def get(self, job_id: str) -> Job:
        """A job by its id. NotFound if there never was one, or it finished more than a day ago."""
        raw = await self._store.get_note(_RUNNING_PREFIX + job_id) or await self._store.get_note(
            _FINISHED_PREFIX + job_id
        )
        if raw is None:
            raise NotFound("no such job, or it was done more than a day ago", id=job_id)
        return msgspec.json.decode(raw, type=Job)

    async def wait(self) -> None:
        """Return once every job of this process is done."""
        await self._background.wait()

    async def close(self) -> None:
        """Stop the jobs of this process. Another process resumes them, or the next one that starts."""
        await self._background.close()

    async def _run(self, held: HeldLease) -> None:
        noted = await with_retries(held, lambda: self._take_over(held))
        if noted is None or noted.job.done:
            return
        await with_retries(held, self._store.barrier)  # then lists show all writes decided before the node changed
        lists, step = list(self._lists(noted.job)), partial(self._step, held)
        while not noted.job.done:
            noted = await with_retries(held, partial(step, noted, lists))

    async def _take_over(self, held: HeldLease) -> _StoredJob | None:
        """The job of a lease. From now on no other process can write a checkpoint of it. None if it was deleted."""
        while True:
            raw = await self._store.get_note(held.lease.name)
            if raw is None:
                return None
            found = _StoredJob.read(raw)
            if found.job.token > held.lease.token:
                raise LeaseLost("another process runs the job by now", id=found.job.id)
            if found.job.done or found.job.token == held.lease.token:
                return found
            ours = _StoredJob.rewritten(raw, msgspec.structs.replace(found.job, token=held.lease.token))
            if await self._store.put_note(held.lease.name, ours.raw, only_if=raw):
                return ours

    async def _step(self, held: HeldLease, noted: _StoredJob, lists: Sequence[Listing]) -> _StoredJob:
        """Rewrite one page and save a checkpoint. LeaseLost if another process has taken over."""
        further = _StoredJob.rewritten(noted.raw, await self._next(noted.job, lists))
        done = _FINISHED_PREFIX + noted.job.id
        if further.job.done:
            await self._store.put_note(done, further.raw)
        if await self._store.put_note(held.lease.name, None if further.job.done else further.raw, only_if=noted.raw):
            return further
        raw = await self._store.get_note(held.lease.name) or await self._store.get_note(done)
        stored = None if raw is None else _StoredJob.read(raw)
        if stored is None or stored.job.token != noted.job.token:
            raise LeaseLost("another process runs the job by now", id=noted.job.id)
        return stored  # an earlier try saved it, although the store answered with an error

    async def _next(self, job: Job, lists: Sequence[Listing]) -> Job:
        """The job after one more page; done if there is none left, or if a later operation on the node took over."""
        (known,) = await self._store.nodes([job.node])
        if job.step < len(lists) and known.state == _NODE_STATE[job.operation]:
            return await self._page(job, lists[job.step])
        finish = self._finish.get(job.operation)
        if finish is not None and known.state == _NODE_STATE[job.operation]:
            await finish(NodeId(job.node))
        return msgspec.structs.replace(job, done=True, finished_at=time.time())

    async def _page(self, job: Job, listing: Listing) -> Job:
        page = await self._store.page(listing, Window(_PAGE, after=job.after))
        out, others = listing.direction is Direction.OUT, [mark.id for mark in page.items]
        edges = [(listing.graph, listing.node, id_) if out else (listing.graph, id_, listing.node) for id_ in others]
        if others and job.operation is NodeOperation.REMOVE:
            for erase in self._erase:
                await erase(listing, others)
        elif others and self._beside is not None:
            edges += await self._beside(listing, others)
        if edges:
            await self._graph.write([self._rewriting(job, listing.state, *edge) for edge in edges])
        step, after = (job.step, page.oldest) if page.more_after else (job.step + 1, None)
        return msgspec.structs.replace(job, step=step, after=after, edges=job.edges + len(others))

    def _rewriting(self, job: Job, was: State, graph: int, source: int, destination: int) -> EdgeWrite:
        """The write that puts an edge in the state of the operation, at its old place. `was`: its previous state.

        A restored edge whose other end is not NORMAL takes the state of that end (see `edge.resolve`).
        """
        state = _NODE_STATE[job.operation]
        return EdgeWrite(
            self._graph.edge_now(graph, NodeId(source), NodeId(destination), state),
            supersede=True,
            keep_place=True,
            only_from=frozenset({was}),
            while_node=(job.node, state),
        )

    def _lists(self, job: Job) -> Iterator[Listing]:
        """Every list of the node that the job rewrites, in order.

        Lists of a post or comment are left out: that node only has the same number.
        """
        restored, graphs = job.operation is NodeOperation.RESTORE, self._graph.graphs
        not_theirs = {Direction.OUT: graphs.from_objects, Direction.IN: graphs.to_objects}
        for name in sorted(graphs.names(), key=self._order, reverse=not restored):
            number = graphs.number(name)
            for direction in Direction:
                if number not in not_theirs[direction]:
                    for state in _FROM[job.operation]:
                        yield Listing(number, job.node, direction, state)
