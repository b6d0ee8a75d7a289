"""Topics that an operator made or changed are refused if their settings would break Kith."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_engines import KAFKA_SERVERS, prefix_of
from confluent_kafka.admin import AdminClient, NewTopic
from coroutines import Run

from kith.core.errors import StoreMismatch
from kith.engines.kafka.connecting import Kafka

OWN = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime", "max.message.bytes": str(8 << 20)}
"""Settings that a topic of Kith needs beyond the defaults of a broker."""


@pytest.fixture
def prefix(tmp_path: Path) -> Iterator[str]:
    prefix = prefix_of(tmp_path)
    yield prefix
    admin = AdminClient({"bootstrap.servers": KAFKA_SERVERS})
    for deleted in admin.delete_topics([f"{prefix}-{topic}" for topic in ("writes", "events", "groups")]).values():
        deleted.exception()


def make_topic(name: str, config: dict[str, str]) -> None:
    """Make a topic as an operator does."""
    admin = AdminClient({"bootstrap.servers": KAFKA_SERVERS})
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1, config=config)])[name].result(30)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "CreateTime"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000000"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_a_topic_that_would_lose_or_refuse_records_is_refused_with_what_to_set(
    run: Run, prefix: str, setting: str, value: str
) -> None:
    async def scene() -> None:
        kafka = Kafka(KAFKA_SERVERS, prefix=prefix, partitions=2)
        with pytest.raises(StoreMismatch, match=f"{prefix}-events .*{setting}={value}.*kafka-configs"):
            await kafka.append("events", 0, b"first")
        await kafka.close()

    make_topic(f"{prefix}-events", OWN | {setting: value})
    run(scene())


def test_topics_that_an_operator_made_right_are_used(run: Run, prefix: str) -> None:
    async def scene() -> None:
        kafka = Kafka(KAFKA_SERVERS, prefix=prefix, partitions=2)
        assert [await kafka.append(topic, 0, b"first") for topic in ("writes", "events")] == [0, 0]
        await kafka.close()

    make_topic(f"{prefix}-events", OWN | {"max.message.bytes": str(16 << 20)})
    make_topic(f"{prefix}-writes", OWN | {"retention.ms": "86400000", "retention.bytes": "1000000000"})
    run(scene())
