"""One stream: a reader's open connection, the posts that are watched on it, and mentions that were told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kith.core.events import NOWHERE
from kith.core.ids import NodeId
from kith.streams.places import StreamPosition

WATCHED_MAX = 100
"""How many posts a stream watches (for numbers and removal); a new one replaces the one watched for longest."""

MENTIONS_MAX = 1_000
"""How many mentions a stream remembers as told; older ones are hardly still being told to others."""


class Watched(dict[int, int]):
    """Posts on a reader's screen, with their authors: at most WATCHED_MAX, the longest watched first."""

    def add(self, post: int, author: int) -> None:
        """Watch a post from now on."""
        self.pop(post, None)
        self[post] = author
        if len(self) > WATCHED_MAX:
            del self[next(iter(self))]


class Mentions(dict[int, None]):
    """Mentions that a stream was told of as one of many followers: the last MENTIONS_MAX."""

    def add(self, notice: int) -> None:
        """Do not tell this one again."""
        self[notice] = None
        if len(self) > MENTIONS_MAX:
            del self[next(iter(self))]


class Stream:
    """One connection of a reader; a reader may have several.

    `send` takes a place, a message's name and its data; (place, "", b"") is a heartbeat. `end` takes a reason; after it
    nothing is sent. Neither waits or fails. `room` waits until the client has taken most of what it was sent.
    `told_to`: up to where in the log posts and removals were told here. `sent_at_s`: when something was sent.
    """

    __slots__ = ("end", "mentions", "room", "send", "sent_at_s", "told_to", "user", "watched")

    def __init__(
        self,
        user: NodeId,
        send: Callable[[StreamPosition, str, bytes], None],
        end: Callable[[str], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self.user, self.send, self.end, self.room = user, send, end, room
        self.watched, self.mentions = Watched(), Mentions()
        self.told_to, self.sent_at_s = NOWHERE, 0.0
