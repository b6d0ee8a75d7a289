"""What a connected reader is told: the messages of a stream (article 001), and the stream as its sender sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from kith.core.ids import NodeId
from kith.core.labels import shown
from kith.posts.engagement import PostCounts
from kith.posts.post import Post
from kith.streams.changes import Lost, Place, Watched

PREVIEW_CHARS_MAX = 100
RemovedFor = Literal["author_deleted", "hidden", "blocked", "muted", "unavailable"]
ResetFor = Lost | Literal["changed", "loaded"]


class NewPost(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="new_post"):
    """Somebody whom the reader follows, or the reader, made a post. `labels`: as on posts."""

    post_id: str
    author_id: str
    preview: str
    labels: list[str]


class EngagementUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="engagement_update"):
    """What a post has got by now."""

    post_id: str
    like_count: int
    comment_count: int
    share_count: int
    view_count: int


class PostRemoved(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="post_removed"):
    """A post is gone for this reader: its author deleted it, the reader hid it, blocked or muted its author; or
    `unavailable`, which says no more than `POST_NOT_FOUND` does.
    """

    post_id: str
    reason: RemovedFor


class Reset(msgspec.Struct, frozen=True, tag_field="event", tag="reset"):
    """What was missed cannot be told one by one: load the feed anew. The stream ends; the next begins at this event.

    `expired`: the log no longer holds it; `too_far`: it is too much; `unknown`: the id is none of this store;
    `changed`: who sees what changed meanwhile; `loaded`: a whole graph was loaded.
    """

    reason: ResetFor


Message = NewPost | EngagementUpdate | PostRemoved | Reset


class Stream:
    """One connected reader. `send` takes a place, an event's name and data; (place, "", b"") is a heartbeat.

    `send` neither waits nor fails, nor does `end`, after which nothing is sent; `room` waits until the reader has taken
    most of it. `since`: up to which sequence number posts and removals were told here; `told_at_s`: when something was.
    """

    __slots__ = ("end", "room", "send", "since", "told_at_s", "user", "watched")

    def __init__(
        self,
        user: NodeId,
        send: Callable[[Place, str, bytes], None],
        end: Callable[[str], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self.user, self.send, self.end, self.room = user, send, end, room
        self.watched = Watched()
        self.since, self.told_at_s = 0, 0.0


class Told(msgspec.Struct, frozen=True):
    """A message as it is sent: encoded once, for however many streams."""

    name: str
    data: bytes


def told(message: Message) -> Told:
    """The message, encoded. Its tag is the event's name and no part of the data."""
    fields = msgspec.to_builtins(message)
    return Told(fields.pop("event"), msgspec.json.encode(fields))


def new_post(post: Post, *, own: bool) -> NewPost:
    """The message about a post, its author's labels included. `own`: for its author."""
    return NewPost(str(post.id), str(post.author), preview_of(post.text), shown(post.labels, own=own))


def why_gone(deleted: bool, could: bool) -> RemovedFor:
    """Why a post is gone for a reader. `could`: whether they might see it, were it not deleted."""
    return "author_deleted" if deleted and could else "unavailable"


def preview_of(text: str) -> str:
    """The beginning of a post's text, on one line: whatever some client takes for the end of a line is a space."""
    flat = " ".join(text[: 4 * PREVIEW_CHARS_MAX].split())
    return flat if len(flat) <= PREVIEW_CHARS_MAX else flat[: PREVIEW_CHARS_MAX - 1].rstrip() + "…"


def engagement_update(post: int, counts: PostCounts) -> EngagementUpdate:
    """The message about a post's numbers."""
    return EngagementUpdate(str(post), counts.likes, counts.comments, counts.shares, counts.views)
