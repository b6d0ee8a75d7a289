"""A stop signal for a worker of one event loop. It also ends what the worker waits for. It cannot be reset."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


class StopSignal:
    """Set once. Belongs to one event loop; waiting for it beside other work costs little."""

    def __init__(self) -> None:
        self.is_set = False
        self._timeouts = set[asyncio.Timeout]()

    def set(self) -> None:
        """Stop, and cancel what `run_until_set` waits for."""
        self.is_set = True
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(0.0)

    async def run_until_set(self, work: Coroutine[Any, Any, None], within_s: float | None = None) -> None:
        """Wait until this is set or `work` is done, at most `within_s`. Unfinished work is then cancelled."""
        if self.is_set:
            work.close()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s) as timeout:
                self._timeouts.add(timeout)
                try:
                    await work
                finally:
                    self._timeouts.discard(timeout)

    async def pause(self, seconds: float) -> None:
        """Wait this long, or until this is set."""
        if seconds > 0:
            await self.run_until_set(asyncio.sleep(seconds))
