"""How the conformance suites open the distributed engines: `--engine cluster_engines:REDIS`, or KAFKA.

KITH_TEST_REDIS: nodes of a Redis Cluster that tests may fill and empty, as HOST:PORT,HOST:PORT.
KITH_TEST_KAFKA: servers of a Kafka in which tests may make topics, likewise.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import Clock, Engine, Logged

from kith.engines.redis.connecting import connect
from kith.engines.redis.timeline_store import RedisTimelines
from kith.home.timelines import TimelineStore

NODES = os.environ.get("KITH_TEST_REDIS", "127.0.0.1:17001")
KAFKA_SERVERS = os.environ.get("KITH_TEST_KAFKA", "127.0.0.1:19092")


@contextlib.contextmanager
def open_timelines(folder: Path, *, slots: int, now_ms: Clock) -> Iterator[TimelineStore]:
    """Timelines under names of this folder, in one bucket: so the longest unread of all gives way, as suites ask."""
    prefix = _prefix(folder)
    yield RedisTimelines(connect(NODES), slots=slots, now_ms=now_ms, buckets=1, prefix=prefix)


@contextlib.contextmanager
def open_log(folder: Path, **settings: Any) -> Iterator[Logged]:
    """A log under names of this folder."""
    from kafka_edges import KafkaOfTests, open_log  # noqa: PLC0415  whose driver need not be installed for Redis

    with open_log(KafkaOfTests(KAFKA_SERVERS, prefix=_prefix(folder), partitions=4), **settings) as opened:
        yield opened


def _prefix(folder: Path) -> str:
    return "tests-" + hashlib.sha256(f"{os.getpid()} {folder}".encode()).hexdigest()[:12]


REDIS = Engine("redis", timelines=open_timelines)
KAFKA = Engine("kafka", logs=open_log)
