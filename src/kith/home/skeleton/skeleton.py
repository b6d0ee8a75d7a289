"""Skeletons: the ids that a page of home is made from, newest first, before any record is read.

A skeleton is the reader's timeline, merged with the reader's own posts and with the outboxes of followed authors whose
posts the timeline may lack. If there is no timeline, if fan-out lags, and past the timeline's end, a skeleton is read
from the outboxes of all followed authors. That is slower and finds the same posts. So home is right in whatever state
the timelines are; they only make it fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kith.core.errors import StoreUnavailable, Unavailable
from kith.core.events import TIMELINE_REQUESTED, Event, LogPosition
from kith.core.gathering import gather
from kith.core.ids import ID_MAX, NodeId, made_at_ms
from kith.core.paging import Mark
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Ids
from kith.home.degraded import Degraded
from kith.home.fanout.state import FanoutSnapshot, FanoutState
from kith.home.skeleton.sources import Sources
from kith.home.skeleton.unhandled import NOTHING, UNKNOWN, Unhandled, UnhandledEvents
from kith.home.timelines import Timeline, TimelineReader
from kith.log.store import LogStore
from kith.records.cache_tables import CachedValues, make_room
from kith.records.read_cache import ReadCache

_OWN_POSTS_MAX = 20
"""The reader's newest own posts that are read beside a timeline, because fan-out may not have pushed them yet."""
_COMPLETE_IDS_MIN = 50
"""Below so many ids a timeline does not count as complete. So older posts of a newly followed author show at once."""
_LAG_MAX_S = 2.0
"""Home uses timelines only while fan-out lags at most this far."""
_SNAPSHOT_MAX_AGE_S = 1.0
"""Age up to which fan-out's snapshot is used while a newer one is loaded. The log tells what the snapshot lacks."""
_SNAPSHOT_REFRESH_AGE_S = 0.3
"""Age from which a request reloads the snapshot in the background."""
_SNAPSHOT_RETRY_S = 1.0
"""Pause before retrying a snapshot that could not be read."""
_NO_POSTS = np.empty(0, np.int64)
_REQUEST_RETRY_S = 30.0
"""Pause before requesting a missing timeline again."""
_REQUESTS_MAX = 100_000
_READERS_MAX = 10_000
"""Readers whose newest own posts are cached, 0.3 KB each."""
_SKELETONS_MAX = 4_000
"""Readers whose skeleton is cached, 4 KB each, until their timeline or own posts change."""


class Skeleton(NamedTuple):
    """All post ids down to `end`, newest first. `end`: where older posts begin; None: there are none."""

    ids: Ids
    end: Mark | None
    dates: Mapping[int, int] = MappingProxyType({})  # of posts whose place is not their creation time

    def first(self, count: int) -> Skeleton:
        """The skeleton of its newest `count` posts."""
        if len(self.ids) <= count:
            return self
        return Skeleton(self.ids[:count], self.mark_of(int(self.ids[count - 1])), self.dates)

    @property
    def top(self) -> Mark:
        """The place just above its first post. Later posts stand above it."""
        position, id_ = self.mark_of(int(self.ids[0]))
        return Mark(position, min(id_ + 1, ID_MAX))

    def down_to(self, bottom: Mark | None) -> Skeleton:
        """The skeleton cut at `bottom`; unchanged if it ends before."""
        if bottom is None or (self.end is not None and self.end >= bottom):
            return self
        ids = [id_ for id_ in self.ids.tolist() if self.mark_of(id_) >= bottom]
        return Skeleton(np.array(ids, np.int64), bottom, self.dates)

    def mark_of(self, post: int) -> Mark:
        """The place of one of its posts."""
        return mark_of(post) if post not in self.dates else Mark(self.dates[post], post)


class ReaderTimeline(NamedTuple):
    """A reader's timeline, and what it may lack, read together."""

    timeline: Timeline | None
    lacking: Ids  # authors whose posts it may lack, followed or not
    own: Ids | None  # the reader's newest own posts; None if outboxes are unavailable


class _CachedSkeleton(NamedTuple):
    """A cached skeleton with its inputs. It is valid while both are the same objects."""

    timeline: Timeline
    own: Ids
    skeleton: Skeleton


class Skeletons:
    """Makes skeletons in an API process."""

    def __init__(
        self,
        graph: Graph,
        timelines: TimelineReader,
        fanout: FanoutState,
        log: LogStore,
        read_cache: ReadCache,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._sources, self._clock = Sources(graph), graph.clock
        self._timelines, self._fanout, self.log = timelines, fanout, log
        self._immediate = timelines.immediate and fanout.immediate and graph.store.immediate
        self._unhandled = UnhandledEvents(log, graph.graphs)
        self._now_s = now_s
        self._own_posts: CachedValues[Ids] = read_cache.of_edges((graph.graphs.number(AUTHORED),), _READERS_MAX)
        self._cached, self._cached_max = dict[int, _CachedSkeleton](), read_cache.room(_SKELETONS_MAX)
        self._requested: dict[int, float] = {}
        self._snapshot: FanoutSnapshot | None = None
        self._retry_after_s = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._snapshot_at_s = 0.0  # when it was requested, by the event loop's clock

    async def usable_snapshot(
        self, must_reflect: LogPosition, degraded: Degraded, *, refresh: bool
    ) -> FanoutSnapshot | None:
        """Fan-out's snapshot if home may use timelines now, otherwise None.

        The snapshot may be up to _SNAPSHOT_MAX_AGE_S old. That is safe because the events of the log beyond it are read
        too. `must_reflect`: the log position that the answer must reflect. `refresh`: the request bypasses timelines.
        """
        if refresh:
            return None
        snapshot = self._fresh_snapshot()
        try:
            if snapshot is None or not self._reflects(snapshot, must_reflect):
                snapshot = await self._read_snapshot()
        except Unavailable:
            degraded.failed("fanout")
            return None
        if snapshot.lag_s(int(self._now_s() * 1000)) > _LAG_MAX_S:
            degraded.note("fanout")
            return None
        return snapshot if self._reflects(snapshot, must_reflect) else None

    async def prepare(self) -> None:
        """On an engine across a network, load fan-out's snapshot ahead unless a fresh one is cached."""
        if not self._immediate and self._fresh_snapshot() is None:
            with contextlib.suppress(Unavailable):
                await self._read_snapshot()

    def _reflects(self, snapshot: FanoutSnapshot, must_reflect: LogPosition) -> bool:
        return snapshot.progress is not None and self.log.covers(snapshot.progress.at, must_reflect)

    def _fresh_snapshot(self) -> FanoutSnapshot | None:
        """The cached snapshot if it is fresh. Never on an immediate engine, where reading it costs nothing."""
        if self._immediate or asyncio.get_running_loop().time() - self._snapshot_at_s > _SNAPSHOT_MAX_AGE_S:
            return None
        return self._snapshot

    async def _read_snapshot(self) -> FanoutSnapshot:
        """Read fan-out's snapshot, and cache it for other requests."""
        if self._immediate:
            return await self._fanout.snapshot()
        asked_s = asyncio.get_running_loop().time()
        if asked_s < self._retry_after_s:
            raise StoreUnavailable("what fan-out noted could not be read a moment ago")
        try:
            snapshot = await self._fanout.snapshot()
        except Unavailable:
            self._retry_after_s = asyncio.get_running_loop().time() + _SNAPSHOT_RETRY_S
            raise
        if asked_s >= self._snapshot_at_s:
            self._snapshot, self._snapshot_at_s = snapshot, asked_s
        return snapshot

    def _refresh_in_background(self) -> None:
        """On an engine across a network, reload the snapshot in the background so that later requests need not wait. At
        most one reload runs at a time."""
        loop = asyncio.get_running_loop()
        if self._immediate or loop.time() - self._snapshot_at_s < _SNAPSHOT_REFRESH_AGE_S:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = loop.create_task(self._refresh())

    async def _refresh(self) -> None:
        with contextlib.suppress(Unavailable):  # then the next request reports it
            await self._read_snapshot()

    async def below(
        self, reader: NodeId, after: Mark | None, want: int, degraded: Degraded, *, snapshot: FanoutSnapshot | None
    ) -> Skeleton:
        """The skeleton beyond `after`: the rest of the timeline, or `want` ids from the outboxes.

        `snapshot`: the result of `usable_snapshot`.
        """
        found = await self._timeline_of(reader, after, degraded, snapshot) if snapshot is not None else None
        if found is None:
            return await self._from_outboxes(reader, after, want)
        if found.timeline is not None and not found.timeline.needs_rebuild:
            self._requested.pop(reader, None)  # so a timeline dropped later is requested at once
            return await self._merged(found, reader, after, want, degraded)
        wish, merged = self._request_timeline(reader, degraded), self._merged(found, reader, after, want, degraded)
        _, skeleton = await gather(self._immediate, wish, merged)
        return skeleton

    async def _timeline_of(
        self, reader: NodeId, after: Mark | None, degraded: Degraded, fanout: FanoutSnapshot
    ) -> ReaderTimeline | None:
        """The reader's timeline and what it may lack; None if home must not use one for this reader.

        That is so if fan-out has not yet handled a change of the reader's follows or a bulk load, if it lags by too
        many events to read here, or if it failed on an event of the reader, on a bulk load, or on too many events.
        """
        if not fanout.keeps(reader):
            return None
        self._refresh_in_background()
        unhandled, timeline, own = await gather(
            self._immediate,
            self._unhandled_by(fanout, degraded),
            self._read_timeline(reader, fanout, degraded),
            self._own_newest(reader, after, degraded),
        )
        if unhandled is UNKNOWN and (timeline is None or timeline.needs_rebuild):
            await self._request_timeline(reader, degraded)
        if unhandled.invalidates(reader):
            return None
        lacking = _append(fanout.undelivered(), unhandled.authors)
        if timeline is not None:
            lacking = _append(lacking, fanout.withheld.at_least(timeline.withheld_rate_min))
        return ReaderTimeline(timeline, np.unique(lacking) if len(lacking) else lacking, own)

    async def _unhandled_by(self, fanout: FanoutSnapshot, degraded: Degraded) -> Unhandled:
        """The effects of events in the log that fan-out has not handled."""
        if self._immediate and fanout.progress is not None and not fanout.progress.behind.events:
            return NOTHING  # the snapshot was read just now
        try:
            if fanout.progress is not None and await self._unhandled.follow(fanout.progress):
                return self._unhandled.now
            degraded.note("fanout")
        except Unavailable:
            degraded.failed("fanout")
        return UNKNOWN

    async def _read_timeline(self, reader: NodeId, fanout: FanoutSnapshot, degraded: Degraded) -> Timeline | None:
        """The reader's timeline, if these are the timelines that fan-out writes for this store."""
        try:
            for _ in range(2):
                timeline, name = await gather(
                    self._immediate, self._timelines.read(reader, by_user=True), self._timelines.name()
                )
                if fanout.name in (None, name):
                    return timeline
                self._timelines.close()  # its files may have been replaced
        except Exception:
            degraded.failed("timelines")
        degraded.note("timelines")
        return None

    async def _own_newest(self, reader: NodeId, after: Mark | None, degraded: Degraded) -> Ids | None:
        """The reader's newest own posts beyond `after`, newest first."""
        try:
            if after is not None:
                return await self._sources.newest(reader, _OWN_POSTS_MAX, after)
            return await self._own_posts.get(reader, lambda: self._sources.newest(reader, _OWN_POSTS_MAX))
        except Unavailable:
            degraded.failed("outboxes")
            return None

    async def _merged(
        self, found: ReaderTimeline, reader: NodeId, after: Mark | None, want: int, degraded: Degraded
    ) -> Skeleton:
        """The timeline beyond `after`, merged with the posts it may lack; at its end `want` ids from the outboxes."""
        timeline, own = found.timeline, found.own
        if timeline is None:
            return await self._from_outboxes(reader, after, want)
        made = self._cached.get(reader) if after is None and not len(found.lacking) else None
        if made is not None and made.timeline is timeline and made.own is own:
            return made.skeleton
        end = end_of(timeline)
        ids = _between(timeline.ids, after, end)
        if end is not None and not len(ids):
            return await self._from_outboxes(reader, after, want)
        if own is None:
            return Skeleton(ids, end)
        try:
            lacked, later_end = await self._missing_posts(found, reader, ids, after, max(want, len(ids)))
        except Unavailable:
            degraded.failed("outboxes")
            return Skeleton(ids, end)
        if later_end is not None:
            end = later_end if end is None else max(end, later_end)
        if later_end is not None or not _has_all(ids, lacked):
            ids = _between(np.append(ids, lacked), after, end)
        skeleton = Skeleton(ids, end)
        if after is None and not len(found.lacking):
            if len(self._cached) >= self._cached_max:
                make_room(self._cached, 1)
            self._cached[reader] = _CachedSkeleton(timeline, own, skeleton)
        return skeleton

    async def _from_outboxes(self, reader: NodeId, after: Mark | None, want: int) -> Skeleton:
        """`want` ids from the outboxes of all followed authors and the reader."""
        authors = await self._sources.authors(reader)
        marks = await self._sources.outboxes(authors.tolist(), want, after)
        return Skeleton(np.array([mark.id for mark in marks], np.int64), marks[-1] if len(marks) == want else None)

    async def _missing_posts(
        self, found: ReaderTimeline, reader: NodeId, ids: Ids, after: Mark | None, want: int
    ) -> tuple[Ids, Mark | None]:
        """Posts that a timeline of these `ids` may lack: the reader's newest own, and `want` of the `lacking` authors.

        Also returns the place down to which these are complete; None: no older ones exist.
        """
        own, ends = found.own if found.own is not None else _NO_POSTS, []
        if len(own) == _OWN_POSTS_MAX and own[-1] not in ids:  # older own posts may not be pushed yet either
            ends.append(mark_of(int(own[-1])))
        if not len(found.lacking):
            return own, max(ends, default=None)
        marks = await self._sources.outboxes_of_followed(reader, found.lacking, want, after)
        if len(marks) == want:
            ends.append(marks[-1])
        return np.append(own, np.array([mark.id for mark in marks], np.int64)), max(ends, default=None)

    async def _request_timeline(self, reader: NodeId, degraded: Degraded) -> None:
        """Request a timeline from fan-out, at most once in _REQUEST_RETRY_S for each reader."""
        now = self._now_s()
        if abs(now - self._requested.get(reader, 0.0)) <= _REQUEST_RETRY_S:
            return
        if len(self._requested) >= _REQUESTS_MAX:
            self._requested.clear()
        self._requested[reader] = now
        try:
            await self.log.announce(Event(0, None, TIMELINE_REQUESTED, int(reader), 0, 0, self._clock.next()))
        except Unavailable:  # such as a full disk; reads continue
            degraded.failed("timelines")


def mark_of(post: int) -> Mark:
    """The place of a post in its author's outbox."""
    return Mark(made_at_ms(post), post)


def _append(ids: Ids, others: Ids) -> Ids:
    """`ids` followed by `others`, without a copy in the common case that `others` is empty."""
    return np.append(ids, others) if len(others) else ids


def end_of(timeline: Timeline) -> Mark | None:
    """The place down to which a timeline has every pushed post; None: it is complete."""
    if timeline.floor:
        return mark_of(timeline.floor + 1)
    return mark_of(int(min(timeline.ids, default=ID_MAX))) if len(timeline.ids) < _COMPLETE_IDS_MIN else None


def _has_all(ids: Ids, others: Ids) -> bool:
    """Whether all of `others` are in `ids`, which descend."""
    if not len(others):
        return True
    ascending = ids[::-1]
    places = ascending.searchsorted(others)
    return bool(len(ids) and (ascending.take(places, mode="clip") == others).all())


def _between(ids: Ids, after: Mark | None, end: Mark | None) -> Ids:
    """The ids beyond `after` down to `end` inclusive, each once, descending. Ids sort by time."""
    if (ids[1:] < ids[:-1]).all():  # the common case
        ids = ids[::-1]
    else:
        ids = np.sort(ids)
        first = np.ones(len(ids), np.bool_)  # occurrence of each; np.unique takes five times as long for so few
        np.not_equal(ids[1:], ids[:-1], out=first[1:])
        ids = ids[first]
    start = 0 if end is None else ids.searchsorted(end.id)
    stop = len(ids) if after is None else ids.searchsorted(after.id)
    return ids[start:stop][::-1]
