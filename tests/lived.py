"""Lives through a random history over an engine: what tests of naive models do with theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from coroutines import run_all
from engines import Engine
from opened import Whole


class Lived(Protocol):
    """A history: its clock, how it begins over a store, and what happens in it."""

    clock: Callable[[], int]

    async def begin(self, whole: Whole) -> None: ...

    async def live(self) -> None: ...


def live_through(history: Lived, engine: Engine, folder: Path) -> None:
    """Begin over an empty store of the engine, and live."""

    async def life(whole: Whole) -> None:
        await history.begin(whole)
        await history.live()

    assert engine.whole
    with engine.whole(folder, now_ms=history.clock) as whole:
        run_all(life(whole))
