"""Opens home timelines: in a folder of this machine, or in a Redis Cluster (setting `redis`)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from kith.core.clock import wall_ms
from kith.core.errors import BadRequest
from kith.engines.embedded.timeline_store import CACHED_TIMELINES_MAX, RingReader, RingTimelines, slots_of
from kith.home.timelines import TimelineReader, TimelineStore
from kith.run.config import Settings
from kith.run.opening.folders import timelines_folder


@contextlib.asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[TimelineStore]:
    """Timelines for the fan-out worker, which writes them."""
    if settings.redis:
        async with _in_redis(settings) as timelines:
            yield timelines
    else:
        with RingTimelines(timelines_folder(settings), slots=settings.timelines_max) as rings:
            yield rings


@contextlib.asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[TimelineStore | None]:
    """Existing timelines, for writing, with the number of slots that they were made with; None if there are none."""
    slots = None if settings.redis else slots_of(timelines_folder(settings))
    if settings.redis:
        async with _in_redis(settings) as timelines:
            yield timelines
    elif slots is None:
        yield None
    else:
        with RingTimelines(timelines_folder(settings), slots=slots) as rings:
            yield rings


@contextlib.asynccontextmanager
async def open_reader(settings: Settings) -> AsyncIterator[TimelineReader]:
    """Timelines for processes that only read them."""
    if settings.redis:
        async with _in_redis(settings) as timelines:
            yield timelines
    else:
        rings = RingReader(
            timelines_folder(settings), cache_max=max(1, int(CACHED_TIMELINES_MAX * settings.read_share))
        )
        try:
            yield rings
        finally:
            rings.close()


@contextlib.asynccontextmanager
async def _in_redis(settings: Settings) -> AsyncIterator[TimelineStore]:
    try:
        from kith.engines.redis.connecting import connect  # noqa: PLC0415 - an extra
        from kith.engines.redis.timeline_store import RedisTimelines  # noqa: PLC0415
    except ImportError as error:
        raise BadRequest("`redis` needs Redis' client: pip install '.[cluster]' in a checkout of Kith") from error
    cluster = connect(settings.redis, settings.redis_password)
    try:
        prefix = settings.cassandra_keyspace
        yield RedisTimelines(cluster, slots=settings.timelines_max, now_ms=wall_ms, prefix=prefix)
    finally:
        await cluster.aclose()
