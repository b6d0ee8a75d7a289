"""Timelines in Redis Cluster: one packed string per user; one call changes many users of a bucket.

Users are spread over `buckets`. The keys of a bucket share a hash tag, so they are on one node, and a script changes
them atomically. A push is one call per bucket; all are sent at once.

kith:{7}:tUUUUUUUU   withheld_rate_min i64 | floor i64 | lately f64 | last read ms f64 | ids i64..., oldest first,
                     600 at most
kith:{7}:builds      hash: user -> epoch i64 | withheld_rate_min i64 | begun ms f64 | ids pushed since then i64...,
                     oldest first
kith:{7}:reads       sorted set: user, scored by last read in ms
kith:{0}:name        the name of these timelines

U: the user's id as 8 bytes, little-endian, like all integers here. `lately`: about how many reads there were in
RATE_WINDOW_MS, as of the last read. Nothing is stored on disk: an emptied node lost its timelines, which a missing
`name` reveals.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from kith.engines.redis.buckets import BUCKETS, Buckets, packed
from kith.engines.redis.connecting import LinkedCluster
from kith.engines.redis.script import Script, ask, ask_all
from kith.graph.shapes import Ids
from kith.home.timelines import RATE_WINDOW_MS, TIMELINE_IDS_MAX, Habits, Timeline

_PAGE = 1_000  # as in the script
_HEADER = np.dtype([("withheld_rate_min", "<i8"), ("floor", "<i8"), ("lately", "<f8"), ("read_ms", "<f8")])

BucketCall: TypeAlias = tuple[int, Sequence[Any]]
"""A bucket, and the operation with its arguments."""


class RedisTimelines:
    """See `home.timelines.TimelineStore`. `slots`: the most timelines, divided equally among buckets."""

    immediate = False

    def __init__(
        self,
        cluster: LinkedCluster,
        *,
        slots: int,
        now_ms: Callable[[], int],
        buckets: int = BUCKETS,
        prefix: str = "kith",
    ) -> None:
        self._cluster, self._now_ms, self._buckets, self._prefix = cluster, now_ms, Buckets(buckets), prefix
        self._slots_of_bucket = max(1, slots // buckets)
        self._script = Script(cluster, "timelines.lua", uses_more=True)

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        bucket, member = self._buckets.of(user)
        if by_user:
            (value,) = await self._do([(bucket, ("read", member, self._now_ms()))])
        else:
            value = await ask(self._cluster, "GET", f"{self._prefix}:{{{bucket}}}:t".encode() + member)
        return None if value is None else _timeline(value)

    async def count(self) -> int:
        return sum(
            await ask_all(self._cluster, [("ZCARD", self._key(bucket)) for bucket in range(self._buckets.count)])
        )

    async def users(self) -> AsyncIterator[list[int]]:
        for bucket in range(self._buckets.count):
            cursor, returned = -1, set[int]()  # a scan may return a user twice
            while cursor:
                command = ("ZSCAN", self._key(bucket), max(cursor, 0), "COUNT", _PAGE)
                cursor, members = await ask(self._cluster, *command)
                users = {int.from_bytes(member, "little") for member, _ in members} - returned
                returned |= users
                yield sorted(users)

    async def name(self) -> int:
        return int(await ask(self._cluster, "GET", self._name_key) or 0)

    async def rename(self) -> int:
        name = secrets.randbits(62) + 1
        await ask(self._cluster, "SET", self._name_key, name)
        return name

    def close(self) -> None:
        """Does nothing: the caller that opened the connections closes them."""

    async def push(self, post: int, users: Ids) -> int:
        packed_post = packed(post)
        return sum(await self._do((bucket, ("push", packed_post, members)) for bucket, members in self._shares(users)))

    async def withhold(self, rate: int, users: Ids) -> None:
        packed_rate = packed(rate)
        await self._do((bucket, ("withhold", packed_rate, members)) for bucket, members in self._shares(users))

    async def habits(self, users: Ids) -> Habits:
        order, shares = self._buckets.order(users), [*self._shares(users)]
        answers = await self._do((bucket, ("habits", members)) for bucket, members in shares)
        headers = np.empty(len(users), _HEADER)
        headers[order] = np.frombuffer(b"".join(answers), _HEADER)
        reads = headers["lately"] * np.exp((headers["read_ms"] - self._now_ms()) / RATE_WINDOW_MS)
        return Habits(np.where(headers["read_ms"] > 0, reads, -1.0), headers["withheld_rate_min"].astype(np.int64))

    async def begin(self, user: int) -> int:
        bucket, member = self._buckets.of(user)
        epoch = secrets.randbits(62)
        await self._do([(bucket, ("begin", member, packed(epoch), self._now_ms()))])
        return epoch

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        bucket, member = self._buckets.of(user)
        oldest_first = np.ascontiguousarray(ids[:TIMELINE_IDS_MAX][::-1], "<i8").tobytes()
        (is_put,) = await self._do(
            [(bucket, ("put", member, packed(epoch), oldest_first, self._now_ms(), self._slots_of_bucket))]
        )
        return bool(is_put)

    async def drop(self, users: Ids) -> int:
        return sum(await self._do((bucket, ("drop", members)) for bucket, members in self._shares(users)))

    async def clear(self) -> None:
        await self._run_all_pages("clear")

    async def evict(self, before_ms: int) -> int:
        return await self._run_all_pages("evict", before_ms)

    # --- buckets ---------------------------------------------------------------------------------------

    def _shares(self, users: Ids) -> Iterator[tuple[int, bytes]]:
        """Users by bucket, encoded for the script."""
        return ((bucket, share.tobytes()) for bucket, share in self._buckets.shares(users))

    def _key(self, bucket: int) -> str:
        return f"{self._prefix}:{{{bucket}}}:reads"

    @property
    def _name_key(self) -> str:
        return f"{self._prefix}:{{0}}:name"

    async def _do(self, calls: Iterable[BucketCall]) -> list[Any]:
        """The answers of the script to these calls of buckets, sent at once."""
        return await self._script.run_all((self._key(bucket), arguments) for bucket, arguments in calls)

    async def _run_all_pages(self, operation: str, *arguments: Any) -> int:
        """Repeat a paged operation until every bucket is done; returns how many timelines it removed."""
        total, buckets = 0, [*range(self._buckets.count)]
        while buckets:
            answers = await self._do((bucket, (operation, *arguments)) for bucket in buckets)
            total += sum(answers)
            buckets = [bucket for bucket, removed in zip(buckets, answers, strict=True) if removed == _PAGE]
        return total


def _timeline(value: bytes) -> Timeline:
    """Decode a stored timeline. Ids beyond the cap are dropped here, and count towards the floor."""
    header = np.frombuffer(value, _HEADER, 1)[0]
    ids = np.frombuffer(value, "<i8", offset=_HEADER.itemsize)
    dropped = ids[:-TIMELINE_IDS_MAX]
    floor = max(int(header["floor"]), int(dropped.max(initial=0)))
    return Timeline(ids[: -TIMELINE_IDS_MAX - 1 : -1].astype(np.int64), floor, int(header["withheld_rate_min"]))
