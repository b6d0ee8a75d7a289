"""The port of stored rankings, which API processes and the batch job share. Rankings expire.

Implemented by `engines/embedded` (LMDB) and `engines/cassandra`. A lost ranking is computed again, which costs only
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class RankingRow(NamedTuple):
    """A user's ranking as bytes. `until_ms`: when it expires, in ms since the epoch."""

    user: int
    until_ms: int
    data: bytes


class SuggestionStore(Protocol):
    """One row per user; a later row replaces an earlier one.

    Atomicity: `put_many` is atomic per row. Expiry: a row exists until it expires; afterwards it may still exist, and
    the engine deletes it eventually, without a job. Errors: as in `EdgeStore`.
    """

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        """Store these rows. Rows that expired before `now_ms` may be deleted."""
        ...

    async def get(self, user: int) -> RankingRow | None:
        """The row of a user, even an expired one that is not deleted yet; None if there is none."""
        ...
