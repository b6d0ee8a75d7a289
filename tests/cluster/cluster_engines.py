"""How the conformance suites open the distributed engines: `--engine cluster_engines:REDIS`, `CASSANDRA`.

KITH_TEST_CASSANDRA: nodes of Cassandra, see `cassandra_stores`.
KITH_TEST_REDIS: nodes of a Redis Cluster that tests may fill and empty, as HOST:PORT,HOST:PORT.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from cassandra_stores import open_edges, open_logs, open_stores
from engines import Clock, Engine

from kith.engines.redis.connecting import connect
from kith.engines.redis.timeline_store import RedisTimelines
from kith.home.timelines import TimelineStore

NODES = os.environ.get("KITH_TEST_REDIS", "127.0.0.1:17001")


@contextlib.contextmanager
def open_timelines(folder: Path, *, slots: int, now_ms: Clock) -> Iterator[TimelineStore]:
    """Timelines under names of this folder, in one bucket: so the longest unread of all gives way, as suites ask."""
    prefix = "tests-" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    yield RedisTimelines(connect(NODES), slots=slots, now_ms=now_ms, buckets=1, prefix=prefix)


REDIS = Engine("redis", timelines=open_timelines)
CASSANDRA = Engine("cassandra", edges=open_edges, stores=open_stores, logs=open_logs)
