"""Accepts the follow requests of a private account that becomes public, page by page in the background.

A note marks the account as opening until all requests are accepted. The process that holds the note's lease does the
work; if that process dies, another takes over. Doing it twice is safe: existing followers are left alone. A requester
who already follows as many users as allowed keeps the request.

The requests of a deactivated account are archived, so none is accepted meanwhile. After the account is reactivated,
`account_restored` accepts the requests that need no consent: those to follow it, if it is public, and its own requests
to accounts that became public meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kith.core.clock import ms_of
from kith.core.events import user_changed
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOW_REQUESTS
from kith.graph.shapes import Listing, Node
from kith.leases.background import Background, with_retries
from kith.leases.holding import HeldLease, Leases
from kith.people.relations import Relations

_PAGE = 250
_NOTE = "opening/"
_NOTE_GRACE_MS = 60_000
"""Longer than a request takes from writing the note to changing the account."""


class PrivacySwitch:
    """Makes accounts private and public, and accepts the follow requests of those that become public."""

    def __init__(self, graph: Graph, relations: Relations, leases: Leases) -> None:
        self._graph, self._store, self._relations = graph, graph.store, relations
        self._background = Background(leases)

    async def set_private(
        self, user: NodeId, *, private: bool, was_private: bool, on_write: Callable[[WriteMark], object]
    ) -> None:
        """Make an account private or public. If it becomes public, its follow requests are accepted in the background.

        `was_private`: whether the account was private when the caller read it. If it was not, requests may still have
        come in since; they are looked up. `on_write` is called as soon as the account is changed, because later steps
        may fail. May be repeated.
        """
        note = await self._note(user) if was_private and not private else None
        event = user_changed(user, self._graph.clock.next())
        on_write((await self._store.change_node(user, private=private, tell=event)).mark)
        if note is None and not private and (await self._relations.requests(user, Window(1))).items:
            note = await self._note(user)
        if note is not None:
            self._start(note, user)

    async def resume(self) -> None:
        """Resume the openings that no process works on."""
        for note, user in (await self._store.notes(_NOTE)).items():
            self._start(note, NodeId(int(user)))

    async def wait(self) -> None:
        """Return once all openings of this process are done."""
        await self._background.wait()

    async def close(self) -> None:
        """Stop. Another process, or the next one that starts, resumes the openings."""
        await self._background.close()

    async def account_restored(self, user: NodeId) -> None:
        """Accept the requests that need no consent, after an account and its edges were restored. May be repeated."""
        await self._store.barrier()  # then the lists show all requests that were restored
        await self._accept_pages(user)
        window: Window | None = Window(_PAGE)
        while window is not None:
            window = await self._accept_page_elsewhere(user, window)

    async def _note(self, user: NodeId) -> str:
        """Write the note that an account is public or about to be; returns the note's name."""
        note = f"{_NOTE}{user}-{self._graph.clock.next():x}"
        await self._store.put_note(note, str(user).encode())
        return note

    def _start(self, note: str, user: NodeId) -> None:
        self._background.start(note, partial(self._run, user))

    async def _run(self, user: NodeId, held_lease: HeldLease) -> None:
        if await with_retries(held_lease, lambda: self._is_about_to_open(user, held_lease.lease.name)):
            return
        await with_retries(held_lease, self._store.barrier)  # then the list shows all requests made before
        window: Window | None = Window(_PAGE)
        while window is not None:
            window = await with_retries(held_lease, partial(self._accept_page, user, window))
        await with_retries(held_lease, partial(self._store.put_note, held_lease.lease.name, None))

    async def _is_about_to_open(self, user: NodeId, note: str) -> bool:
        """Whether the account is private, but the note so new that its request may still be about to open it."""
        (node,) = await self._store.nodes([user])
        made_at_ms = ms_of(int(note.rpartition("-")[2], 16))
        return node.private and ms_of(self._graph.clock.next()) < made_at_ms + _NOTE_GRACE_MS

    async def _accept_pages(self, user: NodeId) -> None:
        window: Window | None = Window(_PAGE)
        while window is not None:
            window = await self._accept_page(user, window)

    async def _accept_page(self, user: NodeId, window: Window) -> Window | None:
        """Accept a page of requests; returns the next window, or None at the end or if the account is not public."""
        (node,) = await self._store.nodes([user])
        if not _is_public(node):
            return None
        page = await self._relations.requests(user, window)
        await self._relations.accept_all(user, [NodeId(mark.id) for mark in reversed(page.items)])
        return Window(_PAGE, after=page.oldest) if page.more_after else None

    async def _accept_page_elsewhere(self, user: NodeId, window: Window) -> Window | None:
        """For a page of the user's own requests, accept those to public accounts; returns the next window or None."""
        listing = Listing(self._graph.graphs.number(FOLLOW_REQUESTS), user, Direction.OUT)
        page = await self._store.page(listing, window)
        targets = [NodeId(mark.id) for mark in reversed(page.items)]
        for target, node in zip(targets, await self._store.nodes(targets), strict=True):
            if _is_public(node):
                await self._relations.accept_all(target, [user])
        return Window(_PAGE, after=page.oldest) if page.more_after else None


def _is_public(node: Node) -> bool:
    return not node.private and node.state == State.NORMAL
