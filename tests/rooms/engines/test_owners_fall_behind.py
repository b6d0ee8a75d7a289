"""Owners that were away for long, or have a long backlog: nothing blocks a partition, or fills the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from coroutines import Run
from kafka_in_memory import MemoryKafka
from owners import OwnersScene
from structlog.testing import capture_logs

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import Event
from kith.engines.kafka import owner_runner
from kith.engines.kafka.broker import Topic
from kith.log.commands import Command, DecidedCommand


async def append(scene: OwnersScene, kafka: MemoryKafka, count: int) -> None:
    """Append commands for whose outcome nobody waits."""
    for _ in range(count):
        await kafka.append("writes", 0, bytes(16) + scene.command(0))


def test_writes_that_kafka_dropped_are_logged_once_and_block_no_other(run: Run) -> None:
    async def scene_() -> None:
        kafka = MemoryKafka(1)
        async with OwnersScene(kafka) as scene:
            await append(scene, kafka, 3)
            await kafka.forget("writes", 0, 2)
            assert (await scene.commands.waiting()).commands == 1
            with capture_logs() as logged:
                first = await scene.start_owner()
                await scene.until(lambda: first.is_ready)
                scene.unknown = 1
                await scene.check([await scene.asked(0)])
                await first.close()
                await scene.start_owner()
                await scene.asked(0)
            assert [entry["writes"] for entry in logged if entry["log_level"] == "error"] == [2]

    run(scene_())


def test_no_command_counts_as_waiting_where_kafka_kept_none(run: Run) -> None:
    async def scene_() -> None:
        kafka = MemoryKafka(1)
        async with OwnersScene(kafka) as scene:
            await append(scene, kafka, 3)
            await kafka.forget("writes", 0, 3)
            assert await scene.commands.waiting() == (0, None)
            await scene.start_owner()
            await scene.check([await scene.asked(0)])

    run(scene_())


def test_a_journaled_batch_is_published_though_kafka_dropped_its_commands(run: Run) -> None:
    async def scene_() -> None:
        kafka = MemoryKafka(1)
        async with OwnersScene(kafka) as scene:
            await append(scene, kafka, 3)
            events = [Event(1, None, 0, 0, count, count, Hlc(count)) for count in (1, 2)]
            scene.ledger.journals[0] = [
                (DecidedCommand(offset, msgspec.json.encode([0, offset + 1]), [event]), (0, offset + 1))
                for offset, event in enumerate(events)
            ]
            await kafka.forget("writes", 0, 3)
            scene.unknown = 2
            await scene.start_owner()
            await scene.check([await scene.asked(0)])

    run(scene_())


def test_a_batch_is_bounded_in_bytes_and_so_is_the_read_ahead(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene_() -> None:
        kafka = MemoryKafka(1)
        async with OwnersScene(kafka) as scene:
            small, large = len(scene.command(0)) + 16, 1_000
            monkeypatch.setattr(owner_runner, "BATCH_BYTES_MAX", 10 * small)
            monkeypatch.setattr(owner_runner, "WAITING_BYTES_MAX", 50 * small)
            await append(scene, kafka, 400)
            await kafka.append("writes", 0, bytes(16) + scene.command(0) + bytes(large))
            await append(scene, kafka, 400)
            owner = await scene.start_owner()
            sizes, queue_lengths, decide = list[int](), list[int](), owner.owner.decide

            async def noting(partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
                sizes.append(sum(16 + len(command.data) for command in commands))
                queue_lengths.append(len(owner._tasks[0]._waiting))
                return await decide(partition, commands)

            monkeypatch.setattr(owner.owner, "decide", noting)
            scene.unknown = 801
            await scene.check([await asyncio.wait_for(scene.asked(0), 20)])
            assert sorted(sizes)[-2:] == [10 * small, small + large], "a larger command is decided alone"
            assert max(queue_lengths) < 160, "the bound, and one fetch"

    run(scene_())


class ForgetfulKafka(MemoryKafka):
    """Loses the next appends to the registry, like a broker that is away for a moment."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.loses = 0

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        if topic == "groups" and self.loses and b"owners of writes" in records[0][1]:
            self.loses -= 1
            raise StoreUnavailable("away")
        return await super().append_many(topic, records)


def test_a_partition_that_could_not_be_released_is_released_once_kafka_is_back(run: Run) -> None:
    async def scene_() -> None:
        kafka = ForgetfulKafka(4)
        async with OwnersScene(kafka) as scene:
            first = await scene.start_owner()
            await scene.until(lambda: len(first.partitions) == 4)
            second = await scene.start_owner()
            kafka.loses = 2
            await scene.until(lambda: not kafka.loses)
            await scene.until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2))
            await scene.check(await asyncio.gather(*map(scene.asked, range(8))))

    run(scene_())
