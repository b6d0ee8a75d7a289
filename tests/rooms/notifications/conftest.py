"""A desk over each whole engine: the embedded one, and one that delays, repeats and reorders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from desk import Desk
from engines import engines_with
from pushing import PushDesk


@pytest.fixture(params=engines_with("whole"), ids=str)
def desk(request: pytest.FixtureRequest, run: Run, clock: FakeClock, tmp_path: Path) -> Iterator[Desk]:
    """Notifications over an empty store."""
    with request.param.whole(tmp_path, now_ms=clock) as whole:
        yield run(Desk.over(whole, clock))


@pytest.fixture
def ringing(desk: Desk) -> PushDesk:
    """The desk, with push providers and what devices got."""
    return PushDesk(desk)
