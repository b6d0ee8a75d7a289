"""What the worker `apply` runs: it joins the processes that decide the writes of distributed engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

APPLY = "apply"
"""Name of the worker that decides the writes of distributed engines. It follows the log of commands, not of events."""


class Decider:
    """Takes part in deciding writes until it is stopped; a `consumers.LogFollower`."""

    name = APPLY

    def __init__(self, join: Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]) -> None:
        self._join, self._stopping = join, asyncio.Event()
        self._is_part: Callable[[], bool] = lambda: False

    async def run(self) -> None:
        async with self._join() as self._is_part:
            await self._stopping.wait()

    def is_ready(self) -> bool:
        """Whether this process decides all partitions that it owns."""
        return self._is_part()

    def stop(self) -> None:
        self._stopping.set()
