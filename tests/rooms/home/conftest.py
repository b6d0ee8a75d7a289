"""Each engine with everything that homes need, empty, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from engines import engines_with
from store_types import EngineStores


@pytest.fixture(params=engines_with("whole"), ids=str)
def whole(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[EngineStores]:
    with request.param.whole(tmp_path, now_ms=clock) as opened:
        yield opened
