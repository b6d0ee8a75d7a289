"""Jobs of FlockDB's clients over a store that fails for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from coroutines import time_flies
from flock import ADD, LOW, term
from reference_leases import own_leases

from kith.core.errors import LeaseLost, Overloaded, StoreFull, StoreUnavailable, Unavailable
from kith.flockdb import jobs as queues

from .conftest import Service

ALICE, BOB = 1, 2
TURNS_MAX = 10_000


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(queues, "_LOOKED_S", 0.001)
    with time_flies():
        yield


@pytest.mark.parametrize("error", [Overloaded, StoreFull, StoreUnavailable, LeaseLost])
def test_jobs_go_on_after_the_store_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: type[Unavailable]
) -> None:
    service.flock.execute(ADD, term(ALICE, others=[BOB]), priority=LOW)
    notes, left = service.graph.store.notes, 7

    async def sometimes(prefix: str) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error("not now")
        return await notes(prefix)

    monkeypatch.setattr(service.graph.store, "notes", sometimes)

    async def scene() -> None:
        running = asyncio.create_task(service.jobs.run(own_leases()))
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if running.done() or (left < 0 and not await service.jobs.waiting()):
                break
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    with structlog.testing.capture_logs() as logs:
        service.run(scene())
    assert service.flock.contains(ALICE, BOB)
    assert {"event": "jobs wait for the store", "error": "not now", "log_level": "warning"} in logs
