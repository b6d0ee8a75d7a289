"""Runs the random history of a naive model over an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from coroutines import run_coroutine
from engines import Engine
from store_types import EngineStores


class RandomHistory(Protocol):
    """A random history. `begin` sets it up over empty stores; `live` runs it to its end."""

    clock: Callable[[], int]

    async def begin(self, whole: EngineStores) -> None: ...

    async def live(self) -> None: ...


def run_history(history: RandomHistory, engine: Engine, folder: Path) -> None:
    """Run a history over empty stores of an engine."""

    async def life(whole: EngineStores) -> None:
        await history.begin(whole)
        await history.live()

    assert engine.whole
    with engine.whole(folder, now_ms=history.clock) as whole:
        run_coroutine(life(whole))
