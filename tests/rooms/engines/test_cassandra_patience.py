"""Waits for Cassandra are bounded, and nobody else's cancellation is taken for the end of one."""

from __future__ import annotations

import asyncio

import pytest
from coroutines import Run

from kith.engines.cassandra.patience import Patience


async def asleep(patience: Patience, seconds: float) -> str:
    with patience.wait():
        await asyncio.sleep(seconds)
    return "answered"


def test_what_takes_too_long_is_given_up_and_what_does_not_is_answered(run: Run) -> None:
    async def scene() -> None:
        patience = Patience(0.1)
        asked = [asleep(patience, seconds) for seconds in (60, 0, 60, 0.01)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in found] == [TimeoutError, str, TimeoutError, str]
        assert await asleep(patience, 0) == "answered"
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(TimeoutError):
            await asleep(patience, 60)
        assert task.cancelling() == 0, "the task goes on"

    run(scene())


def test_a_wait_that_somebody_else_ends_is_cancelled(run: Run) -> None:
    async def scene() -> None:
        waits = asyncio.create_task(asleep(Patience(60), 60))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        late = asyncio.create_task(asleep(Patience(0), 60))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late

    run(scene())
