"""Places in the log: how far one stream has been told. Every message has a place as its id.

A client that lost the connection sends the last place back, to any process, and is told what is beyond it. If that is
impossible, `Lost` says why, and the reader loads the feed anew.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Literal, NamedTuple

from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LogStore

_PLACE = re.compile(r"([\w-]{0,4096})\.([\w-]{0,4096})", re.ASCII)

Lost = Literal["expired", "too_far", "unknown"]


class StreamPosition(NamedTuple):
    """How far a stream has been told: of posts and removals up to `posts`, of posts' numbers up to `counts`.

    `counts` lags, because numbers are collected for a second before they are sent.
    """

    posts: LogPosition
    counts: LogPosition

    def __str__(self) -> str:
        return ".".join(base64.urlsafe_b64encode(at).rstrip(b"=").decode() for at in self)


class Step(NamedTuple):
    """A change's place in the order in which this process read the log.

    `number`: how many events it had read by then. `log_position`: that of the event. `before`, `at`: the positions
    without and with it.
    """

    number: int
    log_position: LogPosition
    before: LogPosition
    at: LogPosition


class StreamProgress:
    """How far the open streams of one process have been told. See `StreamPosition`."""

    def __init__(self, log: LogStore) -> None:
        self.covers, self._joined = log.covers, log.joined
        self.posts = self.counts = NOWHERE

    def place_of(self, told_to: LogPosition) -> StreamPosition:
        """The place of a stream that was told all that the others were told, and what is up to `told_to`."""
        return StreamPosition(self._joined(self.posts, told_to), self.counts)

    def with_step(self, told_to: LogPosition, step: Step) -> LogPosition:
        """Up to where a stream has been told once it is told of this change."""
        return self._joined(told_to, step.at)


def read_place(text: str) -> StreamPosition | None:
    """The place that a client sent back; None if the text was never one."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    try:
        return StreamPosition(
            *(LogPosition(base64.b64decode(part + "=" * (-len(part) % 4), b"-_")) for part in found.groups())
        )
    except binascii.Error:
        return None
