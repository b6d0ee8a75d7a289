"""The scene of tests of stories, with a store that has transactions, and one without."""

from __future__ import annotations

import pytest
from cast import FakeClock
from coroutines import Run
from services import Services
from story_scene import StoryScene


@pytest.fixture(params=["transactions", "none"])
def scene(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> StoryScene:
    transactional = request.param == "transactions"
    return StoryScene(run, run(Services.in_memory(transactional=transactional, seed=2, clock=clock)))
