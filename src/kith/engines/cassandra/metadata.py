"""Facts of the whole cluster, in rows changed by compare and set: names of graphs, the number of partitions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from kith.core.clock import SKEW_MS_MAX, wall_ms
from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.node_time import TIME_QUERIES
from kith.graph.graphs import assign

CLOCK_OFFSET_MS_MAX = SKEW_MS_MAX // 2
"""How far a machine's clock may be from the nodes', so that two machines are within SKEW_MS_MAX of each other."""
_TRIES_MAX = 20
_READ = "SELECT value FROM metadata WHERE name = ?"
_INSERT = "INSERT INTO metadata (name, value) VALUES (?, ?) IF NOT EXISTS"
_REPLACE = "UPDATE metadata SET value = ? WHERE name = ? IF value = ?"
_GRAPHS, _PARTITIONS = "graphs", "partitions"


class Metadata:
    """Rows of the table `metadata`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def declare(self, names: Sequence[str]) -> Mapping[str, int]:
        """See `graph.store.Schema.declare`."""
        for _ in range(_TRIES_MAX):
            stored = await self._read(_GRAPHS)
            declared = {} if stored is None else msgspec.msgpack.decode(stored, type=dict[str, int])
            numbers = assign(declared, names)
            if numbers == declared:
                return numbers
            if await self._replace(_GRAPHS, stored, msgspec.msgpack.encode(numbers)):
                return numbers
        raise StoreUnavailable("many declare graphs at once; try again")

    async def graphs(self) -> Mapping[str, int]:
        """The declared graphs by name; one that is being declared now may be missing."""
        rows = await self._session.rows(_READ, _GRAPHS)
        return msgspec.msgpack.decode(rows[0][0], type=dict[str, int]) if rows else {}

    async def check_partitions(self, count: int) -> None:
        """Store the number of partitions of the command log. StoreMismatch if another number is stored."""
        stored = await self._read(_PARTITIONS)
        if stored is None and not await self._replace(_PARTITIONS, None, b"%d" % count):
            stored = await self._read(_PARTITIONS)
        if stored is not None and int(stored) != count:
            raise StoreMismatch(
                f"this cluster was made with {int(stored)} partitions of commands, for good; {count} were asked for"
            )

    async def check_clock(self) -> None:
        """StoreMismatch if this machine's clock is more than CLOCK_OFFSET_MS_MAX off most nodes that are queried."""
        apart_ms: dict[str, int] = {}
        for _ in range(TIME_QUERIES):
            asked_ms = wall_ms()
            node, now_ms = await self._session.node_time()
            apart_ms[node] = asked_ms - now_ms if now_ms < asked_ms else min(0, wall_ms() - now_ms)
        far_ms = [ms for ms in apart_ms.values() if abs(ms) > CLOCK_OFFSET_MS_MAX]
        if 2 * len(far_ms) > len(apart_ms):
            raise StoreMismatch(
                f"this machine's clock is {statistics.median_low(far_ms) / 1000:+,.0f} s off that of Cassandra's nodes;"
                f" at most {CLOCK_OFFSET_MS_MAX / 1000:.0f} s is accepted: set it, by NTP for example"
            )

    async def _read(self, name: str) -> bytes | None:
        rows = await self._session.rows_serial(_READ, name)
        return rows[0][0] if rows else None

    async def _replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        if expected is None:
            return await self._session.conditional(_INSERT, name, value)
        return await self._session.conditional(_REPLACE, value, name, expected)
