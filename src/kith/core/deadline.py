"""A deadline for a coroutine that costs nothing if the coroutine never waits, as most reads of an embedded store.

A coroutine that waits, such as a write, is added to a table of waiting tasks; one timer watches the oldest of them. A
timer per task, as `asyncio.timeout` sets, would cost more than everything else.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Waiting:
    """A waiting task, and whether its deadline passed. `cancelling`: its number of cancellations before the wait."""

    __slots__ = ("cancelling", "is_late", "task", "until_s")

    def __init__(self, task: asyncio.Task[Any], until_s: float) -> None:
        self.task, self.until_s, self.cancelling, self.is_late = task, until_s, task.cancelling(), False


class Deadline:
    """A time limit for each piece of work. Belongs to one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[_Waiting, None] = {}  # oldest first, so the first deadline comes first
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`. If it takes longer than the limit, `work` is cancelled and TimeoutError raised."""
        try:
            awaited = work.send(None)
        except StopIteration as done:
            answer: Result = done.value
            return answer
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - only a task can await
        waiting = _Waiting(task, loop.time() + self._seconds)
        self._waiting[waiting] = None
        if self._timer is None:
            self._timer = loop.call_at(waiting.until_s, self._end_late, loop)
        try:
            return await _resume(work, awaited)
        except asyncio.CancelledError as error:
            if waiting.is_late and task.cancelling() == waiting.cancelling + 1:  # nobody else cancelled it
                raise TimeoutError from error
            raise
        finally:
            self._waiting.pop(waiting, None)
            if waiting.is_late:
                task.uncancel()

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel tasks whose deadline passed, and set the timer for the next one."""
        self._timer, now_s = None, loop.time()
        for waiting in list(self._waiting):
            if waiting.until_s > now_s:
                self._timer = loop.call_at(waiting.until_s, self._end_late, loop)
                return
            del self._waiting[waiting]
            waiting.is_late = True
            waiting.task.cancel()


@types.coroutine
def _resume(work: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
    """Continue a started coroutine that waits for `awaited`, exactly as `await` would."""
    sent: Any = None
    while True:
        try:
            sent = yield awaited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            failed: BaseException | None = error
        else:
            failed = None
        try:
            awaited = work.send(sent) if failed is None else work.throw(failed)
        except StopIteration as done:
            answer: Result = done.value
            return answer
