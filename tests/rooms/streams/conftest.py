"""Scenes of streams, in which nobody really waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from coroutines import time_flies
from hall import Hall, Play


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays a scene in which nobody really waits."""

    def run(scene: Callable[[Hall], Awaitable[None]]) -> None:
        with time_flies():
            asyncio.run(Hall(tmp_path / "data").play(scene))

    return run
