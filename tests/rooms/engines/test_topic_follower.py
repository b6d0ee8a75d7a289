"""A task that follows a topic of Kafka: its pauses and its end. It loses no record when the driver fails, and stops at
no deleted one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from coroutines import Run

from kith.engines.kafka.broker import BrokerRecord
from kith.engines.kafka.topic_follower import KafkaTopicFollower

PATIENCE_S, HOUR_S = 60.0, 3_600.0


class Message:
    """A message of the driver."""

    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def value(self) -> bytes:
        return b""


class Driver:
    """A consumer of the driver. Each partition has the records from `low` on and before `END`.

    `failing`: operations that raise, each when it is called next.
    """

    END = 10

    def __init__(self, low: int = 0, failing: Sequence[str] = ()) -> None:
        self.low, self._failing = low, list(failing)
        self._next: dict[int, int] = {}
        self.when_asked_for_low: Callable[[], None] = lambda: None

    def _step(self, operation: str) -> None:
        if operation in self._failing:
            self._failing.remove(operation)
            raise KafkaException("the driver failed")

    def assign(self, parts: Sequence[TopicPartition]) -> None:
        self._step("assign")
        self._next = {part.partition: part.offset for part in parts}

    def incremental_assign(self, parts: Sequence[TopicPartition]) -> None:
        self._step("incremental_assign")
        for part in parts:
            if part.partition in self._next:
                raise KafkaException("the partition is assigned")
            self._next[part.partition] = part.offset

    def incremental_unassign(self, parts: Sequence[TopicPartition]) -> None:
        self._step("incremental_unassign")
        for part in parts:
            if self._next.pop(part.partition, None) is None:
                raise KafkaException("the partition is not assigned")

    def consume(self, count: int, timeout: float) -> Sequence[Message]:
        for partition, offset in self._next.items():
            first = max(offset, self.low)
            if first < self.END:
                after = min(first + count, first + 2, self.END)
                self._next[partition] = after
                return [Message(partition, at) for at in range(first, after)]
        return []

    def get_watermark_offsets(self, part: TopicPartition, timeout: float) -> tuple[int, int]:
        self._step("get_watermark_offsets")
        self.when_asked_for_low()
        return self.low, self.END

    def close(self) -> None: ...


class OneByOne:
    """A consumer of the driver that always has another record."""

    def __init__(self) -> None:
        self._next = 0

    def consume(self, count: int, timeout: float) -> Sequence[Message]:
        if not timeout:
            return []
        self._next += 1
        return [Message(0, self._next - 1)]

    def __getattr__(self, name: str) -> Any:
        return lambda *_: (0, 0)


class Rest(threading.Event):
    """The event that ends a pause. `begun` is set once a pause has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.begun.set()
        return super().wait(timeout)


async def follow(driver: Driver, offsets: dict[int, int]) -> dict[int, list[int]]:
    """Follow partitions of the driver; what was handled of each, once the last record of each was."""
    handled: dict[int, list[int]] = {partition: [] for partition in offsets}
    is_done = asyncio.Event()

    async def handle(partition: int, records: Sequence[BrokerRecord]) -> None:
        handled[partition] += [record.offset for record in records]
        if all(offsets_of[-1:] == [Driver.END - 1] for offsets_of in handled.values()):
            is_done.set()

    follower = KafkaTopicFollower(lambda: cast(Consumer, driver), "events", handle)
    follower.follow(offsets)
    try:
        async with asyncio.timeout(5):
            await is_done.wait()
    finally:
        await follower.close()
    return handled


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kith.engines.kafka.topic_follower._RETRY_S", 0.0)


@pytest.mark.parametrize("failing", [["incremental_assign"], ["incremental_assign", "assign", "assign"]])
def test_a_partition_is_read_though_the_driver_refused_to_start_it(run: Run, failing: list[str]) -> None:
    """Nobody asks for it a second time, so it would never be read again."""
    handled = run(follow(Driver(failing=failing), {0: 3, 1: 0}))
    assert handled == {0: list(range(3, 10)), 1: list(range(10))}


def test_following_starts_with_the_next_call_where_the_driver_could_not_be_opened(run: Run) -> None:
    """As where the process has no descriptor left."""
    drivers: list[Driver | None] = [Driver(), None]

    def opened() -> Consumer:
        driver = drivers.pop()
        if driver is None:
            raise KafkaException("no descriptor is left")
        return cast(Consumer, driver)

    async def scene() -> None:
        is_handled = asyncio.Event()

        async def handle(partition: int, records: Sequence[BrokerRecord]) -> None:
            is_handled.set()

        follower = KafkaTopicFollower(opened, "events", handle)
        with pytest.raises(KafkaException):
            follower.follow({0: 0})
        follower.follow({0: 0})
        try:
            async with asyncio.timeout(5):
                await is_handled.wait()
        finally:
            await follower.close()

    run(scene())


def test_the_pause_before_a_retry_grows_to_a_bound(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kith.engines.kafka.topic_follower._RETRY_S", 0.2)
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    run(follow(Driver(failing=["incremental_assign", *["assign"] * 6]), {0: 0}))
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize("deleted_then", [3, 4, 5, 7])
def test_deleted_records_are_passed_over_though_more_are_deleted_meanwhile(run: Run, deleted_then: int) -> None:
    """As where snapshots of the registry replace its records while this process is stopped."""
    driver = Driver(low=3)

    def delete_more() -> None:
        driver.low = deleted_then

    driver.when_asked_for_low = delete_more
    assert run(follow(driver, {0: 0}))[0] == list(range(deleted_then, 10))


def test_records_are_read_again_where_kafka_did_not_say_which_were_deleted(run: Run) -> None:
    assert run(follow(Driver(low=3, failing=["get_watermark_offsets"]), {0: 0}))[0] == list(range(3, 10))


def test_the_task_pauses_after_each_read_but_not_while_somebody_waits(run: Run) -> None:
    async def scene() -> None:
        handled: list[int] = []
        has_records = asyncio.Event()

        async def handle(partition: int, records: Sequence[BrokerRecord]) -> None:
            handled.extend(record.offset for record in records)
            has_records.set()

        follower = KafkaTopicFollower(lambda: cast(Consumer, OneByOne()), "events", handle, HOUR_S)
        follower._hurry = rest = Rest()
        follower.follow({0: 0})
        assert await asyncio.to_thread(rest.begun.wait, PATIENCE_S)
        assert handled == [0]
        with follower.awaited():
            while len(handled) < 10:
                has_records.clear()
                await has_records.wait()
        assert handled == list(range(len(handled)))
        await follower.close()

    run(scene())


def test_a_task_whose_records_cannot_be_handled_ends_when_it_is_closed(run: Run) -> None:
    async def scene() -> None:
        tried = asyncio.Event()

        async def fail(partition: int, records: Sequence[BrokerRecord]) -> None:
            tried.set()
            raise ValueError("these records cannot be handled")

        follower = KafkaTopicFollower(lambda: cast(Consumer, OneByOne()), "events", fail)
        follower.follow({0: 0})
        await tried.wait()
        async with asyncio.timeout(5):
            await follower.close()

    run(scene())


def test_a_task_whose_consumer_fails_pauses_before_each_retry(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(OneByOne):
        def consume(self, count: int, timeout: float) -> Sequence[Message]:
            raise KafkaException("the driver failed")

    async def scene() -> None:
        loop, paused = asyncio.get_running_loop(), asyncio.Event()
        monkeypatch.setattr(time, "sleep", lambda _: loop.call_soon_threadsafe(paused.set))

        async def handle(partition: int, records: Sequence[BrokerRecord]) -> None: ...

        follower = KafkaTopicFollower(lambda: cast(Consumer, Failing()), "events", handle)
        follower.follow({0: 0})
        try:
            async with asyncio.timeout(5):
                await paused.wait()
        finally:
            await follower.close()

    run(scene())
