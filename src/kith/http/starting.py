"""Begins coroutines at once; only one that has to wait becomes a task.

A task costs a turn of the loop, and what most requests take from here to their answer is less than that. What runs
before the first wait is in no task: `asyncio.timeout` and task groups refuse to work there. What needs them, or keeps
something by task, awaits `in_task` first.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def start(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run `work` until it waits; the task that goes on with it, or None where it is done."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(work if awaited is None else _resumed(work, awaited))


async def in_task() -> None:
    """Go on in a task."""
    if asyncio.current_task() is None:
        await _pause()


@types.coroutine
def _pause() -> Generator[None, None, None]:
    yield


async def _resumed(work: Coroutine[Any, Any, Result], awaited: Any) -> Result:
    return await resume(work, awaited)


@types.coroutine
def resume(work: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
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
