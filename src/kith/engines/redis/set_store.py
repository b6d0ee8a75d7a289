"""Cached sets in Redis Cluster: the destinations of a source, either complete or absent (`checks.sets`).

kith:{checks}:last             generation (8 bytes), then the log position up to which sets were kept current
kith:{checks}:standing         "1" while a worker keeps the sets current; expires
kith:set:GENERATION:GRAPH:SOURCE
                               "L", then the name of a lease, whose holder may fill the set; expires after `LEASE_MS`
                               "S", then the members, 8 bytes each, big-endian, ascending; expires after its TTL
                               "N": the set is too large to cache; expires after its TTL

GENERATION is in hex, GRAPH and SOURCE are decimal. Keys of older generations expire.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection, Sequence

import numpy as np

from kith.checks.sets import LEASE_MS, FillLease, Members, SetKey, SetLookup, SetsProgress, Wait
from kith.core.events import LogPosition
from kith.engines.redis.connecting import LinkedCluster
from kith.engines.redis.script import Script, ask, ask_all

_GENERATION_BYTES = 8
_PAGE = 1_000


class RedisSets:
    """See `checks.sets.CachedSets`."""

    def __init__(self, cluster: LinkedCluster, *, prefix: str = "kith") -> None:
        self._cluster, self._prefix, self._script = cluster, prefix, Script(cluster, "sets.lua")
        self._progress_key, self._standing_key = f"{prefix}:{{checks}}:last", f"{prefix}:{{checks}}:standing"

    def _key(self, generation: bytes, key: SetKey) -> str:
        graph, source = key
        return f"{self._prefix}:set:{generation.hex()}:{graph}:{source}"

    async def lookup(self, generation: bytes, queries: Sequence[tuple[SetKey, Sequence[int]]]) -> list[SetLookup]:
        leases = [secrets.token_bytes(8) for _ in queries]
        calls = [
            (self._key(generation, key), ("lookup", lease, LEASE_MS, _packed(ids)))
            for (key, ids), lease in zip(queries, leases, strict=True)
        ]
        answers = await self._script.run_all(calls)
        return [_decode_lookup(answer, lease) for answer, lease in zip(answers, leases, strict=True)]

    async def fill(
        self, generation: bytes, key: SetKey, lease: bytes, ids: Collection[int] | None, ttl_ms: int
    ) -> bool:
        value = b"N" if ids is None else b"S" + _packed(sorted(ids))
        return bool(await self._script.run(self._key(generation, key), "fill", lease, value, ttl_ms))

    async def drop(self, generation: bytes, keys: Sequence[SetKey]) -> None:
        await ask_all(self._cluster, [("UNLINK", self._key(generation, key)) for key in keys])

    async def keys(self, generation: bytes) -> AsyncIterator[list[SetKey]]:
        prefix = f"{self._prefix}:set:{generation.hex()}:"
        await self._cluster.initialize()  # before its first command, the client knows no nodes
        for node in self._cluster.get_primaries():
            cursor = -1
            while cursor:
                command = ("SCAN", max(cursor, 0), "MATCH", f"{prefix}*", "COUNT", _PAGE)
                cursors, page = await ask(self._cluster, *command, target_nodes=node)
                cursor = cursors[node.name]
                yield sorted({_set_key(key[len(prefix) :]) for key in page})

    async def members(self, generation: bytes, keys: Sequence[SetKey]) -> list[frozenset[int] | None]:
        values = await ask_all(self._cluster, [("GET", self._key(generation, key)) for key in keys])
        return [_members(value) for value in values]

    async def last_progress(self) -> SetsProgress | None:
        return _read_progress(await ask(self._cluster, "GET", self._progress_key))

    async def progress(self) -> SetsProgress | None:
        progress_value, standing = await self._script.run(self._progress_key, "standing", self._standing_key)
        return None if standing is None else _read_progress(progress_value)

    async def now_ms(self) -> int:
        seconds, micros = await self._script.run(self._progress_key, "time")
        return int(seconds) * 1_000 + int(micros) // 1_000

    async def note_progress(self, instead_of: bytes | None, progress: SetsProgress, until_ms: int) -> bool:
        value = progress.generation + progress.at
        return bool(
            await self._script.run(self._progress_key, "stand", instead_of or b"", value, until_ms, self._standing_key)
        )


def _read_progress(value: bytes | None) -> SetsProgress | None:
    if value is None:
        return None
    return SetsProgress(value[:_GENERATION_BYTES], LogPosition(value[_GENERATION_BYTES:]))


def _decode_lookup(answer: tuple[bytes, int | bytes], lease: bytes) -> SetLookup:
    kind, value = answer
    if kind == b"S":
        assert isinstance(value, bytes)  # noqa: S101 - what the script answers
        return Members([flag == ord("1") for flag in value])
    return FillLease(lease) if kind == b"L" else Wait(int(value))


def _set_key(end: bytes) -> SetKey:
    """The set that the end of a key names: "GRAPH:SOURCE"."""
    graph, source = end.split(b":")
    return int(graph), int(source)


def _members(value: bytes | None) -> frozenset[int] | None:
    if value is None or value[:1] != b"S":
        return None
    return frozenset(np.frombuffer(value, ">i8", offset=1).tolist())


def _packed(ids: Sequence[int]) -> bytes:
    return np.array(ids, ">i8").tobytes()
