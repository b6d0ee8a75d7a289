"""Opening a private account: who waits to follow it follows it, page by page in the background.

A note says that an account is being opened until all is done, so the next start of a process resumes what a stopped one
left. It may run twice: whoever follows already is left alone. Who follows as many as one may keeps their request.
Limit: if the account is deactivated meanwhile, the rest of the requests wait to be accepted.
"""

from __future__ import annotations

import asyncio

import structlog

from kith.core.errors import Conflict, Unavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.people.relations import Relations

_PAGE = 250
_NOTE = "opening/"
_PAUSE_S, _PAUSE_S_MAX = 0.1, 30.0  # before a refused page is tried again; doubled each time
_log = structlog.get_logger("kith.people")


class Openings:
    """Lets those follow who asked, once an account is public."""

    def __init__(self, graph: Graph, relations: Relations) -> None:
        self._graph, self._store, self._relations = graph, graph.store, relations
        self._running: set[asyncio.Task[None]] = set()

    async def prepare(self, user: NodeId) -> str:
        """Note that an account is about to become public; `start` with what this returns once it is."""
        note = f"{_NOTE}{user}-{self._graph.clock.next():x}"
        await self._store.put_note(note, str(user).encode())
        return note

    def start(self, note: str, user: NodeId) -> None:
        """Accept the requests of a public account in the background."""
        task = asyncio.create_task(self._run(note, user))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def resume(self) -> None:
        """Continue what a stopped process left unfinished."""
        for note, user in (await self._store.notes(_NOTE)).items():
            self.start(note, NodeId(int(user)))

    async def wait(self) -> None:
        """Return once all that this process does is done."""
        await asyncio.gather(*self._running)

    async def close(self) -> None:
        """Stop; the next start of a process resumes."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, note: str, user: NodeId) -> None:
        window: Window | None = Window(_PAGE)
        pause_s = _PAUSE_S
        while window is not None:
            try:
                window, pause_s = await self._next(user, window), _PAUSE_S
                if window is None:
                    await self._store.put_note(note, None)
            except (Conflict, Unavailable) as error:
                _log.warning("opening an account waits for the store", user=user, error=error.message)
                window = window or Window(_PAGE)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _next(self, user: NodeId, window: Window) -> Window | None:
        """Accept a page of requests; the next one, or None at the end, or where the account is not public any more."""
        (node,) = await self._store.nodes([user])
        if node.private or node.state != State.NORMAL:
            return None
        page = await self._relations.requests(user, window)
        await self._relations.accept_all(user, [NodeId(mark.id) for mark in reversed(page.items)])
        return Window(_PAGE, after=page.oldest) if page.more_after else None
