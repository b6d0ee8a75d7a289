"""Tokens of watchers: each position comes back, and nothing else passes for one."""

from __future__ import annotations

import pytest

from kith.core.events import LogPosition
from kith.watch.tokens import WatchTokens

TOKENS = WatchTokens(b"a secret of at least 32 bytes....")
TOKEN = TOKENS.issue(LogPosition(b"\0\0\0\0\0\0\1\2"))


PLACES = [LogPosition(fill * length) for length in (0, 1, 8, 15, 16, 17, 24, 200) for fill in (b"\0", b"\xff", b"\7")]


def test_a_position_comes_back_and_no_two_have_one_mark() -> None:
    tokens = TOKENS.issue_all(PLACES)
    assert [TOKENS.read(token) for token in tokens] == PLACES
    assert len({token[:10] for token in tokens}) == len(set(PLACES))


def test_those_that_are_made_together_are_those_that_are_made_one_by_one() -> None:
    for length in range(20):
        places = [LogPosition(bytes([first]) * length) for first in range(3)]
        assert TOKENS.issue_all(places) == [TOKENS.issue(at) for at in places]
    assert TOKENS.issue_all([]) == []


@pytest.mark.parametrize("token", ["", "x", "é", TOKEN + "=", TOKEN + "\n", TOKEN[:-1], TOKEN.swapcase(), f" {TOKEN}"])
def test_what_was_not_issued_here_is_none(token: str) -> None:
    assert TOKENS.read(token) is None
    assert WatchTokens(b"another secret of 32 bytes......").read(TOKEN) is None
