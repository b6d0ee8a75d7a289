"""The ids a page of home is made from, newest first, before anything is known of them.

A reader's timeline, merged with the outboxes of followed authors whose posts it may lack and with the reader's own.
Where there is no timeline, where fan-out lags, and past a timeline's end, it is the outboxes of all who are followed:
slower, and never less. So the feed is right whatever state the timelines are in; they only make it fast.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np
import structlog

from kith.core.errors import Unavailable
from kith.core.events import TIMELINE_WANTED, Event
from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark
from kith.feed.sources import Sources
from kith.graph.service import GraphService
from kith.graph.store import Ids
from kith.log.runner import lag_of
from kith.log.store import LogStore
from kith.timeline.store import Timeline, TimelineReader

_log = structlog.get_logger("kith.feed")
_OWN_LATEST = 20
"""Own posts that a timeline may not have yet; fan-out is behind by a moment at most, or is not relied on."""
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
        graph: GraphService,
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
        return Freshness(refresh or at < seen, [])

    async def below(self, reader: NodeId, after: Mark | None, want: int, fresh: Freshness) -> Skeleton:
        """What there is beyond `after`: the rest of the timeline, or `want` ids of the outboxes."""
        delivering = await self._sources.deliveries()  # first: what is delivered meanwhile is merely looked up as well
        timeline = None if fresh.direct else await self._timeline(reader, fresh)
        if timeline is not None:
            floor = mark_of(timeline.floor + 1) if timeline.floor else None
            ids = _down_to(_below(np.sort(timeline.ids)[::-1], after), floor)
            if floor is None or len(ids):
                lacked = functools.partial(self._sources.lacked, reader, timeline.lacks_from, delivering)
                return await self._completed(reader, lacked, Skeleton(ids, floor), want, after, fresh)
        marks = await self._sources.outboxes((await self._sources.authors(reader)).tolist(), want, after)
        return Skeleton(np.array([mark.id for mark in marks], np.int64), marks[-1] if len(marks) == want else None)

    async def _completed(
        self,
        reader: NodeId,
        lacked: Callable[[], Awaitable[list[int]]],
        pushed: Skeleton,
        want: int,
        after: Mark | None,
        fresh: Freshness,
    ) -> Skeleton:
        """With what the timeline may lack: posts of followed authors who do not push to all, and the reader's own."""
        ids, floor = pushed
        try:
            marks = await self._sources.outboxes([reader], _OWN_LATEST, after)
            authors = await lacked()
            if authors:
                size = max(want, len(ids))
                held = await self._sources.outboxes(authors, size, after)
                marks += held
                if len(held) == size:  # beyond the last of them there may be more
                    floor = held[-1] if floor is None else max(floor, held[-1])
        except Unavailable:
            degrade(fresh, "outboxes")
            return pushed
        return Skeleton(_merged(ids, marks, floor), floor)

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
        if now - self._wanted.get(reader, 0.0) > _WANTED_AGAIN_S:
            if len(self._wanted) >= _WANTED_MAX:
                self._wanted.clear()
            self._wanted[reader] = now
            await self._log.announce(Event(0, 0, None, TIMELINE_WANTED, int(reader), 0, 0, self._clock.next()))


def mark_of(post: int) -> Mark:
    """Where a post stands in its author's outbox."""
    return Mark(made_at_ms(post), post)


def _merged(ids: Ids, marks: Sequence[Mark], floor: Mark | None) -> Ids:
    """Both together, each once, descending, down to the floor."""
    new = {mark.id for mark in marks}.difference(ids.tolist())
    if new:
        ids = np.sort(np.append(ids, np.array(list(new), np.int64)))[::-1]
    return _down_to(ids, floor)


def _down_to(ids: Ids, floor: Mark | None) -> Ids:
    """Ids (descending) that are not below the floor."""
    return ids if floor is None else ids[: np.searchsorted(-ids, -floor.id, side="right")]


def _below(ids: Ids, after: Mark | None) -> Ids:
    """Ids (descending) beyond the place; ids sort by time."""
    return ids if after is None else ids[np.searchsorted(-ids, -after.id, side="right") :]
