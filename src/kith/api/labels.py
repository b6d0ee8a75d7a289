"""/labels: what the app's moderation decided about posts and users. Server keys only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, cast

import msgspec
from litestar import Response, delete, get, put
from litestar.openapi.spec import Example
from litestar.params import Parameter

from kith.api.answers import Call
from kith.api.backend import check_server
from kith.api.graphs import PathId, token_header
from kith.api.presenting import time_of
from kith.core.ids import NodeId, parse_id
from kith.core.labels import bits_of, names_of
from kith.posts.labels import Labelled, Labels

Kind = Annotated[
    str, Parameter(description="post or user.", pattern=r"^(post|user)(?!\n)$", examples=[Example(value="post")])
]


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
    changed_at: datetime | None


@get("/labels/{kind:str}/{object_id:str}", summary="The labels of a post or a user", name="get_labels")
async def get_labels(call: Call, kind: Kind, object_id: PathId) -> LabelsAnswer:
    """Its own: a post of a labelled user may have none and be hidden all the same."""
    what, id_ = _object(call, kind, object_id)
    return _answer(what, id_, await call.backend.moderation.get(what, id_))


@put("/labels/{kind:str}/{object_id:str}", summary="Label a post or a user", name="put_labels")
async def put_labels(call: Call, kind: Kind, object_id: PathId, data: LabelsRequest) -> Response[LabelsAnswer]:
    """In effect at once. `hide`: only you and its author see it. `limit`: besides, the author's followers do.
    `sensitive`: shown, and marked. A user's labels hold for all their posts and comments. Repeating it changes nothing.
    """
    what, id_ = _object(call, kind, object_id)
    labels, mark = await call.backend.moderation.set(what, id_, bits_of(data.labels), data.reason)
    return Response(_answer(what, id_, labels), headers=token_header(call.backend.token(mark)))


@delete("/labels/{kind:str}/{object_id:str}", summary="Take all labels off", status_code=200, name="delete_labels")
async def delete_labels(call: Call, kind: Kind, object_id: PathId) -> Response[LabelsAnswer]:
    """In effect at once. Repeating it changes nothing."""
    what, id_ = _object(call, kind, object_id)
    labels, mark = await call.backend.moderation.set(what, id_, 0)
    return Response(_answer(what, id_, labels), headers=token_header(call.backend.token(mark)))


def _object(call: Call, kind: str, object_id: str) -> tuple[Labelled, NodeId]:
    check_server(call.caller)
    return cast(Labelled, kind), parse_id(object_id)


def _answer(what: Labelled, id_: NodeId, labels: Labels) -> LabelsAnswer:
    changed_at = time_of(labels.changed_at) if labels.changed_at else None
    return LabelsAnswer(str(id_), what, names_of(labels.labels), labels.reason, changed_at)


ROUTES = [get_labels, put_labels, delete_labels]
