"""/graph: edges, lists and set programs of any graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.spec import Example
from litestar.params import Parameter

from kith.api import operations
from kith.api.answers import OBJECTS_MAX, Call, CountAnswer, IdItem, ListAnswer, SetAnswer, ranged
from kith.api.backend import Pagination, check_may_read, check_may_read_pair, hidden_in
from kith.core.errors import NotFound
from kith.core.ids import parse_id
from kith.core.paging import LIMIT_DEFAULT, LIMIT_MAX, Mark
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction
from kith.graph.programs import Evaluator, Program, leaves, parse, parse_state
from kith.graph.store import Listing

Json = "application/json"
GraphName = Annotated[str, Parameter(description="Name of a graph.", examples=[Example(value="follows")])]
PathId = Annotated[
    str, Parameter(description="64-bit id, decimal.", pattern=r"^[0-9]{1,19}$", examples=[Example(value="1")])
]
Limit = Annotated[
    int | None, Parameter(description=f"Items a page, 1 to {LIMIT_MAX}; default {LIMIT_DEFAULT}.", required=False)
]
ObjectLimit = Annotated[
    int | None, Parameter(description=f"Items a page, 1 to {OBJECTS_MAX}; default {LIMIT_DEFAULT}.", required=False)
]
Cursor = Annotated[str | None, Parameter(description="Where to go on; from a page's `pagination`.", required=False)]
Since = Annotated[
    int | None,
    Parameter(
        description="Only positions (ms since the epoch unless the app chose otherwise) from here on, inclusive.",
        ge=POSITION_MIN, le=POSITION_MAX, required=False,
    ),
]  # fmt: skip
Until = Annotated[
    int | None,
    Parameter(
        description="Only positions before this one: exclusive.", ge=POSITION_MIN, le=POSITION_MAX, required=False
    ),
]
StateName = Annotated[
    Literal["normal", "negative", "archived", "removed"],
    Parameter(query="state", description="State of the edges.", required=False),
]


class EdgeAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A stored edge."""

    source: str
    destination: str
    state: str
    position: str
    updated_at: str


class SelectRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A set program and the part of its answer that is wanted."""

    program: dict[str, Any]
    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


class SelectCountRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A set program to count."""

    program: dict[str, Any]


@get("/graph/{graph:str}/{source:str}/{destination:str}", summary="Is there an edge?", name="check")
async def check(call: Call, graph: GraphName, source: PathId, destination: PathId) -> Response[Any]:
    """The follow check. A missing or removed edge answers false, never an error; to a user token also one whose other
    end is an account that the app hides.
    """
    body = await operations.check(
        call.backend, call.caller, graph, parse_id(source, "source"), parse_id(destination, "destination")
    )
    return Response(body, media_type=Json)


@post("/graph/{graph:str}/check", summary="Check up to 1,000 pairs", status_code=200, name="check_many")
async def check_many(
    call: Call, request: Request[Any, Any, Any], graph: GraphName, data: operations.CheckRequest
) -> Response[Any]:
    """One answer a pair, in their order."""
    return Response(
        await operations.check_many(call.backend, call.caller, graph, await request.body()), media_type=Json
    )


@post("/graph/{graph:str}/edges", summary="Write up to 1,000 edges", status_code=200, name="write_edges")
async def write_edges(
    call: Call, request: Request[Any, Any, Any], graph: GraphName, data: operations.EdgesRequest
) -> Response[Any]:
    """Idempotent and commutative where `updatedAt` is given: any order, any repetition. Server keys only."""
    body, token = await operations.write_edges(call.backend, call.caller, graph, await request.body())
    return Response(body, media_type=Json, headers=token_header(token))


@get("/graph/{graph:str}/{source:str}/{destination:str}/edge", summary="The stored edge, in any state", name="edge")
async def get_edge(call: Call, graph: GraphName, source: PathId, destination: PathId) -> EdgeAnswer:
    """404 where there never was one."""
    number = call.backend.graph.graphs.number(graph)
    pair = parse_id(source, "source"), parse_id(destination, "destination")
    check_may_read_pair(call.caller, call.backend, number, *pair)
    (edge,) = await call.backend.graph.store.get_many(number, [pair])
    hidden = await hidden_in(call.caller, call.backend, number, [pair])
    if edge is None or any(hidden):
        raise NotFound("there is no such edge", graph=graph, source=source, destination=destination)
    return EdgeAnswer(
        str(edge.source), str(edge.destination), edge.state.name.lower(), str(edge.position), str(edge.updated_at)
    )


@get("/graph/{graph:str}/{node:str}/out", summary="Destinations, newest first", name="out")
async def list_out(
    call: Call,
    graph: GraphName,
    node: PathId,
    edge_state: StateName = "normal",
    limit: Limit = None,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> ListAnswer:
    """Whom the node's edges go to. A range of time costs the same wherever in the list it lies. User tokens get pages
    less the accounts that the app hides.
    """
    return await _list(call, graph, node, Direction.OUT, edge_state, limit, cursor, since, until)


@get("/graph/{graph:str}/{node:str}/in", summary="Sources, newest first", name="in")
async def list_in(
    call: Call,
    graph: GraphName,
    node: PathId,
    edge_state: StateName = "normal",
    limit: Limit = None,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> ListAnswer:
    """Whose edges come to the node. A range of time costs the same wherever in the list it lies. User tokens get pages
    less the accounts that the app hides.
    """
    return await _list(call, graph, node, Direction.IN, edge_state, limit, cursor, since, until)


@get("/graph/{graph:str}/{node:str}/out/count", summary="How many destinations", name="count_out")
async def count_out(call: Call, graph: GraphName, node: PathId, edge_state: StateName = "normal") -> CountAnswer:
    """Exact, in constant time."""
    return await _count(call, graph, node, Direction.OUT, edge_state)


@get("/graph/{graph:str}/{node:str}/in/count", summary="How many sources", name="count_in")
async def count_in(call: Call, graph: GraphName, node: PathId, edge_state: StateName = "normal") -> CountAnswer:
    """Exact, in constant time."""
    return await _count(call, graph, node, Direction.IN, edge_state)


@post("/graph/select", summary="A page of a set program", status_code=200, name="select")
async def select(call: Call, data: SelectRequest) -> SetAnswer:
    """Ids in descending order. Operators: union, intersect, difference, nested (see `graph/select.py`)."""
    program = _program(call, data.program)
    query = f"select {program!r}"
    window = call.window(query, data.limit, data.cursor)
    below = window.after.id if window.after else None
    evaluator = Evaluator(call.backend.graph.store, call.backend.bounds.select_ids_max)
    ids = (await evaluator.top(program, below, window.limit + 1)).tolist()
    more, ids = len(ids) > window.limit, ids[: window.limit]
    bound = f"{call.caller.reader()} {query}"
    following = call.backend.cursors.next(bound, Mark(0, ids[-1])) if more else None
    if _shows_users(call, *(listing for leaf in leaves(program) for listing in leaf.listings)):
        hidden = await call.backend.privacy.hidden(ids)
        ids = [id_ for id_, hide in zip(ids, hidden, strict=True) if not hide]
    return SetAnswer([IdItem(str(id_)) for id_ in ids], Pagination(following, None, more))


@post("/graph/select/count", summary="How many members a set program has", status_code=200, name="select_count")
async def select_count(call: Call, data: SelectCountRequest) -> CountAnswer:
    """Exact. A single list costs nothing; a set costs what its smallest parts cost."""
    evaluator = Evaluator(call.backend.graph.store, call.backend.bounds.select_ids_max)
    return CountAnswer(await evaluator.count(_program(call, data.program)))


def _shows_users(call: Call, *listings: Listing) -> bool:
    """Whether a user token reads lists of users, of whom those that the app hides do not show."""
    return not call.caller.server and any(one.graph not in call.backend.graph.graphs.to_objects for one in listings)


def _program(call: Call, raw: dict[str, Any]) -> Program:
    program = parse(raw, call.backend.graph.graphs.number)
    for leaf in leaves(program):
        for listing in leaf.listings:
            check_may_read(call.caller, call.backend, listing)
    return program


async def _list(
    call: Call,
    graph: str,
    node: str,
    direction: Direction,
    state: str,
    limit: int | None,
    cursor: str | None,
    since: int | None,
    until: int | None,
) -> ListAnswer:
    listing = Listing(call.backend.graph.graphs.number(graph), parse_id(node, "node"), direction, parse_state(state))
    check_may_read(call.caller, call.backend, listing)
    query = ranged(f"list {listing!r}", since, until)
    window = call.window(query, limit, cursor, since, until)
    page = await call.backend.graph.store.page(listing, window)
    if _shows_users(call, listing):
        page = await call.backend.privacy.unhidden(page)
    return call.answer(query, page)


async def _count(call: Call, graph: str, node: str, direction: Direction, state: str) -> CountAnswer:
    listing = Listing(call.backend.graph.graphs.number(graph), parse_id(node, "node"), direction, parse_state(state))
    check_may_read(call.caller, call.backend, listing)
    return CountAnswer((await call.backend.graph.store.count_many([listing]))[0])


def token_header(token: str | None) -> dict[str, str]:
    """The read-your-writes header of an answer."""
    return {} if token is None else {"Kith-Token": token}


ROUTES = [check, check_many, write_edges, get_edge, list_out, list_in, count_out, count_in, select, select_count]
