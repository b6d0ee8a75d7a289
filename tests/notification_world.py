"""Notifications over a store, without HTTP: a test writes, has the log handled, and reads inboxes."""

from __future__ import annotations

import random
from typing import Any

from cast import FakeClock
from reference_inbox import ReferenceInboxes
from services import NotificationServices, Services
from store_types import EngineStores
from store_wrappers import RemoteStore

from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.notifications.answer_cache import AnswerCache, RecordedReads
from kith.notifications.notice import Notice
from kith.notifications.notifications import NotificationPage


class NotificationWorld:
    """The services of one store, with notifications."""

    def __init__(self, whole: EngineStores, services: Services, at: LogPosition) -> None:
        self.whole, self.services, self._handled_to, self.log_start = whole, services, at, at
        self.people, self.posts, self.comments = services.people, services.posts, services.comments
        self.rows = ReferenceInboxes()
        self.inbox: Any = self.rows if whole.edges.immediate else RemoteStore(self.rows, random.Random(5))
        telling = NotificationServices(self.posts, services.clock, self.inbox)
        self.preferences, self.notices, self.recent = telling.preferences, telling.notices, telling.recent
        self.intake, self.external_mentions, self.notifications = (
            telling.intake,
            telling.external_mentions,
            telling.notifications,
        )
        self._pages = AnswerCache[NotificationPage](immediate=self.notifications.immediate)

    @classmethod
    async def over(cls, whole: EngineStores, clock: FakeClock) -> NotificationWorld:
        """A world over an empty store."""
        services = await Services.over(whole.edges, whole.records, clock)
        return cls(whole, services, await whole.log.end())

    async def handle(self, times: int = 1) -> None:
        """Have the intake handle the log to its end. `times`: how often each batch, every other time backwards."""
        log = self.whole.log
        self.whole.settle()
        end = await log.end()
        while not log.covers(self._handled_to, end):
            batch = await log.read(self._handled_to, 50)
            for time in range(times):
                await self.intake.handle(batch.events[:: -1 if time % 2 else 1])
            self._handled_to = batch.next

    async def page(self, user: NodeId, limit: int = 50, *, grouped: bool = True) -> NotificationPage:
        """The first page of a user's notifications, cached between calls as the API caches it."""

        async def make(reads: RecordedReads) -> NotificationPage:
            return await self.notifications.page(user, Window(limit), grouped=grouped, reads=reads)

        return await self._pages.get((user, limit, grouped), make)

    async def listed(self, user: NodeId) -> list[Notice]:
        """The notices that a user is shown, newest first. Checks that the unread count agrees with them."""
        found = await self.page(user, grouped=False)
        assert found.unread == await self.notifications.unread(user)
        assert found.unread.number == sum(not entry.read for entry in found.entries)
        return [entry.notices[0] for entry in found.entries]

    async def types_and_actors(self, user: NodeId) -> list[tuple[str, int]]:
        """The type and actor of each notice that a user is shown, newest first."""
        return [(one.type, one.actor) for one in await self.listed(user)]
