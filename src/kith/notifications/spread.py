"""Tells those followers of a mentioned account who asked for it: a consumer of the log, beside `intake`.

Intake makes the notice of a mention, which is for the account. This one gives rows of the same notice to followers, in
walks that outlive a process (`coordinator`). Whom no walk reached, or not yet, finds the mention of an account with
many followers when they look (`recent`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kith.core.events import RECORD_CHANGED, Event
from kith.graph.graph import Graph
from kith.notifications.activity import Activity, Users
from kith.notifications.coordinator import Coordinator, Ended
from kith.notifications.inbox import InboxStore
from kith.notifications.notice import read_notice
from kith.notifications.preferences import PreferencesKept
from kith.notifications.router import Router, follower_count
from kith.records.store import RecordKind, RecordStore

NAME = "mentions"
_PART = 5_000
"""Users whose preferences are asked for in one call."""


class Wishes:
    """Who of an account's followers wants to be told of a notice that mentions it."""

    def __init__(self, records: RecordStore, preferences: PreferencesKept) -> None:
        self._records, self._preferences = records, preferences

    async def wanted(self, notice: int, account: int, users: Users) -> NDArray[np.bool_]:
        """For each user, by their preferences of the last minute; never who did it, nor the account itself."""
        (record,) = await self._records.get_many(RecordKind.NOTICE, [notice])
        if record is None:
            return np.zeros(len(users), np.bool_)
        told = read_notice(record.data)
        wants: list[bool] = []
        for at in range(0, len(users), _PART):
            part = users[at : at + _PART].tolist()
            preferences = await self._preferences.lately(part)
            wants += [
                user not in (told.actor, account) and preferences[user].allow("mention", told.actor, account, user)
                for user in part
            ]
        return np.array(wants, np.bool_)


class Spread:
    """The consumer. See `log.runner.Consumer`."""

    name = NAME

    def __init__(self, records: RecordStore, coordinator: Coordinator) -> None:
        self._records, self._coordinator = records, coordinator

    async def handle(self, events: Sequence[Event]) -> None:
        """Begin to tell the followers of every account that these events say was mentioned."""
        made = [one.destination for one in events if one.state == RECORD_CHANGED and one.source == RecordKind.NOTICE]
        for record in await self._records.get_many(RecordKind.NOTICE, made) if made else ():
            if record is not None and (notice := read_notice(record.data)).type == "mention":
                await self._coordinator.begin(notice.id, notice.recipient)

    async def work_backlog(self) -> bool:
        """Tell the next chunk of followers."""
        return await self._coordinator.work()

    async def lost(self) -> None:
        """Walks that were begun go on. Of the mentions that nobody read, those who look find what is recent."""


def spread_over(
    graph: Graph,
    records: RecordStore,
    inboxes: InboxStore,
    activity: Activity,
    preferences: PreferencesKept,
    now_ms: Callable[[], int],
    *,
    celebrity_followers_min: int,
    on_end: Callable[[Ended], None] = lambda _: None,
) -> Spread:
    """The consumer over its stores."""
    router = Router(partial(follower_count, graph), celebrity_followers_min, now_ms)
    wanted = Wishes(records, preferences).wanted
    return Spread(records, Coordinator(graph, inboxes, activity, router, wanted, now_ms, on_end=on_end))
