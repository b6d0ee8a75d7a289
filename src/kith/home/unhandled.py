"""What fan-out has not handled yet: the changes of homes in the log beyond its checkpoint.

A timeline lacks them, for a moment while the worker runs and for as long as it does not; a home adds them. Each process
reads every event once, however many homes it serves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kith.core.events import BULK_LOADED, NORMAL, Event
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.graph.shapes import Ids
from kith.log.store import LogStore

UNHANDLED_MAX = 2_000
"""Events that are read; where there are more, homes say that they may lack something. Some 10 ms for all of them."""
_READ_MAX = 500
_EVERYBODY = -1


class Unhandled(NamedTuple):
    """`authors`: whose new posts timelines may lack. `readers`: whose timelines are no longer true."""

    authors: Ids
    readers: frozenset[int]

    def spoils(self, reader: int) -> bool:
        """Whether the reader's timeline cannot be relied on at all."""
        return reader in self.readers or _EVERYBODY in self.readers


NOTHING = Unhandled(np.empty(0, np.int64), frozenset())


class UnhandledEvents:
    """Follows the end of the log beyond a checkpoint. `now`: what it holds, as of the last `follow`."""

    def __init__(self, log: LogStore, graphs: Graphs) -> None:
        self._log = log
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)
        self._events: list[Event] = []  # those that change a home, beyond `_at` up to `_to`
        self._at = self._to = 0
        self.now = NOTHING

    def follow(self, at: int) -> bool:
        """Take in what the log holds beyond the checkpoint `at`; False where that is too much, and nothing is known."""
        _, last = self._log.bounds()
        if (at, last) == (self._at, self._to):
            return True
        if not self._at <= at <= self._to or last < self._to:  # the first time, after a restore, or nobody asked lately
            self._events, self._to = [], at
        self._at = at
        known = last - at <= UNHANDLED_MAX and self._read(last)
        if not known:
            self._events, self._to = [], at
        self._events = [event for event in self._events if event.sequence > at]
        self.now = self._summary() if self._events else NOTHING
        return known

    def _read(self, last: int) -> bool:
        """Read on up to `last`; False if the log forgot events in between."""
        while self._to < last:
            events = self._log.read(self._to, _READ_MAX)
            if not events or events[0].sequence != self._to + 1:
                return False
            self._events += [event for event in events if self._changes_homes(event)]
            self._to = events[-1].sequence
        return True

    def _changes_homes(self, event: Event) -> bool:
        if event.graph == self._follows:
            return NORMAL in (event.before, event.state) or event.state == BULK_LOADED
        return event.graph == self._authored and (event.began or event.state == BULK_LOADED)

    def _summary(self) -> Unhandled:
        authors: set[int] = set()
        readers: set[int] = set()
        for event in self._events:
            if event.state == BULK_LOADED:
                readers.add(_EVERYBODY)
            else:
                (authors if event.graph == self._authored else readers).add(event.source)
        return Unhandled(np.array(sorted(authors), np.int64), frozenset(readers))
