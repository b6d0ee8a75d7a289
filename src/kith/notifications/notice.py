"""What a notice is: one stored event, "this actor did this to that, at this time", and its recipient. Pure.

A notice is stored once. A claim on its content gives every repetition the same notice. So an event that comes again, or
a like that is taken back and given again, notifies nobody twice.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.ids import NodeId
from kith.records import claims
from kith.records.store import Claim, Record, RecordKind

NoticeType = Literal[
    "mention", "comment", "reply", "like", "share",
    "follow", "follow_request", "follow_accepted", "board_follow", "board_invite",
]  # fmt: skip
NOTICE_KEPT_MS = 90 * 86_400_000
"""How long notices are kept, and how long nobody is notified of the same thing twice."""


class NoticeDraft(NamedTuple):
    """A notice to be made: it tells `recipient` that `actor` did something at `at_ms`.

    `post`, `comment`, `board`: what it is about; for a comment, its post too. `event`: the id that another system gave
    it. `instead_of`: the first reason to notify the recipient of the same comment. This draft counts if the recipient's
    preferences refuse all reasons before it.
    """

    type: NoticeType
    actor: int
    recipient: int
    at_ms: int
    post: int | None = None
    comment: int | None = None
    event: str = ""
    board: int | None = None
    instead_of: NoticeType | None = None

    @property
    def first(self) -> NoticeDraft:
        """The draft for the first reason, under whose claim this one is stored."""
        return self if self.instead_of is None else self._replace(type=self.instead_of, instead_of=None)


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """A notice, as stored: an array in this order. New fields come last and have a default. See `NoticeDraft`."""

    id: int
    type: NoticeType
    actor: int
    recipient: int
    at_ms: int
    post: int | None = None
    comment: int | None = None
    event: str = ""
    board: int | None = None

    @property
    def subject(self) -> int | None:
        """What it is about: the comment, else the post, else the board; None: its recipient."""
        return next((id_ for id_ in (self.comment, self.post) if id_ is not None), self.board)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notice).decode


def notice_from(id_: int, draft: NoticeDraft) -> Notice:
    """The notice of a draft."""
    return Notice(id_, *draft[:-1])  # all but `instead_of`


def notice_record(notice: Notice, version: Hlc) -> Record:
    """The record of a notice."""
    return Record(RecordKind.NOTICE, notice.id, version, _encode(notice))


def read_notice(data: bytes) -> Notice | None:
    """The notice of a record's data; None if it is damaged, or of a type that only a newer Kith knows."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


def claim_of(draft: NoticeDraft, id_: int, version: Hlc) -> Claim:
    """The claim that a draft is stored as the notice `id_` with this version, and as no other for NOTICE_KEPT_MS."""
    subject = f"{draft.first.type} {draft.recipient} {draft.post} {draft.comment}"  # without the time
    if draft.board is not None:
        subject += f" {draft.board}"
    if draft.event:
        subject += f" event {draft.event}"
    return claims.claim_of("notice", NodeId(draft.actor), subject, b"", id_, version, NOTICE_KEPT_MS)
