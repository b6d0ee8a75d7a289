"""Reference edges whose events go through Kafka: each write is a command, decided by an owner in this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from reference_edges import ReferenceEdges
from reference_logs import Partitions
from store_types import Clock, Logged

from kith.core.clock import wall_ms
from kith.core.events import NOWHERE, Event, LogPosition
from kith.engines.kafka.connecting import Kafka
from kith.engines.kafka.engine import KafkaEngine
from kith.engines.kafka.owner_runner import OwnerRunner
from kith.engines.kafka.retention import PartitionBounds
from kith.graph.edge import EdgeChange, EdgeWrite
from kith.log.commands import Command, DecidedCommand


class KafkaOfTests(Kafka):
    """Kafka that remembers the event loop that uses it."""

    loop: asyncio.AbstractEventLoop | None = None

    async def _connected(self) -> Any:
        self.loop = asyncio.get_running_loop()
        return await super()._connected()


class _Told(Partitions):
    """Collects the events of one command."""

    def __init__(self, now_ms: Clock) -> None:
        super().__init__()
        self.now_ms = now_ms

    def append(self, event: Event) -> LogPosition:
        self.all.append(event)
        return NOWHERE


class KafkaEdges(ReferenceEdges):
    """See `graph.store.EdgeStore`. The first `apply` starts the owner."""

    transactional = False

    def __init__(self, kafka: Kafka, keep: PartitionBounds, now_ms: Clock) -> None:
        super().__init__(_Told(now_ms))
        self.kafka = kafka
        self.engine = KafkaEngine(kafka, lambda node: node % kafka.partitions, keep=keep, now_ms=now_ms)
        self._writes_by_number: dict[int, list[EdgeWrite]] = {}
        self._calls = itertools.count()
        self._changes: dict[int, list[EdgeChange]] = {}
        self.runner: OwnerRunner | None = None

    async def take(self, partition: int, next_write: int) -> Sequence[DecidedCommand]:
        return ()

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        return [self._decide(command.offset, int(command.data)) for command in commands]

    def _decide(self, offset: int, number: int) -> DecidedCommand:
        self._changes[number] = [self._apply(write) for write in self._writes_by_number.pop(number)]
        events, self.events.all = self.events.all, []
        return DecidedCommand(offset, b"", events)

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        if self.runner is None:
            self.runner = await self.engine.start_owner(self)
        numbered = [(write.edge.source % self.kafka.partitions, next(self._calls)) for write in writes]
        self._writes_by_number.update({number: [write] for (_, number), write in zip(numbered, writes, strict=True)})
        replies = await self.engine.commands.ask_many([(partition, b"%d" % number) for partition, number in numbered])
        mark = NOWHERE
        for reply in replies:
            mark = self.engine.log.joined(mark, reply.log_position)
        return [msgspec.structs.replace(self._changes.pop(number)[0], log_position=mark) for _, number in numbered]

    async def close(self) -> None:
        if self.runner is not None:
            await self.runner.close()
        await self.engine.close()
        await self.kafka.close()


@contextlib.contextmanager
def open_log(
    kafka: KafkaOfTests, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
) -> Iterator[Logged]:
    """A log over topics of its own. The connections are closed in the loop that used them."""
    edges = KafkaEdges(
        kafka, PartitionBounds(events_max, 3_600_000, events_max + 600 if leased_little else 10**9), now_ms
    )
    yield Logged(edges, edges.engine.log)
    if kafka.loop is not None:
        kafka.loop.run_until_complete(edges.close())
