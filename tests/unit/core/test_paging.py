"""A cursor leads back to its place in the list, for its own query only. Anything else is refused."""

from __future__ import annotations

import base64

import pytest
from cast import SECRET
from hypothesis import given
from hypothesis import strategies as st

from kith.core.errors import BadCursor, BadRequest
from kith.core.events import LogPosition
from kith.core.ids import ID_MAX
from kith.core.paging import LIMIT_MAX, Cursors, Mark, Page, Window
from kith.core.tokens import WriteMark, WriteTokens

CURSORS = Cursors(SECRET)
QUERY = "followers|1|normal|reader 2"
MARK = Mark(1_700_000_000_000, 42)
marks = st.builds(Mark, st.integers(-(2**63), 2**63 - 1), st.integers(0, ID_MAX))


@given(marks, st.text(max_size=40), st.integers(1, LIMIT_MAX))
def test_a_cursor_leads_back_to_its_place(mark: Mark, query: str, limit: int) -> None:
    assert CURSORS.window(CURSORS.next(query, mark), query, limit) == Window(limit, after=mark)
    assert CURSORS.window(CURSORS.previous(query, mark), query, limit) == Window(limit, before=mark)
    until = mark.position
    assert CURSORS.window(CURSORS.next(query, mark, until), query, limit) == Window(limit, after=mark, until=until)


@pytest.mark.parametrize("text", [None, ""])
def test_no_cursor_starts_at_the_newest(text: str | None) -> None:
    assert CURSORS.window(text, QUERY, 5) == Window(5)


def test_a_cursor_reveals_nothing_of_its_payload() -> None:
    secret = 1_234_567_890_123_456_789
    payload = secret.to_bytes(8, "big") * 500
    text = CURSORS.seal(QUERY, payload)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert CURSORS.open(text, QUERY) == payload
    assert len(raw) == 16 + len(payload)
    assert not any(payload[:4] in raw[at : at + 4] for at in range(len(raw)))
    assert len(set(raw[16:])) > 200, "a repeated payload gives no repeated bytes"
    others = CURSORS.seal(QUERY, payload[:-1] + b"!"), CURSORS.seal(QUERY + "!", payload), CURSORS.seal(QUERY, b"")
    assert len({text[22:60], *(other[22:60] for other in others)}) == 4, "no key stream is used twice"


def test_a_cursor_altered_by_one_byte_is_refused() -> None:
    text = CURSORS.next(QUERY, MARK)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for at in range(len(raw)):
        for bit in (1, 128):
            altered = bytes([*raw[:at], raw[at] ^ bit, *raw[at + 1 :]])
            with pytest.raises(BadCursor):
                CURSORS.window(base64.urlsafe_b64encode(altered).rstrip(b"=").decode(), QUERY, 5)


def test_a_cursor_altered_by_one_character_is_refused() -> None:
    text = CURSORS.next(QUERY, MARK)
    for at in range(len(text)):
        for character in "A_9=":
            if text[at] != character:
                with pytest.raises(BadCursor):
                    CURSORS.window(text[:at] + character + text[at + 1 :], QUERY, 5)


def test_a_cursor_cut_or_lengthened_is_refused() -> None:
    text = CURSORS.next(QUERY, MARK)
    for other in (
        *(text[:at] for at in range(1, len(text))),
        text + "A",
        text + "=",
        text + "==",
        " " + text,
        text + "\n",
    ):
        with pytest.raises(BadCursor):
            CURSORS.window(other, QUERY, 5)


@pytest.mark.parametrize("query", ["", QUERY + " ", QUERY[:-1], QUERY.upper(), "following|1|normal|reader 2"])
def test_a_cursor_of_another_list_or_reader_is_refused(query: str) -> None:
    for text in (CURSORS.next(QUERY, MARK), CURSORS.previous(QUERY, MARK)):
        with pytest.raises(BadCursor):
            CURSORS.window(text, query, 5)


def test_a_cursor_of_another_service_is_refused() -> None:
    with pytest.raises(BadCursor):
        CURSORS.window(Cursors(SECRET[::-1]).next(QUERY, MARK), QUERY, 5)


def test_a_token_is_no_cursor() -> None:
    with pytest.raises(BadCursor):
        CURSORS.window(WriteTokens(SECRET).issue(WriteMark(LogPosition(b"1"), 2)), QUERY, 5)


@given(st.text(min_size=1))
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        CURSORS.window(text, QUERY, 5)


@pytest.mark.parametrize(
    "text",
    ["\x00", "é" * 40, "A" * 100_000, "%%%%", "null", "\ud800"],
    ids=["a zero byte", "not ASCII", "very long", "not base64", "a word", "not UTF-8"],
)
def test_strange_junk_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        CURSORS.window(text, QUERY, 5)


@pytest.mark.parametrize("limit", [1, 20, LIMIT_MAX], ids="limit {}".format)
def test_valid_limits_are_accepted(limit: int) -> None:
    assert CURSORS.window(None, QUERY, limit).limit == limit


@pytest.mark.parametrize("limit", [0, -1, LIMIT_MAX + 1, 2**70], ids="limit {}".format)
def test_invalid_limits_are_refused(limit: int) -> None:
    for text in (None, CURSORS.next(QUERY, MARK)):
        with pytest.raises(BadRequest) as raised:
            CURSORS.window(text, QUERY, limit)
        assert not isinstance(raised.value, BadCursor)
        assert raised.value.details == {"limit": limit}


def test_a_page_spans_its_items_unless_it_names_another_span() -> None:
    newest, middle, oldest = Mark(3, 0), Mark(2, 0), Mark(1, 0)
    assert (Page([newest, middle], True, False).newest, Page([newest, middle], True, False).oldest) == (newest, middle)
    assert (Page([], False, False).newest, Page([], False, False).oldest) == (None, None)
    filtered = Page([middle], True, True, (newest, oldest))
    assert (filtered.newest, filtered.oldest) == (newest, oldest)
