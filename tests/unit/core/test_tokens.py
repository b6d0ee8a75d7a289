"""A read-your-writes token gives back the mark it was issued for. Nothing else is accepted as a token."""

from __future__ import annotations

import base64

import pytest
from cast import SECRET
from hypothesis import given
from hypothesis import strategies as st

from kith.core.errors import BadToken
from kith.core.events import LogPosition
from kith.core.paging import Cursors, Mark
from kith.core.signing import Signer
from kith.core.tokens import WriteMark, WriteTokens

TOKENS = WriteTokens(SECRET)
MARK = WriteMark(LogPosition(bytes(16)), 1_700_000_000_000 << 16)
words = st.integers(0, 2**64 - 1)


@given(st.binary(min_size=1), words)
def test_a_token_gives_back_its_mark(at: bytes, updated_at: int) -> None:
    mark = WriteMark(LogPosition(at), updated_at)
    assert TOKENS.read(TOKENS.issue(mark)) == mark


def test_a_token_fits_a_header_and_a_url() -> None:
    text = TOKENS.issue(MARK)
    assert len(text) < 64
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_every_process_with_the_same_secret_reads_it() -> None:
    assert WriteTokens(bytes(SECRET)).read(TOKENS.issue(MARK)) == MARK


def test_a_token_altered_by_one_byte_is_refused() -> None:
    text = TOKENS.issue(MARK)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for at in range(len(raw)):
        altered = bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])
        with pytest.raises(BadToken):
            TOKENS.read(base64.urlsafe_b64encode(altered).rstrip(b"=").decode())


def test_tokens_of_other_services_and_cursors_are_refused() -> None:
    for text in (
        WriteTokens(SECRET[::-1]).issue(MARK),
        Cursors(SECRET).next("", Mark(1, 2)),
        Signer(SECRET, "write-token").seal(b"short"),
        Signer(SECRET, "write-token").seal(bytes(16), b"bound to something"),
    ):
        with pytest.raises(BadToken):
            TOKENS.read(text)


@given(st.text())
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        TOKENS.read(text)


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 31], ids=["none", "short", "31 bytes"])
def test_a_short_secret_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        WriteTokens(secret)


def test_every_byte_of_a_secret_up_to_64_counts() -> None:
    text = Signer(b"x" * 64, "p").seal(b"payload")
    assert Signer(b"x" * 63 + b"y", "p").open(text) is None
    assert Signer(b"x" * 63, "p").open(text) is None
    assert Signer(b"x" * 64, "q").open(text) is None
    assert Signer(b"x" * 64, "p").open(text) == b"payload"
