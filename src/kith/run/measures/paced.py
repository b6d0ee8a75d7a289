"""Rate-limits something costly that any caller may request at any rate.

One is made at a time, and shared by all callers that wait for it. After each there is a pause, so making takes about a
twentieth of a process at most (a pause is 1 s at most). An answer is never older than its request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_PAUSE_FACTOR = 20  # the pause, as a multiple of the time that making took
_PAUSE_S_MAX = 1.0


class Throttle:
    """Makes bytes on request, at a bounded rate."""

    def __init__(
        self,
        make: Callable[[], Awaitable[bytes]],
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make, self._now_s, self._sleep = make, now_s, sleep
        self._next: asyncio.Task[bytes] | None = None  # one that has not begun: new callers share it
        self._lock = asyncio.Lock()
        self._next_at_s = 0.0  # the earliest time at which the next may begin

    async def get(self) -> bytes:
        """The next one, made after this call. Errors: those of `make`, for all callers that wait."""
        if self._next is None:
            self._next = asyncio.create_task(self._make_next())
        return await asyncio.shield(self._next)  # a cancelled caller does not cancel it for the others

    async def _make_next(self) -> bytes:
        async with self._lock:
            if (pause_s := self._next_at_s - self._now_s()) > 0:
                await self._sleep(pause_s)
            self._next = None
            started_s = self._now_s()
            try:
                return await self._make()
            finally:
                now_s = self._now_s()
                self._next_at_s = now_s + min(_PAUSE_FACTOR * (now_s - started_s), _PAUSE_S_MAX)
