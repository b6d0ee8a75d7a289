"""The end of the log as one process has read it: changes that wait to be told, and the newest for readers who resume.

Reading is in order and without a gap; where the log forgot events in between, the tail begins anew.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from kith.core.events import Event
from kith.log.store import LogStore
from kith.streams.changes import FeedChange, Interpreter
from kith.streams.places import Progress

_READ_MAX = 500
_TRIMMED_AT = 1.25  # a stretch is cut back once it is this much longer than it may be, so that cutting stays cheap


class RecentChanges:
    """The newest changes: every one with `start < sequence <= end`.

    Spans about `events_max` events of the log, of which it holds those that are changes.
    """

    def __init__(self, at: int, events_max: int) -> None:
        self.start = self.end = at
        self._events_max = events_max
        self._changes: list[FeedChange] = []

    def extend(self, changes: Sequence[FeedChange], end: int) -> None:
        """Add what the log held beyond `self.end`, up to `end`; the oldest are forgotten."""
        self._changes += changes
        self.end = end
        if end - self.start > _TRIMMED_AT * self._events_max:
            self.start = end - self._events_max
            del self._changes[: self._index_after(self.start)]

    def reach_back(self, changes: Sequence[FeedChange], start: int) -> None:
        """Add what the log held between `start` and `self.start`."""
        self._changes[:0] = changes
        self.start = start

    def since(self, sequence: int) -> list[FeedChange]:
        """Every change beyond `sequence`, which must not be before `self.start`."""
        return self._changes[self._index_after(sequence) :]

    def _index_after(self, sequence: int) -> int:
        return bisect_right(self._changes, sequence, key=lambda change: change.sequence)


class Tail:
    """Reads the log forward for the open streams, and back for readers who resume."""

    def __init__(self, log: LogStore, interpreter: Interpreter, progress: Progress, resume_events: int) -> None:
        self._log, self._interpreter, self._progress = log, interpreter, progress
        self._resume_events = resume_events
        self._reaching = asyncio.Lock()
        self.begin(0)

    def begin(self, at: int) -> None:
        """Begin at a sequence number; forget what was read before."""
        self._recent = RecentChanges(at, self._resume_events)
        self._waiting: deque[FeedChange] = deque()
        self._note_progress()

    @property
    def read_to(self) -> int:
        """The sequence number up to which the log was read."""
        return self._recent.end

    @property
    def kept_from(self) -> int:
        """Changes beyond this sequence number are at hand."""
        return self._recent.start

    def read(self) -> Sequence[Event]:
        """The next events of the log, oldest first; none if there is nothing new."""
        return self._log.read(self.read_to, _READ_MAX)

    def take(self, events: Sequence[Event]) -> bool:
        """Have the changes of these events wait to be told; False if the log forgot events before them."""
        if events[0].sequence != self.read_to + 1:
            return False
        changes = self._interpreter.changes(events)
        self._recent.extend(changes, events[-1].sequence)
        self._waiting.extend(changes)
        self._note_progress()
        return True

    @property
    def next(self) -> FeedChange | None:
        """The change that is to be told next; None if all were told."""
        return self._waiting[0] if self._waiting else None

    def done(self) -> None:
        """The next change was told, or is given up."""
        if self._waiting:
            self._waiting.popleft()
            self._note_progress()

    def since(self, sequence: int) -> list[FeedChange]:
        """Every change beyond `sequence`, which must not be before `kept_from`."""
        return self._recent.since(sequence)

    async def reach_back(self, start: int) -> bool:
        """Read back until every change since `start` is at hand; False if the log no longer holds them."""
        async with self._reaching:
            while self._recent.start > start:
                end = self._recent.start
                begin = max(start, end - _READ_MAX)
                events = self._log.read(begin, end - begin)
                if not events or events[0].sequence != begin + 1:
                    return False
                self._recent.reach_back(self._interpreter.changes(events), begin)
                await asyncio.sleep(0)
        return True

    def _note_progress(self) -> None:
        self._progress.posts = self._waiting[0].sequence - 1 if self._waiting else self.read_to
