"""Writes the rows of inboxes again from the notices, because neither backups nor standbys have them.

The recipient of a notice gets the row again. For a mention that was told to followers, all followers who want it now
are told: it is not known any more who was online then, so some are told at once who would have found it on opening the
inbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kith.core.ids import made_at_ms
from kith.notifications.inbox import InboxRow, InboxStore
from kith.notifications.notice import NOTICE_KEPT_MS, read_notice
from kith.notifications.outcomes import Outcomes
from kith.records.store import Record

PART = 1_000
"""Notices in one call."""


class Refilling:
    """`walk`: given a notice and the account that it mentions, has all of its followers told."""

    def __init__(
        self,
        inboxes: InboxStore,
        outcomes: Outcomes,
        walk: Callable[[int, int], Awaitable[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._inboxes, self._outcomes, self._walk, self._now_ms = inboxes, outcomes, walk, now_ms

    async def write(self, records: Sequence[Record]) -> int:
        """Write the rows of notices, up to PART; how many were missing. May be repeated. Errors: Overloaded."""
        since_ms = self._now_ms() - NOTICE_KEPT_MS
        read = [read_notice(record.data) for record in records if made_at_ms(record.id) > since_ms]
        notices = [one for one in read if one is not None]
        missing = sum(await self._inboxes.add([InboxRow(one.recipient, one.id) for one in notices]))
        mentions = [one for one in notices if one.type == "mention"]
        for mention, outcomes in zip(mentions, await self._outcomes.of([one.id for one in mentions]), strict=True):
            if any(outcome.told for outcome in outcomes):
                await self._walk(mention.id, mention.recipient)
        return missing
