"""The port behind inboxes: pointers from users to the notices that tell them something.

A notice is stored once for all users; a row only says "this user is told of this notice". What is read, seen or hidden
is decided elsewhere. Implemented by `engines/embedded` and held to `tests/reference_inbox.py` by the conformance suite.
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
"""Rows are kept, and forgotten, by the week in which their notice was made."""


class InboxRow(NamedTuple):
    """This user is told of this notice."""

    user: int
    notice: int


class InboxStore(Protocol):
    """Rows of (user, notice), both ids from 0 to 2**63 - 1.

    Order: newest notice first; ids of notices are snowflakes. Atomicity: each row by itself; a row that is written
    again changes nothing. Visibility: what a call wrote is read by all calls that follow. Durability: rows are durable
    when a call returns. Retention: rows of a period are forgotten together, by `expire` alone, at a cost that does not
    grow with their number. Errors: StoreFull, StoreUnavailable, Overloaded, after which some rows of the call may be
    there; BatchTooLarge above ADDED_MAX and PAGE_MAX.
    """

    immediate: bool  # reads answer without waiting, so nothing is gained by making several together

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        """Write rows; for each, whether it is new. Of equal rows in one call the first is."""
        ...

    async def put(self, rows: Sequence[InboxRow]) -> None:
        """Write rows, and do not ask which of them are new."""
        ...

    async def add_for_all(self, notice: int, users: Users) -> int:
        """Tell many users of one notice; how many of the rows are new. `users` ascend, none twice."""
        ...

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        """Up to `limit` notices of a user, newest first.

        The newest; or those next below `before`; or those next above `after`; or, with both, the newest in between.
        """
        ...

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        """Which of `users` have a row of this notice, in their order."""
        ...

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        """Delete rows of a user; those that are not there are left out."""
        ...

    async def remove_all(self, user: int) -> None:
        """Delete every row of a user."""
        ...

    async def expire(self, before_ms: int) -> int:
        """Forget the periods that ended before then (ms since the epoch); how many. Rows of later ones stay."""
        ...


def period_of(notice: int) -> int:
    """The period in which a notice was made."""
    return made_at_ms(notice) // PERIOD_MS


def base_of(period: int) -> int:
    """The least id that a notice of a period may have; below 0 in the first one."""
    return (period * PERIOD_MS - EPOCH_MS) << TIME_SHIFT
