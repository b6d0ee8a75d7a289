"""Sends a reader's unread number when it changed without a notice.

A block, a like taken back or a deleted post hides notifications, and no event says whose. So while the log grows, a
process queries the number of each user who has a stream here, in turns, USERS_PER_CHECK_MAX a second. A changed number
is sent once it was found twice in a row, so that a change that an event is about to send comes with that event.

A user who resumes is queried before the others, and is sent the first number found, because the number that the client
shows is unknown here. Users without a stream in this process are forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, islice

import structlog

from kith.core.errors import Unavailable
from kith.core.events import NOWHERE
from kith.core.ids import NodeId
from kith.notifications.notifications import Notifications, UnreadCount
from kith.streams.messages import Unread
from kith.streams.open_streams import OpenStreams
from kith.streams.positions import StreamProgress

CHECK_EVERY_S = 1.0
USERS_PER_CHECK_MAX = 20
"""Users whose number is queried in one check."""
_log = structlog.get_logger("kith.streams")


class UnreadNumbers:
    """The unread numbers that the clients of this process's streams know."""

    def __init__(
        self,
        notifications: Notifications,
        streams: OpenStreams,
        progress: StreamProgress,
        now_s: Callable[[], float],
    ) -> None:
        self._notifications, self._streams, self._progress, self._now_s = notifications, streams, progress, now_s
        self._client_numbers: dict[int, UnreadCount] = {}
        self._unconfirmed: dict[int, UnreadCount] = {}  # the number found last, where it differs from the known one
        self._resumed: dict[int, None] = {}  # users not sent the number since, the first to resume first
        self._to_query: dict[int, None] = {}
        self._queued_at = NOWHERE  # the log position when all users were last queued

    def joined(self, user: int, *, resumed: bool) -> None:
        """Note a new stream of a user. Unless it `resumed`, its client has just loaded the number."""
        if resumed:
            self._resumed.setdefault(user)
        elif user not in self._client_numbers:
            self._to_query.setdefault(user)

    def left(self, user: int) -> None:
        """Note that a stream of a user ended. After the last one the user's number is forgotten."""
        if not self._streams.of(user):
            for by_user in (self._client_numbers, self._unconfirmed, self._resumed, self._to_query):
                by_user.pop(user, None)

    async def send_unread(self, user: int) -> None:
        """Send a user the number, even if the client knows it."""
        number = await self._notifications.unread(NodeId(user))
        self._send(user, number)

    async def run(self) -> None:
        """Query numbers until cancelled."""
        due_s = 0.0
        while True:
            try:
                if self._now_s() >= due_s:
                    due_s = self._now_s() + CHECK_EVERY_S
                    await self._check_some()
            except Unavailable as error:
                _log.warning("unread numbers wait for the store", error=error.message)
            except Exception:
                _log.exception("an unread number could not be found; it is asked for again")
            await asyncio.sleep(CHECK_EVERY_S)

    async def _check_some(self) -> None:
        """Query some of the numbers. One that cannot be read moves behind the others and is retried."""
        if not self._to_query and self._progress.posts != self._queued_at:
            self._to_query = dict.fromkeys(self._streams.readers)
            self._queued_at = self._progress.posts
        for user in list(islice(dict.fromkeys(chain(self._resumed, self._to_query)), USERS_PER_CHECK_MAX)):
            for queue in (self._resumed, self._to_query):
                if user in queue:
                    queue[user] = queue.pop(user)
            number = await self._notifications.unread(NodeId(user))
            self._to_query.pop(user, None)
            if self._streams.of(user):
                self._compare(user, number)
            await asyncio.sleep(0)  # let other tasks run

    def _compare(self, user: int, number: UnreadCount) -> None:
        client_number = self._client_numbers.get(user)
        if user in self._resumed:
            self._send(user, number)
        elif client_number is None:
            self._note_sent(user, number)
        elif number == client_number:
            self._unconfirmed.pop(user, None)
        elif number == self._unconfirmed.get(user):
            self._send(user, number)
        else:
            self._unconfirmed[user] = number
            self._to_query.setdefault(user)

    def _send(self, user: int, number: UnreadCount) -> None:
        if streams := self._streams.of(user):
            self._note_sent(user, number)
            self._streams.send(streams, Unread(*number))

    def _note_sent(self, user: int, number: UnreadCount) -> None:
        self._resumed.pop(user, None)
        self._unconfirmed.pop(user, None)
        self._client_numbers[user] = number
