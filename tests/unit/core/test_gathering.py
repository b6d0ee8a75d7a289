"""`together` returns all answers, or raises the first error and leaves nothing running."""

from __future__ import annotations

import asyncio

import pytest

from kith.core.errors import StoreUnavailable
from kith.core.gathering import gather


@pytest.mark.parametrize("immediate", [True, False])
def test_the_answers_come_in_the_order_of_the_calls(immediate: bool) -> None:
    async def answer(value: int) -> int:
        for _ in range(3 - value):
            await asyncio.sleep(0)
        return value

    assert asyncio.run(gather(immediate, answer(1), answer(2), answer(3))) == (1, 2, 3)


@pytest.mark.parametrize("immediate", [True, False])
def test_when_one_call_fails_the_others_are_cancelled(immediate: bool) -> None:
    ended: list[str] = []

    async def forever() -> None:
        await asyncio.Event().wait()
        ended.append("forever")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    async def scene() -> None:
        with pytest.raises(LookupError):
            await gather(immediate, fail(), forever())
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scene())
    assert ended == []


def test_calls_to_a_remote_engine_run_concurrently() -> None:
    async def scene() -> None:
        met = asyncio.Barrier(2)
        await gather(False, met.wait(), met.wait())

    asyncio.run(scene())


def test_cancellation_wins_over_a_call_that_fails_at_the_same_time() -> None:
    """Otherwise a loop that retries after errors of a store would survive its stop, and run beside its successor."""

    async def fails_at_the_end() -> int:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            raise StoreUnavailable("not now") from None
        return 0

    async def scenario() -> None:
        calls = asyncio.ensure_future(gather(False, fails_at_the_end(), asyncio.sleep(3_600)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calls.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls
        assert calls.cancelled()

    asyncio.run(scenario())
