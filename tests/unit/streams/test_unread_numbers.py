"""Unread numbers of streams: whose are queried and when they are sent, as streams open, close, or a query fails."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kith.core.errors import StoreUnavailable
from kith.notifications.notifications import UnreadCount
from kith.streams import unread_numbers
from kith.streams.unread_numbers import UnreadNumbers

ALICE, BOB = 1, 2


class World:
    """Open streams, unread numbers, and the messages sent. `away`: users whose number cannot be queried now."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.unread_of: dict[int, int] = {}
        self.away: set[int] = set()
        self.sent: list[tuple[int, int]] = []
        self.posts = b""
        self.numbers = UnreadNumbers(cast(Any, self), cast(Any, self), cast(Any, self), lambda: 0.0)

    @property
    def readers(self) -> Any:
        return self.open

    def of(self, user: int) -> Any:
        return [user] * self.open.get(user, 0)

    def send(self, streams: Any, message: Any) -> None:
        self.sent.append((streams[0], message.count))

    async def unread(self, user: int) -> UnreadCount:
        if user in self.away:
            raise StoreUnavailable("away")
        return UnreadCount(self.unread_of.get(user, 0))

    def join(self, user: int, *, resumed: bool = False) -> None:
        self.open[user] = self.open.get(user, 0) + 1
        self.numbers.joined(user, resumed=resumed)

    def leave(self, user: int) -> None:
        self.open[user] -= 1
        if not self.open[user]:
            del self.open[user]
        self.numbers.left(user)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.posts += b"x"  # the log grew
            try:
                asyncio.run(self.numbers._check_some())
            except StoreUnavailable:
                continue


def test_closed_streams_leave_nothing_in_memory() -> None:
    world = World()
    for user in range(1_000):
        world.join(user, resumed=user % 2 == 0)
        world.leave(user)
    world.join(ALICE, resumed=True)
    world.look()
    assert world.sent == [(ALICE, 0)]
    world.leave(ALICE)
    numbers = world.numbers
    assert not any((numbers._client_numbers, numbers._unconfirmed, numbers._resumed, numbers._to_query))


def test_the_first_user_to_resume_is_sent_their_number_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_numbers, "USERS_PER_CHECK_MAX", 1)
    world = World()
    for user in (ALICE, BOB):
        world.join(user, resumed=True)
    world.look(2)
    assert [user for user, _ in world.sent] == [ALICE, BOB]


def test_a_failed_query_of_a_resumed_user_is_retried_and_delays_no_other() -> None:
    world = World()
    for user in (ALICE, BOB):
        world.join(user, resumed=True)
    world.away = {ALICE}
    world.look(2)
    assert world.sent == [(BOB, 0)]
    world.away = set()
    world.look()
    assert world.sent == [(BOB, 0), (ALICE, 0)]


def test_a_new_stream_does_not_inherit_the_number_known_to_an_earlier_one() -> None:
    """A page loads with 3 unread and is closed. A new page loads with 5, then two notices are hidden."""
    world = World()
    world.unread_of[ALICE] = 3
    world.join(ALICE)
    world.look()
    world.leave(ALICE)
    world.unread_of[ALICE] = 5
    world.join(ALICE)
    world.look()
    world.unread_of[ALICE] = 3
    world.look(3)
    assert world.sent == [(ALICE, 3)]
