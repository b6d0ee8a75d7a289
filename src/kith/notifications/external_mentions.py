"""Mentions that other systems report under ids of their own. The same id notifies once and gets the same answer."""

from __future__ import annotations

import msgspec

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import IdempotencyKeyReused, InvalidContent
from kith.core.ids import NodeId
from kith.notifications.notice import NOTICE_KEPT_MS, NoticeDraft
from kith.notifications.notices import NO_NOTICE, Notices
from kith.notifications.recent import RecentMentions
from kith.notifications.recipients import Recipients
from kith.records.claims import KEY_CHARS_MAX, claim_of, first_of

_NO_OWNER = NodeId(0)
"""The owner of the claims of these ids: the app, not a user."""
AHEAD_MAX_MS = 300_000
"""How far in the future the time of a mention may be, by another system's clock."""


class ExternalMentions:
    """Takes mentions from other systems; each is durable when it is answered."""

    def __init__(self, notices: Notices, recipients: Recipients, recent: RecentMentions, clock: HybridClock) -> None:
        self._notices, self._recipients, self._recent, self._clock = notices, recipients, recent, clock

    async def accept(
        self, event: str, actor: NodeId, mentioned: NodeId, post: NodeId | None, at_ms: int | None
    ) -> bool:
        """Whether the mentioned user is notified. The same event within 24 h gets the same answer and notifies nobody.

        Errors: InvalidContent; IdempotencyKeyReused if the event came with other content.
        """
        now_ms = ms_of(self._clock.next())
        _check(event, actor, mentioned, at_ms, now_ms)
        content = msgspec.msgpack.encode((actor, mentioned, post, at_ms))
        claim = claim_of("mention", _NO_OWNER, event, content, *self._notices.next())
        (claimed,) = await self._notices.records.claimed([claim])
        draft = NoticeDraft("mention", actor, mentioned, now_ms if at_ms is None else at_ms, post, event=event)
        if claimed is None and not await self._recipients.allowed([draft]):
            claim = claim_of("mention", _NO_OWNER, event, content, NO_NOTICE, first_of(claim.value, claim)[1])
        try:
            (notice_id,) = await self._notices.notify_under([(draft, claim)])
        except IdempotencyKeyReused:
            raise IdempotencyKeyReused(
                "this eventId was used with other content before; each event needs an id of its own", eventId=event
            ) from None
        await self._recent.note([(draft, notice_id)])
        return notice_id != NO_NOTICE


def _check(event: str, actor: NodeId, mentioned: NodeId, at_ms: int | None, now_ms: int) -> None:
    if not (0 < len(event) <= KEY_CHARS_MAX and event.isascii() and event.isprintable()):
        raise InvalidContent(f"eventId must have 1 to {KEY_CHARS_MAX} printable ASCII characters", field="eventId")
    if actor == mentioned:
        raise InvalidContent("actor and mentioned must differ", field="mentioned")
    if at_ms is not None and not now_ms - NOTICE_KEPT_MS < at_ms <= now_ms + AHEAD_MAX_MS:
        raise InvalidContent("at must be within the last 90 days", field="at")
