"""What needs no task gets none; what waits goes on in one."""

from __future__ import annotations

import asyncio

import pytest
from coroutines import Run

from kith.api.deadline import Deadline
from kith.http.starting import in_task, start


def test_what_does_not_wait_is_done_at_once(run: Run) -> None:
    done = []

    async def work() -> None:
        done.append(asyncio.current_task())

    async def begin() -> None:
        assert asyncio.current_task() is not None
        asyncio.get_running_loop().call_soon(lambda: done.append(start(work(), asyncio.get_running_loop())))
        await asyncio.sleep(0.01)

    run(begin())
    assert done == [None, None], "in no task, and none was made"


@pytest.mark.parametrize("first", ["a future", "a turn", "a task"])
def test_what_waits_goes_on_in_a_task(run: Run, first: str) -> None:
    told: list[object] = []

    async def work(future: asyncio.Future[str]) -> None:
        if first == "a turn":
            await asyncio.sleep(0)
        elif first == "a task":
            await in_task()
            async with asyncio.timeout(5):
                await in_task()
        told.append(await future)
        with pytest.raises(ValueError, match="no"):
            await failing()
        told.append(asyncio.current_task() is not None)

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def begin() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        started: asyncio.Future[asyncio.Task[None] | None] = loop.create_future()
        loop.call_soon(lambda: started.set_result(start(work(future), loop)))
        task = await started
        assert task is not None
        loop.call_soon(future.set_result, "answered")
        await task

    run(begin())
    assert told == ["answered", True]


def test_what_began_without_a_task_ends_when_its_time_has_passed(run: Run) -> None:
    told = []

    async def work() -> None:
        try:
            await Deadline(0.01).within(asyncio.sleep(60))
        except TimeoutError:
            told.append("late")

    async def begin() -> None:
        loop = asyncio.get_running_loop()
        started: asyncio.Future[asyncio.Task[None] | None] = loop.create_future()
        loop.call_soon(lambda: started.set_result(start(work(), loop)))
        task = await started
        assert task is not None
        await task

    run(begin())
    assert told == ["late"]
