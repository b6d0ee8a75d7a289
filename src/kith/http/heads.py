"""A cache of parsed request heads: equal bytes mean equal headers, so they are parsed once.

Most requests of a client differ only in the address and the acting user. The cache applies to a complete GET without a
body whose address has plain characters only, with any digits in X-Kith-User. The parser produced every cached entry.
"""

from __future__ import annotations

import re

from kith.http.headers import Headers

HEADS_MAX = 1_000
HEAD_BYTES_MAX = 2_048
_FIRST_LINE = re.compile(rb"GET (/[\w/.~:@=&?,;+-]*) HTTP/1\.1\r\n", re.ASCII)
_ACTING_USER_LINE = b"\r\nx-kith-user: "
_ID_DIGITS_MAX = 19
_END = b"\r\n\r\n"
_NOT_PLAIN = ("content-length", "transfer-encoding", "expect", "upgrade")


class HeadCache:
    """Parsed headers, by the bytes of their head."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Headers] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, data: bytes) -> tuple[bytes, Headers] | None:
        """The target and headers of a request; None unless `data` is one complete request whose head is cached."""
        key, target, user = _parts_of(data)
        headers = self._heads.get(key)
        if headers is None:
            return None
        return target, headers if user is None else headers.replaced("x-kith-user", user.decode())

    def add(self, data: bytes, headers: Headers) -> None:
        """Cache what the parser read from `data`, which must be one request after which the connection stays open."""
        key = _parts_of(data)[0]
        if not key or data.find(_END) != len(data) - len(_END) or headers.are_repeated:
            return
        if any(name in headers for name in _NOT_PLAIN):
            return
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        self._heads[key] = headers


def _parts_of(data: bytes) -> tuple[bytes, bytes, bytes | None]:
    """The head without its address and user, the address, and the user if there is one; empty if the head is
    not plain.
    """
    first_line = _FIRST_LINE.match(data)
    if first_line is None or len(data) > HEAD_BYTES_MAX:
        return b"", b"", None
    user_line = data.lower().find(_ACTING_USER_LINE)
    if user_line < 0:
        return data[first_line.end() :], first_line[1], None
    start = user_line + len(_ACTING_USER_LINE)
    end = data.find(b"\r\n", start)
    user = data[start:end]
    if not (user.isdigit() and len(user) <= _ID_DIGITS_MAX):
        return b"", b"", None
    return data[first_line.end() : start] + data[end:], first_line[1], user
