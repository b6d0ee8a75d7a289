"""Tokens of watchers: each position comes back, and nothing else passes for one."""

from __future__ import annotations

import pytest

from kith.core.events import LogPosition
from kith.watch.tokens import WatchTokens

TOKENS = WatchTokens(b"a secret of at least 32 bytes....")
TOKEN = TOKENS.issue(LogPosition(b"\0\0\0\0\0\0\1\2"))


@pytest.mark.parametrize("at", [b"", b"\0" * 8, b"\xff" * 24])
def test_a_position_comes_back(at: bytes) -> None:
    assert TOKENS.read(TOKENS.issue(LogPosition(at))) == at


@pytest.mark.parametrize("token", ["", "x", "é", TOKEN + "=", TOKEN + "\n", TOKEN[:-1], TOKEN.swapcase(), f" {TOKEN}"])
def test_what_was_not_issued_here_is_none(token: str) -> None:
    assert TOKENS.read(token) is None
    assert WatchTokens(b"another secret of 32 bytes......").read(TOKEN) is None
