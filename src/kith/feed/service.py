"""A page of home: skeleton, posts in one batch, hard rules, page.

The skeleton is the reader's timeline, merged with the outboxes of followed authors who are not pushed and with the
reader's own. Where there is no timeline, where fan-out lags, and past a timeline's end, it is the outboxes of all
who are followed: slower, and never less. So the feed is right whatever state the timelines are in; they only make it
fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.events import TIMELINE_WANTED, Event
from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark, Window
from kith.feed.sources import Sources
from kith.graph.graphs import HIDES, MUTES
from kith.graph.service import GraphService
from kith.log.runner import lag_of
from kith.log.store import LogStore
from kith.objects.posts import Post
from kith.objects.service import ObjectService
from kith.timeline.store import Ids, TimelineReader

_ROUNDS_MAX = 10
_WANTED_AGAIN_S = 30.0
_WANTED_MAX = 100_000


class HomePage(NamedTuple):
    """Posts newest first. `end`: where the next page begins, None at the end; `degraded`: what was not available."""

    posts: list[Post]
    end: Mark | None
    degraded: list[str]


class Skeleton(NamedTuple):
    """Ids newest first, all there are down to `floor` (None: to the end of everything)."""

    ids: list[int]
    floor: Mark | None


class FeedService:
    """Reads home feeds in an API process. `group`: the consumer that keeps the timelines."""

    def __init__(
        self,
        graph: GraphService,
        objects: ObjectService,
        timelines: TimelineReader,
        log: LogStore,
        *,
        group: str,
        lag_max_s: float = 2.0,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._graph, self._objects, self._timelines, self._log = graph, objects, timelines, log
        self._sources = Sources(graph)
        self._mutes, self._hides = graph.graphs.number(MUTES), graph.graphs.number(HIDES)
        self._group, self._lag_max_s, self._now_s = group, lag_max_s, now_s
        self._wanted: dict[int, float] = {}

    async def latest(self, viewer: NodeId, window: Window, *, seen: int = 0, refresh: bool = False) -> HomePage:
        """Posts of those whom `viewer` follows and their own, newest first.

        `seen`: a log sequence number that must be reflected (read-your-writes); `refresh`: past the timeline.
        """
        late = await self._is_late(seen)
        direct = refresh or late is not None
        found: list[Post] = []
        place: Mark | None = window.after
        end: Mark | None = None
        for _ in range(_ROUNDS_MAX):
            skeleton = await self._skeleton(viewer, place, 2 * window.limit, direct)
            for start in range(0, len(skeleton.ids), 2 * window.limit):
                found += await self._ruled(viewer, skeleton.ids[start : start + 2 * window.limit])
                if len(found) > window.limit:
                    posts = found[: window.limit]
                    return HomePage(posts, _mark(posts[-1].id), late or [])
            place = end = skeleton.floor
            if place is None:
                break
        return HomePage(found, end, late or [])

    async def _skeleton(self, viewer: NodeId, after: Mark | None, want: int, direct: bool) -> Skeleton:
        if not direct:
            pushed = self._timelines.newest(viewer)
            if pushed is None:
                await self._want(viewer)
            elif len(below := _below(np.sort(pushed)[::-1], after)):
                self._timelines.touch(viewer)
                floor = _mark(int(below[-1]))
                followed = await self._sources.followed_of(viewer, [*await self._sources.pulled(), int(viewer)])
                pulled = await self._sources.outboxes(followed, len(below), after)
                ids = {int(id_) for id_ in below} | {mark.id for mark in pulled if mark >= floor}
                return Skeleton(sorted(ids, reverse=True), floor)
        marks = await self._sources.outboxes((await self._sources.authors(viewer)).tolist(), want, after)
        return Skeleton([mark.id for mark in marks], marks[-1] if len(marks) == want else None)

    async def _ruled(self, viewer: NodeId, ids: Sequence[int]) -> list[Post]:
        """Those of the posts that belong into this home: visible, of followed authors, not muted, not hidden."""
        posts = [post for post in await self._objects.visible(viewer, ids) if post is not None]
        authors = list({post.author for post in posts})
        store = self._graph.store
        followed = set(await self._sources.followed_of(viewer, authors))
        muted = await store.exists_many(self._mutes, [(viewer, author) for author in authors])
        hidden = await store.exists_many(self._hides, [(viewer, post.id) for post in posts])
        silent = {author for author, mute in zip(authors, muted, strict=True) if mute}
        return [
            post
            for post, hide in zip(posts, hidden, strict=True)
            if post.author in followed and post.author not in silent and not hide
        ]

    async def _is_late(self, seen: int) -> list[str] | None:
        """What to say if timelines cannot be relied on now; empty if they only lack the reader's last write."""
        at = await self._log.progress(self._group)
        if at is None or lag_of(self._log, at, int(self._now_s() * 1000)).oldest_s > self._lag_max_s:
            return ["fanout"]
        return [] if at < seen else None

    async def _want(self, viewer: NodeId) -> None:
        """Ask fan-out for a timeline, once in a while."""
        now = self._now_s()
        if now - self._wanted.get(viewer, 0.0) > _WANTED_AGAIN_S:
            if len(self._wanted) >= _WANTED_MAX:
                self._wanted.clear()
            self._wanted[viewer] = now
            await self._log.announce(Event(0, 0, None, TIMELINE_WANTED, int(viewer), 0, 0, self._graph.clock.next()))


def _mark(post: int) -> Mark:
    """Where a post stands in its author's outbox."""
    return Mark(made_at_ms(post), post)


def _below(ids: Ids, after: Mark | None) -> Ids:
    """Ids (descending) beyond the place; ids sort by time."""
    return ids if after is None else ids[np.searchsorted(-ids, -after.id, side="right") :]
