"""A deadline for a coroutine that costs nothing where the coroutine never waits, as most reads of an embedded store."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` answers; TimeoutError if it takes longer. A timer is armed only once it waits for something."""
    try:
        awaited = work.send(None)
    except StopIteration as done:
        answer: Result = done.value
        return answer
    async with asyncio.timeout(seconds):
        return await _resume(work, awaited)


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
