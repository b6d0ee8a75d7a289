"""The ids a page of home is made from, newest first, before anything is known of them.

A reader's timeline, merged with the outboxes of followed authors whose posts it may lack and with the reader's own.
Where there is no timeline, where fan-out lags, and past a timeline's end, it is the outboxes of all who are followed:
slower, and never less. So the feed is right whatever state the timelines are in; they only make it fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.errors import Unavailable
from kith.core.events import BULK_LOADED, TIMELINE_WANTED, Event
from kith.core.ids import ID_MAX, NodeId, made_at_ms
from kith.core.paging import Mark
from kith.graph.graph import Graph
from kith.graph.shapes import Ids
from kith.home.degraded import Degraded
from kith.home.sources import Sources
from kith.home.timelines import Timeline, TimelineReader
from kith.home.unhandled import UnhandledEvents
from kith.log.runner import lag_of
from kith.log.store import LogStore

_OWN_LATEST = 20
"""Own posts that are read beside a timeline, which may not have them yet: fan-out is behind by a moment at most."""
_SHORT = 50
"""A timeline of fewer ids is not taken for all there is: older posts of somebody just followed are seen at once."""
_FAILED_MAX = 100
"""Events that fan-out failed on; beyond it nobody's timeline is relied on."""
_NOBODY = np.empty(0, np.int64)
_WANTED_AGAIN_S = 30.0
"""How long until a timeline is asked for again."""
_WANTED_MAX = 100_000


class Skeleton(NamedTuple):
    """Ids newest first: all there are down to `end`, which is where older ones begin. None: there are no older ones."""

    ids: Ids
    end: Mark | None

    def first(self, count: int) -> Skeleton:
        """The newest `count` of it."""
        if len(self.ids) <= count:
            return self
        return Skeleton(self.ids[:count], mark_of(int(self.ids[count - 1])))


class Skeletons:
    """Makes skeletons in an API process. `group`: the consumer that keeps the timelines."""

    def __init__(
        self,
        graph: Graph,
        timelines: TimelineReader,
        log: LogStore,
        *,
        group: str,
        lag_max_s: float = 2.0,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._sources, self._clock = Sources(graph), graph.clock
        self._timelines, self._log = timelines, log
        self._unhandled = UnhandledEvents(log, graph.graphs)
        self._group, self._lag_max_s, self._now_s = group, lag_max_s, now_s
        self._wanted: dict[int, float] = {}

    async def can_use_timelines(self, seen: int, degraded: Degraded, *, refresh: bool) -> bool:
        """Whether timelines can be relied on now.

        `seen`: a log sequence number that must be reflected; `refresh`: the reader wants none of the timeline.
        """
        at = await self._log.progress(self._group)
        if at is None or lag_of(self._log, at, int(self._now_s() * 1000)).oldest_s > self._lag_max_s:
            degraded.note("fanout")
            return False
        if not await self._are_ours():
            degraded.note("timelines")
            return False
        if refresh or at < seen:
            return False
        if not self._unhandled.follow(at):
            degraded.note("fanout")
        return True

    async def _are_ours(self) -> bool:
        """Whether the timelines that are read here are those that fan-out keeps for this store."""
        try:
            name = await self._sources.timelines_name()
        except Unavailable:  # then the notes of deliveries are away too, and reading them says so
            return True
        if name is None or name == self._timelines.name():
            return True
        self._timelines.close()  # its files may have been replaced
        return name == self._timelines.name()

    async def below(
        self, reader: NodeId, after: Mark | None, want: int, degraded: Degraded, *, use_timeline: bool
    ) -> Skeleton:
        """What there is beyond `after`: the rest of the timeline, or `want` ids of the outboxes."""
        skeleton = await self._from_timeline(reader, after, want, degraded) if use_timeline else None
        return await self._from_outboxes(reader, after, want) if skeleton is None else skeleton

    async def _from_timeline(
        self, reader: NodeId, after: Mark | None, want: int, degraded: Degraded
    ) -> Skeleton | None:
        """What the timeline holds beyond `after`, with what it may lack; None where it cannot be used or has ended."""
        undelivered = await self._undelivered(reader, degraded)  # first: what comes meanwhile is merely read as well
        if undelivered is None:
            return None
        timeline = await self._timeline(reader, degraded)
        if timeline is None:
            return None
        end = _end_of(timeline)
        ids = _between(timeline.ids, after, end)
        if end is not None and not len(ids):
            return None
        try:
            authors = await self._sources.authors_lacked(reader, timeline.lacks_from, undelivered)
            lacked, later_end = await self._lacked(reader, authors, ids, after, max(want, len(ids)))
        except Unavailable:
            degraded.failed("outboxes")
            return Skeleton(ids, end)
        if later_end is not None:
            end = later_end if end is None else max(end, later_end)
        elif _has_all(ids, lacked):
            return Skeleton(ids, end)
        return Skeleton(_between(np.append(ids, lacked), after, end), end)

    async def _from_outboxes(self, reader: NodeId, after: Mark | None, want: int) -> Skeleton:
        """`want` ids of all whom the reader follows."""
        authors = await self._sources.authors(reader)
        marks = await self._sources.outboxes(authors.tolist(), want, after)
        return Skeleton(np.array([mark.id for mark in marks], np.int64), marks[-1] if len(marks) == want else None)

    async def _lacked(
        self, reader: NodeId, authors: Sequence[int], ids: Ids, after: Mark | None, want: int
    ) -> tuple[Ids, Mark | None]:
        """What a timeline of these `ids` may lack: the reader's own latest posts, and `want` posts of `authors`.

        Also answers down to where that is all of them; None: they have no older ones.
        """
        lacked = await self._own_latest(reader, after)
        ends = []
        if len(lacked) == _OWN_LATEST and lacked[-1] not in ids:  # more of them may not have been pushed yet
            ends.append(mark_of(int(lacked[-1])))
        if authors:
            marks = await self._sources.outboxes(authors, want, after)
            lacked = np.append(lacked, np.array([mark.id for mark in marks], np.int64))
            if len(marks) == want:
                ends.append(marks[-1])
        return lacked, max(ends, default=None)

    async def _own_latest(self, reader: NodeId, after: Mark | None) -> Ids:
        """The newest of the reader's own posts beyond `after`, newest first."""
        if after is None:
            return await self._sources.newest(reader, _OWN_LATEST)
        return np.array([mark.id for mark in await self._sources.outboxes([reader], _OWN_LATEST, after)], np.int64)

    async def _undelivered(self, reader: NodeId, degraded: Degraded) -> Ids | None:
        """Authors whose posts timelines may lack: fan-out has not come to them, is delivering them, or failed on them.

        None where the timeline cannot be relied on: fan-out has not come to a change of the reader's follows or a bulk
        load, or failed on an event of the reader, a bulk load, or too many.
        """
        unhandled = self._unhandled.now
        if unhandled.spoils(reader):
            return None
        try:
            authors, failures = await self._sources.delivering(), self._log.failures(self._group, _FAILED_MAX + 1)
        except Unavailable:
            degraded.failed("outboxes")
            return _NOBODY
        if len(unhandled.authors):
            authors = np.union1d(authors, unhandled.authors)
        if not failures:
            return authors
        events = [failure.event for failure in failures]
        if len(events) > _FAILED_MAX or any(event.source == reader or event.state == BULK_LOADED for event in events):
            return None
        return np.union1d(authors, [event.source for event in events])

    async def _timeline(self, reader: NodeId, degraded: Degraded) -> Timeline | None:
        """The reader's timeline; None where there is none. Fan-out is asked for a new one where it is needed."""
        try:
            timeline = self._timelines.read(reader)
        except Exception:
            degraded.failed("timelines")
            return None
        if timeline is None or timeline.needs_rebuild:
            try:
                await self._want(reader)
            except Unavailable:  # a full disk takes no wishes; reads go on
                degraded.failed("timelines")
        if timeline is not None:
            self._timelines.touch(reader)
        return timeline

    async def _want(self, reader: NodeId) -> None:
        """Ask fan-out for a timeline, once in a while."""
        now = self._now_s()
        if abs(now - self._wanted.get(reader, 0.0)) > _WANTED_AGAIN_S:
            if len(self._wanted) >= _WANTED_MAX:
                self._wanted.clear()
            self._wanted[reader] = now
            await self._log.announce(Event(0, 0, None, TIMELINE_WANTED, int(reader), 0, 0, self._clock.next()))


def mark_of(post: int) -> Mark:
    """Where a post stands in its author's outbox."""
    return Mark(made_at_ms(post), post)


def _end_of(timeline: Timeline) -> Mark | None:
    """Down to where a timeline holds all that was pushed; None: it holds all there is."""
    if timeline.floor:
        return mark_of(timeline.floor + 1)
    return mark_of(int(min(timeline.ids, default=ID_MAX))) if len(timeline.ids) < _SHORT else None


def _has_all(ids: Ids, others: Ids) -> bool:
    """Whether all of `others` are among `ids`, which descend."""
    if not len(others):
        return True
    ascending = ids[::-1]
    places = np.searchsorted(ascending, others)
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
    start = 0 if end is None else np.searchsorted(ids, end.id)
    stop = len(ids) if after is None else np.searchsorted(ids, after.id)
    return ids[start:stop][::-1]
