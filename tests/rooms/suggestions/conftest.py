"""The services over each engine, all graphs declared, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from engines import SERVICE_ENGINES
from services import Services


@pytest.fixture(params=SERVICE_ENGINES, ids=str)
def services(request: pytest.FixtureRequest, run: Run, tmp_path: Path, clock: FakeClock) -> Iterator[Services]:
    with request.param.stores(tmp_path / "data") as opened:
        yield run(Services.over(opened.edges, opened.records, clock))
