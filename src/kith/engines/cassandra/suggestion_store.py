"""Rankings of suggestions in Cassandra: one row per user, deleted by its TTL some time after it expired."""

from __future__ import annotations

from collections.abc import Sequence

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.node_time import NodeTime
from kith.engines.cassandra.schema import Table
from kith.suggestions.store import RankingRow

SUGGESTIONS = Table("suggestions", ("user bigint",), (), ("until_ms bigint", "data blob"))
SPARE_S = 3_600
"""How long an expired row stays, so that clock skew does not delete a valid one."""
_TTL_MAX_S = 10 * 365 * 86_400
_PUT = "INSERT INTO suggestions (user, until_ms, data) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?"
_GET = "SELECT until_ms, data FROM suggestions WHERE user = ?"


class CassandraSuggestions:
    """See `suggestions.store.SuggestionStore`."""

    def __init__(self, session: Session) -> None:
        self._session, self._node_time = session, NodeTime(session)

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        at_us = await self._node_time.now_us()
        await self._session.write_many([(_PUT, (*row, _ttl_s(row, now_ms), at_us)) for row in rows])

    async def get(self, user: int) -> RankingRow | None:
        rows = await self._session.rows(_GET, user)
        return RankingRow(user, *rows[0]) if rows else None


def _ttl_s(row: RankingRow, now_ms: int) -> int:
    return min(max(row.until_ms - now_ms, 0) // 1_000 + SPARE_S, _TTL_MAX_S)
