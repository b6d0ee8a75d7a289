"""A SuggestionStore in a dict. Engines are compared with it."""

from __future__ import annotations

from collections.abc import Sequence

from kith.suggestions.store import RankingRow


class ReferenceSuggestions:
    """See `suggestions.store.SuggestionStore`."""

    def __init__(self) -> None:
        self.rows: dict[int, RankingRow] = {}
        self.puts = 0

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        self.puts += 1
        self.rows |= {row.user: row for row in rows}

    async def get(self, user: int) -> RankingRow | None:
        return self.rows.get(user)
