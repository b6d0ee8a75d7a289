"""Periodic tasks of a worker continue after any failure."""

from __future__ import annotations

import asyncio

import structlog
from reference_leases import own_leases
from round_trips import VirtualTimeLoop

from kith.core.errors import Unavailable
from kith.run.consumers import Task
from kith.run.serving import worker


def test_a_periodic_task_runs_again_after_any_failure() -> None:
    loop = VirtualTimeLoop()
    done_s: list[float] = []
    thrice = asyncio.Event()

    async def do() -> None:
        done_s.append(loop.time())
        if len(done_s) == 1:
            raise ValueError("a bug")
        if len(done_s) == 2:
            raise Unavailable("the disk is full")
        thrice.set()

    def check_clock() -> None:
        if loop.time() == 1_200:
            raise Unavailable("the clock is wrong")

    async def check() -> None:
        task = asyncio.create_task(worker._every(Task("it is done", every_s=600.0), do, own_leases(), check_clock))
        waiting = asyncio.create_task(thrice.wait())
        ended, _ = await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        assert ended == {waiting}, task
        task.cancel()

    with structlog.testing.capture_logs() as said, asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(check())
    assert done_s == [0.0, 600.0, 1_800.0], "the task skips a turn while the clock is wrong"
    assert [line["log_level"] for line in said] == ["error", "warning", "warning"]
    assert {line["what"] for line in said} == {"it is done"}
