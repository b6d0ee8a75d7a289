"""The messages that streams are sent (article 001), and their encoding."""

from __future__ import annotations

from typing import Literal

import msgspec

from kith.core.labels import shown
from kith.notifications.notice import Notice, NoticeType
from kith.posts.engagement import PostCounts
from kith.posts.post import Post
from kith.streams.positions import ResumeFailure

PREVIEW_CHARS_MAX = 100
RemovalReason = Literal["author_deleted", "hidden", "blocked", "muted", "unavailable"]
ResetReason = ResumeFailure | Literal["changed", "loaded"]


class NewPost(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="new_post"):
    """The reader, or somebody they follow, made a post, or opened one by an edit. `labels`: as on posts."""

    post_id: str
    author_id: str
    preview: str
    labels: list[str]


class PostUpdated(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="post_updated"):
    """A post that the reader may still see was edited or labelled, or its author was labelled.

    `preview`, `labels`: as they are now.
    """

    post_id: str
    author_id: str
    preview: str
    labels: list[str]


class EngagementUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="engagement_update"):
    """The numbers of a post as they are now."""

    post_id: str
    like_count: int
    comment_count: int
    share_count: int
    view_count: int


class PostRemoved(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="post_removed"):
    """A post is gone for this reader: its author deleted it, or the reader hid it, or blocked or muted its author.

    `unavailable` gives no reason, as `POST_NOT_FOUND` gives none.
    """

    post_id: str
    reason: RemovalReason


class Notification(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="notification"):
    """Others did something that concerns the reader; GET /notifications shows it.

    `mentionedId`: the account that a mention names, if that is not the reader.
    """

    notification_id: str
    kind: NoticeType
    actor_id: str
    post_id: str | None
    comment_id: str | None
    board_id: str | None
    mentioned_id: str | None


class Unread(msgspec.Struct, frozen=True, tag_field="event", tag="unread"):
    """How many notifications the reader has not read, as in GET /notifications/unread."""

    count: int
    partial: bool


class Reset(msgspec.Struct, frozen=True, tag_field="event", tag="reset"):
    """What was missed cannot be sent one by one: reload the feed. The stream ends; the next one begins at this event.

    `expired`: the log no longer has what was missed; `too_far`: too much was missed; `unknown`: the id is not of this
    store; `changed`: which posts the reader may see changed; `loaded`: a whole graph was loaded.
    """

    reason: ResetReason


Message = NewPost | PostUpdated | EngagementUpdate | PostRemoved | Notification | Unread | Reset


class EncodedMessage(msgspec.Struct, frozen=True):
    """A message as it is sent: encoded once for any number of streams."""

    name: str
    data: bytes


def encode(message: Message) -> EncodedMessage:
    """The message, encoded. Its tag becomes the name and is not in the data."""
    fields = msgspec.to_builtins(message)
    return EncodedMessage(fields.pop("event"), msgspec.json.encode(fields))


def new_post(post: Post, *, own: bool) -> NewPost:
    """The message about a new post; its labels include its author's. `own`: for its author."""
    return NewPost(str(post.id), str(post.author), preview_of(post.text), shown(post.labels, own=own))


def post_updated(post: Post, *, own: bool) -> PostUpdated:
    """The message about a changed post, with the same fields as for a new one."""
    return PostUpdated(str(post.id), str(post.author), preview_of(post.text), shown(post.labels, own=own))


def engagement_update(post: int, counts: PostCounts) -> EngagementUpdate:
    """The message about a post's numbers."""
    return EngagementUpdate(str(post), counts.likes, counts.comments, counts.shares, counts.views)


def notification(notice: Notice, reader: int) -> Notification:
    """The message about a notice."""
    mentioned = None if notice.recipient == reader else notice.recipient
    about = (notice.post, notice.comment, notice.board, mentioned)
    return Notification(
        str(notice.id), notice.type, str(notice.actor), *(None if id_ is None else str(id_) for id_ in about)
    )


def removal_reason(deleted: bool, could_see: bool) -> RemovalReason:
    """Why a post is gone for a reader. `could_see`: whether they could see it if it were not deleted."""
    return "author_deleted" if deleted and could_see else "unavailable"


def preview_of(text: str) -> str:
    """The beginning of a post's text, on one line: anything that a client might take for a line end is a space."""
    flat = " ".join(text[: 4 * PREVIEW_CHARS_MAX].split())
    return flat if len(flat) <= PREVIEW_CHARS_MAX else flat[: PREVIEW_CHARS_MAX - 1].rstrip() + "…"
