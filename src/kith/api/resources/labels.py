"""/labels: the labels that the app's moderation puts on posts and users. Server keys only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kith.api.answers import Time
from kith.api.call import Call
from kith.api.operations import delete, get, put
from kith.api.parameters import Id
from kith.api.presenter import time_of
from kith.core.ids import NodeId
from kith.core.labels import bits_of, names_of
from kith.posts.labels import Labels, LabelTarget, Moderation

LabelledKind = Annotated[LabelTarget, Meta(description="post or user.")]


class LabelsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The complete list of labels that the object has from now on. `reason`: for the app; no user sees it."""

    labels: list[Literal["hide", "limit", "sensitive"]]
    reason: str = ""


class LabelsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The labels of an object, the reason, and when they last changed."""

    id: str
    type: LabelTarget
    labels: list[str]
    reason: str
    changed_at: Time | None


class LabelsResource:
    """The labels of posts and users."""

    def __init__(self, moderation: Moderation) -> None:
        self._moderation = moderation

    @get("/labels/{kind}/{object_id}", "The labels of a post or a user", callers="server")
    async def get_labels(self, call: Call, kind: LabelledKind, object_id: Id) -> LabelsAnswer:
        """Only the object's own labels: a post without labels is still hidden if its author is labelled `hide`."""
        return _answer(kind, object_id, await self._moderation.get(kind, object_id))

    @put("/labels/{kind}/{object_id}", "Label a post or a user", callers="server")
    async def put_labels(self, call: Call, kind: LabelledKind, object_id: Id, body: LabelsRequest) -> LabelsAnswer:
        """Takes effect at once. `hide`: only the app and the author see it. `limit`: the author's followers see it too.
        `sensitive`: everyone sees it, marked as sensitive. A user's labels apply to all their posts and comments.
        Repeating it changes nothing.
        """
        labels, mark = await self._moderation.set(kind, object_id, bits_of(body.labels), body.reason)
        call.note_write(mark)
        return _answer(kind, object_id, labels)

    @delete("/labels/{kind}/{object_id}", "Remove all labels", callers="server")
    async def delete_labels(self, call: Call, kind: LabelledKind, object_id: Id) -> LabelsAnswer:
        """Takes effect at once. Repeating it changes nothing."""
        labels, mark = await self._moderation.set(kind, object_id, 0)
        call.note_write(mark)
        return _answer(kind, object_id, labels)


def _answer(target: LabelTarget, id_: NodeId, labels: Labels) -> LabelsAnswer:
    changed_at = time_of(labels.changed_at) if labels.changed_at else None
    return LabelsAnswer(str(id_), target, names_of(labels.labels), labels.reason, changed_at)
