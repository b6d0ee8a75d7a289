"""The services of posts over a store, for all tests here."""

from __future__ import annotations

import pytest
from cast import FakeClock
from coroutines import Run
from services import Services


@pytest.fixture(params=["transactions", "none"])
def room(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> Services:
    """Over a store in memory: with transactions, and without them and with lists that lag."""
    return run(Services.in_memory(transactional=request.param == "transactions", clock=clock))  # type: ignore[no-any-return]
