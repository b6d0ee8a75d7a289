"""Fixtures for all tests: the clock, the engines, and how to run a coroutine. The people are in `world`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from reference import ReferenceEdges
from world import ENGINES, FakeClock, Run, open_embedded, service_over

from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.graph import Graph
from kith.graph.store import EdgeStore

# A failing example prints how to repeat it; no deadline, because shared machines stall.
settings.register_profile(
    "kith",
    deadline=None,
    print_blob=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("kith")


@pytest.fixture
def clock() -> FakeClock:
    """Wall time in ms; a test sets `clock.ms`."""
    return FakeClock()


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs coroutines of one test in one event loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def embedded(tmp_path: Path, clock: FakeClock) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """The embedded engine, on the fake clock, and the LMDB environment under it."""
    with open_embedded(tmp_path / "data", now_ms=clock) as opened:
        yield opened


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, run: Run) -> EdgeStore:
    """An empty store of each engine, with one graph declared: number 1."""
    made: EdgeStore = ReferenceEdges() if request.param == "reference" else request.getfixturevalue("embedded")[1]
    run(made.declare(["follows"]))
    return made


@pytest.fixture
def make_service(run: Run, clock: FakeClock) -> Callable[..., Graph]:
    """`make_service(store, follows_max=3)`: the service over a store, on the fake clock."""

    def make(store: EdgeStore, **limits: int) -> Graph:
        return run(service_over(store, clock, **limits))

    return make


@pytest.fixture
def service(make_service: Callable[..., Graph], store: EdgeStore) -> Graph:
    """The service over each engine, with default limits."""
    return make_service(store)
