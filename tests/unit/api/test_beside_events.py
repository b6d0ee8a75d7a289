"""What a worker does beside its events goes on, whatever fails once."""

from __future__ import annotations

import asyncio

import structlog
from coroutines import Run

from kith.core.errors import Unavailable
from kith.run import worker


def test_what_is_done_from_time_to_time_is_done_again_after_any_failure(run: Run) -> None:
    done: list[str] = []
    thrice = asyncio.Event()

    async def do() -> None:
        done.append("tried")
        if len(done) == 1:
            raise ValueError("a bug")
        if len(done) == 2:
            raise Unavailable("the disk is full")
        thrice.set()

    async def check() -> None:
        task = asyncio.create_task(worker._every(0.001, "it is done", do))
        await thrice.wait()
        task.cancel()

    with structlog.testing.capture_logs() as said:
        run(asyncio.wait_for(check(), 5))
    assert [line["log_level"] for line in said] == ["error", "warning"]
    assert {line["what"] for line in said} == {"it is done"}
