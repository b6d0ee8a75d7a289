"""Fixtures of the conformance suites: the stores of the `engine` under test, empty. See README.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from engines import Engine
from store_types import Logged, Stores

from kith.access.sliding_window import QuotaStore
from kith.graph.store import EdgeStore
from kith.leases.store import LeaseStore
from kith.media.blobs import BlobStore
from kith.notifications.activity import Activity
from kith.notifications.inbox import InboxStore


@pytest.fixture
def store(engine: Engine, tmp_path: Path, run: Run) -> Iterator[EdgeStore]:
    """Edges, with one graph declared: number 1."""
    assert engine.edges
    with engine.edges(tmp_path / "data") as opened:
        run(opened.declare(["follows"]))
        yield opened


@pytest.fixture
def stores(engine: Engine, tmp_path: Path, run: Run) -> Iterator[Stores]:
    """Edges, records and suggestions over the same data, with one graph declared: number 1."""
    assert engine.stores
    with engine.stores(tmp_path / "data") as opened:
        run(opened.edges.declare(["follows"]))
        yield opened


@pytest.fixture
def logged(engine: Engine, tmp_path: Path, run: Run) -> Iterator[Logged]:
    """A log, and the edges whose changes it holds, with one graph declared: number 1."""
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=100_000) as opened:
        run(opened.edges.declare(["follows"]))
        yield opened


@pytest.fixture
def quotas(engine: Engine, tmp_path: Path) -> Iterator[QuotaStore]:
    assert engine.quotas
    with engine.quotas(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def leases(engine: Engine, tmp_path: Path, clock: FakeClock) -> Iterator[LeaseStore]:
    assert engine.leases
    with engine.leases(tmp_path / "data", clock) as opened:
        yield opened


@pytest.fixture
def blobs(engine: Engine, tmp_path: Path) -> Iterator[BlobStore]:
    assert engine.blobs
    with engine.blobs(tmp_path / "media") as opened:
        yield opened


@pytest.fixture
def inboxes(engine: Engine, tmp_path: Path) -> Iterator[InboxStore]:
    assert engine.inboxes
    with engine.inboxes(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def activity(engine: Engine, tmp_path: Path) -> Iterator[Activity]:
    assert engine.activity
    with engine.activity(tmp_path / "data") as opened:
        yield opened
