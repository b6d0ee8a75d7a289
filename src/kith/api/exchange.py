"""One request and its answer as granian's RSGI hands them over, and how a body comes in within bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from kith.core.errors import BadRequest, BodyTooLarge, KithError

UNREADABLE = "\x7f"
"""Stands for a header's value that is no text; nothing accepts it."""
Pairs = list[tuple[str, str]]
"""Headers of an answer."""
_DRAIN_BYTES_MAX, _DRAIN_S = 1 << 20, 1.0


class Headers(Protocol):
    """Request headers, by lower-case name."""

    def __contains__(self, key: str) -> bool: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def get_all(self, key: str) -> list[str]: ...
    def items(self) -> list[tuple[str, str]]: ...
    def keys(self) -> list[str]: ...


class Scope(Protocol):
    """What granian tells of a request. `path` is percent-decoded."""

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

    async def __call__(self) -> bytes: ...
    def __aiter__(self) -> Any: ...
    async def client_disconnect(self) -> None: ...
    def response_bytes(self, status: int, headers: Pairs, body: bytes) -> None: ...
    def response_file_range(self, status: int, headers: Pairs, file: str, start: int, end: int) -> None: ...
    def response_stream(self, status: int, headers: Pairs) -> Any: ...


Serve = Callable[[Scope, Exchange], Awaitable[None]]
"""Answers one request."""


class Added:
    """An exchange whose answer carries some headers more."""

    __slots__ = ("_added", "_exchange")

    def __init__(self, exchange: Exchange, added: Pairs) -> None:
        self._exchange, self._added = exchange, added

    async def __call__(self) -> bytes:
        return await self._exchange()

    def __aiter__(self) -> Any:
        return self._exchange.__aiter__()

    async def client_disconnect(self) -> None:
        await self._exchange.client_disconnect()

    def response_bytes(self, status: int, headers: Pairs, body: bytes) -> None:
        self._exchange.response_bytes(status, [*headers, *self._added], body)

    def response_file_range(self, status: int, headers: Pairs, file: str, start: int, end: int) -> None:
        self._exchange.response_file_range(status, [*headers, *self._added], file, start, end)

    def response_stream(self, status: int, headers: Pairs) -> Any:
        return self._exchange.response_stream(status, [*headers, *self._added])


def read_header(headers: Headers, name: str) -> str | None:
    """A header's value, None if it was not sent; one that is not ASCII becomes UNREADABLE, so it is not overlooked."""
    value = headers.get(name)
    if value is None and name in headers:
        return UNREADABLE
    return None if value is None else str(value)


def read_single(headers: Headers, name: str) -> str | None:
    """As `read_header`, of one that says who asks; BadRequest if it was sent twice: which of both is meant?"""
    values = headers.get_all(name)
    if len(values) > 1:
        raise BadRequest(f"{name} was sent {len(values)} times; send it once, and have no proxy add another")
    if not values:
        return UNREADABLE if name in headers else None
    return values[0]


async def read_body(scope: Scope, exchange: Exchange, bytes_max: int) -> bytes:
    """The request's body; BodyTooLarge as soon as it is known to be.

    One of a declared length, which the server holds it to, is waited for once, and not for each chunk and the end. Of
    HTTP/1.1, which alone is served, a request that declares none has no body.
    """
    headers = scope.headers
    declared, is_chunked = headers.get("content-length"), "transfer-encoding" in headers
    if declared is None and not is_chunked:
        return b""
    if declared is None or not declared.isdigit() or int(declared) > bytes_max or is_chunked:
        return b"".join([chunk async for chunk in body_chunks(scope, exchange, bytes_max)])
    try:
        return await exchange()
    except RuntimeError as error:  # granian's: ProtocolClosed, ProtocolError
        raise BadRequest("the connection ended before the body did; send it whole") from error


async def body_chunks(scope: Scope, exchange: Exchange, bytes_max: int) -> AsyncIterator[bytes]:
    """The request's body as it comes; BodyTooLarge as soon as it is known to be."""
    declared = scope.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(bytes_max)
    size = 0
    async for chunk in exchange:
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(bytes_max)
        yield chunk


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {bytes_max} bytes; send less at a time", max=bytes_max)


async def drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of a body that is nearly there.

    If it were answered before, the connection would break, and the answer be lost with it.
    """
    left = _DRAIN_BYTES_MAX
    with contextlib.suppress(KithError, TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while left > 0 and (chunk := await anext(chunks, None)) is not None:
                left -= len(chunk)
