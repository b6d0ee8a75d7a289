"""Rewrites the rows of inboxes from the notices, because neither backups nor standbys have the rows.

The recipient of a notice gets the row again. For a mention that went to followers, all followers who want it now get a
row. Who was online at the time is not known any more, so some followers get a row who would have found the mention on
opening the inbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from kith.core.errors import Overloaded
from kith.core.ids import made_at_ms
from kith.notifications.inbox import InboxRow, InboxStore
from kith.notifications.notice import NOTICE_KEPT_MS, Notice, read_notice
from kith.notifications.outcomes import Outcomes
from kith.records.store import Record

PART = 1_000
"""Notices in one call."""
ROOM_S = 1.0
"""Pause before retrying when there is no room for another walk."""


class InboxRefill:
    """Rewrites rows. `walk`: given a notice and the account that it mentions, begins to notify all its followers."""

    def __init__(
        self,
        inboxes: InboxStore,
        outcomes: Outcomes,
        walk: Callable[[int, int], Awaitable[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._inboxes, self._outcomes, self._walk, self._now_ms = inboxes, outcomes, walk, now_ms

    async def write(self, records: Sequence[Record]) -> int:
        """Write the rows of the recipients of up to PART notices; returns how many were missing. May be repeated."""
        return sum(
            await self._inboxes.add([InboxRow(notice.recipient, notice.id) for notice in self._retained(records)])
        )

    async def tell_followers(self, records: Sequence[Record]) -> int:
        """Have followers notified of the mentions among up to PART notices; returns how many mentions. May be repeated.

        If there is no room for more walks, it waits: a caller that restarted at the first would never reach the last.
        """
        mentions = [mention for mention in self._retained(records) if mention.type == "mention"]
        outcomes = await self._outcomes.of([mention.id for mention in mentions])
        notified = [
            mention for mention, tiers in zip(mentions, outcomes, strict=True) if any(tier.told for tier in tiers)
        ]
        for mention in notified:
            await self._begin(mention)
        return len(notified)

    async def _begin(self, mention: Notice) -> None:
        """Begin to notify the followers, once there is room."""
        while True:
            with contextlib.suppress(Overloaded):
                return await self._walk(mention.id, mention.recipient)
            await asyncio.sleep(ROOM_S)

    def _retained(self, records: Sequence[Record]) -> list[Notice]:
        """The notices that have not expired."""
        since_ms = self._now_ms() - NOTICE_KEPT_MS
        notices = [read_notice(record.data) for record in records if made_at_ms(record.id) > since_ms]
        return [notice for notice in notices if notice is not None]
