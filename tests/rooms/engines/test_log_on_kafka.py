"""The log and the registry over a Kafka in memory: what the conformance suites, which run on a real one, do not
cover.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from coroutines import Run
from kafka_in_memory import Gate, Gated, MemoryKafka

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import NOWHERE, TIMELINE_REQUESTED, Event
from kith.engines.kafka import log_store
from kith.engines.kafka import registry as books
from kith.engines.kafka.broker import Broker, BrokerRecord, Topic
from kith.engines.kafka.commits import PartitionEnd, pack, row_of
from kith.engines.kafka.engine import KafkaEngine
from kith.engines.kafka.positions import START, Place
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Beat, Forget, Join
from kith.log.store import Fenced, Subscription

PATIENCE_S = 60.0
TOPICS: tuple[Topic, ...] = ("writes", "events", "groups")


def engine_over(kafka: Broker, expel_after_s: float = 1e9) -> KafkaEngine:
    return KafkaEngine(kafka, lambda node: node % kafka.partitions, expel_after_s=expel_after_s)


def event_of(source: int, number: int) -> Event:
    return Event(1, None, 0, source, number, 0, Hlc(number))


def test_a_process_that_paused_until_events_were_deleted_still_knows_how_many_there_were(run: Run) -> None:
    """Otherwise it waits in vain for tokens of events that it has read. Announced events do not say their number."""

    async def scene() -> None:
        kafka = MemoryKafka(1)
        paused, other = engine_over(kafka), engine_over(kafka)
        await paused.log.announce(event_of(1, 0))
        recent = paused._recent
        assert recent._follower is not None
        await recent._follower.close()
        for number in range(1, 8):
            await other.log.announce(event_of(1, number))
        await other._registry.write(Forget(0, Place(5, 5), Place(0, 0), 1))
        await kafka.forget("events", 0, 4)  # the fifth record is about to be deleted, too
        records = await kafka.fetch("events", 0, 0, 8)
        for some in (records[:2], records[2:]):
            await recent._handle(0, some)
        assert recent.ends == other._recent.ends == [Place(8, 8)]
        assert await paused.log.reached(await other.log.end())
        batch = await paused.log.read(NOWHERE, 10)
        assert (batch.lost, [event.destination for event in batch.events]) == (True, [5, 6, 7])
        await paused.close()
        await other.close()

    run(scene())


def test_a_bell_waits_while_kafka_is_away_and_rings_when_it_is_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that waits for it would end: that of the filter of checks, and the one that wakes webhooks."""

    async def away(_: Topic) -> list[int]:
        raise StoreUnavailable("no broker answers")

    async def scene() -> None:
        kafka = MemoryKafka(1)
        engine = engine_over(kafka)
        with engine.log.bell() as bell:
            with monkeypatch.context() as outage:
                outage.setattr(kafka, "ends", away)
                await bell.rung(0.0)
            await bell.rung(0.0)
            ringing = asyncio.create_task(bell.rung(PATIENCE_S))
            await engine.log.announce(event_of(1, 1))
            async with asyncio.timeout(5):
                await ringing
        await engine.close()

    run(scene())


def test_events_announced_between_two_commits_are_read_between_them(run: Run) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(1)
        engine = engine_over(kafka)
        owned = PartitionEnd(kafka, 0)
        await owned.take(START)
        for number in range(0, 30, 3):
            await owned.commit(number, [row_of(event_of(1, number)), row_of(event_of(1, number + 1))], {})
            await engine.log.announce(event_of(1, number + 2))
        events, after = [], NOWHERE
        while batch := (await engine.log.read(after, 2)).events:
            events += batch
            after = engine.log.joined(after, batch[-1].log_position)
        assert [event.destination for event in events] == list(range(30))
        successor = PartitionEnd(kafka, 0)
        await successor.take(START)
        assert (successor.next_write, successor.end.events) == (27, 30)
        await engine.close()

    run(scene())


def test_records_of_a_newer_kith_are_skipped(run: Run) -> None:
    """Records of an unknown kind, read live and later; events of an unknown kind; and an event with a field more."""

    async def scene() -> None:
        kafka = MemoryKafka(1)
        live, owned = engine_over(kafka), PartitionEnd(kafka, 0)
        await live.log.open()
        await owned.take(START)
        of_tomorrow = msgspec.structs.astuple(row_of(event_of(1, 2)))
        await owned.commit(1, [row_of(event_of(1, 1)), cast(Any, (*of_tomorrow, "more"))], {})
        await kafka.append("events", 0, pack(["tomorrow", 1, b"said"]))
        with pytest.raises(Fenced):
            await owned.commit(2, [row_of(event_of(1, 3))], {})
        await owned.take(START)
        await owned.commit(2, [row_of(event_of(1, 3)), row_of(Event(0, None, 200, 9, 4, 0, Hlc(4), data=b"x"))], {})
        for engine in (live, engine_over(kafka)):
            await engine.log.reached(await engine.log.end())
            events = (await engine.log.read(NOWHERE, 10)).events
            assert [(event.state, event.destination, event.data) for event in events] == [
                (0, 1, b""),
                (0, 2, b""),
                (0, 3, b""),
                (200, 4, b"x"),
            ]
            await engine.close()

    run(scene())


def test_a_book_of_a_newer_kith_is_read_and_not_replaced_by_a_snapshot(run: Run) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(2)
        registry = RegistryReplica(kafka, expel_after_s=1e9)
        await registry.open()
        await kafka.append("groups", 0, pack([99, "of tomorrow"]))
        await registry.write(Join("readers", "a", "somebody", 2, gentle=False))
        for _ in range(books.SNAPSHOT_RECORDS):
            await registry.write(Beat("somebody"))
        later = RegistryReplica(kafka, expel_after_s=1e9)
        await later.open()
        assert (await kafka.starts("groups")) == [0]
        assert set(later.now.groups["readers"].partitions_of("a")) == {0, 1}
        await asyncio.gather(registry.close(), later.close())

    run(scene())


def test_the_end_of_the_log_comes_from_kafka_not_from_what_this_process_has_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_store, "ANSWER_TIMEOUT_S", 0.01)

    async def scene() -> None:
        kafka, gate = MemoryKafka(1), Gate()
        log = engine_over(Gated(kafka, gate)).log
        before = await log.end()
        owned = PartitionEnd(kafka, 0)
        await owned.take(START)
        gate.reached.set()  # from here on this process receives nothing
        await owned.commit(7, [row_of(event_of(1, 1))], {})
        with pytest.raises(StoreUnavailable):
            await log.end()
        gate.open.set()
        monkeypatch.setattr(log_store, "ANSWER_TIMEOUT_S", PATIENCE_S)
        after = await log.end()
        assert log.covers(after, before)
        assert not log.covers(before, after)

    run(scene())


def test_a_process_that_cannot_read_how_far_a_partition_is_does_not_own_it(run: Run) -> None:
    class Blind(MemoryKafka):
        async def fetch(self, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
            return (await super().fetch(topic, partition, first, end))[:-1]

    async def scene() -> None:
        kafka = Blind(1)
        owned = PartitionEnd(kafka, 0)
        await owned.take(START)
        await owned.commit(7, [row_of(event_of(1, 1))], {})
        with pytest.raises(StoreUnavailable):
            await PartitionEnd(kafka, 0).take(START)

    run(scene())


def test_old_events_are_read_in_chunks_like_new_ones(run: Run) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(2)
        for partition in range(2):
            owned = PartitionEnd(kafka, partition)
            await owned.take(START)
            for number in range(300):
                await owned.commit(number, [row_of(event_of(partition, number * 4 + n)) for n in range(number % 4)], {})
        written = [number * 4 + n for number in range(300) for n in range(number % 4)]
        engine = engine_over(kafka)
        for limit in (7, 10_000):
            events_read, after = list[Event](), NOWHERE
            while events := (batch := await engine.log.read(after, limit)).events:
                events_read += events
                after = batch.next
            for partition in range(2):
                assert [event.destination for event in events_read if event.source == partition] == written
        half = (await engine.log.read(NOWHERE, 444)).next
        backlog = await engine.log.behind(half)
        assert backlog.events == 2 * len(written) - 444
        assert backlog.oldest_ms
        await engine.close()

    run(scene())


def test_the_book_is_read_from_its_last_snapshot(run: Run) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(2)
        registry = RegistryReplica(kafka, expel_after_s=1e9)
        await registry.open()
        await registry.write(Join("readers", "a", "somebody", 2, gentle=False))
        for _ in range(books.SNAPSHOT_RECORDS):
            await registry.write(Beat("somebody"))
        assert (await kafka.starts("groups"))[0] > 0
        later = RegistryReplica(kafka, expel_after_s=1e9)
        await later.open()
        assert await later.sync() == await registry.sync()
        assert later.positions.name == registry.positions.name != b""
        await asyncio.gather(registry.close(), later.close())

    run(scene())


def test_a_book_opened_while_a_snapshot_replaces_its_records_is_read_from_the_snapshot(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(2)
        registry = RegistryReplica(kafka, expel_after_s=1e9)
        await registry.open()
        for _ in range(books.SNAPSHOT_RECORDS - 2):
            await registry.write(Beat("somebody"))
        fetch = kafka.fetch

        async def overtaken(topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
            monkeypatch.setattr(kafka, "fetch", fetch)
            await registry.write(Join("readers", "a", "somebody", 2, gentle=False))
            assert (await kafka.starts("groups"))[0] >= end
            return await fetch(topic, partition, first, end)

        monkeypatch.setattr(kafka, "fetch", overtaken)
        later = RegistryReplica(kafka, expel_after_s=1e9)
        await later.open()
        assert await later.sync() == await registry.sync()
        await asyncio.gather(registry.close(), later.close())

    run(scene())


def test_a_silent_process_loses_its_share_and_gets_a_part_once_it_is_back(run: Run) -> None:
    async def scene() -> None:
        kafka, gate = MemoryKafka(4), Gate()
        silent, other = engine_over(Gated(kafka, gate), expel_after_s=1e9), engine_over(kafka, expel_after_s=0.2)
        share = await silent.log.subscribe("readers")
        await other.log.save("readers", await other.log.end(), {})
        gate.shut()
        rest_of_share = await other.log.subscribe("readers")
        await announced(other, 8)
        assert len(await read_by(rest_of_share, 8)) == 8
        gate.open.set()
        async with asyncio.timeout(PATIENCE_S):
            while not (await share.read(100)).events:
                await announced(other, 4)
        await asyncio.gather(silent.close(), other.close())

    async def announced(engine: KafkaEngine, count: int) -> None:
        for source in range(count):
            await engine.log.announce(Event(0, None, TIMELINE_REQUESTED, source, 0, 0, Hlc(1)))

    async def read_by(share: Subscription, count: int) -> list[Event]:
        events: list[Event] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(events) < count:
                events += (await share.read(100)).events
                await asyncio.sleep(0.001)
        return events

    run(scene())


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"hello, is this topic alive?", b"\x93\x01"])
def test_foreign_records_in_the_topics_stop_no_process(run: Run, junk: bytes) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(1)
        live, owned = engine_over(kafka), PartitionEnd(kafka, 0)
        await live.log.open()
        await owned.take(START)
        await owned.commit(1, [row_of(event_of(1, 1))], {})
        for topic in TOPICS:
            await kafka.append(topic, 0, junk)
        await owned.take(START)
        await owned.commit(2, [row_of(event_of(1, 2))], {})
        assert await live.log.lease("kept", await live.log.end())
        for engine in (live, engine_over(kafka)):
            await engine.log.end()
            assert [event.destination for event in (await engine.log.read(NOWHERE, 10)).events] == [1, 2]
            assert [lease.name for lease in await engine.log.leases()] == ["kept"]
            await engine.close()

    run(scene())


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"hello, is this topic alive?", b"\x93\x01"])
def test_a_book_with_foreign_records_has_snapshots(run: Run, junk: bytes) -> None:
    async def scene() -> None:
        kafka = MemoryKafka(2)
        registry = RegistryReplica(kafka, expel_after_s=1e9)
        await registry.open()
        await kafka.append("groups", 0, junk)
        for _ in range(books.SNAPSHOT_RECORDS):
            await registry.write(Beat("somebody"))
        assert (await kafka.starts("groups"))[0] > 0
        await registry.close()

    run(scene())


def test_a_log_gets_its_name_though_kafka_refused_it_at_first(run: Run) -> None:
    class Away(MemoryKafka):
        away = True

        async def append(self, topic: Topic, partition: int, value: bytes) -> int:
            if self.away:
                raise StoreUnavailable("away")
            return await super().append(topic, partition, value)

    async def scene() -> None:
        kafka = Away(1)
        engine = engine_over(kafka)
        with pytest.raises(StoreUnavailable):
            await engine.log.end()
        kafka.away = False
        position = await engine.log.end()
        assert await engine.log.reached(position)
        assert await engine_over(kafka).log.reached(position), "others see the same log"
        await engine.close()

    run(scene())
