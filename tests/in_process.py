"""The API without a server: an httpx transport that hands requests to a door as granian would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import httpx

from kith.api.exchange import Serve


class Headers(dict[str, str]):
    """Headers of a request, each sent once."""

    def get_all(self, key: str) -> list[str]:
        return [self[key]] if key in self else []


class Exchange:
    """One request's body, and the answer to it."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.answer: tuple[int, list[tuple[str, str]], bytes] | None = None

    async def __call__(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.answer = (status, headers, body)


class InProcess(httpx.AsyncBaseTransport):
    """Sends requests to a door."""

    def __init__(self, door: Serve) -> None:
        self._door = door

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = Exchange(await request.aread())
        await self._door(cast(Any, scope_of(request)), cast(Any, exchange))
        assert exchange.answer is not None
        status, headers, body = exchange.answer
        return httpx.Response(status, headers=headers, content=body)


def scope_of(request: httpx.Request) -> SimpleNamespace:
    """A request as granian tells of it."""
    return SimpleNamespace(
        proto="http", http_version="1.1", client="127.0.0.1:1", server="127.0.0.1:80", scheme=request.url.scheme,
        method=request.method, path=unquote(request.url.path), query_string=request.url.query.decode(),
        headers=Headers(request.headers),
    )  # fmt: skip


def client_of(door: Serve, **headers: str) -> httpx.AsyncClient:
    """A client of a door, which sends these headers."""
    return httpx.AsyncClient(transport=InProcess(door), base_url="http://kith", headers=headers)
