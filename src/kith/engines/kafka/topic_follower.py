"""Follows partitions as they grow: a thread waits for records, and the event loop handles them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, BrokerRecord, Handle

_WAIT_S = 0.1
"""How long one wait of the thread takes at most, and so how long until it reads other partitions, or ends."""
_RETRY_S = 0.2
_AT_ONCE = 2_000
_log = structlog.get_logger("kith.log")


class KafkaTopicFollower:
    """See `broker.TopicFollower`. `consumer`: creates a consumer of the driver, which only the thread reads from.

    `rest_s`: how long the thread pauses after it handed records over, so that the next ones are handled in one batch:
    waking the thread and the loop costs as much as tens of records. It does not pause while a caller waits (`awaited`).
    """

    def __init__(self, consumer: Callable[[], Consumer], name: str, handle: Handle, rest_s: float = 0.0) -> None:
        self._make, self._name, self._handle, self._rest_s = consumer, name, handle, rest_s
        self._awaiting, self._hurry = 0, threading.Event()
        self._next: dict[int, int] = {}  # by partition, the offset to continue from
        self._asked: deque[tuple[bool, list[TopicPartition]]] = deque()  # to start (true) or stop reading
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def follow(self, offsets: Mapping[int, int]) -> None:
        new = {at: offset for at, offset in offsets.items() if at not in self._next}
        gone = self._next.keys() - offsets.keys()
        if gone:
            self._asked.append((False, [TopicPartition(self._name, at) for at in gone]))
        if new:
            self._asked.append((True, [TopicPartition(self._name, at, offset) for at, offset in new.items()]))
        self._next = {at: offset for at, offset in self._next.items() if at in offsets} | new
        if self._thread is None and new:
            self._consumer = self._make()
            arguments = asyncio.get_running_loop(), self._consumer
            self._thread = threading.Thread(target=self._read, args=arguments, name=self._name, daemon=True)
            self._thread.start()

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        self._awaiting += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._awaiting -= 1
            if not self._awaiting and not self._closing:
                self._hurry.clear()

    async def close(self) -> None:
        self._closing = True
        self._hurry.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _read(self, loop: asyncio.AbstractEventLoop, consumer: Consumer) -> None:
        """The thread's loop. It reads the next records once the last ones were handled."""
        while not self._closing:
            try:
                while self._asked:
                    to_read, parts = self._asked.popleft()
                    (consumer.incremental_assign if to_read else consumer.incremental_unassign)(parts)
                if messages := consumer.consume(1, _WAIT_S):
                    messages += consumer.consume(_AT_ONCE, 0)
                    asyncio.run_coroutine_threadsafe(self._deliver(messages), loop).result()
                    self._hurry.wait(self._rest_s)
            except RuntimeError:  # the loop has ended
                break
            except Exception:
                _log.exception("following a topic of Kafka failed; it continues", topic=self._name)
        consumer.close()

    async def _deliver(self, messages: Sequence[Any]) -> None:
        by_partition: dict[int, list[BrokerRecord]] = {}
        for message in messages:
            if error := message.error():
                _log.warning("waiting for Kafka", topic=self._name, error=error.str())
            else:
                by_partition.setdefault(message.partition(), []).append(_record(message))
        for at, records in by_partition.items():
            wanted = await self._continuing(at, records)
            while wanted:
                try:
                    await self._handle(at, wanted)
                except Exception:
                    _log.exception("handling records of Kafka failed; it is retried", topic=self._name)
                    await asyncio.sleep(_RETRY_S)
                else:
                    if self._next.get(at) == wanted[0].offset:
                        self._next[at] = wanted[-1].offset + 1
                    break

    async def _continuing(self, partition: int, records: Sequence[BrokerRecord]) -> list[BrokerRecord]:
        """The records that continue at our offset, or none. Others are from before a partition was left and retaken."""
        after = [record for record in records if record.offset >= self._next.get(partition, record.offset + 1)]
        if self._consumer is not None and after and after[0].offset > self._next[partition]:
            part = TopicPartition(self._name, partition)
            with contextlib.suppress(KafkaException):
                low, _ = await asyncio.to_thread(self._consumer.get_watermark_offsets, part, ANSWER_TIMEOUT_S)
                if partition in self._next and low > self._next[partition]:
                    self._next[partition] = low  # the records in between were deleted
        if not after or after[0].offset != self._next.get(partition):
            return []
        return after


def records_of(messages: Sequence[Any]) -> list[BrokerRecord]:
    """The records of the driver's messages; errors are left out."""
    return [_record(message) for message in messages if not message.error()]


def _record(message: Any) -> BrokerRecord:
    return BrokerRecord(message.offset(), message.timestamp()[1], message.value() or b"")
