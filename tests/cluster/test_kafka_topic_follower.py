"""A task that follows a topic: its pauses, and its end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException
from coroutines import Run

from kith.engines.kafka.broker import BrokerRecord
from kith.engines.kafka.topic_follower import KafkaTopicFollower

PATIENCE_S, HOUR_S = 60.0, 3_600.0


class Message:
    """A message of the driver."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def value(self) -> bytes:
        return b""


class OneByOne:
    """A consumer of the driver that always has another record."""

    def __init__(self) -> None:
        self._next = 0

    def consume(self, count: int, timeout: float) -> Sequence[Message]:
        if not timeout:
            return []
        self._next += 1
        return [Message(self._next - 1)]

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
