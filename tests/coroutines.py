"""Runs coroutines, and lets time pass without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from unittest.mock import patch

from kith.core.errors import KithError
from kith.engines.embedded.bells import FifoBell

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""The type of the fixture `run`: one event loop for a test."""


def run_coroutine(coroutine: Any) -> Any:
    """Run one coroutine in an event loop of its own; returns its result."""
    with asyncio.Runner() as runner:
        return runner.run(coroutine)


async def answer(asked: Awaitable[Any]) -> Any:
    """The result of a call, or the type of the KithError that it raises."""
    try:
        return await asked
    except KithError as error:
        return type(error)


@contextmanager
def without_waits() -> Iterator[None]:
    """Within this context, `asyncio.sleep` and waits for a bell return at once."""
    sleep = asyncio.sleep

    async def fly(delay_s: float, *_: object) -> None:
        await sleep(0)

    with patch.object(asyncio, "sleep", fly), patch.object(FifoBell, "rung", lambda _, within_s: fly(within_s)):
        yield


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    coroutine.close()
    raise AssertionError("it waits for something")
