"""Opens the counts of quotas: a file that the processes of a machine share, or a Redis Cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kith.access.sliding_window import QuotaStore
from kith.engines.embedded import quota_store
from kith.engines.embedded.quota_store import FileQuotas
from kith.run.config import Settings


@contextlib.asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[QuotaStore]:
    """The counts, shared by all processes that serve one community."""
    if settings.engine == "cluster":
        from kith.engines.redis.connecting import connect  # noqa: PLC0415 - an extra
        from kith.engines.redis.quota_store import RedisQuotas  # noqa: PLC0415

        cluster = connect(settings.redis, settings.redis_password)
        try:
            yield RedisQuotas(cluster, prefix=settings.cassandra_keyspace)
        finally:
            await cluster.aclose()
    else:
        counts = FileQuotas(Path(settings.data) / quota_store.FILE)
        try:
            yield counts
        finally:
            counts.close()
