"""Whose unread number is asked for, and when it is sent, whoever comes, leaves, or cannot be asked about."""

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
    """Who has streams, what is unread, and what was sent. `away`: users whose number cannot be found now."""

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
                asyncio.run(self.numbers._look())
            except StoreUnavailable:
                continue


def test_who_comes_and_goes_leaves_nothing_behind() -> None:
    world = World()
    for user in range(1_000):
        world.join(user, resumed=user % 2 == 0)
        world.leave(user)
    world.join(ALICE, resumed=True)
    world.look()
    assert world.sent == [(ALICE, 0)]
    world.leave(ALICE)
    kept = world.numbers._known, world.numbers._unconfirmed, world.numbers._resumed, world.numbers._to_query
    assert not any(kept)


def test_who_resumed_first_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_numbers, "LOOKED_AT_MAX", 1)
    world = World()
    for user in (ALICE, BOB):
        world.join(user, resumed=True)
    world.look(2)
    assert [user for user, _ in world.sent] == [ALICE, BOB]


def test_the_number_of_who_resumed_is_told_once_it_can_be_found_and_others_do_not_wait_for_it() -> None:
    world = World()
    for user in (ALICE, BOB):
        world.join(user, resumed=True)
    world.away = {ALICE}
    world.look(2)
    assert world.sent == [(BOB, 0)]
    world.away = set()
    world.look()
    assert world.sent == [(BOB, 0), (ALICE, 0)]


def test_a_number_that_an_earlier_stream_knew_of_is_not_what_a_new_one_knows() -> None:
    """A page was loaded with 3 and closed, then loaded with 5; two are hidden then."""
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
