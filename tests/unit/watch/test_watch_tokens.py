"""Tokens of watchers give back their position. Nothing else is accepted as a token."""

from __future__ import annotations

import pytest

from kith.core.events import LogPosition
from kith.watch.tokens import WatchTokens

TOKENS = WatchTokens(b"a secret of at least 32 bytes....")
TOKEN = TOKENS.issue(LogPosition(b"\0\0\0\0\0\0\1\2"))


PLACES = [LogPosition(fill * length) for length in (0, 1, 8, 15, 16, 17, 24, 200) for fill in (b"\0", b"\xff", b"\7")]


def test_a_token_gives_back_its_position_and_tokens_differ_early() -> None:
    tokens = TOKENS.issue_all(PLACES)
    assert [TOKENS.read(token) for token in tokens] == PLACES
    assert len({token[:10] for token in tokens}) == len(set(PLACES))


def test_a_batch_of_tokens_equals_single_ones() -> None:
    for length in range(20):
        places = [LogPosition(bytes([first]) * length) for first in range(3)]
        assert TOKENS.issue_all(places) == [TOKENS.issue(at) for at in places]
    assert TOKENS.issue_all([]) == []


@pytest.mark.parametrize("token", ["", "x", "é", TOKEN + "=", TOKEN + "\n", TOKEN[:-1], TOKEN.swapcase(), f" {TOKEN}"])
def test_text_that_was_not_issued_here_is_no_token(token: str) -> None:
    assert TOKENS.read(token) is None
    assert WatchTokens(b"another secret of 32 bytes......").read(TOKEN) is None
