"""`stop` ends tasks even if something swallows their cancellation."""

from __future__ import annotations

import asyncio

import pytest

from kith.core import stopping
from kith.core.errors import StoreUnavailable


def test_a_task_that_takes_its_cancellation_for_a_failure_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a loop that retries after errors of a store: `asyncio.gather` raises the error of a cancelled call."""
    monkeypatch.setattr(stopping, "_CANCEL_EVERY_S", 0.001)
    failed: list[int] = []

    async def fails_at_the_end() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            if len(failed) < 2:
                raise StoreUnavailable("not now") from None
            raise

    async def retries() -> None:
        while True:
            try:
                await asyncio.gather(fails_at_the_end())
            except StoreUnavailable:
                failed.append(1)

    async def scene() -> None:
        task = asyncio.create_task(retries())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.wait_for(stopping.stop(task), 5)
        assert task.cancelled()

    asyncio.run(scene())
    assert failed == [1, 1]


def test_stop_waits_for_the_cleanup_of_tasks() -> None:
    ended: list[str] = []

    async def lives(name: str) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def over() -> None:
        raise LookupError

    async def scene() -> None:
        tasks = [asyncio.create_task(lives("first")), asyncio.create_task(lives("second")), asyncio.create_task(over())]
        await asyncio.sleep(0)
        await stopping.stop(*tasks)
        assert isinstance(tasks[2].exception(), LookupError)

    asyncio.run(scene())
    assert sorted(ended) == ["first", "second"]


def test_stopping_no_tasks_is_allowed() -> None:
    asyncio.run(stopping.stop())
