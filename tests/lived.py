"""Runs the random history of a naive model over an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from coroutines import run_all
from engines import Engine
from opened import Whole


class Lived(Protocol):
    """A random history. `begin` sets it up over empty stores; `live` runs it to its end."""

    clock: Callable[[], int]

    async def begin(self, whole: Whole) -> None: ...

    async def live(self) -> None: ...


def live_through(history: Lived, engine: Engine, folder: Path) -> None:
    """Run a history over empty stores of an engine."""

    async def life(whole: Whole) -> None:
        await history.begin(whole)
        await history.live()

    assert engine.whole
    with engine.whole(folder, now_ms=history.clock) as whole:
        run_all(life(whole))
