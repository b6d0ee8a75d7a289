"""Activity in Redis Cluster: when users were last seen, and which users have a stream open, by process.

kith:{7}:seen             sorted set: user (8 bytes, little-endian), scored by the minute when last seen; kept for
                          SEEN_KEPT_MINUTES
kith:{online}             hash: name of a process -> version of its row, 8 random bytes
kith:{online}:PROCESS     version, 8 bytes | until ms i64 | users i64, ascending

A reader caches the rows, and fetches only those with a new version. The row of a process that ended is deleted when
another process writes its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kith.engines.redis.buckets import BUCKETS, Buckets, packed
from kith.engines.redis.connecting import LinkedCluster
from kith.engines.redis.script import Script, ask, ask_all
from kith.notifications.activity import (
    SEEN_STEP_MS,
    Connected,
    Users,
    are_connected,
    check_lookup_size,
    first_connected,
)

SEEN_KEPT_MINUTES = 60 * 24 * 60
"""How long "last seen" is kept: 60 days. The tiers of mentions need 30."""
_VERSION_BYTES = 8
_HEADER_BYTES = _VERSION_BYTES + 8


class RedisActivity:
    """See `notifications.activity.Activity`."""

    def __init__(self, cluster: LinkedCluster, *, prefix: str = "kith", buckets: int = BUCKETS) -> None:
        self._cluster, self._prefix, self._buckets = cluster, prefix, Buckets(buckets)
        self._script = Script(cluster, "activity.lua")
        self._known: dict[bytes, tuple[bytes, Connected]] = {}  # process -> the version of its row, and the row

    async def seen(self, users: Users, at_ms: int) -> None:
        check_lookup_size(len(users))
        minute = at_ms // SEEN_STEP_MS
        shares = [*self._buckets.shares(users)]
        await ask_all(
            self._cluster,
            [
                ("ZADD", self._key(bucket), "GT", *(part for user in share.tolist() for part in (minute, packed(user))))
                for bucket, share in shares
            ]
            + [
                ("ZREMRANGEBYSCORE", self._key(bucket), "-inf", minute - SEEN_KEPT_MINUTES)
                for bucket in dict.fromkeys(bucket for bucket, _ in shares)
            ],
        )

    async def last_seen(self, users: Users) -> Users:
        check_lookup_size(len(users))
        answers = await ask_all(
            self._cluster,
            [
                ("ZMSCORE", self._key(bucket), *map(packed, share.tolist()))
                for bucket, share in self._buckets.shares(users)
            ],
        )
        minutes = [0 if minute is None else int(minute) for answer in answers for minute in answer]
        last_minutes = np.empty(len(users), np.int64)
        last_minutes[self._buckets.order(users)] = minutes
        return last_minutes * SEEN_STEP_MS

    async def set_online(self, process: str, users: Users, until_ms: int) -> None:
        version = secrets.token_bytes(_VERSION_BYTES)
        row = version + packed(until_ms) + np.sort(users).astype("<i8").tobytes()
        await self._script.run(self._processes_key, process, row)

    async def online(self, users: Users, now_ms: int) -> NDArray[np.bool_]:
        return are_connected(await self._connected(), users, now_ms)

    async def online_page(self, after: int, limit: int, now_ms: int) -> Users:
        check_lookup_size(limit)
        return first_connected(await self._connected(), after, limit, now_ms)

    async def _connected(self) -> Iterable[Connected]:
        """The rows of all processes."""
        versions: dict[bytes, bytes] = await ask(self._cluster, "HGETALL", self._processes_key)
        changed = [name for name, version in versions.items() if self._known.get(name, (b"",))[0] != version]
        rows = await ask_all(self._cluster, [("GET", f"{self._processes_key}:".encode() + name) for name in changed])
        rows_by_name = {name: self._known[name] for name in versions if name in self._known}
        rows_by_name.update((name, _read(row)) for name, row in zip(changed, rows, strict=True) if row is not None)
        self._known = rows_by_name
        return [connected for _, connected in rows_by_name.values()]

    def _key(self, bucket: int) -> str:
        return f"{self._prefix}:{{{bucket}}}:seen"

    @property
    def _processes_key(self) -> str:
        return f"{self._prefix}:{{online}}"


def _read(row: bytes) -> tuple[bytes, Connected]:
    """Decode a process's row: its version, and the connected users."""
    until_ms = int.from_bytes(row[_VERSION_BYTES:_HEADER_BYTES], "little", signed=True)
    users = np.frombuffer(row, "<i8", offset=_HEADER_BYTES).astype(np.int64)
    return row[:_VERSION_BYTES], Connected(until_ms, users)
