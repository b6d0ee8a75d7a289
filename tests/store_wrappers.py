"""Wrappers that make stores behave badly: as if across a network, lagging, or of a process that dies at a call."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from typing import Any


class RemoteStore:
    """A store as if across a network: other tasks may run before and after each call.

    If the caller is cancelled meanwhile, the call may have taken effect, or not.
    """

    immediate = False

    def __init__(self, store: Any, chance: random.Random) -> None:
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._yield_to_others()
            answered = await found(*arguments, **named)
            await self._yield_to_others()
            return answered

        return call

    async def _yield_to_others(self) -> None:
        for _ in range(self._chance.randint(0, 2)):
            await asyncio.sleep(0)


class SettlingStore:
    """A store whose lists lag, settled before each call, so all writes are visible. `property` tests keep the lag."""

    def __init__(self, store: Any, settle: Callable[[], object]) -> None:
        self._store, self._settle = store, settle

    def __getattr__(self, name: str) -> Any:
        self._settle()
        return getattr(self._store, name)


class ProcessDied(BaseException):
    """The process dies here. A BaseException, so that no handler of errors catches it."""


class DyingStore:
    """A store of a process that dies before or after some call.

    `left`: steps until then, two per call, in a list that all stores of the process share.
    """

    def __init__(self, store: Any, left: list[int]) -> None:
        self._store, self._left = store, left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            self._count_step()
            answered = await found(*arguments, **named)
            self._count_step()
            return answered

        return call

    def _count_step(self) -> None:
        self._left[0] -= 1
        if self._left[0] == 0:
            raise ProcessDied
