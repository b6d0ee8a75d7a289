"""The hot routes without a framework, and the front door for all others.

RSGI is granian's own interface: the request comes from Rust, one call answers it. Measured against ASGI and
frameworks in docs/decisions/0002. What is not hot goes through `bridge` to Litestar.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from kith.access.guard import Caller
from kith.api.backend import TOKEN_HEADER, Backend
from kith.api.errors import respond, unexpected
from kith.api.feed import FEED, Asked, answer_plain, read_plain
from kith.api.operations import RELATIONS, check, check_many, relate, write_edges
from kith.api.stream import PATH as STREAM
from kith.api.stream import Streams
from kith.core.errors import BodyTooLarge, KithError, TimedOut
from kith.core.ids import parse_id

_JSON = [("content-type", "application/json")]
_PREFIX = "/api/v1/"
UNREADABLE = "\x7f"
"""Stands for a header's value that is no text; nothing accepts it."""


class Headers(Protocol):
    """Request headers, by lower-case name."""

    def __contains__(self, key: str) -> bool: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def items(self) -> list[tuple[str, str]]: ...
    def keys(self) -> list[str]: ...


class Scope(Protocol):
    """What granian tells of a request."""

    proto: str
    http_version: str
    client: str
    server: str
    scheme: str
    method: str
    path: str
    query_string: str

    @property
    def headers(self) -> Headers: ...


class Exchange(Protocol):
    """One request's body, and its answer."""

    def __aiter__(self) -> Any: ...
    async def client_disconnect(self) -> None: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_file_range(
        self, status: int, headers: list[tuple[str, str]], file: str, start: int, end: int
    ) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Any: ...


class FrontDoor:
    """Answers hot routes; hands everything else on."""

    def __init__(self, backend: Backend, others: Callable[[Scope, Exchange], Awaitable[None]]) -> None:
        self._backend, self._others = backend, others
        self._streams = Streams(backend)

    def close(self) -> None:
        """End what would not end by itself: this process stops."""
        self._streams.close()

    async def __call__(self, scope: Scope, exchange: Exchange) -> None:
        """Answer one request."""
        started = time.perf_counter()
        path = scope.path
        parts = path.split("/") if path.startswith(_PREFIX) and not scope.query_string else []
        method = scope.method
        if len(parts) == 7 and method == "GET" and parts[3] == "graph" and parts[6].isdigit():
            await self._check(scope, exchange, started, parts)
        elif len(parts) == 6 and method == "POST" and parts[3] == "graph" and parts[5] in ("check", "edges"):
            name = "check_many" if parts[5] == "check" else "write_edges"
            await self._slow(scope, exchange, started, name, name == "write_edges", parts)
        elif len(parts) == 6 and parts[3] == "users" and (method, parts[5]) in RELATIONS:
            await self._slow(scope, exchange, started, "un" * (method == "DELETE") + parts[5], True, parts)
        elif method == "GET" and path == FEED and (asked := read_plain(scope.query_string)) is not None:
            await self._slow(scope, exchange, started, "feed", False, parts, asked)
        elif method == "GET" and path == STREAM:
            await self._streams.serve(scope, exchange, partial(read_header, scope.headers))
        else:
            await self._others(scope, exchange)

    async def _check(self, scope: Scope, exchange: Exchange, started: float, parts: list[str]) -> None:
        """The single check: no body, no timeout to arm, one lookup."""
        backend, status = self._backend, 200
        try:
            caller = self._admit(scope, write=False)
            source, destination = parse_id(parts[5], "source"), parse_id(parts[6], "destination")
            body = await check(backend, caller, parts[4], source, destination)
            exchange.response_bytes(200, _JSON, body)
        except KithError as error:
            status = _refuse(exchange, error)
        except Exception as error:
            status = _refuse(exchange, unexpected(error, "check"))
        backend.metrics.observe("check", started, status)

    async def _slow(
        self,
        scope: Scope,
        exchange: Exchange,
        started: float,
        name: str,
        write: bool,
        parts: list[str],
        asked: Asked | None = None,
    ) -> None:
        """The hot routes that have a body, write, or read more than a row."""
        backend, status = self._backend, 200
        try:
            caller = self._admit(scope, write=write)
            async with asyncio.timeout(backend.bounds.timeout_s):
                token: str | None = None
                if name == "check_many":
                    body = await check_many(backend, caller, parts[4], await self._body(scope, exchange))
                elif asked is not None:
                    body = await answer_plain(backend, caller, asked, partial(read_header, scope.headers))
                elif name == "write_edges":
                    body, token = await write_edges(backend, caller, parts[4], await self._body(scope, exchange))
                else:
                    body, token = await relate(backend, caller, scope.method, parts[5], parse_id(parts[4]))
            exchange.response_bytes(200, [*_JSON, (TOKEN_HEADER, token)] if token else _JSON, body)
        except KithError as error:
            status = _refuse(exchange, error)
        except TimeoutError:
            status = _refuse(exchange, TimedOut("this took longer than `request_timeout_ms`; repeat it, that is safe"))
        except Exception as error:
            status = _refuse(exchange, unexpected(error, name))
        backend.metrics.observe(name.replace("-", "_"), started, status)

    def _admit(self, scope: Scope, *, write: bool) -> Caller:
        return self._backend.admit(partial(read_header, scope.headers), write=write)

    async def _body(self, scope: Scope, exchange: Exchange) -> bytes:
        return await read_body(scope, exchange, self._backend.bounds.body_bytes_max)


def read_header(headers: Headers, name: str) -> str | None:
    """A header's value, None if it was not sent; one that is not ASCII becomes UNREADABLE, so it is not overlooked."""
    value = headers.get(name)
    if value is None and name in headers:
        return UNREADABLE
    return None if value is None else str(value)


async def read_body(scope: Scope, exchange: Exchange, bytes_max: int) -> bytes:
    """The request's body; BodyTooLarge as soon as it is known to be."""
    return b"".join([chunk async for chunk in body_chunks(scope, exchange, bytes_max)])


async def body_chunks(scope: Scope, exchange: Exchange, bytes_max: int) -> AsyncIterator[bytes]:
    """The request's body as it comes; BodyTooLarge as soon as it is known to be."""
    declared = scope.headers.get("content-length")
    too_large = BodyTooLarge(f"the body has more than {bytes_max} bytes; send less at a time", max=bytes_max)
    if declared is not None and declared.isdigit() and int(declared) > bytes_max:
        raise too_large
    size = 0
    async for chunk in exchange:
        size += len(chunk)
        if size > bytes_max:
            raise too_large
        yield chunk


def _refuse(exchange: Exchange, error: KithError) -> int:
    status, headers, body = respond(error)
    exchange.response_bytes(status, headers, body)
    return status
