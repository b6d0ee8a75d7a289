"""The Litestar app: every route, its OpenAPI document, and how errors leave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import Litestar, MediaType, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig, ResponseSpec
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import HeaderParameter

from kith import __version__
from kith.api import comments, docs, feed, files, graphs, labels, media, posts, profiles, stories, suggestions, users
from kith.api.answers import Call, ErrorAnswer
from kith.api.backend import Backend
from kith.api.errors import respond, unexpected
from kith.core import errors
from kith.core.ids import parse_id

_ERRORS_BY_STATUS: dict[int, type[errors.KithError]] = {
    401: errors.Unauthorized,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    413: errors.BodyTooLarge,
}
_ERROR_RESPONSES = {
    status: ResponseSpec(ErrorAnswer, generate_examples=False, description=description)
    for status, description in (
        (400, "The request cannot be served as written."),
        (401, "No credentials, or credentials that do not hold."),
        (403, "Known, but not allowed."),
        (404, "It does not exist, or must not be seen."),
        (409, "Refused by the present state."),
        (413, "The body or the batch is too large."),
        (429, "Too many requests; see Retry-After."),
        (503, "Not now; nothing was half done. See Retry-After."),
    )
}
_ROOMS = (graphs, users, profiles, suggestions, posts, comments, media, feed, stories, labels)
_ROUTES = [route for room in _ROOMS for route in room.ROUTES]
_READS = frozenset({"check", "check_many", "select", "select_count", "relationships", "lookup_posts", "lookup_users"})
_NO_QUERY = frozenset({"call", "data", "request"})
"""What a route is handed that no query says."""
_SHOWN = {
    "edge_state": "state",
    "user_id": "id",
    "post_id": "id",
    "comment_id": "id",
    "media_id": "id",
    "story_id": "id",
    "other_id": "other",
    "object_id": "id",
}
_IDS = frozenset({name for name in _SHOWN if name.endswith("_id")} | {"source", "destination", "node"})
"""Parts of paths that are ids."""
_ABOUT = (
    "A social backend as a service: follow graph, posts, comments, media, stories, home feeds and their streams. "
    "Ids, positions and updatedAt are strings in answers."
)
AnyRequest = Request[Any, Any, Any]


def build(backend: Backend) -> Litestar:
    """The app over a wired backend."""

    def call(request: AnyRequest) -> Call:
        _check_query(request)
        reading = request.method == "GET" or request.route_handler.name in _READS
        caller = backend.admit(request.headers.get, write=not reading)
        request.state.charge = backend.quotas.take(caller, request.route_handler.name or "")
        return Call(backend, caller)

    @get("/healthz", name="healthz", summary="Is the process alive?", security=[])
    async def healthz() -> dict[str, str]:
        """Answers as long as the process can answer."""
        return {"status": "ok", "version": __version__}

    @get("/readyz", name="readyz", summary="Can the process serve?", security=[])
    async def readyz() -> Response[dict[str, Any]]:
        """503 with what is wrong when it cannot."""
        wrong = dict(backend.ready())
        return Response({"ready": not wrong, "problems": wrong}, status_code=503 if wrong else 200)

    @get("/metrics", name="metrics", summary="Prometheus metrics", media_type=MediaType.TEXT, security=[])
    async def metrics() -> bytes:
        """The sum over all processes of this folder."""
        return backend.metrics.render()

    @get("/docs", name="docs", media_type=MediaType.HTML, include_in_schema=False)
    async def docs_page(request: AnyRequest) -> str:
        return docs.render(request.app.openapi_schema.to_schema())

    @get("/openapi.json", name="openapi", include_in_schema=False)
    async def openapi(request: AnyRequest) -> dict[str, Any]:
        return request.app.openapi_schema.to_schema()

    for handler in _ROUTES:
        handler.responses = _ERROR_RESPONSES
    api = Router(
        "/api/v1",
        route_handlers=_ROUTES,
        dependencies={"call": Provide(call, sync_to_thread=False)},
    )
    return Litestar(
        route_handlers=[api, files.router(backend), healthz, readyz, metrics, docs_page, openapi],
        exception_handlers={kind: _settled(backend, refuse) for kind, refuse in _REFUSALS.items()},
        openapi_config=OpenAPIConfig(
            title="Kith",
            version=__version__,
            description=_ABOUT,
            components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"bearer": []}],
            path="/_openapi",
            render_plugins=[],
            use_handler_docstrings=True,
        ),
        logging_config=None,
    )


def _check_query(request: AnyRequest) -> None:
    parameters = request.route_handler.parsed_fn_signature.parameters
    known = {
        getattr(field.kwarg_definition, "query", None) or name
        for name, field in parameters.items()
        if not isinstance(field.kwarg_definition, HeaderParameter)
    }
    unknown = sorted(set(request.query_params) - (known - _NO_QUERY - request.path_params.keys()))
    if unknown:
        raise errors.BadRequest(f"unknown query parameter: {', '.join(unknown)}; see /docs", unknown=unknown)


def _settled(backend: Backend, refuse: Callable[[AnyRequest, Any], Response[bytes]]) -> Any:
    """`refuse`, after what the request took from a quota is given back."""

    def settle(request: AnyRequest, error: Exception) -> Response[bytes]:
        charge = request.state.get("charge")
        if charge is not None:
            backend.quotas.give_back(charge, error)
        return refuse(request, error)

    return settle


def _refuse(_: AnyRequest, error: errors.KithError) -> Response[bytes]:
    status, headers, body = respond(error)
    return Response(body, status_code=status, headers=dict(headers), media_type=MediaType.JSON)


def _refuse_body(request: AnyRequest, error: Exception) -> Response[bytes]:
    match error:
        case UnicodeDecodeError():
            why = "it is not UTF-8"
        case RecursionError():
            why = "it is nested too deeply"
        case _:
            why = str(error)
    return _refuse(request, errors.BadRequest(f"the body is not JSON that we can read: {why}"))


def _refuse_framework(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    if error.status_code >= 500:
        return _fail(request, error)
    kind = _ERRORS_BY_STATUS.get(error.status_code, errors.BadRequest)
    if kind is errors.NotFound:
        message = f"there is nothing at {request.url.path}; see /docs"
    elif kind is errors.MethodNotAllowed:
        allow = ", ".join(_methods(request))
        return _refuse(request, errors.MethodNotAllowed(f"{request.url.path} takes {allow}; see /docs", allow=allow))
    elif (bad_id := _bad_id(request)) is not None:
        return _refuse(request, bad_id)
    else:
        message = _explain(error)
    return _refuse(request, kind(message))


def _bad_id(request: AnyRequest) -> errors.BadId | None:
    """What is wrong with the first id in the path that is none; their pattern is in the document for clients."""
    for name, raw in request.path_params.items():
        if name in _IDS:
            try:
                parse_id(str(raw), _SHOWN.get(name, name))
            except errors.BadId as error:
                return error
    return None


def _methods(request: AnyRequest) -> list[str]:
    """The methods that the path of a request takes."""
    asked = request.url.path.rstrip("/").split("/")
    found: dict[bool, set[str]] = {True: set(), False: set()}  # by whether the path is exactly that of the route
    for route in request.app.routes:
        known = route.path_format.split("/")
        if len(known) == len(asked) and all(k.startswith("{") or k == a for k, a in zip(known, asked, strict=True)):
            found[known == asked].update(getattr(route, "methods", ()))
    return sorted(found[True] or found[False])


def _explain(error: HTTPException) -> str:
    extra = [part for part in error.extra if isinstance(part, dict)] if isinstance(error.extra, list) else []
    if any(part.get("message") == "'data'" for part in extra) or "data" in error.detail.split("'"):
        return "this takes a JSON body, and none was sent; see /docs"
    parts = [f"{_SHOWN.get(part.get('key', ''), part.get('key', 'body'))}: {part.get('message')}" for part in extra]
    return f"the request is not what this takes (see /docs): {'; '.join(parts) or error.detail}"


def _fail(request: AnyRequest, error: Exception) -> Response[bytes]:
    return _refuse(request, unexpected(error, request.url.path))


_REFUSALS: dict[type[Exception], Callable[[AnyRequest, Any], Response[bytes]]] = {
    errors.KithError: _refuse,
    HTTPException: _refuse_framework,
    RecursionError: _refuse_body,
    UnicodeDecodeError: _refuse_body,
    Exception: _fail,
}
"""How each kind of error leaves the app."""
