"""Quotas in Redis Cluster: one count for all instances, checked and changed atomically by a script.

kith:quota:KIND:USER   part f64 | last f64 | 16 counts u32 (see `access.sliding_window`), little-endian; expires two
                       windows after the last `take`

KIND and USER are decimal. The script does exactly what `sliding_window.take` and `refund` do, with one exception: if
an instance's clock is more than half of `SKEW_S` off the node's, it uses the node's time.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

import structlog
from redis.exceptions import RedisClusterException, RedisError

from kith.access import sliding_window
from kith.access.sliding_window import PARTS, Counts, Quota, QuotaUsage, TakeResult
from kith.core.errors import Unavailable
from kith.engines.redis.connecting import LinkedCluster
from kith.engines.redis.script import Script, ask_all

COUNT_TIMEOUT_S = 1.0
"""How long a count is waited for."""
RETRY_AFTER_S = 1.0
"""How long Redis is not queried after it failed to answer; meanwhile all requests are admitted."""
EXAMINED_MAX = 20_000
"""Counts of a kind that `fullest` examines."""
_SCAN_COUNT = 1_000
_COUNTS = struct.Struct(f"<dd{PARTS + 1}I")
_log = structlog.get_logger("kith.redis")


class RedisQuotas:
    """See `access.sliding_window.QuotaStore`.

    `clock_s`: a monotonic clock; `wall_s`: the machine's clock. `count_timeout_s`: how long a count is waited for.
    """

    immediate = False

    def __init__(
        self,
        cluster: LinkedCluster,
        *,
        prefix: str = "kith",
        clock_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
        count_timeout_s: float = COUNT_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._script, self._prefix, self._clock_s = Script(cluster, "quotas.lua"), prefix, clock_s
        self._wall_s, self._paused_until_s, self._count_timeout_s = wall_s, clock_s(), count_timeout_s

    async def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> TakeResult:
        counted = await self._do(kind, user, "take", quota_.limit, quota_.window_s, repr(now_s), self._wall_s())
        if counted is None:
            return TakeResult(int(now_s / (quota_.window_s / PARTS)))
        part, wait_s = counted
        return TakeResult(part, float(wait_s))

    async def refund(self, kind: int, user: int, part: int) -> None:
        await self._do(kind, user, "refund", part)

    async def fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[QuotaUsage]:
        """See `QuotaStore`. Examines EXAMINED_MAX arbitrary users; empty if Redis does not answer."""
        keys, usages = set[bytes](), list[QuotaUsage]()
        try:
            async for key in self._cluster.scan_iter(match=f"{self._prefix}:quota:{kind}:*", count=_SCAN_COUNT):
                keys.add(key)
                if len(keys) >= EXAMINED_MAX:
                    break
            sorted_keys = sorted(keys)
            values = await ask_all(self._cluster, [("GET", key) for key in sorted_keys])
        except (Unavailable, RedisError, RedisClusterException, OSError) as error:
            _log.warning("users near their quota cannot be listed", error=str(error))
            return []
        for key, value in zip(sorted_keys, values, strict=True):
            if value is not None:  # it expired meanwhile
                part, last_s, *counts = _COUNTS.unpack(value)
                count = sliding_window.used(Counts(int(part), tuple(counts), last_s), quota, now_s)
                usages.append(QuotaUsage(int(key.rpartition(b":")[2]), count))
        return sorted((row for row in usages if row.used >= used_min), key=lambda row: (-row.used, row.user))[:limit]

    async def _do(self, kind: int, user: int, *arguments: int | float | str) -> tuple[int, bytes] | None:
        """The answer of the script; None if Redis does not answer, or failed less than RETRY_AFTER_S ago."""
        if self._clock_s() < self._paused_until_s:
            return None
        try:
            async with asyncio.timeout(self._count_timeout_s):
                answer: tuple[int, bytes] = await self._script.run(f"{self._prefix}:quota:{kind}:{user}", *arguments)
                return answer
        except (Unavailable, TimeoutError) as error:
            self._paused_until_s = self._clock_s() + RETRY_AFTER_S
            reason = str(error) or f"Redis does not answer within {self._count_timeout_s:g} s"
            _log.warning("requests are not counted; all are let in", error=reason)
            return None
