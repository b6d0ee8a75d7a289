"""The simplest Activity, in memory. Engines are compared with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kith.notifications.activity import SEEN_STEP_MS, Users, check_lookup_size


class ReferenceActivity:
    """See `notifications.activity.Activity`."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._online: dict[str, tuple[set[int], int]] = {}

    async def seen(self, users: Users, at_ms: int) -> None:
        check_lookup_size(len(users))
        minute_ms = at_ms // SEEN_STEP_MS * SEEN_STEP_MS
        for user in users.tolist():
            self._seen[user] = max(minute_ms, self._seen.get(user, 0))

    async def last_seen(self, users: Users) -> Users:
        check_lookup_size(len(users))
        return np.array([self._seen.get(user, 0) for user in users.tolist()], np.int64)

    async def set_online(self, process: str, users: Users, until_ms: int) -> None:
        self._online[process] = set(users.tolist()), until_ms

    async def online(self, users: Users, now_ms: int) -> NDArray[np.bool_]:
        here = self._here(now_ms)
        return np.array([user in here for user in users.tolist()], np.bool_)

    async def online_page(self, after: int, limit: int, now_ms: int) -> Users:
        check_lookup_size(limit)
        return np.array(sorted(user for user in self._here(now_ms) if user > after)[:limit], np.int64)

    def _here(self, now_ms: int) -> set[int]:
        return set().union(*(there for there, until_ms in self._online.values() if until_ms > now_ms))
