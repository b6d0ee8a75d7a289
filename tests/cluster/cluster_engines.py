"""Opens the distributed engines for the suites: `--engine cluster_engines:REDIS`, `CASSANDRA` and the others below.

KITH_TEST_CASSANDRA: nodes of Cassandra, see `cassandra_stores`.
KITH_TEST_S3: the address of an S3 server with a bucket `kith`; its keys are those of `cluster/s3.sh`.
KITH_TEST_REDIS: nodes of a Redis Cluster that tests may fill and empty, as HOST:PORT,HOST:PORT.
KITH_TEST_KAFKA: servers of a Kafka in which tests may make topics, as HOST:PORT,HOST:PORT.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cassandra_stores import (
    open_credentials,
    open_divided,
    open_edges,
    open_fanout_state,
    open_inboxes,
    open_leases,
    open_logs,
    open_side,
    open_stores,
    open_whole,
)
from engines import Engine
from store_types import Clock, EngineStores, Logged

from kith.access.sliding_window import QuotaStore
from kith.checks.sets import CachedSets
from kith.engines.blobs.blob_store import open_blobs
from kith.engines.redis.activity_store import RedisActivity
from kith.engines.redis.connecting import connect
from kith.engines.redis.quota_store import RedisQuotas
from kith.engines.redis.set_store import RedisSets
from kith.engines.redis.timeline_store import RedisTimelines
from kith.home.timelines import TimelineStore
from kith.media.blobs import BlobStore
from kith.notifications.activity import Activity

NODES = os.environ.get("KITH_TEST_REDIS", "127.0.0.1:17001")
S3 = {
    "AWS_ENDPOINT_URL": os.environ.get("KITH_TEST_S3", "http://127.0.0.1:19000"),
    "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "kith"),
    "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "kith-secret"),
    "AWS_REGION": "us-east-1",
}
"""Environment variables that point a client to the S3 server."""
KAFKA_SERVERS = os.environ.get("KITH_TEST_KAFKA", "127.0.0.1:19092")


def prefix_of(folder: Path) -> str:
    """The prefix of all names stored for this folder."""
    return "tests-" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]


# --- Redis -----------------------------------------------------------------------------------------------


@contextmanager
def open_timelines(folder: Path, *, slots: int, now_ms: Clock) -> Iterator[TimelineStore]:
    """Timelines under this folder's prefix. One bucket, so that the timeline unread for longest is evicted."""
    yield RedisTimelines(connect(NODES), slots=slots, now_ms=now_ms, buckets=1, prefix=prefix_of(folder))


@contextmanager
def _quotas(folder: Path) -> Iterator[QuotaStore]:
    yield RedisQuotas(connect(NODES), prefix=prefix_of(folder), count_timeout_s=60)


@contextmanager
def _activity(folder: Path) -> Iterator[Activity]:
    yield RedisActivity(connect(NODES), prefix=prefix_of(folder))


@contextmanager
def _sets(folder: Path) -> Iterator[CachedSets]:
    yield RedisSets(connect(NODES), prefix=prefix_of(folder))


@contextmanager
def _blobs(folder: Path) -> Iterator[BlobStore]:
    """Blobs under this folder's prefix in the bucket `kith`."""
    url = f"s3://kith/{prefix_of(folder)}"
    with patch.dict(os.environ, S3):
        yield open_blobs(url, folder, sync=True)


@contextmanager
def open_log(folder: Path, **settings: Any) -> Iterator[Logged]:
    """A log under this folder's prefix."""
    from kafka_edges import KafkaOfTests, open_log  # noqa: PLC0415  tests of Redis need no Kafka driver

    prefix = f"{prefix_of(folder)}-{os.getpid()}"
    with open_log(KafkaOfTests(KAFKA_SERVERS, prefix=prefix, partitions=4), **settings) as opened:
        yield opened


@contextmanager
def _whole(folder: Path, *, now_ms: Clock, slots: int = 100, events_max: int = 0) -> Iterator[EngineStores]:
    """Cassandra and Redis, with a log in memory that never forgets."""
    with (
        open_timelines(folder, slots=slots, now_ms=now_ms) as timelines,
        open_whole(folder, timelines, now_ms) as opened,
    ):
        yield opened


REDIS = Engine("redis", timelines=open_timelines, quotas=_quotas, activity=_activity, sets=_sets)
BUCKET = Engine("s3", blobs=_blobs)
CASSANDRA = Engine(
    "cassandra",
    edges=open_edges,
    stores=open_stores,
    fanout_state=open_fanout_state,
    leases=open_leases,
    credentials=open_credentials,
    inboxes=open_inboxes,
    sides=open_side,
)
KAFKA = Engine("kafka", logs=open_log)
TOLD = Engine("cassandra-told", logs=open_logs, keeps=False)
"""The events that owners on Cassandra emit, in a log in memory."""
WHOLE = Engine("cassandra-and-redis", whole=_whole, keeps=False)
DIVIDED = Engine("cassandra-divided", edges=open_divided)
"""Cassandra with list parts so short that most lists have several."""
