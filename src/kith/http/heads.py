"""Heads of requests that came before: the same bytes say the same again, so they are not parsed again.

Of most requests of a client only the address, and whom they act for, differ from those before. What is kept was read by
the parser. It holds for a whole GET without a body, of plain letters in its address, and any digits in X-Kith-User.
"""

from __future__ import annotations

import re

from kith.http.headers import Headers

HEADS_MAX = 1_000
HEAD_BYTES_MAX = 2_048
_FIRST_LINE = re.compile(rb"GET (/[\w/.~:@=&?,;+-]*) HTTP/1\.1\r\n", re.ASCII)
_ACTS_FOR = b"\r\nx-kith-user: "
_ID_DIGITS_MAX = 19
_END = b"\r\n\r\n"
_NOT_PLAIN = ("content-length", "transfer-encoding", "expect", "upgrade")


class KnownHeads:
    """Headers by the bytes that said them."""

    def __init__(self) -> None:
        self._known: dict[bytes, Headers] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, data: bytes) -> tuple[bytes, Headers] | None:
        """The target and the headers of a request; None unless this is one, whole, with a head that is known."""
        key, target, user = _parts_of(data)
        headers = self._known.get(key)
        if headers is None:
            return None
        return target, headers if user is None else headers.but("x-kith-user", user.decode())

    def learn(self, data: bytes, headers: Headers) -> None:
        """Keep what the parser read of `data`, which was one request, after which the connection stays."""
        key = _parts_of(data)[0]
        if not key or data.find(_END) != len(data) - len(_END) or headers.are_repeated:
            return
        if any(name in headers for name in _NOT_PLAIN):
            return
        if len(self._known) >= HEADS_MAX:
            self._known.clear()
        self._known[key] = headers


def _parts_of(data: bytes) -> tuple[bytes, bytes, bytes | None]:
    """The head without its address and user, the address, and the user if one is named; empty if it is not plain."""
    first = _FIRST_LINE.match(data)
    if first is None or len(data) > HEAD_BYTES_MAX:
        return b"", b"", None
    at = data.lower().find(_ACTS_FOR)
    if at < 0:
        return data[first.end() :], first[1], None
    start = at + len(_ACTS_FOR)
    end = data.find(b"\r\n", start)
    user = data[start:end]
    if not (user.isdigit() and len(user) <= _ID_DIGITS_MAX):
        return b"", b"", None
    return data[first.end() : start] + data[end:], first[1], user
