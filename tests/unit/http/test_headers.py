"""Headers are found in any case. A header that identifies the caller counts only if it was sent once."""

from __future__ import annotations

import pytest

from kith.core.errors import BadRequest
from kith.http.headers import UNREADABLE, Headers


def headers_of(*pairs: tuple[bytes, bytes]) -> Headers:
    headers = Headers()
    for pair in pairs:
        headers.add(*pair)
    return headers


def test_a_header_is_found_in_any_case_without_the_spaces_around_it() -> None:
    headers = headers_of((b"X-Kith-User", b" 7\t"), (b"host", b"kith"))
    assert headers.get("x-kith-user") == headers.single("x-kith-user") == "7"
    assert "host" in headers
    assert "expect" not in headers
    assert headers.get("expect") is None
    assert headers_of().single("expect") is None
    assert len(headers) == 2


def test_of_repeated_headers_the_first_counts_and_single_refuses_them() -> None:
    headers = headers_of((b"X-Kith-User", b"1"), (b"accept", b"a"), (b"x-kith-user", b"2"), (b"Accept", b"b"))
    assert headers.get("accept") == "a"
    assert headers.get("x-kith-user") == "1"
    with pytest.raises(BadRequest, match="2 times"):
        headers.single("x-kith-user")
    assert headers_of((b"a", b"1"), (b"b", b"2"), (b"b", b"3")).single("a") == "1"


def test_a_value_that_is_not_ascii_is_unreadable() -> None:
    assert headers_of((b"authorization", "Bearer é".encode())).get("authorization") == UNREADABLE


def test_lines_can_leave_out_one_header() -> None:
    headers = headers_of((b"Upgrade", b"h2c"), (b"Accept", b"a"), (b"accept", b"b "))
    assert headers.lines(without=b"upgrade") == [b"Accept: a", b"accept: b"]
