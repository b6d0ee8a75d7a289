"""The ids a page of home is made from, newest first, before anything is known of them.

A reader's timeline, merged with the outboxes of followed authors whose posts it may lack and with the reader's own.
Where there is no timeline, where fan-out lags, and past a timeline's end, it is the outboxes of all who are followed:
slower, and never less. So the feed is right whatever state the timelines are in; they only make it fast.
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
from kith.core.events import TIMELINE_WANTED, Event, LogPosition
from kith.core.ids import ID_MAX, NodeId, made_at_ms
from kith.core.paging import Mark
from kith.core.together import together
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Ids
from kith.home.degraded import Degraded
from kith.home.fanout.state import FanoutSnapshot, FanoutState
from kith.home.skeleton.sources import Sources
from kith.home.skeleton.unhandled import NOTHING, UNKNOWN, Unhandled, UnhandledEvents
from kith.home.timelines import Timeline, TimelineReader
from kith.log.store import LogStore
from kith.records.memory import ReadMemory
from kith.records.tables import Remembered, make_room

_OWN_LATEST = 20
"""Own posts that are read beside a timeline, which may not have them yet: fan-out is behind by a moment at most."""
_SHORT = 50
"""A timeline of fewer ids is not taken for all there is: older posts of somebody just followed are seen at once."""
_LAG_MAX_S = 2.0
"""How far behind fan-out may be for timelines to be relied on."""
_SNAPSHOT_MAX_AGE_S = 1.0
"""How long what fan-out noted (its snapshot) is relied on, while what was noted since is being read. The log tells what
it lacks.
"""
_SNAPSHOT_REFRESH_AGE_S = 0.3
"""The age from which a request has it read again in the background."""
_SNAPSHOT_RETRY_S = 1.0
"""How long it is not asked for again once it could not be read."""
_NO_POSTS = np.empty(0, np.int64)
_WANTED_AGAIN_S = 30.0
"""How long until a timeline that did not come is asked for again."""
_WANTED_MAX = 100_000
_READERS_MAX = 10_000
"""Readers whose newest posts are kept, 0.3 KB each."""
_MADE_MAX = 4_000
"""Readers whose skeleton is kept, 4 KB each, for as long as their timeline and own posts are the same."""


class Skeleton(NamedTuple):
    """Ids newest first: all there are down to `end`, which is where older ones begin. None: there are no older ones."""

    ids: Ids
    end: Mark | None
    dates: Mapping[int, int] = MappingProxyType({})  # of posts that stand elsewhere than they were made

    def first(self, count: int) -> Skeleton:
        """The newest `count` of it."""
        if len(self.ids) <= count:
            return self
        return Skeleton(self.ids[:count], self.mark_of(int(self.ids[count - 1])), self.dates)

    @property
    def top(self) -> Mark:
        """The place just above its first post: what comes later stands above it."""
        position, id_ = self.mark_of(int(self.ids[0]))
        return Mark(position, min(id_ + 1, ID_MAX))

    def down_to(self, bottom: Mark | None) -> Skeleton:
        """As much of it as is not beyond `bottom`, where it ends at the latest."""
        if bottom is None or (self.end is not None and self.end >= bottom):
            return self
        ids = [id_ for id_ in self.ids.tolist() if self.mark_of(id_) >= bottom]
        return Skeleton(np.array(ids, np.int64), bottom, self.dates)

    def mark_of(self, post: int) -> Mark:
        """Where a post of it stands."""
        return mark_of(post) if post not in self.dates else Mark(self.dates[post], post)


class ReaderTimeline(NamedTuple):
    """A reader's timeline and what it may lack, read together."""

    timeline: Timeline | None
    lacking: Ids  # authors whose posts it may lack, whether the reader follows them or not
    own: Ids | None  # the newest of the reader's own posts; None where outboxes are unavailable


class _Made(NamedTuple):
    """A skeleton, and what it was made of: it is the same while these are the very same."""

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
        memory: ReadMemory,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._sources, self._clock = Sources(graph), graph.clock
        self._timelines, self._fanout, self.log = timelines, fanout, log
        self._immediate = timelines.immediate and fanout.immediate and graph.store.immediate
        self._unhandled = UnhandledEvents(log, graph.graphs)
        self._now_s = now_s
        self._own_posts: Remembered[Ids] = memory.of_edges((graph.graphs.number(AUTHORED),), _READERS_MAX)
        self._made, self._made_max = dict[int, _Made](), memory.room(_MADE_MAX)
        self._wanted: dict[int, float] = {}
        self._snapshot: FanoutSnapshot | None = None
        self._away_until_s = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._snapshot_at_s = 0.0  # when it was asked for, by the clock of the event loop

    async def usable_snapshot(
        self, must_reflect: LogPosition, degraded: Degraded, *, refresh: bool
    ) -> FanoutSnapshot | None:
        """What fan-out has noted, where timelines can be relied on now; None where they cannot.

        It may be a moment old. That is safe because the events that the log holds beyond it are looked at too.
        `must_reflect`: the place in the log that the answer must reflect; `refresh`: the reader wants none of the
        timeline.
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
        """Ask what fan-out has noted, where that will be asked for and takes a call."""
        if not self._immediate and self._fresh_snapshot() is None:
            with contextlib.suppress(Unavailable):
                await self._read_snapshot()

    def _reflects(self, snapshot: FanoutSnapshot, must_reflect: LogPosition) -> bool:
        return snapshot.progress is not None and self.log.covers(snapshot.progress.at, must_reflect)

    def _fresh_snapshot(self) -> FanoutSnapshot | None:
        """What was noted a moment ago, where asking anew would take a call of its own."""
        if self._immediate or asyncio.get_running_loop().time() - self._snapshot_at_s > _SNAPSHOT_MAX_AGE_S:
            return None
        return self._snapshot

    async def _read_snapshot(self) -> FanoutSnapshot:
        """What fan-out has noted by now. Those who come in the next moment rely on it too."""
        if self._immediate:
            return await self._fanout.snapshot()
        asked_s = asyncio.get_running_loop().time()
        if asked_s < self._away_until_s:
            raise StoreUnavailable("what fan-out noted could not be read a moment ago")
        try:
            snapshot = await self._fanout.snapshot()
        except Unavailable:
            self._away_until_s = asyncio.get_running_loop().time() + _SNAPSHOT_RETRY_S
            raise
        if asked_s >= self._snapshot_at_s:
            self._snapshot, self._snapshot_at_s = snapshot, asked_s
        return snapshot

    def _refresh_in_background(self) -> None:
        """On an engine across a network: have fan-out's notes read for the next requests, so that they need not wait
        for them; once, while several ask."""
        loop = asyncio.get_running_loop()
        if self._immediate or loop.time() - self._snapshot_at_s < _SNAPSHOT_REFRESH_AGE_S:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = loop.create_task(self._refresh())

    async def _refresh(self) -> None:
        with contextlib.suppress(Unavailable):  # then they find out themselves
            await self._read_snapshot()

    async def below(
        self, reader: NodeId, after: Mark | None, want: int, degraded: Degraded, *, snapshot: FanoutSnapshot | None
    ) -> Skeleton:
        """What there is beyond `after`: the rest of the timeline, or `want` ids of the outboxes.

        `snapshot`: what `usable_snapshot` answered.
        """
        found = await self._timeline_of(reader, after, degraded, snapshot) if snapshot is not None else None
        if found is None:
            return await self._from_outboxes(reader, after, want)
        if found.timeline is not None and not found.timeline.needs_rebuild:
            self._wanted.pop(reader, None)  # if it is dropped later, it is wanted at once
            return await self._merged(found, reader, after, want, degraded)
        wish, merged = self._ask_for_timeline(reader, degraded), self._merged(found, reader, after, want, degraded)
        _, skeleton = await together(self._immediate, wish, merged)
        return skeleton

    async def _timeline_of(
        self, reader: NodeId, after: Mark | None, degraded: Degraded, fanout: FanoutSnapshot
    ) -> ReaderTimeline | None:
        """The reader's timeline and what it may lack; None where no timeline of theirs can be relied on.

        That is: fan-out has not come to a change of the reader's follows, to a bulk load, or to more than can be looked
        at; or it failed on an event of the reader, a bulk load, or too many.
        """
        if not fanout.keeps(reader):
            return None
        self._refresh_in_background()
        unhandled, timeline, own = await together(
            self._immediate,
            self._unhandled_by(fanout, degraded),
            self._kept_timeline(reader, fanout, degraded),
            self._own_newest(reader, after, degraded),
        )
        if unhandled is UNKNOWN and (timeline is None or timeline.needs_rebuild):
            await self._ask_for_timeline(reader, degraded)
        if unhandled.spoils(reader):
            return None
        lacking = _appended(fanout.undelivered(), unhandled.authors)
        if timeline is not None:
            lacking = _appended(lacking, fanout.withheld.at_least(timeline.lacks_from))
        return ReaderTimeline(timeline, np.unique(lacking) if len(lacking) else lacking, own)

    async def _unhandled_by(self, fanout: FanoutSnapshot, degraded: Degraded) -> Unhandled:
        """What the log holds by now that fan-out had not come to."""
        if self._immediate and fanout.progress is not None and not fanout.progress.behind.events:
            return NOTHING  # by now is the moment of the snapshot
        try:
            if fanout.progress is not None and await self._unhandled.follow(fanout.progress):
                return self._unhandled.now
            degraded.note("fanout")
        except Unavailable:
            degraded.failed("fanout")
        return UNKNOWN

    async def _kept_timeline(self, reader: NodeId, fanout: FanoutSnapshot, degraded: Degraded) -> Timeline | None:
        """The reader's timeline, if those that are read here are those that fan-out keeps for this store."""
        try:
            for _ in range(2):
                timeline, name = await together(
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
        """The newest of the reader's own posts beyond `after`, newest first."""
        try:
            if after is not None:
                return await self._sources.newest(reader, _OWN_LATEST, after)
            return await self._own_posts.get(reader, lambda: self._sources.newest(reader, _OWN_LATEST))
        except Unavailable:
            degraded.failed("outboxes")
            return None

    async def _merged(
        self, found: ReaderTimeline, reader: NodeId, after: Mark | None, want: int, degraded: Degraded
    ) -> Skeleton:
        """What the timeline holds beyond `after`, with what it may lack; where it is at its end, `want` of outboxes."""
        timeline, own = found.timeline, found.own
        if timeline is None:
            return await self._from_outboxes(reader, after, want)
        made = self._made.get(reader) if after is None and not len(found.lacking) else None
        if made is not None and made.timeline is timeline and made.own is own:
            return made.skeleton
        end = end_of(timeline)
        ids = _between(timeline.ids, after, end)
        if end is not None and not len(ids):
            return await self._from_outboxes(reader, after, want)
        if own is None:
            return Skeleton(ids, end)
        try:
            lacked, later_end = await self._lacked_posts(found, reader, ids, after, max(want, len(ids)))
        except Unavailable:
            degraded.failed("outboxes")
            return Skeleton(ids, end)
        if later_end is not None:
            end = later_end if end is None else max(end, later_end)
        if later_end is not None or not _has_all(ids, lacked):
            ids = _between(np.append(ids, lacked), after, end)
        skeleton = Skeleton(ids, end)
        if after is None and not len(found.lacking):
            if len(self._made) >= self._made_max:
                make_room(self._made, 1)
            self._made[reader] = _Made(timeline, own, skeleton)
        return skeleton

    async def _from_outboxes(self, reader: NodeId, after: Mark | None, want: int) -> Skeleton:
        """`want` ids of all whom the reader follows."""
        authors = await self._sources.authors(reader)
        marks = await self._sources.outboxes(authors.tolist(), want, after)
        return Skeleton(np.array([mark.id for mark in marks], np.int64), marks[-1] if len(marks) == want else None)

    async def _lacked_posts(
        self, found: ReaderTimeline, reader: NodeId, ids: Ids, after: Mark | None, want: int
    ) -> tuple[Ids, Mark | None]:
        """What a timeline of these `ids` may lack: the reader's own latest posts, and `want` posts of the authors.

        Also answers down to where that is all of them; None: they have no older ones.
        """
        own, ends = found.own if found.own is not None else _NO_POSTS, []
        if len(own) == _OWN_LATEST and own[-1] not in ids:  # more of them may not have been pushed yet
            ends.append(mark_of(int(own[-1])))
        if not len(found.lacking):
            return own, max(ends, default=None)
        marks = await self._sources.outboxes_of_followed(reader, found.lacking, want, after)
        if len(marks) == want:
            ends.append(marks[-1])
        return np.append(own, np.array([mark.id for mark in marks], np.int64)), max(ends, default=None)

    async def _ask_for_timeline(self, reader: NodeId, degraded: Degraded) -> None:
        """Ask fan-out for a timeline, once in a while."""
        now = self._now_s()
        if abs(now - self._wanted.get(reader, 0.0)) <= _WANTED_AGAIN_S:
            return
        if len(self._wanted) >= _WANTED_MAX:
            self._wanted.clear()
        self._wanted[reader] = now
        try:
            await self.log.announce(Event(0, None, TIMELINE_WANTED, int(reader), 0, 0, self._clock.next()))
        except Unavailable:  # a full disk takes no wishes; reads go on
            degraded.failed("timelines")


def mark_of(post: int) -> Mark:
    """Where a post stands in its author's outbox."""
    return Mark(made_at_ms(post), post)


def _appended(ids: Ids, others: Ids) -> Ids:
    """These and those; mostly both are empty."""
    return np.append(ids, others) if len(others) else ids


def end_of(timeline: Timeline) -> Mark | None:
    """Down to where a timeline holds all that was pushed; None: it holds all there is."""
    if timeline.floor:
        return mark_of(timeline.floor + 1)
    return mark_of(int(min(timeline.ids, default=ID_MAX))) if len(timeline.ids) < _SHORT else None


def _has_all(ids: Ids, others: Ids) -> bool:
    """Whether all of `others` are among `ids`, which descend."""
    if not len(others):
        return True
    ascending = ids[::-1]
    places = ascending.searchsorted(others)
    return bool(len(ids) and (ascending.take(places, mode="clip") == others).all())


def _between(ids: Ids, after: Mark | None, end: Mark | None) -> Ids:
    """Each of the ids once, descending: those beyond `after`, down to `end` and with it. Ids sort by time."""
    if (ids[1:] < ids[:-1]).all():  # as most timelines are
        ids = ids[::-1]
    else:
        ids = np.sort(ids)
        first = np.ones(len(ids), np.bool_)  # of its kind; np.unique takes five times as long for so few
        np.not_equal(ids[1:], ids[:-1], out=first[1:])
        ids = ids[first]
    start = 0 if end is None else ids.searchsorted(end.id)
    stop = len(ids) if after is None else ids.searchsorted(after.id)
    return ids[start:stop][::-1]
