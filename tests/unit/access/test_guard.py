"""Server keys, user tokens, and rate limits of a caller: a burst, then so many requests a second."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest

from kith.access import guard
from kith.access.guard import Caller, Guard, RateLimits, UserTokens, hash_key
from kith.core.errors import RateLimited, Unauthorized
from kith.core.ids import NodeId

RATE = 10


class Door:
    """A guard, and the time by its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._guard = Guard([], UserTokens("", (), "", ""), RateLimits(RATE, RATE, RATE, RATE), lambda: self.now_s)

    def admitted(self, user: int, requests: int = 1) -> int:
        """How many of the user's `requests` are admitted."""
        found = 0
        for _ in range(requests):
            with contextlib.suppress(RateLimited):
                self._guard.admit(Caller(False, NodeId(user), f"user {user}"), write=False)
                found += 1
        return found


def test_a_burst_is_admitted_and_then_the_rate_per_second() -> None:
    door = Door()
    assert door.admitted(1, 100) == 2 * RATE
    door.now_s += 0.5
    assert door.admitted(1, 100) == RATE // 2
    assert door.admitted(2, 100) == 2 * RATE, "each user has their own limit"


def test_a_user_at_the_limit_stays_refused_though_many_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_BUCKETS_MAX", 10)
    door = Door()
    assert door.admitted(1, 100) == 2 * RATE
    for user in range(2, 50):
        assert door.admitted(user) == 1
        assert door.admitted(1) == 0


@pytest.mark.parametrize("ttl_s", [60, -60])
def test_only_tokens_as_the_app_signed_them_are_cached(ttl_s: int) -> None:
    """Otherwise anybody with one token, even an expired one, could fill the memory with its variants."""
    tokens = UserTokens("x" * 32, ["HS256"], "app", "kith")
    guard = Guard([], tokens, RateLimits(0, 0, 0, 0))
    token = tokens.issue(NodeId(1), ttl_s)
    variants = [token + "!" * count for count in range(1, 50)] + [token + "=", token.replace(".", ".!")]
    for variant in variants:
        with pytest.raises(Unauthorized, match="signature"):
            guard.caller(f"Bearer {variant}", None)
    assert [*guard._refused, *guard._cached_callers] == []
    with contextlib.nullcontext() if ttl_s > 0 else pytest.raises(Unauthorized, match="expired"):
        assert guard.caller(f"Bearer {token}", None).user == 1


def test_a_revoked_server_key_is_refused_at_once_and_what_runs_under_it_ends() -> None:
    guard = Guard(map(hash_key, ("one", "two")), UserTokens("", (), "", ""), RateLimits(0, 0, 0, 0))
    ended: list[str] = []
    for key in ("one", "two"):
        assert guard.caller(f"Bearer {key}", None).server  # and is cached
        guard.when_invalid(f"Bearer {key}", partial(ended.append, key))
        guard.when_invalid(f"Bearer {key}", partial(ended.append, f"{key} of a client that left"))()
    guard.accept(map(hash_key, ("two", "three")))
    assert ended == ["one"]
    with pytest.raises(Unauthorized, match="not known here"):
        guard.caller("Bearer one", None)
    with pytest.raises(Unauthorized):
        guard.when_invalid("Bearer one", lambda: None)
    for key in ("two", "three"):
        assert guard.caller(f"Bearer {key}", None).server


def test_what_runs_under_a_user_token_ends_with_its_lifetime_plus_the_leeway() -> None:
    tokens = UserTokens("s" * 32, ["HS256"], "app", "kith")
    guard = Guard([], tokens, RateLimits(0, 0, 0, 0))
    delays_s: list[float] = []

    async def run(monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        later = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda delay_s, call: delays_s.append(delay_s) or later(delay_s, call))
        guard.when_invalid(f"Bearer {tokens.issue(NodeId(1), 100)}", lambda: None)()

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(run(monkeypatch))
    assert [100 <= delay_s <= 111 for delay_s in delays_s] == [True]
