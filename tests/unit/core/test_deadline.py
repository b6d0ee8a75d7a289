"""Each request ends at its own deadline, and not before."""

from __future__ import annotations

import asyncio

import pytest
from coroutines import Run

from kith.core.deadline import Deadline


async def never() -> None:
    await asyncio.get_running_loop().create_future()


def test_work_beyond_its_deadline_is_cancelled_and_times_out(run: Run) -> None:
    ended = []

    async def work() -> None:
        try:
            await never()
        finally:
            ended.append(True)

    async def ask() -> int:
        with pytest.raises(TimeoutError):
            await Deadline(0.001).within(work())
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run(ask()) == 0
    assert ended == [True]


def test_concurrent_work_times_out_one_by_one_and_finished_work_is_answered(run: Run) -> None:
    async def ask() -> list[int | BaseException | None]:
        deadline, done = Deadline(0.01), asyncio.get_running_loop().create_future()

        async def answer() -> int:
            return int(await done)

        tasks = [asyncio.ensure_future(deadline.within(work)) for work in (never(), answer(), never())]
        asyncio.get_running_loop().call_soon(done.set_result, 7)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(TimeoutError):  # the timer is set again after all have ended
            await deadline.within(never())
        return answers

    first, second, third = run(ask())
    assert isinstance(first, TimeoutError)
    assert second == 7
    assert isinstance(third, TimeoutError)


def test_cancelled_work_raises_cancelled_error_even_at_its_deadline(run: Run) -> None:
    async def ask() -> None:
        task = asyncio.ensure_future(Deadline(60).within(never()))
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        late = asyncio.ensure_future(Deadline(0).within(never()))
        asyncio.get_running_loop().call_soon(late.cancel)  # in the same turn of the loop as the deadline
        with pytest.raises(asyncio.CancelledError):
            await late

    run(ask())


def test_work_that_never_waits_meets_a_deadline_of_zero(run: Run) -> None:
    async def work() -> int:
        return 1

    assert run(Deadline(0).within(work())) == 1
