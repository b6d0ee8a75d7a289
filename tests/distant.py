"""Stores as they may be in the worst case: across a network, where others have their turns before and after each call,
or of a process that ends at some call."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from typing import Any


class Distant:
    """Passes calls on. One whose caller is cancelled meanwhile may have been made, or not."""

    immediate = False

    def __init__(self, store: Any, chance: random.Random) -> None:
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._way()
            answered = await found(*arguments, **named)
            await self._way()
            return answered

        return call

    async def _way(self) -> None:
        for _ in range(self._chance.randint(0, 2)):
            await asyncio.sleep(0)


class UpToDate:
    """A store; before anything is asked of it, everything arrives that was written. Late ones are in `property`."""

    def __init__(self, store: Any, settle: Callable[[], object]) -> None:
        self._store, self._settle = store, settle

    def __getattr__(self, name: str) -> Any:
        self._settle()
        return getattr(self._store, name)


class Stopped(BaseException):
    """The process ends here: nothing that it would have done is done."""


class Stopping:
    """A store of a process that ends before or after a certain call. `left`: of all its stores together."""

    def __init__(self, store: Any, left: list[int]) -> None:
        self._store, self._left = store, left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            self._tick()
            answered = await found(*arguments, **named)
            self._tick()
            return answered

        return call

    def _tick(self) -> None:
        self._left[0] -= 1
        if self._left[0] == 0:
            raise Stopped
