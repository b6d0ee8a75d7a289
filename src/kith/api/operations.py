"""What the hot routes do, from raw body to raw body: check, batch check, bulk edges, and the relations
between two users (follow, block, mute). `fast` answers them without a framework; `resources` shows them to
Litestar for the documentation and for the slow way in.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from kith.access.guard import Caller
from kith.api.backend import Backend, check_may_read_pair, check_server, hidden_in
from kith.core.clock import HLC_MAX, Hlc, ms_of
from kith.core.errors import BadRequest, BatchTooLarge, SelfEdge
from kith.core.ids import ID_MAX, NodeId
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Edge, EdgeWrite, State, applied
from kith.graph.graph import Graph
from kith.people.relations import Relations, RelationWritten

Decoded = TypeVar("Decoded")
Id = Annotated[
    int,
    Meta(
        ge=0,
        le=ID_MAX,
        description="64-bit id; a string or a number",
        extra_json_schema={"type": ["integer", "string"]},
    ),
]
_STATE = {"add": State.NORMAL, "remove": State.REMOVED, "archive": State.ARCHIVED, "negate": State.NEGATIVE}
_TRUE, _FALSE = b'{"exists":true}', b'{"exists":false}'


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Pairs of (source, destination)."""

    pairs: list[tuple[Id, Id]]


class EdgeRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """One edge to write. Without `position` a live edge keeps its place; without `updatedAt` it happens now."""

    op: Literal["add", "remove", "archive", "negate"]
    source: Id
    destination: Id
    position: Annotated[int, Meta(ge=POSITION_MIN, le=POSITION_MAX)] | None = None
    updated_at: Annotated[int, Meta(ge=0, le=HLC_MAX)] | None = None


class EdgesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Edges to write, in any order."""

    edges: list[EdgeRequest]


_check_decoder = msgspec.json.Decoder(CheckRequest, strict=False)
_edges_decoder = msgspec.json.Decoder(EdgesRequest, strict=False)
_NOT_WHOLE = re.compile(rb"[0-9][.eE]")
_encode = msgspec.json.encode


async def check(backend: Backend, caller: Caller, graph_name: str, source: int, destination: int) -> bytes:
    """GET /graph/{graph}/{source}/{destination}"""
    graph = backend.graph.graphs.number(graph_name)
    check_may_read_pair(caller, backend, graph, source, destination)
    there = await backend.graph.store.exists_many(graph, [(source, destination)])
    if not caller.server:
        there = await _unhidden(backend, caller, graph, [(source, destination)], there)
    return _TRUE if there[0] else _FALSE


async def check_many(backend: Backend, caller: Caller, graph_name: str, body: bytes) -> bytes:
    """POST /graph/{graph}/check"""
    graph = backend.graph.graphs.number(graph_name)
    pairs = decode(_check_decoder, body).pairs
    check_batch(len(pairs), backend.bounds.batch_max)
    if caller.server:
        return _encode({"exists": await backend.graph.store.exists_many(graph, pairs)})
    for source, destination in pairs:
        check_may_read_pair(caller, backend, graph, source, destination)
    there = await backend.graph.store.exists_many(graph, pairs)
    return _encode({"exists": await _unhidden(backend, caller, graph, pairs, there)})


async def _unhidden(
    backend: Backend, caller: Caller, graph: int, pairs: list[tuple[int, int]], there: list[bool]
) -> list[bool]:
    """`there` for a user token, for which no edge goes to or comes from an account that the app hides."""
    hidden = await hidden_in(caller, backend, graph, pairs)
    return [holds and not hide for holds, hide in zip(there, hidden, strict=True)]


async def write_edges(backend: Backend, caller: Caller, graph_name: str, body: bytes) -> tuple[bytes, str | None]:
    """POST /graph/{graph}/edges"""
    check_server(caller)
    graph = backend.graph.graphs.number(graph_name)
    requests = decode(_edges_decoder, body).edges
    check_batch(len(requests), backend.bounds.batch_max)
    writes = _writes(backend.graph, graph, requests)
    changes, mark = await backend.graph.write(writes)
    token = backend.token(mark)
    return _encode({"applied": applied(changes), "token": token}), token


def _writes(service: Graph, graph: int, requests: list[EdgeRequest]) -> list[EdgeWrite]:
    """The merges that the requests ask for."""
    for request in requests:
        if request.source == request.destination:
            raise SelfEdge(f"{request.source} cannot have an edge to itself; leave it out", id=str(request.source))
    writes = []
    for request in requests:
        source, destination = NodeId(request.source), NodeId(request.destination)
        state = _STATE[request.op]
        if request.updated_at is None:
            edge = service.now(graph, source, destination, state)
        else:
            service.clock.check_ahead(request.updated_at)
            edge = Edge(graph, source, destination, state, ms_of(request.updated_at), Hlc(request.updated_at))
        if request.position is not None:
            edge = msgspec.structs.replace(edge, position=request.position)
        now = request.updated_at is None
        in_place = now and request.position is None
        keep_live = in_place and state == State.NORMAL
        writes.append(EdgeWrite(edge, supersede=now, keep_place=in_place and not keep_live, keep_live=keep_live))
    return writes


class Followed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the acting user now follows the target, and whether that is new."""

    following: bool
    changed: bool
    token: str | None
    requested: bool = False


class Blocked(msgspec.Struct, frozen=True):
    """Whether the acting user now blocks the target, and whether that is new."""

    blocking: bool
    changed: bool
    token: str | None


class Muted(msgspec.Struct, frozen=True):
    """Whether the acting user now mutes the target, and whether that is new."""

    muting: bool
    changed: bool
    token: str | None


Relate = Callable[[Relations, NodeId, NodeId], Awaitable[RelationWritten]]
RELATIONS: dict[tuple[str, str], tuple[Relate, type[Followed] | type[Blocked] | type[Muted]]] = {
    ("POST", "follow"): (Relations.follow, Followed),
    ("DELETE", "follow"): (Relations.unfollow, Followed),
    ("POST", "block"): (Relations.block, Blocked),
    ("DELETE", "block"): (Relations.unblock, Blocked),
    ("POST", "mute"): (Relations.mute, Muted),
    ("DELETE", "mute"): (Relations.unmute, Muted),
    ("POST", "remove-follower"): (Relations.remove_follower, Followed),
}
"""(method, last part of the path) -> what it does, and the shape of its answer."""


async def relate(backend: Backend, caller: Caller, method: str, verb: str, target: NodeId) -> tuple[bytes, str | None]:
    """POST or DELETE /users/{id}/follow, /block, /mute; POST /users/{id}/remove-follower"""
    act, shape = RELATIONS[(method, verb)]
    written = await act(backend.relations, caller.acting(), target)
    token = backend.token(written.mark)
    if shape is Followed:
        return _encode(Followed(written.holds, written.changed, token, written.requested)), token
    return _encode(shape(written.holds, written.changed, token)), token


def check_batch(size: int, batch_max: int) -> None:
    """BatchTooLarge beyond the bound."""
    if size > batch_max:
        raise BatchTooLarge(f"{size} in one request; send at most {batch_max}", max=batch_max)


def decode(decoder: msgspec.json.Decoder[Decoded], body: bytes) -> Decoded:
    """The decoded body; BadRequest says what is wrong and where."""
    if _NOT_WHOLE.search(body):
        raise BadRequest("ids, positions and updatedAt are whole decimal numbers; leave points and exponents out")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        ops = f"; op is one of {', '.join(_STATE)}" if "enum" in str(error) else ""
        raise BadRequest(f"the body is not what this takes: {error}{ops}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
