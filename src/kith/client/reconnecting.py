"""What all streams do with a connection: split it into lines, and decide when to reconnect. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec

from kith.client.wire import RETRIED, Session, retry_after_of, unreadable

TRIES_MAX = 60
"""Tries to reconnect a stream that was open. With the pauses of a `Retry` they take some minutes. A stream that never
opened has as many tries as any other call.
"""
RETRY_AFTER_MAX_S = 60.0
"""The longest `Retry-After` for which a stream that was open waits, even if it is more than a call would wait."""
_RETRIED_ONCE_OPEN = RETRIED | {502, 504}  # a proxy answers 502 or 504 while the service behind it restarts


def check_kind(response: httpx.Response, kind: str) -> None:
    """ApiError if the answer to a stream's request is no stream but a page, such as one of a proxy. Its lines would be
    skipped, and the stream would reconnect for ever.
    """
    found = response.headers.get("content-type")
    if found is not None and not found.startswith(kind):
        raise unreadable(f"GET {response.url.path}: the answer is {found}, not {kind}", response.status_code)


class Lines:
    """The lines of one connection. Only LF ends a line; `splitlines` would also split at other characters in texts."""

    def __init__(self) -> None:
        self._partial = b""

    def read(self, chunk: bytes) -> Iterator[str]:
        """Add a chunk; returns the lines that it completes."""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        return (line.decode(errors="replace") for line in lines)


class Reconnecting:
    """Decides when one stream reconnects, and when it gives up."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failures, self._was_open = 0, False

    def heard(self) -> None:
        """Note that the service sent something. This resets the count of failures."""
        self._failures, self._was_open = 0, True

    def pause_or_raise(self, outcome: httpx.Response | httpx.RequestError | None, rest_s: float) -> float:
        """The seconds to wait before reconnecting; raises ApiError or Unreachable if there should be no other try.

        `outcome`: a refusal, a lost connection, or None if the service ended the stream; then the wait is `rest_s`.
        """
        if outcome is None:
            return rest_s
        self._failures += 1
        if not self._was_open:
            return self._session.wait_or_raise(outcome, self._failures)
        asked_s = retry_after_of(outcome) if isinstance(outcome, httpx.Response) else None
        cap_s = max(self._session.retry.cap_s, min(asked_s or 0.0, RETRY_AFTER_MAX_S))
        retry = msgspec.structs.replace(self._session.retry, tries=TRIES_MAX, cap_s=cap_s)
        return self._session.wait_or_raise(outcome, self._failures, retry=retry, retried=_RETRIED_ONCE_OPEN)
