"""Leases in Cassandra: one row each, changed only if it is still as it was read (compare and set).

Time is the median of the nodes' clocks (`node_time`), so no single wrong clock, of an instance or a node, can end
another's lease. A row is deleted ROW_TTL_S after its lease ended. Tokens still grow after that, because a token is at
least the current time in ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.node_time import NodeTime
from kith.engines.cassandra.schema import Table
from kith.leases.store import Lease

ROW_TTL_S = 10 * 86_400
# `fence` holds the token: `token` is a reserved word in CQL
LEASES = Table("leases", ("name text",), (), ("holder text", "fence bigint", "until_ms bigint"))
_READ = "SELECT fence, until_ms FROM leases WHERE name = ?"
_PUT = "UPDATE leases USING TTL ? SET holder = ?, fence = ?, until_ms = ? WHERE name = ? IF fence = ? AND until_ms = ?"


class _Row(NamedTuple):
    token: int | None
    until_ms: int | None
    now_ms: int

    @property
    def held(self) -> bool:
        return self.until_ms is not None and self.now_ms < self.until_ms


class CassandraLeases:
    """See `leases.store.LeaseStore`. `now_ms`: a clock to use instead of the nodes' clocks."""

    expires = True

    def __init__(self, session: Session, *, now_ms: Callable[[], int] | None = None) -> None:
        self._session, self._now_ms, self._node_time = session, now_ms, NodeTime(session)

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        row = await self._read(name)
        if row.held:
            return None
        lease = Lease(name, holder, max(row.now_ms, (row.token or 0) + 1))
        return lease if await self._put(lease, row, ttl_s) else None

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        return await self._change(lease, ttl_s)

    async def release(self, lease: Lease) -> None:
        await self._change(lease, 0)

    async def _change(self, lease: Lease, ttl_s: float) -> bool:
        """Make a lease end `ttl_s` from now; returns False if it has already ended."""
        while True:
            row = await self._read(lease.name)
            if row.token != lease.token or not row.held:
                return False
            if await self._put(lease, row, ttl_s):
                return True

    async def _read(self, name: str) -> _Row:
        rows = await self._session.rows_serial(_READ, name)
        token, until_ms = rows[0] if rows else (None, None)
        return _Row(token, until_ms, self._now_ms() if self._now_ms else await self._node_time.now_us() // 1_000)

    async def _put(self, lease: Lease, row: _Row, ttl_s: float) -> bool:
        """Make the lease end `ttl_s` after `row` was read, if the row is unchanged since then."""
        until_ms, kept_s = row.now_ms + int(ttl_s * 1_000), int(ttl_s) + ROW_TTL_S
        values = kept_s, lease.holder, lease.token, until_ms, lease.name, row.token, row.until_ms
        return await self._session.conditional(_PUT, *values)
