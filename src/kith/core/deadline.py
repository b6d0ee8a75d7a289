"""A deadline for a coroutine that costs nothing where the coroutine never waits, as most reads of an embedded store.

Where it waits, as writes do, it is noted in a table of all that wait as long; one timer looks after the oldest of them.
A timer each, as `asyncio.timeout` sets, costs more than the rest of the deadline.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Waiting:
    """A task that waits, and whether its time has passed. `cancelling`: how often others had cancelled it before."""

    __slots__ = ("cancelling", "is_late", "task", "until_s")

    def __init__(self, task: asyncio.Task[Any], until_s: float) -> None:
        self.task, self.until_s, self.cancelling, self.is_late = task, until_s, task.cancelling(), False


class Deadline:
    """So many seconds for each piece of work. Belongs to one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[_Waiting, None] = {}  # the oldest first, whose time passes first
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` answers; TimeoutError, and `work` is cancelled, if it takes longer."""
        try:
            awaited = work.send(None)
        except StopIteration as done:
            answer: Result = done.value
            return answer
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - whoever awaits is a task
        waiting = _Waiting(task, loop.time() + self._seconds)
        self._waiting[waiting] = None
        if self._timer is None:
            self._timer = loop.call_at(waiting.until_s, self._end_late, loop)
        try:
            return await _resume(work, awaited)
        except asyncio.CancelledError as error:
            if waiting.is_late and task.cancelling() == waiting.cancelling + 1:  # by nobody else
                raise TimeoutError from error
            raise
        finally:
            self._waiting.pop(waiting, None)
            if waiting.is_late:
                task.uncancel()

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what waits too long, and look again when the time of the next passes."""
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
    """Go on with a coroutine that has been started and waits for `awaited`, as `await` would have."""
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
