"""The simplest TimelineStore: a deque per user. Engines are compared with it. Slow on purpose."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import numpy as np

from kith.graph.shapes import Ids
from kith.home.timelines import BUILD_PUSHES, RATE_MAX, RATE_WINDOW_MS, TIMELINE_IDS_MAX, Habits, Timeline


class Build(NamedTuple):
    """A build in progress: the posts pushed since it began, newest first, and the lowest withheld rate."""

    epoch: int
    pushed: list[int]
    withheld_rate_min: int = RATE_MAX


class ReferenceTimelines:
    """See `kith.home.timelines.TimelineStore`."""

    immediate = True

    def __init__(self, slots: int, now_ms: Callable[[], int]) -> None:
        self._slots, self._now_ms, self._name = slots, now_ms, 1
        self._pushes: dict[int, deque[int]] = {}  # newest first
        self._reads: dict[int, int] = {}
        self._read_counts: dict[int, float] = {}
        self._lacks: dict[int, int] = {}
        self._floors: dict[int, int] = {}
        self._builds: dict[int, Build] = {}
        self._epochs = itertools.count(1)
        self._last_answers: dict[int, tuple[tuple[bytes, int, int], Timeline]] = {}

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        if user not in self._pushes:
            return None
        if by_user:
            self._read(user, 1)
        ids = np.array(self._pushes[user], np.int64)
        state, kept = (ids.tobytes(), self._floors[user], self._lacks[user]), self._last_answers.get(user)
        if kept is None or kept[0] != state:
            kept = self._last_answers[user] = state, Timeline(ids, self._floors[user], self._lacks[user])
        return kept[1]  # the same object as long as nothing changed, which engines may do

    async def users(self) -> AsyncIterator[list[int]]:
        yield list(self._pushes)

    async def name(self) -> int:
        return self._name

    async def rename(self) -> int:
        self._name += 1
        return self._name

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, user: int, more: int) -> None:
        self._read_counts[user] = self._decayed_reads(user) + more
        self._reads[user] = self._now_ms()

    def _decayed_reads(self, user: int) -> float:
        return self._read_counts[user] * math.exp((self._reads[user] - self._now_ms()) / RATE_WINDOW_MS)

    async def habits(self, users: Ids) -> Habits:
        reads = [self._decayed_reads(user) if user in self._reads else -1.0 for user in users.tolist()]
        return Habits(np.array(reads), np.array([self._lacks.get(user, 0) for user in users.tolist()], np.int64))

    async def withhold(self, rate: int, users: Ids) -> None:
        for user in users.tolist():
            if user in self._lacks:
                self._lacks[user] = min(self._lacks[user], rate)
            if user in self._builds:
                build = self._builds[user]
                self._builds[user] = build._replace(withheld_rate_min=min(build.withheld_rate_min, rate))

    async def count(self) -> int:
        return len(self._pushes)

    async def push(self, post: int, users: Ids) -> int:
        for user in self._builds.keys() & users.tolist():
            self._builds[user].pushed.insert(0, post)
            if len(self._builds[user].pushed) > BUILD_PUSHES:
                del self._builds[user]
        known = [user for user in users.tolist() if user in self._pushes]
        for user in known:
            pushes = self._pushes[user]
            if len(pushes) == TIMELINE_IDS_MAX:
                self._floors[user] = max(self._floors[user], pushes[-1])
            pushes.appendleft(post)
        return len(known)

    async def begin(self, user: int) -> int:
        self._builds[user] = Build(next(self._epochs), [])
        return self._builds[user].epoch

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        if user not in self._builds or self._builds[user].epoch != epoch:
            return False
        build = self._builds.pop(user)
        if user not in self._pushes and len(self._pushes) == self._slots:
            self._remove(min(self._reads, key=self._reads.__getitem__))
        if user not in self._pushes:
            self._read_counts[user], self._reads[user] = 1.0, self._now_ms()
        self._read(user, 0)
        self._lacks[user] = build.withheld_rate_min
        room = TIMELINE_IDS_MAX - len(build.pushed)
        self._floors[user] = max(0, int(ids[room - 1]) - 1) if len(ids) >= room else 0
        self._pushes[user] = deque([*build.pushed, *ids[:room].tolist()], TIMELINE_IDS_MAX)
        return True

    async def drop(self, users: Ids) -> int:
        for user in users.tolist():
            self._builds.pop(user, None)
        return sum(map(self._remove, users.tolist()))

    def _remove(self, user: int) -> bool:
        for column in (self._reads, self._read_counts, self._lacks, self._floors):
            column.pop(user, None)  # type: ignore[attr-defined]
        return self._pushes.pop(user, None) is not None

    async def clear(self) -> None:
        await self.drop(np.array([*self._pushes, *self._builds], np.int64))

    async def evict(self, before_ms: int) -> int:
        unread = [user for user, read_ms in self._reads.items() if read_ms < before_ms]
        return sum(map(self._remove, unread))
