"""How far a mention in a post was delivered: to the account, then to the account's followers, tier by tier.

For operators. A tier without an entry has not begun, or ended with nobody to notify.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kith.core.clock import HybridClock
from kith.notifications.notice import NoticeDraft, claim_of
from kith.notifications.outcomes import Outcomes, TierOutcome
from kith.notifications.tiers import Tier
from kith.notifications.walks import Walk, Walks
from kith.posts.post import Post
from kith.records import claims
from kith.records.store import RecordStore


class TracedMention(NamedTuple):
    """A mention of `account`. `notice`: None if the account was not notified yet, or was not to be."""

    account: int
    notice: int | None
    under_way: Sequence[Walk]
    ended: Sequence[TierOutcome]


async def trace_mentions(post: Post, records: RecordStore, walks: Walks, clock: HybridClock) -> list[TracedMention]:
    """The mentions of a post, in the order in which it names them."""
    notices = [await _notice(post, account, records, clock) for account in post.mentioned]
    notice_ids = [notice for notice in notices if notice is not None]
    ended = dict(zip(notice_ids, await Outcomes(records, clock).of(notice_ids), strict=True))
    under_way = [walk for walk in await walks.of(Tier) if walk.notice in ended] if notice_ids else []
    return [
        TracedMention(
            account,
            notice,
            sorted((walk for walk in under_way if walk.notice == notice), key=lambda walk: walk.tier),
            ended.get(notice, []) if notice is not None else [],
        )
        for account, notice in zip(post.mentioned, notices, strict=True)
    ]


async def _notice(post: Post, account: int, records: RecordStore, clock: HybridClock) -> int | None:
    """The account's notice, found by the claim under which it was made."""
    draft = NoticeDraft("mention", post.author, account, post.created_at, post.id)
    claim = claim_of(draft, 0, clock.next())
    (value,) = await records.claimed([claim])
    return None if value is None else int(claims.first_of(value, claim)[0])
