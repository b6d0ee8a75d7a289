"""Runs calls of ports that do not depend on each other.

On an engine across a network they run concurrently, so they take as long as the longest. On an engine that answers
without waiting (`immediate`) they run one after the other, because tasks would only add cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@overload
async def gather(immediate: bool, a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def gather(
    immediate: bool, a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], c: Coroutine[Any, Any, C], /
) -> tuple[A, B, C]: ...
@overload
async def gather(
    immediate: bool,
    a: Coroutine[Any, Any, A],
    b: Coroutine[Any, Any, B],
    c: Coroutine[Any, Any, C],
    d: Coroutine[Any, Any, D],
    /,
) -> tuple[A, B, C, D]: ...
@overload
async def gather(immediate: bool, /, *calls: Coroutine[Any, Any, A]) -> tuple[A, ...]: ...
async def gather(immediate: bool, /, *calls: Coroutine[Any, Any, Any]) -> Any:
    """The results of all calls. If one fails, its error is raised and the others are cancelled.

    `immediate`: whether every called port answers without waiting.
    """
    if not immediate:
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            return tuple(await asyncio.gather(*tasks))
        except BaseException as error:
            for task in tasks:
                task.cancel()
            if isinstance(error, Exception) and (caller := asyncio.current_task()) and caller.cancelling():
                raise asyncio.CancelledError from error  # otherwise the failed call would hide the cancellation
            raise
    answers: list[Any] = []
    try:
        for call in calls:
            answers.append(await call)
    except BaseException:
        for call in calls[len(answers) + 1 :]:
            call.close()
        raise
    return tuple(answers)
