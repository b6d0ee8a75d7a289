"""Moderation: the labels that the app puts on posts and users, with reasons.

Labels are stored where every read looks anyway: a post's in its record, a user's on the user's node in the graph. The
reason is a record of its own. Every change is logged, so caches and streams can react. Limit: a post or user has one
set of labels; who set them, and earlier labels, are not stored.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kith.core.clock import Hlc, ms_of
from kith.core.errors import UserNotFound
from kith.core.events import user_changed
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import State
from kith.people.privacy import SYSTEM
from kith.posts.post import read_post
from kith.posts.posts import Posts
from kith.records.fields import check_text
from kith.records.store import Record, RecordKind

REASON_CHARS_MAX = 1_000
LabelTarget = Literal["post", "user"]
"""What can be labelled."""
_NOTES = {"post": RecordKind.POST_LABELS, "user": RecordKind.USER_LABELS}


class Labels(NamedTuple):
    """The labels of a post or user, the reason, and when they were set (ms since the epoch; 0: never)."""

    labels: int = 0
    reason: str = ""
    changed_at: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Labels).decode


class Moderation:
    """Reads and sets labels. Only the app may do this; callers check that."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store, self._graph = posts, posts.store, posts.graph

    async def get(self, target: LabelTarget, id_: NodeId) -> Labels:
        """The labels of a post or user; an unknown user has none. Errors: PostNotFound; UserNotFound if removed."""
        labels = await self._post_labels(id_) if target == "post" else await self._user_labels(id_)
        (record,) = await self._store.get_many(_NOTES[target], [id_])
        note = Labels() if record is None else _decode(record.data)
        return note if note.labels == labels else Labels(labels)

    async def set(self, target: LabelTarget, id_: NodeId, labels: int, reason: str = "") -> tuple[Labels, WriteMark]:
        """Replace the labels of a post or user; 0 removes them. Repeating it changes nothing.

        They are in effect when it returns. Errors as in `get`; InvalidContent for a reason that is too long.
        """
        check_text(reason, needed=False, chars_max=REASON_CHARS_MAX, field="reason")
        stored = await self.get(target, id_)
        if stored[:2] == (labels, reason):
            return stored, NO_MARK
        version = self._graph.clock.next()
        new = Labels(labels, reason, ms_of(version))

        def note(version: Hlc) -> Record:
            return Record(_NOTES[target], id_, version, _encode(new))

        if target == "post":
            return new, await self._posts.label(id_, labels, note)
        is_restored = bool(stored.labels & HIDE and not labels & HIDE)
        await self._graph.store.change_node(id_, labels=labels, tell=user_changed(id_, version, shown=is_restored))
        return new, (await self._store.put([note(self._graph.clock.next())])).mark

    async def _post_labels(self, id_: NodeId) -> int:
        await self._posts.get(SYSTEM, id_)  # checks that it exists; it adds the author's labels, so they are read below
        (record,) = await self._store.get_many(RecordKind.POST, [id_])
        return 0 if record is None else read_post(record).labels

    async def _user_labels(self, id_: NodeId) -> int:
        (node,) = await self._graph.store.nodes([id_])
        if node.state == State.REMOVED:
            raise UserNotFound("this account was removed", id=str(id_))
        return node.labels
