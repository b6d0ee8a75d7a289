"""The Litestar app: every route, its OpenAPI document, and how errors leave it."""

from __future__ import annotations

from typing import Any

import structlog
from litestar import Litestar, MediaType, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from kith import __version__
from kith.api import docs, graphs, users
from kith.api.answers import Call
from kith.api.backend import Backend
from kith.api.errors import respond
from kith.api.fast import TOKEN_HEADER
from kith.core import errors

_ERRORS_BY_STATUS: dict[int, type[errors.KithError]] = {
    401: errors.Unauthorized,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    413: errors.BodyTooLarge,
}
_READS = frozenset({"check", "check_many", "select", "select_count", "relationships"})
_log = structlog.get_logger("kith.api")
AnyRequest = Request[Any, Any, Any]


def build(backend: Backend) -> Litestar:
    """The app over a wired backend."""

    def call(request: AnyRequest) -> Call:
        _check_query(request)
        headers = request.headers
        caller = backend.guard.caller(headers.get("authorization"), headers.get("x-kith-user"))
        reading = request.method == "GET" or request.route_handler.name in _READS
        backend.guard.admit(caller, write=not reading)
        token = headers.get(TOKEN_HEADER)
        if token is not None:
            backend.catch_up(token)
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

    api = Router(
        "/api/v1",
        route_handlers=[*graphs.ROUTES, *users.ROUTES],
        dependencies={"call": Provide(call, sync_to_thread=False)},
    )
    return Litestar(
        route_handlers=[api, healthz, readyz, metrics, docs_page, openapi],
        exception_handlers={errors.KithError: _refuse, HTTPException: _refuse_framework, Exception: _fail},
        openapi_config=OpenAPIConfig(
            title="Kith",
            version=__version__,
            description="The follow graph as a service. Ids, positions and updatedAt are strings in answers.",
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
    known = {getattr(field.kwarg_definition, "query", None) or name for name, field in parameters.items()}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise errors.BadRequest(f"unknown query parameter: {', '.join(unknown)}; see /docs", unknown=unknown)


def _refuse(_: AnyRequest, error: errors.KithError) -> Response[bytes]:
    status, headers, body = respond(error)
    return Response(body, status_code=status, headers=dict(headers), media_type=MediaType.JSON)


def _refuse_framework(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    if error.status_code >= 500:
        return _fail(request, error)
    kind = _ERRORS_BY_STATUS.get(error.status_code, errors.BadRequest)
    if kind is errors.NotFound:
        message = f"there is nothing at {request.url.path}; see /docs"
    elif kind is errors.MethodNotAllowed:
        message = f"{request.method} is not possible at {request.url.path}; see /docs"
    else:
        message = _explain(error)
    return _refuse(request, kind(message))


def _explain(error: HTTPException) -> str:
    extra = error.extra if isinstance(error.extra, list) else []
    parts = [f"{part.get('key', 'body')}: {part.get('message')}" for part in extra if isinstance(part, dict)]
    return "the request is not what this takes: " + ("; ".join(parts) or error.detail)


def _fail(request: AnyRequest, error: Exception) -> Response[bytes]:
    _log.error("unexpected error", path=request.url.path, exc_info=error)
    return _refuse(request, errors.KithError("something went wrong here; the server's log says what"))
