"""Follows partitions as they grow: a thread waits for records, and the event loop handles them.

Records of a partition are handled in order. While a handler fails, its records are retried, and nothing else is read.
If the driver fails to start or stop reading, or leaves records out, all partitions are read again from where each
continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kith.core.backoff import pause_ms
from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, BrokerRecord, Handle

_WAIT_S = 0.1
"""How long one wait of the thread takes at most, and so how long until it reads other partitions, or ends."""
_RETRY_S, _RETRY_S_MAX = 0.2, 5.0
"""Pause before a retry: the first, and the longest. That of the thread doubles with each failure."""
_READ_MAX = 2_000
_log = structlog.get_logger("kith.log")


class KafkaTopicFollower:
    """See `broker.TopicFollower`. `consumer`: creates a consumer of the driver, which only the thread reads from.

    `rest_s`: how long the thread pauses after it handed records over, so that the next ones are handled in one batch:
    waking the thread and the loop costs as much as tens of records. It does not pause while a caller waits (`awaited`).
    """

    def __init__(self, consumer: Callable[[], Consumer], name: str, handle: Handle, rest_s: float = 0.0) -> None:
        self._make_consumer, self._name, self._handle, self._rest_s = consumer, name, handle, rest_s
        self._awaiting, self._hurry = 0, threading.Event()
        self._next: dict[int, int] = {}  # by partition, the offset to continue from
        self._assignments: deque[tuple[bool, list[TopicPartition]]] = deque()  # to start (true) or stop reading
        self._must_read_again = False  # whether to assign all partitions anew, at the offsets of `_next`
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def follow(self, offsets: Mapping[int, int]) -> None:
        added = {partition: offset for partition, offset in offsets.items() if partition not in self._next}
        removed = self._next.keys() - offsets.keys()
        self._next = {partition: offset for partition, offset in self._next.items() if partition in offsets} | added
        if removed:
            self._assignments.append((False, [TopicPartition(self._name, partition) for partition in removed]))
        if added:
            self._assignments.append(
                (True, [TopicPartition(self._name, partition, offset) for partition, offset in added.items()])
            )
        if self._thread is None and self._next:  # an earlier call may have failed to make the consumer
            self._consumer = self._make_consumer()
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
        failures = 0
        while not self._closing:
            try:
                self._assign(consumer)
                if messages := consumer.consume(1, _WAIT_S):
                    messages += consumer.consume(_READ_MAX, 0)
                    asyncio.run_coroutine_threadsafe(self._deliver(messages), loop).result()
                    self._hurry.wait(self._rest_s)
                failures = 0
            except RuntimeError:  # the loop has ended
                break
            except Exception:
                _log.exception("following a topic of Kafka failed; it continues", topic=self._name)
                failures += 1
                time.sleep(pause_ms(failures, int(_RETRY_S * 1000), int(_RETRY_S_MAX * 1000)) / 1000)
        consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """Start and stop reading partitions, as `follow` said. After a failure, the next call assigns all of them."""
        if self._must_read_again:
            self._assignments.clear()  # first: what `follow` adds after this is in the queue, or in `_next` too
            consumer.assign([TopicPartition(self._name, *place) for place in list(self._next.items())])
            self._must_read_again = False
        while self._assignments:
            to_read, parts = self._assignments.popleft()
            try:
                (consumer.incremental_assign if to_read else consumer.incremental_unassign)(parts)
            except Exception:
                self._must_read_again = True
                raise

    async def _deliver(self, messages: Sequence[Any]) -> None:
        by_partition: dict[int, list[BrokerRecord]] = {}
        for message in messages:
            if error := message.error():
                _log.warning("waiting for Kafka", topic=self._name, error=error.str())
            else:
                by_partition.setdefault(message.partition(), []).append(_record(message))
        for partition, records in by_partition.items():
            pending = await self._continuation(partition, records)
            while pending and not self._closing:
                try:
                    await self._handle(partition, pending)
                except Exception:
                    _log.exception("handling records of Kafka failed; it is retried", topic=self._name)
                    await asyncio.sleep(_RETRY_S)
                else:
                    if self._next.get(partition) == pending[0].offset:
                        self._next[partition] = pending[-1].offset + 1
                    break

    async def _continuation(self, partition: int, records: Sequence[BrokerRecord]) -> list[BrokerRecord]:
        """The records that continue at our offset, or none. Others are from before a partition was left and retaken.

        Records before them that Kafka deleted are passed over. Other missing ones are read again.
        """
        newer = self._not_handled(partition, records)
        if self._consumer is not None and newer and newer[0].offset > self._next[partition]:
            topic_partition = TopicPartition(self._name, partition)
            with contextlib.suppress(KafkaException):
                low, _ = await asyncio.to_thread(
                    self._consumer.get_watermark_offsets, topic_partition, ANSWER_TIMEOUT_S
                )
                if partition in self._next and low > self._next[partition]:
                    self._next[partition] = low
            newer = self._not_handled(partition, newer)  # more may have been deleted since these were read
        if not newer or newer[0].offset == self._next[partition]:
            return newer
        _log.warning("records of Kafka are read again", topic=self._name, partition=partition)
        self._must_read_again = True
        await asyncio.sleep(_RETRY_S)
        return []

    def _not_handled(self, partition: int, records: Sequence[BrokerRecord]) -> list[BrokerRecord]:
        """The records from our offset on; none of a partition that is not followed."""
        return [record for record in records if record.offset >= self._next.get(partition, record.offset + 1)]


def records_of(messages: Sequence[Any]) -> list[BrokerRecord]:
    """The records of the driver's messages; errors are left out."""
    return [_record(message) for message in messages if not message.error()]


def _record(message: Any) -> BrokerRecord:
    return BrokerRecord(message.offset(), message.timestamp()[1], message.value() or b"")
