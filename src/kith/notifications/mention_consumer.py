"""Notifies followers who want it that an account was mentioned: a consumer of the log, beside `intake`.

Intake makes the notice of a mention, for the account itself. This consumer begins walks that write rows of the same
notice for followers; the workers of `pools` continue them. If the account has many followers, those whom no walk has
reached find the mention on opening the inbox (`recent`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kith.core.events import RECORD_CHANGED, Event
from kith.graph.graph import Graph
from kith.leases.holding import Leases
from kith.notifications.activity import Activity, Users
from kith.notifications.coordinator import Coordinator, OnEnd
from kith.notifications.inbox import InboxStore
from kith.notifications.notice import read_notice
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import read_preferences
from kith.notifications.recent import RecentMentions
from kith.notifications.rings import Rings
from kith.notifications.router import Router, follower_count
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk
from kith.records.store import RecordKind, RecordStore

NAME = "mentions"
STARTED_MAX = 10_000
"""Begun mentions that a process remembers."""
_PART = 5_000
"""Users whose preferences are read in one call."""


class MentionOptIns:
    """Which followers of an account want a notice that mentions it."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    async def wanted(self, notice: int, account: int, users: Users) -> NDArray[np.bool_]:
        """For each user, whether they want it by their current preferences; false for the actor and the account."""
        (record,) = await self._records.get_many(RecordKind.NOTICE, [notice])
        mention = None if record is None else read_notice(record.data)
        if mention is None:
            return np.zeros(len(users), np.bool_)
        wanted = np.zeros(len(users), np.bool_)
        for start in range(0, len(users), _PART):
            part = users[start : start + _PART].tolist()
            preferences = await read_preferences(self._records, part)
            wanted[start : start + len(part)] = [
                user in preferences
                and user not in (mention.actor, account)
                and preferences[user].allow("mention", mention.actor, account, user)
                for user in part
            ]
        return wanted


class MentionConsumer:
    """The consumer. See `log.runner.Consumer`."""

    name = NAME

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._begun: dict[int, None] = {}

    async def handle(self, events: Sequence[Event]) -> None:
        """Begin to notify the followers of every account that is mentioned in these events.

        If there is no room for a mention, the batch is repeated. The mentions before it are skipped then, because their
        walks may have ended.
        """
        for event in events:
            if event.state == RECORD_CHANGED and event.source == RecordKind.NOTICE:
                notice = read_notice(event.data)
                if notice is not None and notice.type == "mention" and notice.id not in self._begun:
                    await self._coordinator.begin(notice.id, notice.recipient)
                    self._begun[notice.id] = None
                    if len(self._begun) > STARTED_MAX:
                        del self._begun[next(iter(self._begun))]

    async def work_backlog(self) -> bool:
        """Do nothing: `pools` works the walks."""
        return False

    async def rebuild(self) -> None:
        """Do nothing: begun walks continue, and mentions among the lost events are found as `recent` ones."""


def coordinator_over(
    graph: Graph,
    records: RecordStore,
    inboxes: InboxStore,
    activity: Activity,
    leases: Leases,
    now_ms: Callable[[], int],
    on_end: OnEnd,
    *,
    celebrity_followers_min: int,
    tiers: Sequence[Tier],
) -> Coordinator:
    """A coordinator of some tiers over these stores; `on_end` is called with each outcome once it is stored."""
    router = Router(partial(follower_count, graph), celebrity_followers_min, now_ms)
    outcomes = Outcomes(records, graph.clock)

    async def end(ended: EndedWalk) -> None:
        await outcomes.note(ended)
        await on_end(ended)

    return Coordinator(
        graph, inboxes, activity, router, MentionOptIns(records).wanted, leases, now_ms, end,
        Rings(records, graph.clock).ring, RecentMentions(records, graph, celebrity_followers_min).keep, tiers=tiers,
    )  # fmt: skip
