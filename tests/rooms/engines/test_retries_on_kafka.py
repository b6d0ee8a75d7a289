"""Failed events are retried by the worker that has their partition, even before it has read anything else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cast import FakeClock
from coroutines import Run
from kafka_in_memory import MemoryKafka

from kith.core.clock import Hlc
from kith.core.events import Event
from kith.engines.kafka.commits import PartitionEnd, row_of
from kith.engines.kafka.engine import KafkaEngine
from kith.engines.kafka.positions import START
from kith.log.runner import Pace, Runner, begin


class Consumer:
    """Fails at each event while it `fails`."""

    name = "fanout"

    def __init__(self, *, fails: bool) -> None:
        self.handled, self.fails = list[int](), fails

    async def handle(self, events: Sequence[Event]) -> None:
        if self.fails:
            raise ValueError("cannot handle this one")
        self.handled += [event.destination for event in events]

    async def work_backlog(self) -> bool:
        return False

    async def rebuild(self) -> None: ...


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_worker_that_starts_with_due_failures_retries_each_once(run: Run, partitions: int) -> None:
    async def scene() -> None:
        kafka, clock = MemoryKafka(partitions), FakeClock()
        before, after = Consumer(fails=True), Consumer(fails=False)
        engine = KafkaEngine(kafka, lambda node: node % partitions, now_ms=clock)
        await engine.log.open()
        await begin(engine.log, [before.name])
        for partition in range(partitions):
            owned = PartitionEnd(kafka, partition)
            await owned.take(START)
            await owned.commit(1, [row_of(Event(1, None, 0, partition, partition, 0, Hlc(1)))], {})
        pace = Pace(backoff_s=1.0, save_s=0.0)
        first = Runner(before, engine.log, pace, clock)
        while len(await engine.log.failures(before.name)) < partitions:
            await first.step()
        first.stop()
        await first.run()
        clock.ms += 60_000
        second = Runner(after, engine.log, pace, clock)
        for _ in range(5):
            await second.step()
        assert sorted(after.handled) == list(range(partitions))
        assert await engine.log.failures(after.name) == []
        await engine.close()

    run(scene())
