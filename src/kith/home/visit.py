"""One request for a page of home: what is known of its reader and of the posts looked at, each read once.

A check of posts takes two calls in a row: their records, then the rules. What the posts are shown with is read beside
the rules.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Generator, Sequence
from typing import Any

from kith.core.errors import Unavailable
from kith.core.ids import NodeId
from kith.core.together import together
from kith.home.degraded import Degraded
from kith.home.fanout.state import FanoutSnapshot
from kith.home.rank.ranker import Ranker, ReaderFacts
from kith.home.rules import HomeRules
from kith.home.skeleton.pinned import HomePins, Pinned, PinnedPosts
from kith.posts.post import Post
from kith.posts.posts import Prefetch, no_prefetch


class _Already:
    """An awaitable that is done; it may be awaited again."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_ALREADY = _Already()


class Visit:
    """A reader at home. `snapshot`: what fan-out noted; None while timelines cannot be relied on.

    `pins`: what comes to their home by boards.
    """

    snapshot: FanoutSnapshot | None = None
    pins: HomePins = HomePins()
    _pinned_ms = 0

    def __init__(
        self,
        reader: NodeId,
        ranker: Ranker,
        rules: HomeRules,
        pins: PinnedPosts,
        prefetch: Prefetch = no_prefetch,
        pins_until: int | None = None,
    ) -> None:
        """`pins_until`: what was pinned before it stands where it stood then; see `scroll_until`."""
        self.reader, self.degraded, self._pins, self._pins_until = reader, Degraded(), pins, pins_until
        self._refreshed: Awaitable[None] = _ALREADY
        self._pinning: asyncio.Task[None] | None = None
        self._ranker, self._rules, self._prefetch = ranker, rules, prefetch
        self._known: ReaderFacts | None = None
        self._looked_at: dict[int, Post | None] = {}  # None: not for the reader

    @property
    def pinned(self) -> Pinned:
        """When the posts were pinned that boards bring."""
        return self.pins.pinned

    async def begin(self) -> None:
        """Forget what changed before this request; meanwhile start to read pins."""
        if self._rules.immediate:
            await self._rules.memory.refresh()
            return
        self._refreshed = asyncio.ensure_future(self._rules.memory.refresh())
        self._pinning = asyncio.ensure_future(self._pin())
        await self._refreshed

    async def reader_facts(self) -> ReaderFacts:
        """What ranking knows of the reader."""
        if self._known is None:
            self._known = await self._ranker.reader_facts(self.reader)
        return self._known

    async def preload(self) -> None:
        """Read what ranking and rules will ask for. If that fails, it is read again when it is asked for, and fails
        there."""
        with contextlib.suppress(Exception):
            await together(self._rules.immediate, self.reader_facts(), self._rules.prepare(self.reader))

    async def read_pinned(self) -> None:
        """Read what comes to the reader's home by boards; where that is unavailable, home goes on without it."""
        await (self._pin() if self._pinning is None else self._pinning)

    async def _pin(self) -> None:
        self._pinned_ms = self._pins.now_ms()
        try:
            self.pins = await self._pins.of(self.reader, self._refreshed, self._pins_until)
        except Unavailable:
            self.degraded.failed("boards")

    def scroll_until(self) -> int | None:
        """What later pages of this scroll take as `pins_until`: the time of the first one with pins, behind all of
        these."""
        if self._pins_until is None and self.pinned:
            return max(self._pinned_ms, *self.pinned.values()) + 1
        return self._pins_until

    async def check(self, ids: Sequence[int], spare: Sequence[int] = ()) -> None:
        """Find out which posts are for the reader. `spare`: those that are not shown on the page, or perhaps not."""
        found, rules, moment = self._looked_at, self._rules, self._rules.memory.moment
        new = [id_ for id_ in (*ids, *spare) if id_ not in found] if found else [*ids, *spare]
        if not new:
            return
        may_be_kept = not (found or self.pinned)
        if may_be_kept and (recalled := rules.recall(self.reader, new)) is not None:
            self._looked_at = dict(recalled)
            return
        read, shown = await rules.read(new), set(ids)
        allowed, _ = await together(
            rules.immediate,
            rules.allowed(self.reader, read, self.pinned),
            self._prefetch([post for post in read if post.id in shown]),
        )
        found.update(dict.fromkeys(new))
        found.update((post.id, post) for post in allowed)
        if may_be_kept:
            rules.remember(moment, self.reader, new, read, dict(found))

    def allowed(self, ids: Sequence[int]) -> list[Post]:
        """Those of the posts, all looked at, that the reader may and wants to see at home, in their order."""
        found = self._looked_at
        return [post for id_ in ids if (post := found[id_]) is not None]
