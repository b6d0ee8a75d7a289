"""Scenes of streams, in which nobody really waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from coroutines import without_waits
from engines import engines_with
from stream_world import Play, StreamWorld

from kith.core.clock import wall_ms


@pytest.fixture(params=engines_with("whole"), ids=str)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a scene in which nobody really waits."""

    def run(scene: Callable[[StreamWorld], Awaitable[None]]) -> None:
        with request.param.whole(tmp_path, now_ms=wall_ms, events_max=200) as whole, without_waits():
            asyncio.run(StreamWorld(whole).play(scene))

    return run
