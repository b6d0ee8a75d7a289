"""The events that fan-out has not handled yet: changes of homes in the log beyond its checkpoint.

Timelines lack them, for a moment while the worker runs and for as long as it is down; home adds them. If there are too
many, home uses no timeline. Each process reads every event once, however many homes it serves.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import numpy as np

from kith.core.events import BULK_LOADED, NORMAL, NOWHERE, Event
from kith.graph.edge import State
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.graph.shapes import Ids
from kith.log.store import LogStore, Progress

UNHANDLED_MAX = 4_000
"""Events that a process reads, two or three a post, in about 20 ms once. With more, homes are made from outboxes."""
_READ_MAX = 500
_ALL_READERS = -1


class Unhandled(NamedTuple):
    """`authors`: their new posts may be missing in timelines. `readers`: their timelines are outdated."""

    authors: Ids
    readers: frozenset[int]

    def invalidates(self, reader: int) -> bool:
        """Whether the reader's timeline must not be used."""
        return reader in self.readers or _ALL_READERS in self.readers


NOTHING = Unhandled(np.empty(0, np.int64), frozenset())
UNKNOWN = Unhandled(np.empty(0, np.int64), frozenset({_ALL_READERS}))
"""Anything may be missing, so no timeline may be used."""


class UnhandledEvents:
    """Reads the log beyond a checkpoint. `now`: the effects of its events, as of the last `follow`."""

    def __init__(self, log: LogStore, graphs: Graphs) -> None:
        self._log = log
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)
        self._events: list[Event] = []  # those that change homes, after `_at` up to `_to`
        self._at = self._to = NOWHERE
        self._summarized = 0  # the number of events in `now`
        self._one = asyncio.Lock()
        self.now = NOTHING

    async def follow(self, progress: Progress) -> bool:
        """Read the log beyond a checkpoint. False if there are too many events; then `now` is UNKNOWN."""
        covers, at, behind = self._log.covers, progress.at, progress.behind
        async with self._one:
            known, was = not behind.lost and behind.events <= UNHANDLED_MAX, self._at
            if not (covers(at, was) and covers(self._to, at)):  # the first call, or the last one was too long ago
                self._events, self._to = [], at
            known = known and await self._read()
            self._at = at
            if at != was:
                self._events = [event for event in self._events if not covers(at, event.log_position)]
            if not known:
                self._events, self._to, self._summarized, self.now = [], NOWHERE, 0, UNKNOWN
                return False
            if at != was or len(self._events) != self._summarized or self.now is UNKNOWN:
                self.now, self._summarized = self._summary(), len(self._events)
        return True

    async def _read(self) -> bool:
        """Read to the end of the log; False if events were already deleted, or there are too many."""
        for _ in range(UNHANDLED_MAX // _READ_MAX + 1):
            found = await self._log.read(self._to, _READ_MAX)
            if found.lost:
                return False
            self._events += filter(self._changes_homes, found.events)
            self._to = found.next
            if len(found.events) < _READ_MAX:
                return True
        return False

    def _changes_homes(self, event: Event) -> bool:
        if event.graph == self._follows:
            return NORMAL in (event.before, event.state) or event.state == BULK_LOADED
        left = event.ended and event.state == State.ARCHIVED
        return event.graph == self._authored and (event.began or left or event.state == BULK_LOADED)

    def _summary(self) -> Unhandled:
        authors: set[int] = set()
        readers: set[int] = set()
        for event in self._events:
            if event.state == BULK_LOADED:
                readers.add(_ALL_READERS)
            else:
                (authors if event.graph == self._authored and event.began else readers).add(event.source)
        if not (authors or readers):
            return NOTHING
        return Unhandled(np.array(sorted(authors), np.int64), frozenset(readers))
