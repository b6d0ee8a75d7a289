"""The port of inboxes: rows that point from users to the notices that notify them.

A notice is stored once for all users; a row only says "this user is notified by this notice". Whether it is read, seen
or hidden is decided elsewhere. `engines/embedded` and `engines/cassandra` implement the port; the conformance suite
compares them with `tests/reference_inbox.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kith.core.ids import EPOCH_MS, TIME_SHIFT, made_at_ms

Users = NDArray[np.int64]
"""One dimension of ids of users."""
PAGE_MAX = 1_001
"""The most rows of a page."""
ADDED_MAX = 200_000
"""The most rows that one call adds."""
PERIOD_MS = 7 * 86_400_000
"""Length of a period. Rows are stored, and deleted, by the period in which their notice was made."""


class InboxRow(NamedTuple):
    """This user is notified by this notice."""

    user: int
    notice: int


class InboxStore(Protocol):
    """Rows of (user, notice), both ids from 0 to 2**63 - 1.

    Order: newest notice first; ids of notices are snowflakes. Atomicity: per row; writing a row again changes nothing.
    Visibility: all later calls read what a call wrote. Durability: rows are durable when a call returns. Retention: the
    rows of a period are deleted together, only by `expire`, at a cost that does not grow with their number. Errors:
    StoreFull, StoreUnavailable, Overloaded, after which some rows of the call may be written; BatchTooLarge above
    ADDED_MAX and PAGE_MAX.
    """

    immediate: bool  # reads never wait, so running several concurrently gains nothing

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        """Write rows; returns for each whether it is new. Of equal rows in one call, the first is new."""
        ...

    async def put(self, rows: Sequence[InboxRow]) -> None:
        """Write rows, without finding out which of them are new."""
        ...

    async def add_for_all(self, notice: int, users: Users) -> int:
        """Write rows of one notice for many users; returns how many are new. `users` ascend, none twice."""
        ...

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        """Up to `limit` notices of a user, newest first.

        The newest ones; with `before` the nearest below it; with `after` the nearest above it; with both the newest in
        between.
        """
        ...

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        """Which of `users` have a row of this notice, in their order."""
        ...

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        """Delete rows of a user; rows that do not exist are ignored."""
        ...

    async def remove_all(self, user: int) -> None:
        """Delete every row of a user."""
        ...

    async def expire(self, before_ms: int) -> int:
        """Delete the periods that ended before a time (ms since the epoch); returns how many. Later rows stay."""
        ...


def period_of(notice: int) -> int:
    """The period in which a notice was made."""
    return made_at_ms(notice) // PERIOD_MS


def base_of(period: int) -> int:
    """The least id that a notice of a period may have; below 0 in the first period."""
    return (period * PERIOD_MS - EPOCH_MS) << TIME_SHIFT
