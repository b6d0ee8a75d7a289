"""One request for a page of home: reads skeletons, has them ranked, and checks posts by the hard rules.

The reader's facts and each post are read once. A check takes two calls in a row: the records, then the rules. The data
that posts are shown with is loaded beside the rules. If a part is down, the visit continues without it and records it
in `degraded`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Generator, Sequence
from typing import Any

import numpy as np

from kith.core.errors import Unavailable
from kith.core.events import LogPosition
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.home.degraded import Degraded
from kith.home.fanout.state import FanoutSnapshot
from kith.home.rank.affinity import ListState
from kith.home.rank.candidates import Candidates, RankedCandidates
from kith.home.rank.ranker import Ranker, ReaderFacts
from kith.home.rules import HomeRules
from kith.home.skeleton.pinned import HomePins, Pinned, PinnedPosts, place_among_posts, with_pins
from kith.home.skeleton.skeleton import Skeleton, Skeletons
from kith.home.slate import SLATE_MAX, Scroll, Slate, make_slate
from kith.posts.post import Post
from kith.posts.posts import Prefetch, no_prefetch


class _Finished:
    """A finished awaitable that may be awaited more than once."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_FINISHED = _Finished()


class Visit:
    """A reader's request for home. `snapshot`: the state of fan-out; None while timelines cannot be used.

    `pins`: the posts that boards bring to this home.
    """

    snapshot: FanoutSnapshot | None = None
    pins: HomePins = HomePins()
    _pinned_ms = 0

    def __init__(
        self,
        reader: NodeId,
        skeletons: Skeletons,
        ranker: Ranker,
        rules: HomeRules,
        pins: PinnedPosts,
        prefetch: Prefetch = no_prefetch,
        pins_until: int | None = None,
    ) -> None:
        """`pins_until`: pins before this time keep the place they had then; see `scroll_until`."""
        self.reader, self.degraded, self._pins, self._pins_until = reader, Degraded(), pins, pins_until
        self._refreshed: Awaitable[None] = _FINISHED
        self._pinning: asyncio.Task[None] | None = None
        self._skeletons, self._ranker, self._rules, self._prefetch = skeletons, ranker, rules, prefetch
        self._reader_facts: ReaderFacts | None = None
        self._checked: dict[int, Post | None] = {}  # None: the rules drop it

    @property
    def pinned(self) -> Pinned:
        """For each post that boards bring, when it was pinned."""
        return self.pins.pinned

    async def begin(self) -> None:
        """Drop from the caches what changed before this request; meanwhile start to read pins."""
        if self._rules.immediate:
            await self._rules.read_cache.refresh()
            return
        self._refreshed = asyncio.ensure_future(self._rules.read_cache.refresh())
        self._pinning = asyncio.ensure_future(self._pin())
        await self._refreshed

    async def reader_facts(self) -> ReaderFacts:
        """The reader's facts for ranking."""
        if self._reader_facts is None:
            self._reader_facts = await self._ranker.reader_facts(self.reader)
        return self._reader_facts

    async def preload(self) -> None:
        """Load ahead what ranking and rules need. Errors are ignored: the later read fails again and reports them."""
        with contextlib.suppress(Exception):
            await gather(self._rules.immediate, self.reader_facts(), self._rules.prepare(self.reader))

    async def resume(self, must_reflect: LogPosition, *, refresh: bool) -> None:
        """Prepare a later page of a scroll: read fan-out's state, and beside it facts and pins."""
        snapshot = self._skeletons.usable_snapshot(must_reflect, self.degraded, refresh=refresh)
        self.snapshot, *_ = await gather(self._rules.immediate, snapshot, self.preload(), self.read_pinned())

    async def read_pinned(self) -> None:
        """Read the posts that boards bring to this home. If boards are unavailable, home continues without them."""
        await (self._pin() if self._pinning is None else self._pinning)

    async def _pin(self) -> None:
        self._pinned_ms = self._pins.now_ms()
        try:
            self.pins = await self._pins.of(self.reader, self._refreshed, self._pins_until)
        except Unavailable:
            self.degraded.failed("boards")

    def scroll_until(self) -> int | None:
        """The `pins_until` of this scroll's later pages: just after the newest pin of the first page with pins."""
        if self._pins_until is None and self.pinned:
            return max(self._pinned_ms, *self.pinned.values()) + 1
        return self._pins_until

    async def check(self, ids: Sequence[int], spare: Sequence[int] = ()) -> None:
        """Check posts by the rules. `spare`: posts to check too that may not be shown on this page."""
        found, rules, generation = self._checked, self._rules, self._rules.read_cache.generation
        new = [id_ for id_ in (*ids, *spare) if id_ not in found] if found else [*ids, *spare]
        if not new:
            return
        may_be_kept = not (found or self.pinned)
        if may_be_kept and (recalled := rules.recall(self.reader, new)) is not None:
            self._checked = dict(recalled)
            return
        read, shown = await rules.read(new), set(ids)
        allowed, _ = await gather(
            rules.immediate,
            rules.allowed(self.reader, read, self.pinned),
            self._prefetch([post for post in read if post.id in shown]),
        )
        found.update(dict.fromkeys(new))
        found.update((post.id, post) for post in allowed)
        if may_be_kept:
            rules.remember(generation, self.reader, new, read, dict(found))

    def allowed(self, ids: Sequence[int]) -> list[Post]:
        """Those of the posts, all checked before, that the rules allow, in their order."""
        found = self._checked
        return [post for id_ in ids if (post := found[id_]) is not None]

    # --- posts, and their order ------------------------------------------------------------------------

    async def below(self, after: Mark | None, want: int) -> Skeleton:
        """The posts beyond `after`, pinned ones included. See `Skeletons.below`."""
        found = await self._posts_below(after, want)
        return with_pins(found, self.pins, after)

    async def _posts_below(self, after: Mark | None, want: int) -> Skeleton:
        return await self._skeletons.below(
            self.reader, place_among_posts(after), want, self.degraded, snapshot=self.snapshot
        )

    async def first_below(self, after: Mark | None, want: int, must_reflect: LogPosition, *, refresh: bool) -> Skeleton:
        """As `below`, for the first read of a visit: it also reads fan-out's state and the pins."""

        async def posts() -> Skeleton:
            self.snapshot = await self._skeletons.usable_snapshot(must_reflect, self.degraded, refresh=refresh)
            return await self._posts_below(after, want)

        found, _ = await gather(self._rules.immediate, posts(), self.read_pinned())
        return with_pins(found, self.pins, after)

    async def newest(self, must_reflect: LogPosition, *, refresh: bool = False) -> Skeleton:
        """The newest SLATE_MAX posts."""
        return (await self.first_below(None, SLATE_MAX, must_reflect, refresh=refresh)).first(SLATE_MAX)

    async def rank_below(self, after: Mark | None, scroll: Scroll) -> tuple[Slate, RankedCandidates | None]:
        """Rank the posts beyond `after`: a slate of the unseen ones, or of the seen ones if the scroll shows those.

        If ranking is down, the slate has all posts, newest first, without candidates, and no seen posts follow it.
        """
        skeleton = (await self.below(after, SLATE_MAX)).first(SLATE_MAX)
        return await self.rank(skeleton.down_to(scroll.seen_from if scroll.showing_seen else None), scroll)

    async def rank(
        self, skeleton: Skeleton, scroll: Scroll, *, begins: bool = False
    ) -> tuple[Slate, RankedCandidates | None]:
        """As `rank_below`, for the posts of a skeleton. `begins`: they are the first of the scroll."""
        ids, end = skeleton.ids, skeleton.end
        try:
            reader = await self.reader_facts()
            if scroll.showing_seen:
                until_ms = scroll.begun_ms if scroll.seen_until is None else scroll.seen_until
                seen = await self._ranker.seen_until(reader, ids, until_ms)
            else:
                seen = await self._ranker.seen(reader, ids)
                if begins:
                    scroll = scroll._replace(seen_until=reader.own.newest_view_ms)
                scroll = scroll.with_skipped(skeleton.top) if seen.any() else scroll
            scored = await self._ranker.score_seen_or_unseen(
                reader, ids, seen, self.pinned, showing_seen=scroll.showing_seen
            )
            return make_slate(scored, end, scroll)
        except Exception:
            self.degraded.failed("ranking")
            return (Slate([], scroll.seen_from) if scroll.showing_seen else Slate(ids.tolist(), end)), None

    async def score(self, ids: Sequence[int]) -> Candidates:
        """Scores of those of the posts that exist, in their order."""
        wanted = np.array(ids, np.int64)
        try:
            return await self._ranker.score(await self.reader_facts(), wanted, self.pinned)
        except Exception:
            self.degraded.failed("ranking")
            return Candidates.unranked(wanted)

    async def own_state(self) -> ListState | None:
        """The state of the reader's lists, to compare with a cached order; None if ranking is down."""
        try:
            return (await self._ranker.own(self.reader)).state
        except Exception:
            self.degraded.failed("ranking")
            return None
