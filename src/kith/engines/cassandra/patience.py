"""Bounds waits for answers at next to no cost: `asyncio.timeout` takes as long as the statement that it bounds.

One timer looks now and then, so a wait may take up to a quarter longer than it should.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

_LOOKS = 4


class Patience:
    """`with patience.wait():` around what is awaited; TimeoutError if it takes `seconds`. One event loop uses it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[_Wait, float] = {}  # until when, the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> _Wait:
        """A wait of the task that calls."""
        return _Wait(self)

    def begin(self, wait: _Wait) -> None:
        """Look after a wait."""
        loop = asyncio.get_running_loop()
        self._waits[wait] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds / _LOOKS, self._look, loop)

    def end(self, wait: _Wait) -> None:
        """Look after it no more."""
        self._waits.pop(wait, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for wait, until_s in list(self._waits.items()):
            if until_s > now_s:
                break
            del self._waits[wait]
            wait.is_over = True
            wait.task.cancel()
        self._timer = loop.call_later(self._seconds / _LOOKS, self._look, loop) if self._waits else None


class _Wait:
    __slots__ = ("_cancelling", "_patience", "is_over", "task")

    def __init__(self, patience: Patience) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None  # noqa: S101 - whoever awaits is a task
        self._patience, self.task, self.is_over = patience, task, False
        self._cancelling = task.cancelling()

    def __enter__(self) -> None:
        self._patience.begin(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._patience.end(self)
        by_others = self.is_over and self.task.uncancel() > self._cancelling
        if self.is_over and not by_others and kind is asyncio.CancelledError:
            raise TimeoutError from error
