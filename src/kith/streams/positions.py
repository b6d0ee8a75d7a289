"""Places in the log: how far one stream is. Every message has a place as its id.

A client that lost its connection sends the last place back, to any process, and is sent everything after it. If that is
impossible, `ResumeFailure` says why, and the client reloads the feed.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Literal, NamedTuple

from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LogStore

_PLACE = re.compile(r"([\w-]{0,4096})\.([\w-]{0,4096})", re.ASCII)

ResumeFailure = Literal["expired", "too_far", "unknown"]


class StreamPosition(NamedTuple):
    """How far a stream is: it was sent posts and removals up to `posts`, and posts' numbers up to `counts`.

    `counts` lags behind, because numbers are collected for a second before they are sent.
    """

    posts: LogPosition
    counts: LogPosition

    def __str__(self) -> str:
        return ".".join(base64.urlsafe_b64encode(position).rstrip(b"=").decode() for position in self)


class Step(NamedTuple):
    """A change's place in the order in which this process read the log.

    `number`: events read by then, this one included. `log_position`: that of the event. `before`, `at`: the joined
    positions of all events read by then, without and with this one.
    """

    number: int
    log_position: LogPosition
    before: LogPosition
    at: LogPosition


class StreamProgress:
    """How far the open streams of one process are. See `StreamPosition`."""

    def __init__(self, log: LogStore) -> None:
        self.covers, self._joined = log.covers, log.joined
        self.posts = self.counts = NOWHERE

    def position_of(self, sent_up_to: LogPosition) -> StreamPosition:
        """The place of a stream that was sent all that every stream was sent, and also everything up to
        `sent_up_to`.
        """
        return StreamPosition(self._joined(self.posts, sent_up_to), self.counts)

    def with_step(self, sent_up_to: LogPosition, step: Step) -> LogPosition:
        """A stream's `sent_up_to` once it was sent this change too."""
        return self._joined(sent_up_to, step.at)


def parse_position(text: str) -> StreamPosition | None:
    """The place that a client sent back; None if the text was never one."""
    parsed = _PLACE.fullmatch(text)
    if parsed is None:
        return None
    try:
        return StreamPosition(
            *(LogPosition(base64.b64decode(part + "=" * (-len(part) % 4), b"-_")) for part in parsed.groups())
        )
    except binascii.Error:
        return None
