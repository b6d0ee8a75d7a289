"""One stream: a reader's open connection, the posts that it watches, and the mentions that it was sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kith.core.events import NOWHERE
from kith.core.ids import NodeId
from kith.streams.positions import StreamPosition

WATCHED_MAX = 100
"""Posts that a stream watches for numbers and removal. One more replaces the post watched for longest."""

MENTIONS_MAX = 1_000
"""Mentions that a stream remembers as sent. Followers are hardly still being told of older ones."""


class Watched(dict[int, int]):
    """The posts on a reader's screen, with their authors: at most WATCHED_MAX, the longest watched first."""

    def add(self, post: int, author: int) -> None:
        """Watch a post from now on."""
        self.pop(post, None)
        self[post] = author
        if len(self) > WATCHED_MAX:
            del self[next(iter(self))]


class Mentions(dict[int, None]):
    """Mentions that a stream was sent because its reader follows the mentioned account: the last MENTIONS_MAX."""

    def add(self, notice: int) -> None:
        """Do not send this mention again."""
        self[notice] = None
        if len(self) > MENTIONS_MAX:
            del self[next(iter(self))]


class Stream:
    """One connection of a reader; a reader may have several.

    `send` takes a place, a message's name and its data; (place, "", b"") is a heartbeat. `end` takes a reason; nothing
    is sent after it. Neither waits or fails. `wait_for_room` waits until the client has taken enough of what it was
    sent. `sent_up_to`: the log position up to which posts and removals were sent here. `sent_at_s`: when anything was
    last sent.
    """

    __slots__ = ("end", "mentions", "send", "sent_at_s", "sent_up_to", "user", "wait_for_room", "watched")

    def __init__(
        self,
        user: NodeId,
        send: Callable[[StreamPosition, str, bytes], None],
        end: Callable[[str], None],
        wait_for_room: Callable[[], Awaitable[None]],
    ) -> None:
        self.user, self.send, self.end, self.wait_for_room = user, send, end, wait_for_room
        self.watched, self.mentions = Watched(), Mentions()
        self.sent_up_to, self.sent_at_s = NOWHERE, 0.0
