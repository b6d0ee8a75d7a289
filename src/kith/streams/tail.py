"""The end of the log as one process has read it: changes still to be sent, and recent ones for readers who resume.

If the log forgot events before they were read, the tail restarts after them. A resuming reader may come from another
process, which read the events of different sources in another order. So log positions decide what a reader lacks
(`LogStore.covers`), never the number of events read here.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kith.core.events import NOWHERE, Event, LogPosition
from kith.log.store import Batch, LogStore
from kith.streams.changes import FeedChange
from kith.streams.interpreter import Interpreter
from kith.streams.positions import Step, StreamProgress

_READ_MAX = 500
_TRIM_FACTOR = 1.25  # recent changes are trimmed at this multiple of their bound, so that trims are rare


class Point(NamedTuple):
    """How far this process has read: the number of events, and the log position."""

    number: int
    at: LogPosition


class RecentChanges:
    """The newest changes: every one that `end` covers and `start` does not, in the order in which they were read.

    They span about `events_max` events of the log; only events that are changes are held.
    """

    def __init__(self, log: LogStore, position: LogPosition, events_max: int) -> None:
        self._covers, self._events_max = log.covers, events_max
        self.start = self.end = Point(0, position)
        self._changes: list[FeedChange] = []

    def extend(self, changes: Sequence[FeedChange], end: Point) -> None:
        """Append the changes from `self.end` up to `end`; the oldest are dropped."""
        self._changes += changes
        self.end = end
        if end.number - self.start.number > _TRIM_FACTOR * self._events_max:
            first = end.number - self._events_max
            del self._changes[: bisect_right(self._changes, first, key=lambda change: change.step.number)]
            self.start = Point(first, self._changes[0].step.before if self._changes else end.at)

    def prepend(self, changes: Sequence[FeedChange], start: Point) -> None:
        """Prepend the changes between `start` and `self.start`."""
        self._changes[:0] = changes
        self.start = start

    @property
    def lowest(self) -> int:
        """A number below that of every change held here."""
        return min(self.start.number, self._changes[0].step.number - 1 if self._changes else self.end.number)

    def since(self, position: LogPosition) -> list[FeedChange]:
        """Every change that `position` does not cover; it must cover `self.start`."""
        covers = self._covers
        first = bisect_left(self._changes, True, key=lambda change: not covers(position, change.step.at))
        return [change for change in self._changes[first:] if not covers(position, change.step.log_position)]


class Tail:
    """Reads the log forward for the open streams, and further back for readers who resume."""

    def __init__(self, log: LogStore, interpreter: Interpreter, progress: StreamProgress, resume_events: int) -> None:
        self._log, self._interpreter, self._progress = log, interpreter, progress
        self._resume_events = resume_events
        self._reach_back_lock = asyncio.Lock()
        self.begin(NOWHERE)

    def begin(self, position: LogPosition) -> None:
        """Begin at a position, and forget what was read before."""
        self._recent = RecentChanges(self._log, position, self._resume_events)
        self._unsent: deque[FeedChange] = deque()
        self._note_progress()

    @property
    def read_to(self) -> LogPosition:
        """The position up to which the log was read."""
        return self._recent.end.at

    async def read(self) -> Batch:
        """The next events of the log."""
        return await self._log.read(self.read_to, _READ_MAX)

    def take(self, batch: Batch) -> None:
        """Queue the changes of these events, which follow those already read."""
        number, position = self._recent.end
        changes = self._interpreter.changes(batch.events, self._steps(number, position, batch.events))
        self._recent.extend(changes, Point(number + len(batch.events), batch.next))
        self._unsent.extend(changes)
        self._note_progress()

    @property
    def next(self) -> FeedChange | None:
        """The next change to send; None if all were sent."""
        return self._unsent[0] if self._unsent else None

    def done(self) -> None:
        """Drop the next change: it was sent, or is skipped."""
        if self._unsent:
            self._unsent.popleft()
            self._note_progress()

    async def since(self, position: LogPosition) -> tuple[list[FeedChange], LogPosition] | None:
        """Every change that `position` does not cover, and the position up to which they reach.

        None if the log no longer has them all, or if there are more than `resume_events` events to read.
        """
        covers = self._log.covers
        async with self._reach_back_lock:
            while not covers(position, (start := self._recent.start).at):
                number = self._recent.lowest - self._resume_events
                older = await self._between(number, position, start.at)
                if older is None:
                    return None
                if self._recent.start is not start:  # some changes were dropped meanwhile
                    continue
                changes, events = older
                if not covers(start.at, position):  # partly ahead of `start`: of use to this reader only
                    return [*changes, *self._recent.since(position)], self.read_to
                self._recent.prepend(changes, Point(start.number - events, position))
        return self._recent.since(position), self.read_to

    async def _between(
        self, number: int, position: LogPosition, end: LogPosition
    ) -> tuple[list[FeedChange], int] | None:
        """The changes that `end` covers and `position` does not, and the number of events read for them. See `since`.

        `number`: that of the event before the first.
        """
        changes: list[FeedChange] = []
        events, read_to, joined = 0, position, position
        while not self._log.covers(read_to, end):
            batch = await self._log.read(read_to, _READ_MAX)
            older = [event for event in batch.events if self._log.covers(end, event.log_position)]
            if batch.lost or events + len(older) > self._resume_events:
                return None
            steps = list(self._steps(number + events, joined, older))
            changes += self._interpreter.changes(older, steps)
            events, read_to = events + len(older), batch.next
            joined = steps[-1].at if steps else joined
            await asyncio.sleep(0)
        return changes, events

    def _steps(self, number: int, position: LogPosition, events: Sequence[Event]) -> Iterator[Step]:
        joined = self._log.joined
        for event in events:
            before, position, number = position, joined(position, event.log_position), number + 1
            yield Step(number, event.log_position, before, position)

    def _note_progress(self) -> None:
        self._progress.posts = self._unsent[0].step.before if self._unsent else self.read_to
