"""The simplest InboxStore, in memory. Engines are compared with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import BatchTooLarge
from kith.notifications.inbox import ADDED_MAX, PAGE_MAX, PERIOD_MS, InboxRow, Users, period_of


class ReferenceInboxes:
    """See `notifications.inbox.InboxStore`."""

    immediate = True

    def __init__(self) -> None:
        self.rows: set[tuple[int, int]] = set()

    async def add(self, rows: Sequence[InboxRow]) -> list[bool]:
        if len(rows) > ADDED_MAX:
            raise BatchTooLarge("too many rows")
        return [self._add(user, notice) for user, notice in rows]

    async def put(self, rows: Sequence[InboxRow]) -> None:
        await self.add(rows)

    async def add_for_all(self, notice: int, users: Users) -> int:
        if len(users) > ADDED_MAX:
            raise BatchTooLarge("too many rows")
        return sum(self._add(user, notice) for user in users.tolist())

    async def page(self, user: int, *, before: int | None = None, after: int | None = None, limit: int) -> list[int]:
        if limit > PAGE_MAX:
            raise BatchTooLarge("too many rows")
        found = [
            notice
            for owner, notice in sorted(self.rows, reverse=True)
            if owner == user and (before is None or notice < before) and (after is None or notice > after)
        ]
        nearest = after is not None and before is None
        return found[-limit:] if nearest else found[:limit]

    async def holding(self, notice: int, users: Users) -> NDArray[np.bool_]:
        return np.array([(user, notice) in self.rows for user in users.tolist()], np.bool_)

    async def remove(self, user: int, notices: Sequence[int]) -> None:
        self.rows -= {(user, notice) for notice in notices}

    async def remove_all(self, user: int) -> None:
        self.rows = {row for row in self.rows if row[0] != user}

    async def expire(self, before_ms: int) -> int:
        over = {row for row in self.rows if period_of(row[1]) < before_ms // PERIOD_MS}
        self.rows -= over
        return len({period_of(notice) for _, notice in over})

    def _add(self, user: int, notice: int) -> bool:
        is_new = (user, notice) not in self.rows
        self.rows.add((user, notice))
        return is_new
