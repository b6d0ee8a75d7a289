"""The port that keeps computed suggestions for a while, so that API processes and the batch job share them.

Implemented by `engines/embedded` (LMDB). What is kept can be computed again, so losing any of it costs time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class RankingRow(NamedTuple):
    """What is kept for a user, until a time in ms since the epoch."""

    user: int
    until_ms: int
    data: bytes


class SuggestionStore(Protocol):
    """One row a user; the last one put stands.

    Atomicity: one `put_many` is atomic per row. Expiry: a row is there until its time, and may be gone or not after it;
    what is over is forgotten in time without a job. Errors: as of EdgeStore.
    """

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        """Keep these rows. `now_ms`: what is over before it may be forgotten."""
        ...

    async def get(self, user: int) -> RankingRow | None:
        """The row of a user, even if it is over and not yet forgotten."""
        ...
