"""The most obvious InboxStore: what engines are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kith.core.ids import ID_MAX
from kith.notifications.inbox import PERIOD_MS, InboxRow, Users, period_of


class ReferenceInboxes:
    """See `notifications.inbox.InboxStore`."""

    immediate = True

    def __init__(self) -> None:
        self.rows: set[tuple[int, int]] = set()

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        new = []
        for user, notice in rows:
            new.append((user, notice) not in self.rows)
            self.rows.add((user, notice))
        return new

    async def add_for_all(self, notice: int, users: Users) -> int:
        return sum(await self.add([InboxRow(int(user), notice) for user in users]))

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        low, high = -1 if after is None else after, ID_MAX + 1 if before is None else before
        found = sorted((notice for one, notice in self.rows if one == user and low < notice < high), reverse=True)
        return found[-limit:] if before is None and after is not None else found[:limit]

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        return np.array([(int(user), notice) in self.rows for user in users], np.bool_)

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        self.rows -= {(user, notice) for notice in notices}

    async def remove_all(self, user: int) -> None:
        self.rows = {row for row in self.rows if row[0] != user}

    async def expire(self, before_ms: int) -> int:
        over = {period for _, notice in self.rows if (1 + (period := period_of(notice))) * PERIOD_MS <= before_ms}
        self.rows = {row for row in self.rows if period_of(row[1]) not in over}
        return len(over)
