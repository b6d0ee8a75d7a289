"""Starts the batches of a process's partitions together, in rounds.

Reads and writes of batches that run at the same moment share statements, and wake each process on the way only once.
So a batch that is ready during a round waits until the round ends, for PATIENCE_S at most. A batch that takes longer,
for example because its store does not answer, is not waited for again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

PATIENCE_S = 0.05


class BatchRounds:
    """The rounds of the tasks of one event loop."""

    def __init__(self) -> None:
        self._round = self._running = 0  # the last round, and how many of its batches still run
        self._waiting: list[asyncio.Future[int]] = []
        self._opening: asyncio.Handle | None = None

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Take part in the next round. A round ends when all its participants have left this context."""
        loop = asyncio.get_running_loop()
        turn_start = loop.create_future()
        self._waiting.append(turn_start)
        if self._opening is None:
            starts_now = not self._running  # at once, but after others that arrive in this turn of the loop
            self._opening = loop.call_soon(self._open) if starts_now else loop.call_later(PATIENCE_S, self._open)
        try:
            number = await turn_start
        except asyncio.CancelledError:
            if turn_start.done() and not turn_start.cancelled():
                self._leave(turn_start.result())
            raise
        try:
            yield
        finally:
            self._leave(number)

    def _open(self) -> None:
        waiters = [waiter for waiter in self._waiting if not waiter.done()]
        self._opening, self._waiting = None, []
        self._round, self._running = self._round + 1, len(waiters)
        for waiter in waiters:
            waiter.set_result(self._round)

    def _leave(self, number: int) -> None:
        self._running -= number == self._round
        if not self._running and self._opening is not None:
            self._opening.cancel()
            self._opening = asyncio.get_running_loop().call_soon(self._open)
