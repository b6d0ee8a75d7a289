"""How many requests a second a caller may make, however many others there are."""

from __future__ import annotations

import contextlib

import pytest

from kith.access import guard
from kith.access.guard import Caller, Guard, Rates, UserTokens
from kith.core.errors import RateLimited
from kith.core.ids import NodeId

RATE = 10


class Door:
    """A guard, and the time by its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._guard = Guard([], UserTokens("", (), "", ""), Rates(RATE, RATE, RATE, RATE), lambda: self.now_s)

    def let_in(self, user: int, requests: int = 1) -> int:
        """How many of these requests of a user are let in."""
        found = 0
        for _ in range(requests):
            with contextlib.suppress(RateLimited):
                self._guard.admit(Caller(False, NodeId(user), f"user {user}"), write=False)
                found += 1
        return found


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    door = Door()
    assert door.let_in(1, 100) == 2 * RATE
    door.now_s += 0.5
    assert door.let_in(1, 100) == RATE // 2
    assert door.let_in(2, 100) == 2 * RATE, "each for themselves"


def test_who_is_at_the_limit_stays_there_however_many_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_BUCKETS_MAX", 10)
    door = Door()
    assert door.let_in(1, 100) == 2 * RATE
    for user in range(2, 50):
        assert door.let_in(user) == 1
        assert door.let_in(1) == 0
