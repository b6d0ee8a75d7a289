"""Timelines in Redis Cluster: a packed string a user, and many users of a bucket in one call.

Users are spread over `buckets`; the keys of one have a hash tag of their own, so they lie on one node and one script
changes them in one step. A push is a call a bucket, all of them sent at once.

kith:{7}:tUUUUUUUU   lacks_from i64 | floor i64 | lately f64 | last read ms f64 | ids i64..., oldest first, 500 to 600
kith:{7}:builds      hash: user -> epoch i64 | lacks_from i64 | begun ms f64 | ids pushed since i64..., oldest first
kith:{7}:reads       sorted set: user by last read in ms
kith:{0}:name        the name of these timelines

U: the user's id as 8 bytes, little-endian, as all integers here. Nothing is kept on disk: nodes that were emptied lose
timelines, and `name` says so.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisClusterException, RedisError

from kith.core.errors import StoreFull, StoreUnavailable
from kith.home.timelines import READS_MS, TIMELINE_IDS_MAX, Habits, Ids, Timeline

BUCKETS = 32
"""So that a few hundred followers are about ten a call, and nodes get equal shares. Of another number, other keys."""
_USERS_A_CALL = 2_000
"""What a node does at a stretch, in about 2 ms; others wait so long."""
_PAGE = 1_000  # as in the script
_HEADER = np.dtype([("lacks_from", "<i8"), ("floor", "<i8"), ("lately", "<f8"), ("read_ms", "<f8")])
_SCRIPT = resources.files(__package__).joinpath("timelines.lua").read_text()
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Odd, with bits as if by chance: its multiples spread ids that follow each other (Knuth's multiplicative hashing)."""

_AWAY = (RedisError, RedisClusterException, OSError)

Call: TypeAlias = tuple[int, Sequence[Any]]
"""A bucket, and the operation with its arguments."""


class RedisTimelines:
    """See `home.timelines.TimelineStore`. `slots`: timelines at most, an equal share in each bucket."""

    immediate = False

    def __init__(
        self,
        cluster: RedisCluster,
        *,
        slots: int,
        now_ms: Callable[[], int],
        buckets: int = BUCKETS,
        prefix: str = "kith",
    ) -> None:
        self._cluster, self._now_ms, self._buckets, self._prefix = cluster, now_ms, buckets, prefix
        self._places = max(1, slots // buckets)

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        bucket, packed = self._of(user)
        if by_user:
            (value,) = await self._do([(bucket, ("read", packed, self._now_ms()))])
        else:
            value = await self._ask("GET", f"{self._prefix}:{{{bucket}}}:t".encode() + packed)
        return None if value is None else _timeline(value)

    async def count(self) -> int:
        return sum([await self._ask("ZCARD", self._key(bucket)) for bucket in range(self._buckets)])

    async def name(self) -> int:
        return int(await self._ask("GET", self._name_key) or 0)

    async def rename(self) -> int:
        name = secrets.randbits(62) + 1
        await self._ask("SET", self._name_key, name)
        return name

    def close(self) -> None:
        """Nothing: whoever made the connections ends them."""

    async def push(self, post: int, users: Ids) -> int:
        packed = _packed(post)
        return sum(await self._do((bucket, ("push", packed, some)) for bucket, some in self._shares(users)))

    async def withhold(self, rate: int, users: Ids) -> None:
        packed = _packed(rate)
        await self._do((bucket, ("withhold", packed, some)) for bucket, some in self._shares(users))

    async def habits(self, users: Ids) -> Habits:
        order, shares = self._order(users), [*self._shares(users)]
        answers = await self._do((bucket, ("habits", some)) for bucket, some in shares)
        found = np.empty(len(users), _HEADER)
        found[order] = np.frombuffer(b"".join(answers), _HEADER)
        reads = found["lately"] * np.exp((found["read_ms"] - self._now_ms()) / READS_MS)
        return Habits(np.where(found["read_ms"] > 0, reads, -1.0), found["lacks_from"].astype(np.int64))

    async def begin(self, user: int) -> int:
        bucket, packed = self._of(user)
        epoch = secrets.randbits(62)
        await self._do([(bucket, ("begin", packed, _packed(epoch), self._now_ms()))])
        return epoch

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        bucket, packed = self._of(user)
        oldest_first = np.ascontiguousarray(ids[:TIMELINE_IDS_MAX][::-1], "<i8").tobytes()
        (done,) = await self._do(
            [(bucket, ("put", packed, _packed(epoch), oldest_first, self._now_ms(), self._places))]
        )
        return bool(done)

    async def drop(self, users: Ids) -> int:
        return sum(await self._do((bucket, ("drop", some)) for bucket, some in self._shares(users)))

    async def clear(self) -> None:
        await self._page_on("clear")

    async def evict(self, before_ms: int) -> int:
        return await self._page_on("evict", before_ms)

    # --- buckets ---------------------------------------------------------------------------------------

    def _of(self, user: int) -> tuple[int, bytes]:
        """A user's bucket, and the user as the script takes one."""
        return int(self._bucket_of(np.array([user], np.int64))[0]), _packed(user)

    def _bucket_of(self, users: Ids) -> NDArray[np.int64]:
        spread = (users.astype(np.uint64) * _SPREAD) >> np.uint64(32)
        return (spread % np.uint64(self._buckets)).astype(np.int64)

    def _order(self, users: Ids) -> NDArray[np.int64]:
        """The places of users, those of one bucket together."""
        return np.argsort(self._bucket_of(users), kind="stable")

    def _shares(self, users: Ids) -> Iterable[tuple[int, bytes]]:
        """Users by bucket, in the order of `_order`, as many as a call takes at a time."""
        order = self._order(users)
        buckets, ordered = self._bucket_of(users)[order], users[order].astype("<i8")
        found, starts = np.unique(buckets, return_index=True)
        ends = [*starts[1:].tolist(), len(users)][: len(found)]
        for bucket, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            for at in range(start, end, _USERS_A_CALL):
                yield bucket, ordered[at : min(at + _USERS_A_CALL, end)].tobytes()

    def _key(self, bucket: int) -> str:
        return f"{self._prefix}:{{{bucket}}}:reads"

    @property
    def _name_key(self) -> str:
        return f"{self._prefix}:{{0}}:name"

    async def _page_on(self, operation: str, *arguments: Any) -> int:
        """Do an operation that takes a page at a time until there is no more in any bucket; how many there were."""
        total, buckets = 0, [*range(self._buckets)]
        while buckets:
            answers = await self._do((bucket, (operation, *arguments)) for bucket in buckets)
            total += sum(answers)
            buckets = [bucket for bucket, done in zip(buckets, answers, strict=True) if done == _PAGE]
        return total

    # --- calls -----------------------------------------------------------------------------------------

    async def _do(self, calls: Iterable[Call]) -> list[Any]:
        """The answers of the script, of all these calls at once. A node that does not know it yet is told it."""
        left = dict(enumerate(calls))
        answers: list[Any] = [None] * len(left)
        for told in (False, True):
            if not left:
                break
            for at, answer in zip([*left], await self._send(left.values()), strict=True):
                if isinstance(answer, NoScriptError) and not told:
                    continue
                if isinstance(answer, Exception):
                    raise _ours(answer) from answer
                answers[at] = answer
                del left[at]
            if left:
                await self._ask("SCRIPT LOAD", _SCRIPT, target_nodes=RedisCluster.PRIMARIES)
        return answers

    async def _send(self, calls: Iterable[Call]) -> list[Any]:
        pipeline = self._cluster.pipeline()
        for bucket, arguments in calls:
            pipeline.execute_command("EVALSHA", _SHA, 1, self._key(bucket), *arguments)
        try:
            return await pipeline.execute(raise_on_error=False)
        except _AWAY as error:
            raise _ours(error) from error

    async def _ask(self, *command: Any, **options: Any) -> Any:
        try:
            return await self._cluster.execute_command(*command, **options)
        except _AWAY as error:
            raise _ours(error) from error


def _packed(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def _timeline(value: bytes) -> Timeline:
    """A stored timeline; the oldest that it holds beyond the cap went already."""
    header = np.frombuffer(value, _HEADER, 1)[0]
    ids = np.frombuffer(value, "<i8", offset=_HEADER.itemsize)
    gone = ids[:-TIMELINE_IDS_MAX]
    floor = max(int(header["floor"]), int(gone.max(initial=0)))
    return Timeline(ids[: -TIMELINE_IDS_MAX - 1 : -1].astype(np.int64), floor, int(header["lacks_from"]))


def _ours(error: BaseException) -> Exception:
    if isinstance(error, OutOfMemoryError):
        return StoreFull("a Redis node has no memory left for timelines; raise its maxmemory, or lower `timelines_max`")
    return StoreUnavailable(f"Redis Cluster does not answer ({type(error).__name__}: {error}); it is tried again")
