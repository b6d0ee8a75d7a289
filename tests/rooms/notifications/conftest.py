"""A world over each whole engine: the embedded one, and one that delays, repeats and reorders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from engines import engines_with
from notification_world import NotificationWorld
from push_world import PushWorld


@pytest.fixture(params=engines_with("whole"), ids=str)
def world(request: pytest.FixtureRequest, run: Run, clock: FakeClock, tmp_path: Path) -> Iterator[NotificationWorld]:
    """Notifications over an empty store."""
    with request.param.whole(tmp_path, now_ms=clock) as whole:
        yield run(NotificationWorld.over(whole, clock))


@pytest.fixture
def push_world(world: NotificationWorld) -> PushWorld:
    """The world, with push providers and what devices got."""
    return PushWorld(world)
