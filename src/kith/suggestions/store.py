"""The port that keeps computed rankings for a while, so that API processes and the batch job share them.

Implemented by `engines/embedded` (LMDB). A ranking can be computed again, so losing one costs only time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class RankingRow(NamedTuple):
    """A user's ranking as bytes, and when it expires, in ms since the epoch."""

    user: int
    until_ms: int
    data: bytes


class SuggestionStore(Protocol):
    """One row per user; a later row replaces an earlier one.

    Atomicity: one `put_many` is atomic per row. Expiry: a row is there until it expires; after that it may or may not
    be there, and is deleted in time without a job. Errors: as in `EdgeStore`.
    """

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        """Keep these rows. Rows that expired before `now_ms` may be deleted."""
        ...

    async def get(self, user: int) -> RankingRow | None:
        """The row of a user, also an expired one that is not deleted yet; None if there is none."""
        ...
