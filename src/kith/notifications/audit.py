"""Finds the rows of inboxes that are missing, and writes them again: `kith audit notifications`.

A stored notice says who must have a row. Its recipient must. If it mentions an account below the celebrity threshold,
so must those followers whose wish for such mentions, and whose follow, are older than the notice. Later changes
therefore count nobody as left out. Until a mention was delivered to followers, only its recipient is checked.

Followers of celebrities are notified in tiers; the others find the mention on opening the inbox, and count as pull. For
a follower who was not online since the mention, the tier is known: if they were online within the month before, and the
last tier was completed, they were notified, so an absent row is missing. For a follower who was online since, the tier
is not known.

`missing_notices` finds events of which no notice was made.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.clock import ms_of
from kith.core.ids import NodeId, made_at_ms
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS
from kith.notifications.activity import SEEN_STEP_MS, Activity
from kith.notifications.inbox import InboxRow, InboxStore, Users
from kith.notifications.notice import Notice
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import CACHED_MS, preferences_of
from kith.notifications.router import follower_count, followers_of
from kith.notifications.tiers import DAY_MS, MONTH_MS, Tier
from kith.records.store import RecordKind, RecordStore

CHUNK = 10_000
"""Followers checked together."""
PART = 500
"""Notices checked together."""
EXAMPLES_MAX = 10
"""Missing rows that the result names."""
MARGIN_MS = DAY_MS
"""How long after a mention its last tier may have checked who was online within a month."""


class NoticeAudit(msgspec.Struct, rename="camel"):
    """What the auditor found. `expected` is the sum of the next five. `repaired`: missing or dead rows written."""

    notices: int = 0
    expected: int = 0
    delivered: int = 0
    suppressed: int = 0  # the recipient is removed; a follower wants no such mentions, or wished or followed too late
    pull: int = 0  # followers of a celebrity, who find it on opening the inbox
    dead: int = 0  # followers whose walk was given up; `kith_mentions_total` counts chunks instead
    missing: int = 0
    repaired: int = 0
    examples: list[str] = []

    def count(self, *, delivered: int = 0, suppressed: int = 0, pull: int = 0, dead: int = 0, missing: int = 0) -> None:
        """Add rows."""
        self.delivered += delivered
        self.suppressed += suppressed
        self.pull += pull
        self.dead += dead
        self.missing += missing
        self.expected += delivered + suppressed + pull + dead + missing


class MentionDelivery(NamedTuple):
    """How the followers of a mentioned account were notified."""

    tiered: bool  # in tiers; the others find it on opening the inbox
    whole: bool  # the last tier was completed, and found somebody
    dead: bool  # without tiers, and some chunks were given up


class Auditor:
    """Audits notices. `celebrity_followers_min`: followers from which an account's mentions go through tiers."""

    def __init__(
        self,
        graph: Graph,
        records: RecordStore,
        inbox: InboxStore,
        activity: Activity,
        celebrity_followers_min: int,
    ) -> None:
        self._graph, self._records, self._inbox, self._activity = graph, records, inbox, activity
        self._outcomes = Outcomes(records, graph.clock)
        self._celebrity, self._follows = celebrity_followers_min, graph.graphs.number(FOLLOWS)

    async def audit(
        self,
        notices: Iterable[Notice],
        under_way: Collection[int] = (),
        *,
        begun_until_ms: float = math.inf,
        repair: bool = False,
        sample: float = 1.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> NoticeAudit:
        """Audit a `sample` (0 to 1) of these notices; with `repair`, write the rows that are missing.

        `under_way`: notices that are being delivered to followers. Of notices made from `begun_until_ms` on, that may
        not have begun. `progress` is called with the number of notices so
        far.
        """
        result, rng, part = NoticeAudit(), random.Random(), list[Notice]()

        def is_delivered(notice: int) -> bool:
            return notice not in under_way and made_at_ms(notice) < begun_until_ms

        for notice in notices:
            if sample >= 1 or rng.random() < sample:
                part.append(notice)
            if len(part) == PART:
                await self._audit_part(part, is_delivered, result, repair=repair)
                progress(result.notices)
                part = []
        await self._audit_part(part, is_delivered, result, repair=repair)
        progress(result.notices)
        return result

    async def _audit_part(
        self, notices: Sequence[Notice], is_delivered: Callable[[int], bool], result: NoticeAudit, *, repair: bool
    ) -> None:
        result.notices += len(notices)
        nodes = await self._graph.store.nodes([notice.recipient for notice in notices])
        missing = list[InboxRow]()
        for notice, node in zip(notices, nodes, strict=True):
            (has_row,) = await self._inbox.holding(notice.id, np.array([notice.recipient], np.int64))
            if has_row:
                result.count(delivered=1)
            elif node.state is State.REMOVED:
                result.count(suppressed=1)
            else:
                missing.append(InboxRow(notice.recipient, notice.id))
            if notice.type == "mention" and is_delivered(notice.id):
                await self._audit_followers(notice, result, repair=repair)
        await self._count_missing(missing, result, dead=False, repair=repair)

    async def _count_missing(self, rows: Sequence[InboxRow], result: NoticeAudit, *, dead: bool, repair: bool) -> None:
        """Count rows that are missing, or whose walk is `dead`; with `repair`, write them."""
        if dead:
            result.count(dead=len(rows))
        else:
            result.count(missing=len(rows))
            result.examples += [f"{user} of {id_}" for user, id_ in rows[: EXAMPLES_MAX - len(result.examples)]]
        if repair and rows:
            result.repaired += sum(await self._inbox.add(rows))

    async def _delivery_of(self, notice: Notice) -> MentionDelivery:
        """How the followers of a mentioned account were notified.

        The number of followers decides only if there is no outcome: it may have been another at that time.
        """
        (outcomes,) = await self._outcomes.of([notice.id])
        tiered = any(outcome.tier is not Tier.ALL for outcome in outcomes)
        if not outcomes:
            tiered = await follower_count(self._graph, notice.recipient) >= self._celebrity
        last_outcome = next((outcome for outcome in outcomes if outcome.tier is Tier.MONTH), None)
        whole = last_outcome is not None and not (last_outcome.left or last_outcome.dead)
        return MentionDelivery(tiered, whole, not tiered and any(outcome.dead for outcome in outcomes))

    async def _audit_followers(self, notice: Notice, result: NoticeAudit, *, repair: bool) -> None:
        """Check the followers of a mentioned account who should have a row of the mention."""
        account, after, delivery = notice.recipient, None, await self._delivery_of(notice)
        while True:
            chunk = await self._graph.store.chunk(followers_of(self._graph, NodeId(account)), after, CHUNK)
            if len(chunk.ids):
                rowless = await self._followers_without_row(notice, np.sort(chunk.ids), result)
                left_out = (
                    rowless if not delivery.tiered else await self._surely_reached(notice, delivery, rowless, result)
                )
                rows = [InboxRow(user, notice.id) for user in left_out]
                await self._count_missing(rows, result, dead=delivery.dead, repair=repair)
            if chunk.after is None:
                return
            after = chunk.after

    async def _surely_reached(
        self, notice: Notice, delivery: MentionDelivery, rowless: Sequence[int], result: NoticeAudit
    ) -> list[int]:
        """Which of these followers of a celebrity a tier notified for sure; the others count as pull."""
        reached = list[int]()
        if delivery.whole and rowless:
            last_seen, made_ms = await self._activity.last_seen(np.array(rowless, np.int64)), made_at_ms(notice.id)
            sure = (last_seen > made_ms - MONTH_MS + MARGIN_MS) & (last_seen < made_ms - SEEN_STEP_MS)
            reached = [user for user, is_sure in zip(rowless, sure.tolist(), strict=True) if is_sure]
        result.count(pull=len(rowless) - len(reached))
        return reached

    async def _followers_without_row(self, notice: Notice, followers: Users, result: NoticeAudit) -> list[int]:
        """Which of these followers have no row, though they wanted one when the mention was made."""
        has_row = await self._inbox.holding(notice.id, followers)
        rowless = followers[~has_row].tolist()
        preference_records = await self._records.get_many(RecordKind.NOTICE_PREFERENCES, rowless) if rowless else []
        made_ms = made_at_ms(notice.id)
        wanting = [
            user
            for user, record in zip(rowless, preference_records, strict=True)
            if record is not None
            and ms_of(record.updated_at) < made_ms - CACHED_MS
            and user not in (notice.actor, notice.recipient)
            and preferences_of(record).allow(notice.type, notice.actor, notice.recipient, user)
        ]
        pairs = [(user, notice.recipient) for user in wanting]
        edges = await self._graph.store.get_many(self._follows, pairs) if pairs else []
        left_out = [
            user
            for user, edge in zip(wanting, edges, strict=True)
            if edge is not None and ms_of(edge.updated_at) < made_ms
        ]
        result.count(delivered=int(has_row.sum()), suppressed=len(rowless) - len(left_out))
        return left_out
