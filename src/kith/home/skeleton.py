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
import structlog

from kith.core.errors import Unavailable
from kith.core.events import BULK_LOADED, TIMELINE_WANTED, Event
from kith.core.ids import ID_MAX, NodeId, made_at_ms
from kith.core.paging import Mark
from kith.graph.graph import Graph
from kith.graph.store import Ids
from kith.home.sources import Sources
from kith.home.timelines import Timeline, TimelineReader
from kith.log.runner import lag_of
from kith.log.store import LogStore

_log = structlog.get_logger("kith.home")
_OWN_LATEST = 20
"""Own posts that a timeline may not have yet; fan-out is behind by a moment at most, or is not relied on."""
_SHORT = 50
"""A timeline of fewer ids is not taken for whole: who follows few sees at once whom they have just followed."""
_FAILED_MAX = 100
"""Events that fan-out failed on; beyond it nobody's timeline is relied on."""
_NOBODY = np.empty(0, np.int64)
_WANTED_AGAIN_S = 30.0
_WANTED_MAX = 100_000


class Skeleton(NamedTuple):
    """Ids newest first, all there are down to `floor` (None: to the end of everything)."""

    ids: Ids
    floor: Mark | None


class Freshness(NamedTuple):
    """Whether timelines can be relied on now; `degraded` says what is not as it should be."""

    direct: bool
    degraded: list[str]


def degrade(fresh: Freshness, part: str) -> None:
    """Note that a part is not available; called where its error is handled."""
    _log.exception("the feed goes on without a part", part=part)
    if part not in fresh.degraded:
        fresh.degraded.append(part)


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
        self._group, self._lag_max_s, self._now_s = group, lag_max_s, now_s
        self._wanted: dict[int, float] = {}

    async def freshness(self, seen: int, *, refresh: bool) -> Freshness:
        """`seen`: a log sequence number that must be reflected; `refresh`: the reader wants none of the timeline."""
        at = await self._log.progress(self._group)
        if at is None or lag_of(self._log, at, int(self._now_s() * 1000)).oldest_s > self._lag_max_s:
            return Freshness(True, ["fanout"])
        if not await self._are_ours():
            return Freshness(True, ["timelines"])
        return Freshness(refresh or at < seen, [])

    async def _are_ours(self) -> bool:
        """Whether the timelines that are read here are those that fan-out keeps for this store."""
        try:
            name = await self._sources.timelines_name()
        except Unavailable:  # as it is when notes of deliveries are read, where that is told
            return True
        if name is None or name == self._timelines.name():
            return True
        self._timelines.close()  # its files may have been replaced
        return name == self._timelines.name()

    async def below(self, reader: NodeId, after: Mark | None, want: int, fresh: Freshness) -> Skeleton:
        """What there is beyond `after`: the rest of the timeline, or `want` ids of the outboxes."""
        if fresh.direct:
            return await self._of_outboxes(reader, after, want)
        undelivered = await self._undelivered(reader, fresh)  # first: what comes meanwhile is merely looked up as well
        if undelivered is None:
            return await self._of_outboxes(reader, after, want)
        timeline = await self._timeline(reader, fresh)
        if timeline is None:
            return await self._of_outboxes(reader, after, want)
        floor = mark_of(timeline.floor + 1) if timeline.floor else None
        if floor is None and len(timeline.ids) < _SHORT:
            floor = mark_of(int(min(timeline.ids, default=ID_MAX)))
        ids = _between(timeline.ids, after, floor)
        if floor is not None and not len(ids):
            return await self._of_outboxes(reader, after, want)
        try:
            authors = await self._sources.lacked(reader, timeline.lacks_from, undelivered)
            marks, floor = await self._looked_up(reader, authors, ids, after, max(want, len(ids)), floor)
        except Unavailable:
            degrade(fresh, "outboxes")
            return Skeleton(ids, floor)
        if marks:
            ids = _between(np.append(ids, [mark.id for mark in marks]), after, floor)
        return Skeleton(ids, floor)

    async def _of_outboxes(self, reader: NodeId, after: Mark | None, want: int) -> Skeleton:
        """`want` ids of all whom the reader follows."""
        authors = await self._sources.authors(reader)
        marks = await self._sources.outboxes(authors.tolist(), want, after)
        return Skeleton(np.array([mark.id for mark in marks], np.int64), marks[-1] if len(marks) == want else None)

    async def _looked_up(
        self, reader: NodeId, authors: Sequence[int], ids: Ids, after: Mark | None, want: int, floor: Mark | None
    ) -> tuple[list[Mark], Mark | None]:
        """What a timeline of these `ids`, whole down to `floor`, may lack: the reader's own latest, posts of `authors`.

        And down to where it is whole with them, as there are so many of the former and `want` of the latter at most.
        """
        own = await self._sources.outboxes([reader], _OWN_LATEST, after)
        marks = await self._sources.outboxes(authors, want, after) if authors else []
        ends = [] if floor is None else [floor]
        if len(own) == _OWN_LATEST and own[-1].id not in ids:  # more of them may not have been pushed yet
            ends.append(own[-1])
        if len(marks) == want:
            ends.append(marks[-1])
        return own + marks, max(ends, default=None)

    async def _undelivered(self, reader: NodeId, fresh: Freshness) -> Ids | None:
        """Authors whose posts are under way, or were not brought to all as that failed. None where it failed at the
        reader's own timeline, or at so much that nobody's can be relied on.
        """
        try:
            authors, failures = await self._sources.delivering(), self._log.failures(self._group, _FAILED_MAX + 1)
        except Unavailable:
            degrade(fresh, "outboxes")
            return _NOBODY
        if not failures:
            return authors
        events = [failure.event for failure in failures]
        if len(events) > _FAILED_MAX or any(event.source == reader or event.state == BULK_LOADED for event in events):
            return None
        return np.union1d(authors, [event.source for event in events])

    async def _timeline(self, reader: NodeId, fresh: Freshness) -> Timeline | None:
        """The reader's timeline; None where there is none, which is then asked for."""
        try:
            timeline = self._timelines.read(reader)
        except Exception:
            degrade(fresh, "timelines")
            return None
        if timeline is None or timeline.poor:
            try:
                await self._want(reader)
            except Unavailable:  # a full disk takes no wishes; reads go on
                degrade(fresh, "timelines")
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


def _between(ids: Ids, after: Mark | None, floor: Mark | None) -> Ids:
    """Each of the ids once, descending, those beyond `after` and not beyond `floor`; ids sort by time."""
    ids = np.sort(ids)
    first = np.ones(len(ids), np.bool_)  # of its kind; what np.unique does takes five times as long for so few
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    ids = ids[first]
    start = 0 if floor is None else np.searchsorted(ids, floor.id)
    end = len(ids) if after is None else np.searchsorted(ids, after.id)
    return ids[start:end][::-1]
