"""A consumer over a log, on the embedded engine and on two references."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cast import FakeClock
from consumer_world import ConsumerWorld
from coroutines import Run
from embedded_engine import open_embedded
from reference_edges import ReferenceEdges
from reference_logs import HostileLog, Partitions, ReferenceLog
from scrambled_edges import ScrambledEdges

from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.retention import LogBounds
from kith.log.store import LogStore


@pytest.fixture(params=["embedded", "plain", "hostile"])
def world(request: pytest.FixtureRequest, tmp_path: Path, run: Run) -> Iterator[ConsumerWorld]:
    """A world with nothing in it."""
    clock = FakeClock()
    with contextlib.ExitStack() as opened:
        edges: Any
        log: LogStore
        match request.param:
            case "embedded":
                environment, edges = opened.enter_context(
                    open_embedded(tmp_path, log_bounds=LogBounds(200), now_ms=clock)
                )
                log = EmbeddedLog(environment, edges._commits)
            case "plain":
                edges = ReferenceEdges()
                log = ReferenceLog(edges, events_max=200)
            case _:
                edges = ScrambledEdges(1, events=Partitions(3, random.Random(2)))
                log = HostileLog(edges, random.Random(3), events_max=60)
        if isinstance(edges, ReferenceEdges):
            edges.events.now_ms = clock
        run(edges.declare(["follows"]))
        yield ConsumerWorld(run, edges, log, clock)
