"""What all streams do with a connection: read it line by line, and come back when it ended. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec

from kith.client.wire import RETRIED, Session

TRIES_MAX = 60
"""Tries to take up a stream that was open, some minutes with the pauses of a `Retry`; one that never opened is given up
as any other call.
"""
_RETRIED_ONCE_OPEN = RETRIED | {502, 504}  # the last two: what a proxy says while the service behind it starts again


class Lines:
    """The lines of one connection. They end with LF alone: texts hold other characters that `splitlines` cuts at."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self, chunk: bytes) -> Iterator[str]:
        """Take what came; the lines that it completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return (line.decode(errors="replace") for line in lines)


class Reconnecting:
    """When one stream comes back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failures, self._was_open = 0, False

    def heard(self) -> None:
        """The service said something."""
        self._failures, self._was_open = 0, True

    def pause_or_raise(self, outcome: httpx.Response | httpx.RequestError | None, rest_s: float) -> float:
        """How long to wait before coming back; raises ApiError or Unreachable where that is of no use.

        `outcome`: a refusal, a lost connection, or None: the service ended the stream, and is asked again after
        `rest_s`.
        """
        if outcome is None:
            return rest_s
        self._failures += 1
        if not self._was_open:
            return self._session.wait_or_raise(outcome, self._failures)
        retry = msgspec.structs.replace(self._session.retry, tries=TRIES_MAX)
        return self._session.wait_or_raise(outcome, self._failures, retry=retry, retried=_RETRIED_ONCE_OPEN)
