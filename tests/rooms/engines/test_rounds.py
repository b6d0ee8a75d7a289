"""Partitions of one owner begin their batches together."""

from __future__ import annotations

import asyncio

from coroutines import Run

from kith.engines.kafka.rounds import PATIENCE_S, BatchRounds


class RoundScene:
    """Tasks that take turns, and a list of what they did, in order."""

    def __init__(self) -> None:
        self.rounds, self.did = BatchRounds(), list[str]()
        self._ends: dict[str, asyncio.Event] = {}

    async def take(self, name: str, times: int = 1) -> None:
        for _ in range(times):
            async with self.rounds.turn():
                self.did.append(f"{name}+")
                await self._ends.setdefault(name, asyncio.Event()).wait()
                self.did.append(f"{name}-")

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            self._ends[name] = asyncio.Event()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_tasks_that_come_at_the_same_moment_begin_together(run: Run) -> None:
    async def scene() -> None:
        world = RoundScene()
        tasks = [asyncio.create_task(world.take(name)) for name in "ab"]
        await settled()
        assert world.did == ["a+", "b+"]
        await world.end("a", "b")
        await asyncio.gather(*tasks)

    run(scene())


def test_a_late_task_begins_with_the_next_round_and_so_do_those_that_continue(run: Run) -> None:
    async def scene() -> None:
        world = RoundScene()
        tasks = [asyncio.create_task(world.take(name, times=2)) for name in "ab"]
        await settled()
        tasks.append(asyncio.create_task(world.take("c")))
        await world.end("a")
        assert world.did == ["a+", "b+", "a-"], "b is still at its batch"
        await world.end("b")
        assert world.did == ["a+", "b+", "a-", "b-", "c+", "a+", "b+"]
        await world.end("a", "b", "c")
        await asyncio.gather(*tasks)

    run(scene())


def test_a_task_that_takes_long_is_not_waited_for(run: Run) -> None:
    async def scene() -> None:
        world = RoundScene()
        tasks = [asyncio.create_task(world.take("long"))]
        await settled()
        tasks.append(asyncio.create_task(world.take("b")))
        await settled()
        assert world.did == ["long+"]
        await asyncio.sleep(PATIENCE_S * 1.5)
        assert world.did == ["long+", "b+"]
        tasks.append(asyncio.create_task(world.take("c")))
        await world.end("b")
        assert world.did == ["long+", "b+", "b-", "c+"]
        await world.end("c", "long")
        await asyncio.gather(*tasks)

    run(scene())


def test_a_cancelled_or_failing_task_blocks_no_other(run: Run) -> None:
    async def scene() -> None:
        world = RoundScene()

        async def fail() -> None:
            async with world.rounds.turn():
                raise ValueError

        failing, tasks = asyncio.create_task(fail()), [asyncio.create_task(world.take("a"))]
        waiting = [asyncio.create_task(world.take(name)) for name in ("never", "asked")]
        waiting[0].cancel()
        await settled()
        assert isinstance(failing.exception(), ValueError)
        assert world.did == ["a+", "asked+"]
        late = asyncio.create_task(world.take("late"))
        await settled()
        late.cancel()  # while it waits for the next round
        await world.end("a")
        waiting[1].cancel()  # in its turn
        await settled()
        tasks.append(asyncio.create_task(world.take("b")))
        await settled()
        assert world.did == ["a+", "asked+", "a-", "b+"], "no task counts as at work"
        await world.end("b")
        await asyncio.gather(*tasks)

    run(scene())
