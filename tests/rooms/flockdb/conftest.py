"""FlockDB's service over each engine, on the fake clock."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cast import FakeClock
from coroutines import Run
from flockdb_client import FlockDbClient

from kith.core.clock import HybridClock
from kith.flockdb.calls import Calls
from kith.flockdb.executes import Executes
from kith.flockdb.jobs import Jobs
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, Graphs
from kith.graph.store import EdgeStore


class Service(NamedTuple):
    """The service, its queues, and a client of it. Graph 1 is `follows`, 2 is `blocks`."""

    flock: FlockDbClient
    jobs: Jobs
    calls: Calls
    graph: Graph
    clock: FakeClock
    run: Run

    def settle(self) -> None:
        """Do all jobs that are due."""
        self.run(self.jobs.run_due())


@pytest.fixture
def service(store: EdgeStore, run: Run, clock: FakeClock) -> Service:
    numbers = run(store.declare(BUILT_IN))
    graph = Graph(store, Graphs(numbers), HybridClock(clock))
    executes = Executes(graph)
    jobs = Jobs(graph, executes, clock)
    ids = {1: numbers["follows"], 2: numbers["blocks"]}
    calls = Calls(graph, ids, jobs, executes, 100_000, lambda: clock.ms // 1000)
    return Service(FlockDbClient(calls, run), jobs, calls, graph, clock, run)


@pytest.fixture
def flock(service: Service) -> FlockDbClient:
    return service.flock
