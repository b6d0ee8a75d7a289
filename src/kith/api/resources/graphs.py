"""/graph: edges, lists and set programs of any graph. Server keys reach all of it; user tokens reach their user's own
edges.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kith.access.policy import ReadPolicy, check_raw_write
from kith.api.answers import CountAnswer, ListAnswer, Pagination, Time, check_batch, ms_of_time, with_bounds
from kith.api.call import Call
from kith.api.openapi import OR_STRING
from kith.api.operations import get, post, post_query
from kith.api.parameters import Cursor, GraphName, Id, Limit, Since, StateName, Until
from kith.api.presenter import time_of
from kith.core.clock import HLC_MAX, Hlc, ms_of
from kith.core.errors import BadRequest, InvalidContent, KithError, NotFound, SelfEdge
from kith.core.gathering import gather
from kith.core.ids import ID_MAX, NodeId
from kith.core.paging import LIMIT_DEFAULT, Mark
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, Edge, EdgeWrite, State, count_applied
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN
from kith.graph.ordered_lists import OrderedLists
from kith.graph.programs import Evaluator, Program, leaves, parse, parse_state
from kith.graph.shapes import Listing

BodyId = Annotated[
    int,
    Meta(
        ge=0,
        le=ID_MAX,
        description="64-bit id; a string or a number",
        extra_json_schema=OR_STRING,
    ),
]
"""An id in a body with many ids. It is decoded in C; see `Spec.numbers_as_strings`."""
_MOVE = "move"
_STATE = {
    "add": State.NORMAL,
    _MOVE: State.NORMAL,
    "remove": State.REMOVED,
    "archive": State.ARCHIVED,
    "negate": State.NEGATIVE,
}
_LIVE = frozenset({State.NORMAL})
_TRUE, _FALSE = b'{"exists":true}', b'{"exists":false}'


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Pairs of (source, destination)."""

    pairs: list[tuple[BodyId, BodyId]]


class EdgeRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """One edge to write. Without `position` a live edge keeps its position. Without `updatedAt` the write is dated now.

    `move` gives a live edge another `position`, so that it moves within its lists; it does nothing if no live edge
    exists. `expiresAt` removes an added edge at that time. The last write wins: adding the edge again without
    `expiresAt` makes it permanent.
    """

    op: Literal["add", "move", "remove", "archive", "negate"]
    source: BodyId
    destination: BodyId
    position: Annotated[int, Meta(ge=POSITION_MIN, le=POSITION_MAX, extra_json_schema=OR_STRING)] | None = None
    updated_at: Annotated[int, Meta(ge=0, le=HLC_MAX, extra_json_schema=OR_STRING)] | None = None
    expires_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | None = None


class EdgesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Edges to write, in any order."""

    edges: list[EdgeRequest]


class Exists(msgspec.Struct, frozen=True):
    """Whether the edge exists."""

    exists: bool


class ExistMany(msgspec.Struct, frozen=True):
    """One answer per pair, in the order of the request."""

    exists: list[bool]


class EdgesWritten(msgspec.Struct, frozen=True):
    """How many edges changed, and the token of the write; the token is null if none changed."""

    applied: int
    token: str | None


class IdItem(msgspec.Struct, frozen=True):
    """One member of a set."""

    id: str


class SetAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of a set program, by id, greatest first. `partial`: the page is short because few of the many ids that
    were checked are members.
    """

    items: list[IdItem]
    pagination: Pagination
    partial: bool = False


class EdgeAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A stored edge. `expiresAt`: when it expires, if it does."""

    source: str
    destination: str
    state: str
    position: str
    updated_at: str
    expires_at: Time | None = None


class SelectRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A set program, and which page of its result to return."""

    program: dict[str, Any]
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


class SelectCountRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A set program to count."""

    program: dict[str, Any]


class GraphResource:
    """Reads and writes of any graph. `batch_max`: pairs or edges per request. `select_ids_max`: ids that one set
    program may scan.
    """

    def __init__(self, graph: Graph, access: ReadPolicy, *, batch_max: int, select_ids_max: int) -> None:
        self._graph, self._access = graph, access
        self._batch_max, self._select_ids_max = batch_max, select_ids_max
        self._lists = OrderedLists(graph.store)

    @get("/graph/{graph}/{source}/{destination}", "Whether an edge exists", answers=Exists)
    async def check(self, call: Call, graph: GraphName, source: Id, destination: Id) -> bytes:
        """The follow check. A missing or removed edge answers false, never an error. A user token also gets false if
        the app hides the account at the other end.
        """
        number = self._graph.graphs.number(graph)
        self._access.check_pair(call.caller, number, source, destination)
        return _TRUE if await self._access.shows_edge(call.caller, number, source, destination) else _FALSE

    @post_query("/graph/{graph}/check", "Check up to 1,000 pairs", numbers_as_strings=True)
    async def check_many(self, call: Call, graph: GraphName, body: CheckRequest) -> ExistMany:
        """One answer per pair, in the order of the request."""
        number, pairs = self._graph.graphs.number(graph), body.pairs
        check_batch(len(pairs), self._batch_max)
        if call.caller.server:
            return ExistMany(await self._access.exist(number, pairs))
        for source, destination in pairs:
            self._access.check_pair(call.caller, number, source, destination)
        exists, hidden = await gather(
            self._graph.store.immediate,
            self._access.exist(number, pairs),
            self._access.hidden_pairs(call.caller, number, pairs),
        )
        return ExistMany([holds and not hide for holds, hide in zip(exists, hidden, strict=True)])

    @post("/graph/{graph}/edges", "Write up to 1,000 edges", callers="server", numbers_as_strings=True)
    async def write_edges(self, call: Call, graph: GraphName, body: EdgesRequest) -> EdgesWritten:
        """For server keys only. With `updatedAt` the write is idempotent and commutative: any order and any repetition
        give the same result.

        Use it for graphs of users (follows, blocks, mutes...) and for your own graphs. Graphs of posts, comments and
        stories are written by their own routes. If one edge is refused, none is written, and the message names the
        refused edge: `$.edges[2]`. Only your own graphs may have an edge from a node to itself; others answer
        SELF_EDGE.
        """
        number = self._graph.graphs.number(graph)
        check_raw_write(graph)
        check_batch(len(body.edges), self._batch_max)
        changes, mark = await self._graph.write(_writes(self._graph, number, body.edges))
        return EdgesWritten(count_applied(changes), call.note_write(mark))

    @get("/graph/{graph}/{source}/{destination}/edge", "The stored edge, in any state")
    async def edge(self, call: Call, graph: GraphName, source: Id, destination: Id) -> EdgeAnswer:
        """404 if the edge never existed. User tokens also get 404 for an edge that is not live."""
        number, pair = self._graph.graphs.number(graph), (source, destination)
        self._access.check_pair(call.caller, number, *pair)
        (edge,), hidden = await gather(
            self._graph.store.immediate,
            self._graph.store.get_many(number, [pair]),
            self._access.hidden_pairs(call.caller, number, [pair]),
        )
        if edge is None or any(hidden) or not self._access.may_read_edge(call.caller, edge.state):
            raise NotFound("there is no such edge", graph=graph, source=str(source), destination=str(destination))
        return EdgeAnswer(
            str(edge.source), str(edge.destination), edge.state.name.lower(), str(edge.position), str(edge.updated_at),
            time_of(edge.expires_ms) if edge.expires_ms else None,
        )  # fmt: skip

    @get("/graph/{graph}/{node}/out", "Destinations, newest first", name="out")
    async def list_out(
        self,
        call: Call,
        graph: GraphName,
        node: Id,
        state: StateName = "normal",
        limit: Limit = None,
        cursor: Cursor = None,
        since: Since = None,
        until: Until = None,
    ) -> ListAnswer:
        """The nodes that this node's edges point to. A range of positions costs the same anywhere in the list. For user
        tokens a page leaves out accounts that the app hides.
        """
        return await self._list(call, self._listing(graph, node, Direction.OUT, state), limit, cursor, since, until)

    @get("/graph/{graph}/{node}/in", "Sources, newest first", name="in")
    async def list_in(
        self,
        call: Call,
        graph: GraphName,
        node: Id,
        state: StateName = "normal",
        limit: Limit = None,
        cursor: Cursor = None,
        since: Since = None,
        until: Until = None,
    ) -> ListAnswer:
        """The nodes whose edges point to this node. A range of positions costs the same anywhere in the list. For user
        tokens a page leaves out accounts that the app hides.
        """
        return await self._list(call, self._listing(graph, node, Direction.IN, state), limit, cursor, since, until)

    @get("/graph/{graph}/{node}/out/count", "How many destinations")
    async def count_out(self, call: Call, graph: GraphName, node: Id, state: StateName = "normal") -> CountAnswer:
        """Exact, in constant time. Counts accounts that the app hides too, although the list leaves them out."""
        return await self._count(call, self._listing(graph, node, Direction.OUT, state))

    @get("/graph/{graph}/{node}/in/count", "How many sources")
    async def count_in(self, call: Call, graph: GraphName, node: Id, state: StateName = "normal") -> CountAnswer:
        """Exact, in constant time. Counts accounts that the app hides too, although the list leaves them out."""
        return await self._count(call, self._listing(graph, node, Direction.IN, state))

    @post_query("/graph/select", "A page of a set program")
    async def select(self, call: Call, body: SelectRequest) -> SetAnswer:
        """Ids in descending order. A program is an operator over other programs, or a list. The operators:
        `{"union": [P, ...]}`, `{"intersect": [P, ...]}` and `{"difference": [P, ...]}`. A list:
        `{"graph", "node", "direction": "out" or "in", "states"?}`.

        `partial`: few of the many ids that were checked are members, so this page has fewer than `limit` ids or none.
        Continue with `nextCursor`.
        """
        program = self._program(call, body.program)
        list_key = f"select {program!r}"
        window = call.window(list_key, body.limit, body.cursor)
        below = window.after.id if window.after else None
        matching = await self._evaluator().page(program, below, window.limit + 1)
        ids = matching.ids[: window.limit].tolist()
        last_id = ids[-1] if len(matching.ids) > window.limit else matching.checked_to
        following = None if last_id is None else call.next_cursor(list_key, Mark(0, last_id))
        listings = [listing for leaf in leaves(program) for listing in leaf.listings]
        visible_ids = await self._access.without_hidden_ids(call.caller, listings, ids)
        pagination = Pagination(following, None, following is not None)
        return SetAnswer([IdItem(str(id_)) for id_ in visible_ids], pagination, matching.checked_to is not None)

    @post_query("/graph/select/count", "How many members a set program has")
    async def select_count(self, call: Call, body: SelectCountRequest) -> CountAnswer:
        """Exact. Counting a single list is free; a set costs as much as its smallest parts. The count includes accounts
        that the app hides, although a page leaves them out.
        """
        return CountAnswer(await self._evaluator().count(self._program(call, body.program)))

    def _evaluator(self) -> Evaluator:
        return Evaluator(self._graph.store, self._lists, self._select_ids_max)

    def _program(self, call: Call, raw: dict[str, Any]) -> Program:
        program = parse(raw, self._graph.graphs.number)
        for leaf in leaves(program):
            for listing in leaf.listings:
                self._access.check_list(call.caller, listing)
        return program

    def _listing(self, graph: str, node: NodeId, direction: Direction, state: str) -> Listing:
        return Listing(self._graph.graphs.number(graph), node, direction, parse_state(state))

    async def _list(
        self,
        call: Call,
        listing: Listing,
        limit: int | None,
        cursor: str | None,
        since: int | None,
        until: int | None,
    ) -> ListAnswer:
        self._access.check_list(call.caller, listing)
        list_key = with_bounds(_query_of(listing), since, until)
        page = await self._graph.store.page(listing, call.window(list_key, limit, cursor, since, until))
        return call.answer(list_key, await self._access.without_hidden(call.caller, listing, page))

    async def _count(self, call: Call, listing: Listing) -> CountAnswer:
        self._access.check_list(call.caller, listing)
        return CountAnswer((await self._graph.store.count_many([listing]))[0])


def _query_of(listing: Listing) -> str:
    """The name of a list that a cursor is bound to."""
    graph, node, direction, state = listing
    return f"list {graph} {node} {int(direction)} {int(state)}"


def _writes(graph: Graph, number: int, requests: list[EdgeRequest]) -> list[EdgeWrite]:
    """The writes of a request. An error names the edge that it is about."""
    writes = []
    for index, (request, version) in enumerate(zip(requests, graph.clock.next_many(len(requests)), strict=True)):
        try:
            writes.append(_write(graph, number, request, Hlc(version)))
        except KithError as error:
            error.message = error.for_clients = f"{error.message} - at `$.edges[{index}]`"  # as for an invalid field
            raise
    return writes


def _write(graph: Graph, number: int, request: EdgeRequest, version: Hlc) -> EdgeWrite:
    if request.source == request.destination and graph.graphs.name(number) in BUILT_IN:
        raise SelfEdge(f"{request.source} cannot have an edge to itself; leave it out", id=str(request.source))
    updated_at, position, op = request.updated_at, request.position, request.op
    if updated_at is not None:
        graph.clock.check_ahead(updated_at)
        version = Hlc(updated_at)
    place = ms_of(version) if position is None else position
    expires_ms = 0 if request.expires_at is None else _expiry(graph, request)
    ends = NodeId(request.source), NodeId(request.destination)
    edge = Edge(number, *ends, _STATE[op], place, version, expires_ms)
    if updated_at is None and position is None and op == "add":
        return EdgeWrite(edge, supersede=True, keep_live=True)
    if op == _MOVE:
        return _moving(request, edge)
    return EdgeWrite(edge, supersede=updated_at is None, keep_place=updated_at is None and position is None)


def _moving(request: EdgeRequest, edge: Edge) -> EdgeWrite:
    """The write that moves a live edge. A removed edge stays removed."""
    if request.position is None or request.updated_at is not None or request.expires_at is not None:
        raise BadRequest("move takes a position, and neither updatedAt nor expiresAt: it moves the edge as it is now")
    return EdgeWrite(edge, supersede=True, keep_expiry=True, only_from=_LIVE)


def _expiry(graph: Graph, request: EdgeRequest) -> int:
    """When an added edge expires. With `updatedAt` the time may be past, because the write may replay history."""
    if request.op != "add":
        raise BadRequest(f"expiresAt is for edges that are added, not for {request.op!r}")
    try:
        expires_ms = max(1, ms_of_time(msgspec.convert(request.expires_at, Time)))
    except msgspec.ValidationError as error:
        raise InvalidContent(f"expiresAt is no time: {error}", field="expiresAt") from None
    if request.updated_at is None:
        graph.check_expiry(expires_ms)
    return expires_ms
