"""Something costly that anybody may ask for, as often as they like.

It is made one at a time, and once for all who wait for it. After each it rests, so it takes no more than
a twentieth of a process, whoever asks. What is answered is never older than the question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_REST_FACTOR = 20  # rests this many times as long as making it took
_REST_S_MAX = 1.0


class Paced:
    """Makes bytes for all who ask."""

    def __init__(
        self,
        make: Callable[[], Awaitable[bytes]],
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make, self._now_s, self._sleep = make, now_s, sleep
        self._next: asyncio.Task[bytes] | None = None  # not begun yet: whoever asks now waits for it
        self._one = asyncio.Lock()
        self._rested_s = 0.0  # when the next may begin

    async def get(self) -> bytes:
        """The next one, made after this was asked. Errors are those of `make`, for all who waited."""
        if self._next is None:
            self._next = asyncio.create_task(self._made())
        return await asyncio.shield(self._next)  # who gives up takes it from nobody else

    async def _made(self) -> bytes:
        async with self._one:
            if (pause_s := self._rested_s - self._now_s()) > 0:
                await self._sleep(pause_s)
            self._next = None
            started = self._now_s()
            try:
                return await self._make()
            finally:
                now = self._now_s()
                self._rested_s = now + min(_REST_FACTOR * (now - started), _REST_S_MAX)
