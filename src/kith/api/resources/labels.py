"""/labels: what the app's moderation decided about posts and users. Server keys only."""

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
from kith.posts.labels import Labelled, Labels, Moderation

LabelledKind = Annotated[Labelled, Meta(description="post or user.")]


class LabelsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """All labels that the object has from now on. `reason`: for yourself; no user is told."""

    labels: list[Literal["hide", "limit", "sensitive"]]
    reason: str = ""


class LabelsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The labels of an object, why, and since when."""

    id: str
    type: Labelled
    labels: list[str]
    reason: str
    changed_at: Time | None


class LabelsResource:
    """The labels of posts and users."""

    def __init__(self, moderation: Moderation) -> None:
        self._moderation = moderation

    @get("/labels/{kind}/{object_id}", "The labels of a post or a user", callers="server")
    async def get_labels(self, call: Call, kind: LabelledKind, object_id: Id) -> LabelsAnswer:
        """Its own: a post of a labelled user may have none and be hidden all the same."""
        return _answer(kind, object_id, await self._moderation.get(kind, object_id))

    @put("/labels/{kind}/{object_id}", "Label a post or a user", callers="server")
    async def put_labels(self, call: Call, kind: LabelledKind, object_id: Id, body: LabelsRequest) -> LabelsAnswer:
        """In effect at once. `hide`: only you and its author see it. `limit`: the author's followers see it too.
        `sensitive`: shown, and marked. A user's labels hold for all their posts and comments. Repeating it changes
        nothing.
        """
        labels, mark = await self._moderation.set(kind, object_id, bits_of(body.labels), body.reason)
        call.wrote(mark)
        return _answer(kind, object_id, labels)

    @delete("/labels/{kind}/{object_id}", "Take all labels off", callers="server")
    async def delete_labels(self, call: Call, kind: LabelledKind, object_id: Id) -> LabelsAnswer:
        """In effect at once. Repeating it changes nothing."""
        labels, mark = await self._moderation.set(kind, object_id, 0)
        call.wrote(mark)
        return _answer(kind, object_id, labels)


def _answer(what: Labelled, id_: NodeId, labels: Labels) -> LabelsAnswer:
    changed_at = time_of(labels.changed_at) if labels.changed_at else None
    return LabelsAnswer(str(id_), what, names_of(labels.labels), labels.reason, changed_at)
