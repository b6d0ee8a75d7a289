"""Bulk operations on all edges of a node: archive, restore, remove.

The node's own state is set first, so edges added meanwhile are stored in that state. Then a job rewrites every list of
the node page by page, with a checkpoint after each page. Jobs are idempotent: one that runs twice, in two processes or
after a crash, leaves the same edges. A job that the store refuses waits and tries again. An edge stays archived while
its other end is archived.

What is stored behind the edges is not known here: `erase` is called with each page before it is removed, `forget` once
the whole node is removed, and `beside` names edges of other nodes that are archived and restored with a page. Limit:
restore brings back every archived edge, whoever archived it (as FlockDB does).
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec
import structlog

from kith.core.errors import Conflict, KithError, NotFound, Unavailable
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.shapes import Listing

_PAGE = 500
_LISTS_LAG_S = 2.0  # how far lists may lag behind rows, see `EdgeStore`
_NOTE = "job/"
_KEPT_DONE_S = 86_400.0
_PAUSE_S, _PAUSE_S_MAX = 0.1, 30.0  # before a refused page is tried again; doubled each time
_log = structlog.get_logger("kith.graph")


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
"""Empties what is stored behind edges that are about to be removed: a list of the node, and other ends in it."""

Beside = Callable[[Listing, Sequence[int]], Awaitable[Sequence[tuple[int, int, int]]]]
"""Edges (graph, source, destination) that stand for edges of the node: a list of it, and other ends in that list."""

Forget = Callable[[NodeId], Awaitable[object]]
"""Empties what is stored about a node itself, once it is removed. May be repeated."""


def _any_order(graph: str) -> int:
    return 0


def _removed(node: NodeId) -> KithError:
    return NotFound("this node was removed for good", id=str(node))


class Job(msgspec.Struct, frozen=True, rename="camel"):
    """A bulk operation, as saved after every page. `step` counts the lists done."""

    id: str
    operation: NodeOperation
    node: int
    step: int = 0
    after: Mark | None = None
    edges: int = 0  # rewritten until now
    done: bool = False
    finished_at: float = 0.0  # seconds since the epoch


class NodeJobs:
    """Starts, resumes and reports bulk operations.

    `order`: ranks graphs by name. Lists of a lower rank are restored first, and archived or removed last.
    `removed`: makes the error for an operation on a node that was removed before.
    """

    def __init__(
        self,
        graph: Graph,
        *erase: Erase,
        forget: Forget | None = None,
        beside: Beside | None = None,
        order: Callable[[str], int] = _any_order,
        removed: Callable[[NodeId], KithError] = _removed,
    ) -> None:
        self._graph, self._store, self._erase, self._forget = graph, graph.store, erase, forget
        self._beside = beside
        self._order, self._removed = order, removed
        self._running: dict[str, asyncio.Task[None]] = {}

    async def start(self, operation: NodeOperation, node: NodeId) -> Job:
        """Set the node's state, save the job, and run it in the background."""
        (known,) = await self._store.nodes([node])
        if known.state == State.REMOVED and operation is not NodeOperation.REMOVE:
            raise self._removed(node)
        await self._forget_done()
        job = Job(f"{operation.value}-{node}-{self._graph.clock.next():x}", operation, int(node))
        await self._save(job)
        await self._store.change_node(node, state=_NODE_STATE[operation])
        self._spawn(job)
        return job

    async def resume(self) -> None:
        """Continue every job that a stopped process left unfinished."""
        for job in await self._known():
            if not job.done:
                self._spawn(job)

    async def _known(self) -> list[Job]:
        notes = await self._store.notes(_NOTE)
        return [msgspec.json.decode(raw, type=Job) for raw in notes.values()]

    async def _forget_done(self) -> None:
        """Delete the notes of jobs that were finished more than a day ago."""
        for job in await self._known():
            if job.done and job.finished_at < time.time() - _KEPT_DONE_S:
                await self._store.put_note(_NOTE + job.id, None)

    async def get(self, job_id: str) -> Job:
        """A job by its id; NotFound if there never was one, or it was done more than a day ago."""
        raw = await self._store.get_note(_NOTE + job_id)
        if raw is None:
            raise NotFound("no such job, or it was done more than a day ago", id=job_id)
        return msgspec.json.decode(raw, type=Job)

    async def wait(self) -> None:
        """Return once every job of this process is done."""
        await asyncio.gather(*self._running.values())

    async def close(self) -> None:
        """Stop the jobs of this process; the next start resumes them."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _spawn(self, job: Job) -> None:
        task = asyncio.create_task(self._run(job))
        self._running[job.id] = task
        task.add_done_callback(lambda _: self._running.pop(job.id, None))

    async def _run(self, job: Job) -> None:
        if not self._store.transactional:
            await asyncio.sleep(_LISTS_LAG_S)  # until the lists show what was written before the node was marked
        lists, pause_s = list(self._lists(job)), _PAUSE_S
        while not job.done:
            try:
                job, pause_s = await self._save(await self._next(job, lists)), _PAUSE_S
            except (Conflict, Unavailable) as error:
                _log.warning("a job waits for the store", job=job.id, error=error.message)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            except Exception:
                _log.exception("a job stops; the next start of a process resumes it", job=job.id)
                raise

    async def _next(self, job: Job, lists: Sequence[Listing]) -> Job:
        """The job after one more page; done if there is none left, or a later operation on the node took over."""
        (known,) = await self._store.nodes([job.node])
        if job.step < len(lists) and known.state == _NODE_STATE[job.operation]:
            return await self._page(job, lists[job.step])
        if known.state == State.REMOVED and self._forget is not None:
            await self._forget(NodeId(job.node))
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
        """The write that puts an edge in the state of the operation, at its old place. `was`: its state until now.

        A restored edge whose other end is not NORMAL takes the state of that end (see `edge.resolve`).
        """
        state = _NODE_STATE[job.operation]
        return EdgeWrite(
            self._graph.now(graph, NodeId(source), NodeId(destination), state),
            supersede=True,
            keep_place=True,
            only_from=frozenset({was}),
            while_node=(job.node, state),
        )

    def _lists(self, job: Job) -> Iterator[Listing]:
        """Every list of the node that the job rewrites, in order.

        A list of a post or comment is left out: its node has the same number as this one, and is another.
        """
        restored, graphs = job.operation is NodeOperation.RESTORE, self._graph.graphs
        not_theirs = {Direction.OUT: graphs.between_objects, Direction.IN: graphs.to_objects}
        for name in sorted(graphs.names(), key=self._order, reverse=not restored):
            number = graphs.number(name)
            for direction in Direction:
                if number not in not_theirs[direction]:
                    for state in _FROM[job.operation]:
                        yield Listing(number, job.node, direction, state)

    async def _save(self, job: Job) -> Job:
        """Save how far the job is, and return it; if another process has taken it further, return that instead."""
        raw = await self._store.get_note(_NOTE + job.id)
        known = job if raw is None else msgspec.json.decode(raw, type=Job)
        if (known.done, known.step) > (job.done, job.step):
            return known
        await self._store.put_note(_NOTE + job.id, msgspec.json.encode(job))
        return job
