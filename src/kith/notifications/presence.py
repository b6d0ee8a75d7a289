"""Reports to `activity` who has a stream open in this process, and who read their home or notifications.

No request waits for it: users are noted in memory and reported together every REPORT_EVERY_S. If a process dies, what
it noted since its last report is lost, and its streams count as closed after ONLINE_MS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import numpy as np
import structlog

from kith.core.errors import Unavailable
from kith.notifications.activity import LOOKUP_USERS_MAX, SEEN_STEP_MS, Activity, Users

REPORT_EVERY_S = 5.0
"""Pause between two reports."""
ONLINE_MS = 60_000
"""How long a reported stream counts as open without a further report."""
_log = structlog.get_logger("kith.notifications")


class Presence:
    """Reports for one API process. `process`: its unique name; `connected`: users with a stream open in it."""

    def __init__(
        self,
        activity: Activity,
        process: str,
        connected: Callable[[], Collection[int]],
        now_ms: Callable[[], int],
    ) -> None:
        self._activity, self._process, self._connected, self._now_ms = activity, process, connected, now_ms
        self._seen: set[int] = set()
        self._reported: set[int] = set()
        self._reported_until_ms = self._seen_due_ms = 0

    def note(self, user: int) -> None:
        """Note that a user is here now. Beyond LOOKUP_USERS_MAX users within a minute some are left out."""
        if len(self._seen) < LOOKUP_USERS_MAX:
            self._seen.add(user)

    async def report(self) -> None:
        """Report who is connected, if that changed or expires soon; once a minute, who was seen. Raises Unavailable."""
        now_ms, connected = self._now_ms(), set(self._connected())
        if connected != self._reported or (connected and self._reported_until_ms - now_ms < ONLINE_MS // 2):
            await self._activity.set_online(self._process, _ascending(connected), now_ms + ONLINE_MS)
            self._reported, self._reported_until_ms = connected, now_ms + ONLINE_MS
        for user in connected:
            self.note(user)
        if self._seen and not 0 < self._seen_due_ms - now_ms <= SEEN_STEP_MS:
            seen = set(self._seen)
            await self._activity.seen(_ascending(seen), now_ms)
            self._seen -= seen
            self._seen_due_ms = now_ms + SEEN_STEP_MS

    async def keep_reporting(self) -> None:
        """Call `report` every REPORT_EVERY_S, until cancelled."""
        while True:
            try:
                await self.report()
            except Unavailable as error:
                _log.warning("presence is reported later", error=error.message)
            await asyncio.sleep(REPORT_EVERY_S)


def _ascending(users: Iterable[int]) -> Users:
    return np.array(sorted(users), np.int64)
