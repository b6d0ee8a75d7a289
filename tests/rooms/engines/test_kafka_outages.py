"""Recovery without help after outages of Kafka, late answers, deaths and large batches. Over a Kafka in memory."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from coroutines import Run
from kafka_in_memory import MemoryKafka
from owners import OwnersScene

from kith.core.clock import Hlc
from kith.core.errors import KithError, NotConfirmed, Overloaded, StoreUnavailable
from kith.core.events import RECORD_CHANGED, TIMELINE_REQUESTED, Event, LogPosition
from kith.engines.kafka import connecting, log_store, owner_runner
from kith.engines.kafka import registry as registry_module
from kith.engines.kafka.broker import RECORD_BYTES_MAX, BrokerRecord, Topic, in_parts
from kith.engines.kafka.commits import PartitionEnd, row_of
from kith.engines.kafka.engine import KafkaEngine
from kith.engines.kafka.positions import START, Place
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Beat, Join, Save
from kith.log.commands import DecidedCommand
from kith.log.runner import Pace, Runner, begin
from kith.log.store import Failure

LONG = ("😀" * 10_000).encode()  # the longest post


class Consumer:
    name = "fanout"

    def __init__(self, fails: Callable[[Event], bool] = lambda _: False) -> None:
        self.seen, self._fails = set[int](), fails

    async def handle(self, events: Sequence[Event]) -> None:
        if any(map(self._fails, events)):
            raise ValueError("cannot handle this one")
        self.seen |= {event.destination for event in events}

    async def work_backlog(self) -> bool:
        return False

    async def rebuild(self) -> None: ...


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(0.01)


def test_writes_are_decided_again_after_an_outage_of_any_length(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_runner, "_RETRY_MS_MAX", 0)  # otherwise 1,100 tries take 18 minutes

    async def scene() -> None:
        async with OwnersScene(MemoryKafka(1), answer_timeout_s=1.0) as scene:
            owner = await scene.start_owner()
            await scene.asked(0)
            scene.cut_off(owner)
            tries, real = 0, owner.owner.take

            async def take(partition: int, next_write: int) -> Sequence[DecidedCommand]:
                nonlocal tries
                tries += 1
                return await real(partition, next_write)

            monkeypatch.setattr(owner.owner, "take", take)
            with pytest.raises(NotConfirmed):
                await scene.asked(0)
            await until(lambda: tries > 1_100)
            scene.cut_off(owner, away=False)
            await until(lambda: owner.is_ready)
            await scene.asked(0)

    run(scene())


def test_a_partition_whose_task_ended_is_taken_again(run: Run) -> None:
    async def scene() -> None:
        async with OwnersScene(MemoryKafka(1)) as scene:
            owner = await scene.start_owner()
            await scene.asked(0)
            owner._tasks[0]._task.cancel()
            await until(lambda: owner.is_ready and not owner._tasks[0].is_over)
            await scene.asked(0)

    run(scene())


def test_an_acknowledgement_that_comes_while_earlier_ones_are_reported_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from another thread, at any moment."""
    callbacks: list[Callable[..., None]] = []

    class Driver:
        def __init__(self, _: object) -> None: ...

        def produce(self, *_: object, on_delivery: Callable[..., None], **__: object) -> None:
            callbacks.append(on_delivery)

        def poll(self, _: float) -> None: ...

        def flush(self, _: float) -> None: ...

    class Message:
        def offset(self) -> int:
            return 7

    monkeypatch.setattr(connecting, "Producer", Driver)

    class Loop:
        def __init__(self) -> None:
            self.soon: list[Callable[[], None]] = []

        def create_future(self) -> asyncio.Future[int]:
            return asyncio.get_running_loop().create_future()

        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            self.soon.append(call)

        def turn(self) -> None:
            soon, self.soon = self.soon, []
            for call in soon:
                call()

    class Interrupted(deque[Any]):
        """Runs the loop between any two steps of the thread."""

        def append(self, item: Any) -> None:
            loop.turn()
            super().append(item)

    loop = Loop()

    async def scene() -> None:
        producer = connecting._Producer({})
        producer._loop, producer._acknowledgements = loop, Interrupted()  # type: ignore[assignment]
        appended = [producer.append("events", 0, b"") for _ in range(3)]
        for acknowledge in callbacks:
            acknowledge(None, Message())
        loop.turn()
        assert [future.result() for future in appended] == [7, 7, 7]
        await producer.close()

    run(scene())


def test_a_producer_that_librdkafka_gave_up_on_is_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fatal:
        def fatal(self) -> bool:
            return True

        def str(self) -> str:
            return "out of order"

    class Driver:
        def __init__(self, _: object) -> None: ...

        def produce(self, *_: object, on_delivery: Callable[..., None], **__: object) -> None:
            on_delivery(Fatal(), None)

        def poll(self, _: float) -> None: ...

        def flush(self, _: float) -> None: ...

    monkeypatch.setattr(connecting, "Producer", Driver)

    async def scene() -> None:
        kafka = connecting.Kafka("127.0.0.1:1")
        kafka._connected = lambda: asyncio.sleep(0)  # type: ignore[assignment, method-assign]
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await kafka.append("events", 0, b"")
        await until(lambda: [thread.name for thread in threading.enumerate()].count("kafka-acknowledged") <= 1)
        await kafka.close()

    run(scene())


def test_a_worker_whose_join_was_answered_too_late_gets_its_whole_share(run: Run) -> None:
    class LateAnswer(MemoryKafka):
        is_late = False

        async def append(self, topic: Topic, partition: int, value: bytes) -> int:
            offset = await super().append(topic, partition, value)
            if topic == "groups" and self.is_late:
                self.is_late = False
                raise StoreUnavailable("no answer in time; try again")
            return offset

    async def scene() -> None:
        kafka, consumer = LateAnswer(4), Consumer()
        engine = KafkaEngine(kafka, lambda node: node % 4)
        await engine.log.open()
        await begin(engine.log, [consumer.name])
        kafka.is_late = True
        runner = Runner(consumer, engine.log, Pace(outage_max_s=0.01))
        running = asyncio.create_task(runner.run())
        for index in range(4):
            owned = PartitionEnd(kafka, index)
            await owned.take(START)
            await owned.commit(1, [row_of(Event(1, None, 0, index, index, 0, Hlc(1)))], {})
        await until(lambda: consumer.seen == {0, 1, 2, 3})
        runner.stop()
        await running
        await engine.close()

    run(scene())


def test_survivors_keep_beating_though_another_expels_the_dead_first(run: Run) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(4)
        registries = [RegistryReplica(kafka, expel_after_s=0.2) for _ in range(2)]
        dead = [RegistryReplica(kafka, expel_after_s=1e9) for _ in range(2)]
        for registry in (*registries, *dead):
            await registry.open()
            await registry.write(Join("fanout", registry.instance, registry.instance, 4, gentle=False))
        first, second = registries
        real = first.write

        async def write(entry: Any) -> Any:
            for instance, beat in second._silent_instances():  # the other one is a step ahead
                await second.write(type(entry)(instance, beat)) if type(entry).__name__ == "Expel" else None
            return await real(entry)

        first.write = write  # type: ignore[method-assign]
        first.beat()
        second.beat()
        await until(lambda: set(first.now.groups["fanout"].members) == {registry.instance for registry in registries})
        await asyncio.sleep(0.5)
        assert set(first.now.groups["fanout"].members) == {registry.instance for registry in registries}
        await asyncio.gather(*(registry.close() for registry in (*registries, *dead)))

    run(scene())


def test_large_batches_are_committed_in_records_that_kafka_accepts() -> None:
    decisions = [
        DecidedCommand(number, b"done", [Event(0, None, RECORD_CHANGED, 2, number, 0, Hlc(1), data=LONG)] * 2)
        for number in range(300)
    ]
    parts = in_parts(decisions, owner_runner._size_of)
    assert [decision for part in parts for decision in part] == decisions
    assert 2 < len(parts) < 10
    assert all(2 * len(part) * len(LONG) < RECORD_BYTES_MAX // 2 for part in parts)


def failure_of(number: int) -> Failure:
    event = Event(0, None, RECORD_CHANGED, 2, number, 0, Hlc(1), data=LONG)
    return Failure("fanout", event, 8, "ValueError: cannot handle this one", 1, 1, dead=True)


class Bounded(MemoryKafka):
    """Takes records of at most RECORD_BYTES_MAX, as a real Kafka does."""

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        if len(value) > RECORD_BYTES_MAX:
            raise StoreUnavailable("Message size too large")
        return await super().append(topic, partition, value)


def test_a_worker_continues_after_many_long_events_that_it_cannot_handle(run: Run) -> None:
    async def scene() -> None:
        kafka, consumer = Bounded(1), Consumer(lambda event: bool(event.data))
        engine, owned = KafkaEngine(kafka, lambda _: 0), PartitionEnd(kafka, 0)
        await engine.log.open()
        await begin(engine.log, [consumer.name])
        await owned.take(START)
        for offset in range(5):
            long = [Event(0, None, RECORD_CHANGED, 2, offset * 50 + index, 0, Hlc(1), data=LONG) for index in range(50)]
            await owned.commit(offset, list(map(row_of, long)), {})
        await owned.commit(6, [row_of(Event(0, None, RECORD_CHANGED, 2, 1_000, 0, Hlc(1)))], {})
        runner = Runner(consumer, engine.log, Pace(outage_max_s=0.01))
        running = asyncio.create_task(runner.run())
        await until(lambda: consumer.seen == {1_000})
        runner.stop()
        await running
        assert len(await engine.log.failures(consumer.name)) == 250
        failures = {failure.event.log_position: failure for failure in await engine.log.failures(consumer.name)}
        await engine.log.save(consumer.name, await engine.log.end(), failures)
        await engine.close()

    run(scene())


def test_a_book_with_many_long_failures_does_not_grow_without_end(run: Run) -> None:
    async def scene() -> None:
        kafka = Bounded(1)
        registry = RegistryReplica(kafka, expel_after_s=1e9)
        await registry.open()
        marks = [LogPosition(b"%d" % number) for number in range(250)]
        failures = [(0, mark, failure_of(number)) for number, mark in enumerate(marks)]
        await registry.save(Save("fanout", "", None, {0: Place(1, 1)}, failures))
        for _ in range(5 * registry_module.SNAPSHOT_RECORDS):
            await registry.write(Beat("somebody"))
        assert (await kafka.starts("groups"))[0] > 0
        await registry.save(Save("fanout", "", None, None, [(0, mark, None) for mark in marks[100:]]))
        later = RegistryReplica(kafka, expel_after_s=1e9)
        await later.open()
        assert await later.sync() == registry.now
        assert set(later.now.groups["fanout"].failures) == set(marks[:100])
        await asyncio.gather(registry.close(), later.close())

    run(scene())


def test_the_verdict_on_a_record_that_a_snapshot_covers_is_not_guessed(run: Run) -> None:
    async def scene() -> None:
        registry = RegistryReplica(MemoryKafka(1))
        await registry.open()
        real = registry._until

        async def forgets(end: int) -> None:
            await real(end)
            registry._verdicts.clear()

        registry._until = forgets  # type: ignore[method-assign]
        with pytest.raises(KithError, match="try again"):
            await registry.write(Join("fanout", "one", registry.instance, 1, gentle=False))
        await registry.close()

    run(scene())


def test_requests_for_timelines_are_limited_so_that_owners_can_commit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_store, "TIMELINE_REQUESTS_A_SECOND", 3)
    now_s = [7.0]
    monkeypatch.setattr(log_store.time, "monotonic", lambda: now_s[0])

    async def scene() -> None:
        engine = KafkaEngine(MemoryKafka(1), lambda _: 0)

        async def wished() -> list[bool]:
            wishes = (engine.log.announce(Event(0, None, TIMELINE_REQUESTED, user, 0, 0, Hlc(1))) for user in range(5))
            answers = await asyncio.gather(*wishes, return_exceptions=True)
            assert all(answer is None or isinstance(answer, Overloaded) for answer in answers)
            return [answer is None for answer in answers]

        for _ in range(2):
            assert await wished() == [True, True, True, False, False]
            now_s[0] += 1
        await engine.close()

    run(scene())


def test_the_next_read_waits_until_a_cancelled_one_is_done_with_the_consumer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads in a thread, which continues."""
    reading, reading_max, go_on = 0, 0, threading.Event()

    def fetch(*_: object) -> list[BrokerRecord]:
        nonlocal reading, reading_max
        reading += 1
        reading_max = max(reading_max, reading)
        go_on.wait(5)
        reading -= 1
        return [BrokerRecord(0, 0, b"")]

    monkeypatch.setattr(connecting, "_fetch", fetch)

    async def scene() -> None:
        kafka = connecting.Kafka("127.0.0.1:1")

        async def ends(topic: Topic) -> list[int]:
            return [1]

        monkeypatch.setattr(kafka, "ends", ends)
        given_up = asyncio.create_task(kafka.fetch("events", 0, 0, 1))
        await until(lambda: reading == 1)
        given_up.cancel()
        next_one = asyncio.create_task(kafka.fetch("events", 0, 0, 1))
        await asyncio.sleep(0.05)
        go_on.set()
        await asyncio.wait([given_up, next_one])
        assert given_up.cancelled()
        assert (reading_max, len(next_one.result())) == (1, 1)

    run(scene())
