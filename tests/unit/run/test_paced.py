"""`Throttle` makes a costly answer once for all concurrent requests, and pauses between two."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from coroutines import Run

from kith.run.measures.paced import Throttle


def test_requests_during_a_making_get_the_next_answer(run: Run) -> None:
    begun, go_on, numbers = asyncio.Event(), asyncio.Event(), itertools.count()

    async def make() -> bytes:
        begun.set()
        await go_on.wait()
        return b"%d" % next(numbers)

    async def ask() -> None:
        paced = Throttle(make)
        first = asyncio.create_task(paced.get())
        await begun.wait()
        late = [asyncio.create_task(paced.get()) for _ in range(50)]
        await asyncio.sleep(0)
        late.pop().cancel()
        go_on.set()
        assert await first == b"0"
        assert await asyncio.gather(*late) == [b"1"] * 49

    run(ask())


def test_the_pause_grows_with_the_duration_up_to_a_bound(run: Run) -> None:
    now, slept = [0.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    async def ask(takes_s: float) -> None:
        async def make() -> bytes:
            now[0] += takes_s
            return b""

        paced = Throttle(make, lambda: now[0], sleep)
        await paced.get()
        await paced.get()
        now[0] += 60
        await paced.get()

    run(ask(0.01))
    run(ask(3.0))
    assert slept == [pytest.approx(0.2), pytest.approx(1.0)]


def test_a_failure_is_raised_and_the_next_request_tries_again(run: Run) -> None:
    left = iter([OSError("no room")])

    async def make() -> bytes:
        if error := next(left, None):
            raise error
        return b"made"

    async def ask() -> None:
        paced = Throttle(make)
        with pytest.raises(OSError, match="no room"):
            await paced.get()
        assert await paced.get() == b"made"

    run(ask())
