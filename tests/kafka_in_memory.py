"""A `broker.Broker` in memory, and a gate that kills or pauses a process at a chosen step."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kith.core.clock import wall_ms
from kith.engines.kafka.broker import Broker, BrokerRecord, Handle, Topic, TopicFollower


class MemoryKafka:
    """See `broker.Broker`. All processes of a test share one."""

    def __init__(self, partitions: int = 4) -> None:
        self.partitions = partitions
        self._records: dict[tuple[Topic, int], list[BrokerRecord]] = defaultdict(list)
        self._starts: dict[tuple[Topic, int], int] = defaultdict(int)
        self.grown = asyncio.Event()

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        return self._append(topic, partition, value)

    def _append(self, topic: Topic, partition: int, value: bytes) -> int:
        offset = self._end(topic, partition)
        self._records[topic, partition].append(BrokerRecord(offset, wall_ms(), value))
        self.grown.set()
        self.grown = asyncio.Event()
        return offset

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        return [self._append(topic, partition, value) for partition, value in records]

    async def starts(self, topic: Topic) -> list[int]:
        return [self._starts[topic, at] for at in self._width(topic)]

    async def ends(self, topic: Topic) -> list[int]:
        return [self._end(topic, at) for at in self._width(topic)]

    def _width(self, topic: Topic) -> range:
        return range(1 if topic == "groups" else self.partitions)

    def _end(self, topic: Topic, partition: int) -> int:
        return self._starts[topic, partition] + len(self._records[topic, partition])

    async def fetch(self, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
        start = self._starts[topic, partition]
        return self._records[topic, partition][max(0, first - start) : max(0, end - start)][:100]

    async def forget(self, topic: Topic, partition: int, before: int) -> None:
        known = before - self._starts[topic, partition]
        if known > 0:
            del self._records[topic, partition][:known]
            self._starts[topic, partition] = before

    def follower(self, topic: Topic, handle: Handle) -> MemoryFollowing:
        return MemoryFollowing(self, topic, handle)


class MemoryFollowing:
    """See `broker.TopicFollower`."""

    def __init__(self, kafka: MemoryKafka, topic: Topic, handle: Handle) -> None:
        self._kafka, self._topic, self._handle = kafka, topic, handle
        self._next: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self, offsets: Mapping[int, int]) -> None:
        self._next = {at: self._next.get(at, offset) for at, offset in offsets.items()}
        self._kafka.grown.set()
        self._kafka.grown = asyncio.Event()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def awaited(self) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            grown, read = self._kafka.grown, False
            for at in list(self._next):
                records = await self._kafka.fetch(self._topic, at, self._next.get(at, 0), 1 << 60)
                if records and at in self._next:
                    read = True
                    await self._handle(at, records)
                    if self._next.get(at) == records[0].offset:
                        self._next[at] = records[-1].offset + 1
            if not read:
                await grown.wait()


class Gate:
    """Stops a process for good, or until `open` is set: before its step number `stops_at`, counted from 1."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.steps, self._stops_at = 0, stops_at
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    def shut(self) -> None:
        """Stop the process at its next step."""
        self._stops_at = self.steps

    async def step(self) -> None:
        """Count a step of the process. From step `stops_at` on, its tasks wait until the gate opens."""
        self.steps += 1
        if self._stops_at is not None and self.steps >= self._stops_at:
            self.reached.set()
            await self.open.wait()
        else:
            await asyncio.sleep(0)


class Gated:
    """A broker as one process uses it. Each append has two steps: before it is done, and before it is acknowledged."""

    def __init__(self, broker: Broker, gate: Gate) -> None:
        self._broker, self._gate = broker, gate
        self.partitions = broker.partitions

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        (offset,) = await self.append_many(topic, [(partition, value)])
        return offset

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        await self._gate.step()
        offsets = await self._broker.append_many(topic, records)
        await self._gate.step()
        return offsets

    def follower(self, topic: Topic, handle: Handle) -> TopicFollower:
        async def gated(partition: int, records: Sequence[BrokerRecord]) -> None:
            if self._gate.reached.is_set():
                await self._gate.open.wait()
            await handle(partition, records)

        return self._broker.follower(topic, gated)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)
