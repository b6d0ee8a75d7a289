"""A TimelineStore in its most obvious form, a deque a user: what engines are compared with. Slow on purpose."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from kith.home.timelines import RATE_MAX, READS_MS, TIMELINE_IDS_MAX, Habits, Ids, Timeline


class NaiveTimelines:
    """See `kith.home.timelines.TimelineStore`."""

    def __init__(self, slots: int, now_ms: Callable[[], int]) -> None:
        self._slots, self._now_ms, self._name = slots, now_ms, 1
        self._pushes: dict[int, deque[int]] = {}  # newest first
        self._reads: dict[int, int] = {}
        self._lately: dict[int, float] = {}
        self._lacks: dict[int, int] = {}
        self._floors: dict[int, int] = {}

    def read(self, user: int) -> Timeline | None:
        if user not in self._pushes:
            return None
        ids = np.array(self._pushes[user], np.int64)
        return Timeline(ids, self._floors[user], self._lacks[user])

    def name(self) -> int:
        return self._name

    def rename(self) -> int:
        self._name += 1
        return self._name

    def close(self) -> None:
        """There is nothing to give back."""

    def touch(self, user: int) -> None:
        if user in self._reads:
            self._read(user, 1)

    def _read(self, user: int, more: int) -> None:
        self._lately[user] = self._faded(user) + more
        self._reads[user] = self._now_ms()

    def _faded(self, user: int) -> float:
        return self._lately[user] * math.exp((self._reads[user] - self._now_ms()) / READS_MS)

    def habits(self, users: Ids) -> Habits:
        reads = [self._faded(user) if user in self._reads else -1.0 for user in users.tolist()]
        return Habits(np.array(reads), np.array([self._lacks.get(user, 0) for user in users.tolist()], np.int64))

    def withhold(self, rate: int, users: Ids) -> None:
        for user in users.tolist():
            if user in self._lacks:
                self._lacks[user] = min(self._lacks[user], rate)

    def count(self) -> int:
        return len(self._pushes)

    def push(self, post: int, users: Ids) -> int:
        known = [user for user in users.tolist() if user in self._pushes]
        for user in known:
            pushes = self._pushes[user]
            if len(pushes) == TIMELINE_IDS_MAX:
                self._floors[user] = max(self._floors[user], pushes[-1])
            pushes.appendleft(post)
        return len(known)

    def put(self, user: int, ids: Ids) -> None:
        if user not in self._pushes and len(self._pushes) == self._slots:
            self.drop(min(self._reads, key=self._reads.__getitem__))
        if user not in self._pushes:
            self._lately[user], self._reads[user] = 1.0, self._now_ms()
        self._read(user, 0)
        self._lacks[user] = RATE_MAX
        self._floors[user] = max(0, int(ids[TIMELINE_IDS_MAX - 1]) - 1) if len(ids) >= TIMELINE_IDS_MAX else 0
        self._pushes[user] = deque(ids[:TIMELINE_IDS_MAX].tolist(), TIMELINE_IDS_MAX)

    def drop(self, user: int) -> bool:
        for column in (self._reads, self._lately, self._lacks, self._floors):
            column.pop(user, None)  # type: ignore[attr-defined]
        return self._pushes.pop(user, None) is not None

    def evict(self, before_ms: int) -> int:
        unread = [user for user, read_ms in self._reads.items() if read_ms < before_ms]
        return sum(map(self.drop, unread))
