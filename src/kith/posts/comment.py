"""The fields of a comment, and how a comment becomes a record. Pure: nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kith.core.clock import Hlc
from kith.records.store import Record, RecordKind

TEXT_CHARS_MAX = 2_000
DEPTH_MAX = 100
"""Comments that a reply may have above it. All of them are read to decide whether a viewer may see the reply."""


class Comment(msgspec.Struct, frozen=True, array_like=True):
    """A comment, as stored: an array in this order. New fields come last and have a default."""

    id: int
    post: int
    reply_to: int | None  # the comment that it replies to
    author: int
    created_at: int  # ms since the epoch
    text: str
    deleted: bool = False
    """As stored: it was deleted. As read for a viewer: it is a stub, shown only for its replies, because it was deleted
    or its author is deactivated or removed.
    """
    labels: int = 0
    """The author's labels (`core.labels`), set by `Comments` on every read; never stored."""
    named: tuple[int, ...] = ()
    """The users whom its text mentions by `@username`."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Comment).decode


def comment_record(comment: Comment, version: Hlc) -> Record:
    """The record of a comment."""
    return Record(RecordKind.COMMENT, comment.id, version, _encode(comment))


def read_comment(record: Record) -> Comment:
    """The comment of a record."""
    return _decode(record.data)


def emptied(comment: Comment) -> Comment:
    """What remains of a deleted comment: its author and its place, but no text."""
    return msgspec.structs.replace(comment, text="", deleted=True, labels=0, named=())


def with_author_labels(comment: Comment, labels: int) -> Comment:
    """The comment with its author's labels, or the same object if there are none."""
    return msgspec.structs.replace(comment, labels=labels) if labels else comment


def ancestry_of(id_: int, comments: Mapping[int, Comment]) -> list[Comment]:
    """A comment, then those above it, upwards, until one is not in `comments`."""
    line: list[Comment] = []
    above: int | None = id_
    while above is not None and (comment := comments.get(above)) is not None:
        line.append(comment)
        above = comment.reply_to
    return line


def has_visible_ancestry(id_: int, visible: Mapping[int, Comment]) -> bool:
    """Whether `visible`, the comments that a viewer sees (stubs included), has this comment and all above it."""
    line = ancestry_of(id_, visible)
    return bool(line) and line[-1].reply_to is None
