"""The connections of a process to Kafka; implements the port `broker`, and translates errors of the driver.

The driver is librdkafka, which has threads of its own. Here, one thread polls the producer and one thread per following
task reads records; both hand over to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from kith.core.errors import BadRequest, Overloaded, StoreMismatch, StoreUnavailable
from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, RECORD_BYTES_MAX, BrokerRecord, Handle, Topic
from kith.engines.kafka.topic_follower import KafkaTopicFollower, records_of

PARTITIONS = 16
_POLL_S = 0.1
"""How often a thread looks whether it must end, and how often the brokers are asked about a new topic."""
_CREATE_TIMEOUT_S = 30.0
_DAY_MS = 86_400_000
_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_REQUIRED_SETTINGS: dict[Topic, dict[str, str]] = {
    "writes": {},
    "events": _FOR_EVER,  # until `retention` deletes them
    "groups": _FOR_EVER,  # until a snapshot replaces them
}
_INITIAL_SETTINGS: dict[Topic, dict[str, str]] = {
    "writes": {"retention.ms": str(7 * _DAY_MS)},
    "events": {},
    "groups": {},
}
_MINIMUM_SETTINGS = ("max.message.bytes", "min.insync.replicas")
"""Settings of topics that may be greater than needed; all others must be equal."""
_RETRY_S = 0.02
"""Pause before offsets are requested again, while a partition changes its leader."""
_TRANSIENT = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._TRANSPORT,
}
_REGISTRY_REST_S = 0.05
"""The `rest_s` of the topic `groups`, see `KafkaTopicFollower`."""
_FETCH_RECORDS_MAX = 10_000
"""Records that one fetch returns at most."""


@contextlib.asynccontextmanager
async def translate_errors(action: str, within_s: float = ANSWER_TIMEOUT_S) -> AsyncIterator[None]:
    """Turn errors of the driver, and a missing answer after `within_s`, into StoreUnavailable."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except (KafkaException, TimeoutError) as error:
        message = f"Kafka could not {action} ({_error_text(error)}); try again"
        raise StoreUnavailable(message, for_clients="the log does not answer; try again") from error


def _error_text(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else error.args[0].str()


class Kafka:
    """See `broker.Broker`. Connects on the first call; `close` ends all connections. For one event loop."""

    def __init__(
        self,
        servers: str,
        *,
        prefix: str = "kith",
        partitions: int = PARTITIONS,
        copies: int = 1,
        rest_s: float = 0.0,
    ) -> None:
        """`servers`: HOST:PORT,HOST:PORT. Missing topics are created, on `copies` brokers; with 3, two of them must
        confirm each append. The number of `partitions` can never change. `rest_s`: for the topic `events`, see
        `KafkaTopicFollower`.
        """
        if not all(part.strip().rpartition(":")[2].isdecimal() for part in servers.split(",")):
            raise BadRequest(f"{servers!r} names no server of Kafka; write HOST:PORT,HOST:PORT")
        self.partitions, self._prefix, self._copies = partitions, prefix, copies
        self._rests_s: Mapping[Topic, float] = {"events": rest_s, "groups": _REGISTRY_REST_S}
        self._client_config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "socket.nagle.disable": True,
            "socket.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),  # leaves a paused broker for the next leader
            "topic.metadata.refresh.interval.ms": 5_000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        }
        self._admin: AdminClient | None = None
        self._fetch_consumer: Consumer | None = None
        self._producer: _Producer | None = None
        self._closing_producers: set[asyncio.Task[None]] = set()  # closing producers that failed for good
        self._connect_lock, self._fetch_lock = asyncio.Lock(), asyncio.Lock()
        self._followers: list[KafkaTopicFollower] = []

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(follower.close() for follower in self._followers))
        if self._producer is not None:
            await self._producer.close()
        await asyncio.gather(*self._closing_producers)
        if self._fetch_consumer is not None:
            await asyncio.to_thread(self._fetch_consumer.close)
        self._producer = self._fetch_consumer = self._admin = None

    # --- connecting ----------------------------------------------------------------------------------------

    async def _connected(self) -> AdminClient:
        if self._admin is None or self._fetch_consumer is None:
            async with self._connect_lock:
                if self._admin is None:
                    admin = AdminClient(self._client_config)
                    await self._make_topics(admin)
                    self._fetch_consumer = self.consumer(wait_ms=10)
                    self._admin = admin
        return self._admin

    async def _make_topics(self, admin: AdminClient) -> None:
        common = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(RECORD_BYTES_MAX),
            "min.insync.replicas": "2" if self._copies > 2 else "1",
            "unclean.leader.election.enable": "false",
        }
        required = {topic: common | of_topic for topic, of_topic in _REQUIRED_SETTINGS.items()}
        topics = [
            NewTopic(
                self.topic_name(topic),
                self.width(topic),
                self._copies,
                config=required[topic] | _INITIAL_SETTINGS[topic],
            )
            for topic in required
        ]
        async with translate_errors(
            f"make its topics at {self._client_config['bootstrap.servers']}", _CREATE_TIMEOUT_S
        ):
            for creation in admin.create_topics(topics, operation_timeout=10).values():
                try:
                    await asyncio.wrap_future(creation)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise
            for topic, settings in required.items():
                reported_width = await asyncio.to_thread(self._reported_width, admin, topic)
                if reported_width != self.width(topic):
                    raise StoreMismatch(
                        f"the topic {self.topic_name(topic)} has {reported_width} partitions where "
                        f"{self.width(topic)} are set; their number is for good"
                    )
                self._check_settings(topic, settings, await self._settings(admin, topic))

    def _check_settings(self, topic: Topic, required: Mapping[str, str], reported: Mapping[str, str]) -> None:
        """StoreMismatch if a topic would refuse or lose records, for example one that an operator created.

        A setting that the brokers do not report is assumed to be right.
        """
        wrong = {
            name: value
            for name, value in required.items()
            if name in reported
            and (int(reported[name]) < int(value) if name in _MINIMUM_SETTINGS else reported[name] != value)
        }
        if wrong:
            actual, expected = ([f"{name}={settings[name]}" for name in wrong] for settings in (reported, wrong))
            raise StoreMismatch(
                f"the topic {self.topic_name(topic)} has {', '.join(actual)}, and would refuse or lose records; "
                f"set it: kafka-configs.sh --bootstrap-server {self._client_config['bootstrap.servers']} --alter "
                f"--entity-type topics --entity-name {self.topic_name(topic)} --add-config {','.join(expected)}"
            )

    async def _settings(self, admin: AdminClient, topic: Topic) -> dict[str, str]:
        """The effective settings of a topic: its own, and those of the brokers."""
        resource = ConfigResource(ResourceType.TOPIC, self.topic_name(topic))
        while True:
            try:
                (reported,) = admin.describe_configs([resource], request_timeout=ANSWER_TIMEOUT_S).values()
                return {name: entry.value for name, entry in (await asyncio.wrap_future(reported)).items()}
            except KafkaException as error:  # the queried broker may not know the topic yet
                if not _is_transient(error):
                    raise
            await asyncio.sleep(_POLL_S)

    def _reported_width(self, admin: AdminClient, topic: Topic) -> int:
        """The partitions of a topic, once the queried broker knows it; 0 after _CREATE_TIMEOUT_S. Runs in a thread."""
        until_s = time.monotonic() + _CREATE_TIMEOUT_S
        while time.monotonic() < until_s:
            reported = admin.list_topics(self.topic_name(topic), timeout=ANSWER_TIMEOUT_S).topics[
                self.topic_name(topic)
            ]
            if not reported.error and reported.partitions:
                return len(reported.partitions)
            time.sleep(_POLL_S)
        return 0

    def width(self, topic: Topic) -> int:
        """How many partitions a topic must have."""
        return 1 if topic == "groups" else self.partitions

    def topic_name(self, topic: Topic) -> str:
        """The name that a topic has on the servers."""
        return f"{self._prefix}-{topic}"

    def consumer(self, wait_ms: int = 200) -> Consumer:
        """A consumer of the driver. It must name a group, but never joins one."""
        return Consumer(
            self._client_config
            | {
                "group.id": self._prefix,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": wait_ms,
                "fetch.error.backoff.ms": 50,
                "fetch.queue.backoff.ms": 20,
                "queued.max.messages.kbytes": 16_384,
                "fetch.message.max.bytes": RECORD_BYTES_MAX,
            }
        )

    # --- the port ------------------------------------------------------------------------------------------

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        (offset,) = await self.append_many(topic, [(partition, value)])
        return offset

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        await self._connected()
        if self._producer is not None and self._producer.is_dead:
            closing = asyncio.create_task(self._producer.close())
            self._closing_producers.add(closing)
            closing.add_done_callback(self._closing_producers.discard)
            self._producer = None
        if self._producer is None:
            self._producer = _Producer(self._client_config)
        async with translate_errors("append"):
            pending_offsets: list[asyncio.Future[int]] = []
            for partition, value in records:
                try:
                    pending_offsets.append(self._producer.append(self.topic_name(topic), partition, value))
                except BufferError as error:
                    if not pending_offsets:
                        raise Overloaded("too much waits for Kafka; try again later") from error
                    message = "too much waits for Kafka, and some of this is on its way; try again"
                    raise StoreUnavailable(message, for_clients="the log does not answer; try again") from error
            return [await offset for offset in pending_offsets]

    async def starts(self, topic: Topic) -> list[int]:
        return await self._offsets(topic, OffsetSpec.earliest())

    async def ends(self, topic: Topic) -> list[int]:
        return await self._offsets(topic, OffsetSpec.latest())

    async def _offsets(self, topic: Topic, spec: OffsetSpec) -> list[int]:
        admin = await self._connected()
        parts = [TopicPartition(self.topic_name(topic), partition) for partition in range(self.width(topic))]
        async with translate_errors("tell its offsets"):
            while True:
                reported = admin.list_offsets(dict.fromkeys(parts, spec), request_timeout=ANSWER_TIMEOUT_S)
                results = await asyncio.gather(*map(asyncio.wrap_future, reported.values()), return_exceptions=True)
                if not (failed := [result for result in results if isinstance(result, BaseException)]):
                    offsets = dict(zip(reported, results, strict=True))
                    return [offsets[part].offset for part in parts]
                if not _is_transient(failed[0]):
                    raise failed[0]
                await asyncio.sleep(_RETRY_S)

    async def fetch(self, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
        if first >= end or first >= (await self.ends(topic))[partition]:
            return []
        async with translate_errors("be read"), self._fetch_lock:
            part = TopicPartition(self.topic_name(topic), partition, first)
            fetching = asyncio.create_task(
                asyncio.to_thread(_fetch, self._fetch_consumer, part, min(end - first, _FETCH_RECORDS_MAX))
            )
            try:
                records = await asyncio.shield(fetching)
            except asyncio.CancelledError:
                await asyncio.wait([fetching])  # the thread still uses the consumer, which the next fetch needs
                raise
        if not records:
            raise StoreUnavailable("Kafka could not be read (no answer in time); try again")
        return [record for record in records if record.offset < end]

    async def forget(self, topic: Topic, partition: int, before: int) -> None:
        admin = await self._connected()
        async with translate_errors("delete records"):
            part = TopicPartition(self.topic_name(topic), partition, before)
            await asyncio.wrap_future(admin.delete_records([part])[part])

    def follower(self, topic: Topic, handle: Handle) -> KafkaTopicFollower:
        follower = KafkaTopicFollower(self.consumer, self.topic_name(topic), handle, self._rests_s.get(topic, 0.0))
        self._followers.append(follower)
        return follower


def _is_transient(error: BaseException) -> bool:
    """Whether an error is transient, as while a partition gets another leader."""
    return isinstance(error, KafkaException) and error.args[0].code() in _TRANSIENT


class _Producer:
    """Appends records. `is_dead`: librdkafka failed for good; unacknowledged records may have been appended or not."""

    def __init__(self, client_config: dict[str, Any]) -> None:
        self.is_dead = False
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            client_config
            | {
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "max.in.flight": 2,  # with the default, 5, its thread checks 150 times a follow whether it may send
                "message.max.bytes": RECORD_BYTES_MAX,
                "message.timeout.ms": int(2 * ANSWER_TIMEOUT_S * 1000),
                "request.timeout.ms": int(ANSWER_TIMEOUT_S * 500),
                "retry.backoff.ms": 20,
            }
        )
        self._acknowledgements: deque[tuple[asyncio.Future[int], Any, int | None]] = deque()
        self._is_woken = False  # whether the loop was woken for `_done`; reset before `_done` is drained
        self._closing = False
        self._thread = threading.Thread(target=self._poll, name="kafka-acknowledged", daemon=True)
        self._thread.start()

    def append(self, name: str, partition: int, value: bytes) -> asyncio.Future[int]:
        """Send a record; a future of its offset. BufferError if too many records wait, so it was not sent."""
        appended: asyncio.Future[int] = self._loop.create_future()

        def acknowledged(error: Any, message: Any) -> None:  # in the thread that polls
            self._acknowledgements.append((appended, error, OFFSET_INVALID if error else message.offset()))
            if not self._is_woken:
                self._is_woken = True
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._complete)

        self._producer.produce(name, value, partition=partition, on_delivery=acknowledged)
        return appended

    def _complete(self) -> None:
        self._is_woken = False
        while self._acknowledgements:
            appended, error, offset = self._acknowledgements.popleft()
            self.is_dead = self.is_dead or bool(error and error.fatal())
            if appended.done():
                continue
            if error:
                appended.set_exception(KafkaException(error))
                appended.exception()  # marks it as retrieved, as nobody may be waiting any more
            elif offset is None:  # sent twice, as the first acknowledgement was lost
                appended.set_exception(StoreUnavailable("Kafka has the record, but did not name its offset; try again"))
                appended.exception()
            else:
                appended.set_result(offset)

    def _poll(self) -> None:
        while not self._closing:
            self._producer.poll(_POLL_S)

    async def close(self) -> None:
        """Append the records that wait, and end the thread."""
        await asyncio.to_thread(self._producer.flush, ANSWER_TIMEOUT_S)
        self._closing = True
        await asyncio.to_thread(self._thread.join)


def _fetch(consumer: Consumer, part: TopicPartition, count: int) -> list[BrokerRecord]:
    """Up to `count` + 1 records from an offset on, where there is at least one. Empty if none comes in time."""
    consumer.assign([part])
    try:
        messages = consumer.consume(1, ANSWER_TIMEOUT_S)
        return records_of([*messages, *consumer.consume(count, 0)])
    finally:
        consumer.unassign()
