"""The API without a server: an httpx transport that passes requests to a door, as a connection does."""

from __future__ import annotations

from typing import Any, cast

import httpx

from kith.http.exchange import Exchange, Serve
from kith.http.headers import Pairs


class FakeConnection:
    """Stands for a connection; flow control does nothing."""

    draining = False

    def consumed(self, size: int) -> None: ...


class InProcessRequest(Exchange):
    """A request that has arrived whole, and the answer to it."""

    __slots__ = ("answer",)

    def __init__(self, method: str, target: str, headers: Pairs = [], body: bytes = b"") -> None:  # noqa: B006
        super().__init__(cast(Any, FakeConnection()))
        for name, value in headers:
            self.headers.add(name.encode(), value.encode())
        self.begin(method.encode(), target.encode(), "1.1", True)
        if body:
            self.arrived(body)
        self.end()
        self.answer: tuple[int, Pairs, bytes] | None = None

    def respond(self, status: int, headers: Pairs, body: bytes) -> None:
        self.answer = (status, [*headers, *self.added], body)


class InProcess(httpx.AsyncBaseTransport):
    """An httpx transport that passes requests to a door."""

    def __init__(self, door: Serve) -> None:
        self._door = door

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        asked = InProcessRequest(request.method, request.url.raw_path.decode(), list(request.headers.items()), body)
        await self._door(asked)
        assert asked.answer is not None
        status, headers, content = asked.answer
        return httpx.Response(status, headers=headers, content=content)


def client_of(door: Serve, **headers: str) -> httpx.AsyncClient:
    """A client of a door. It sends these headers with each request."""
    return httpx.AsyncClient(transport=InProcess(door), base_url="http://kith", headers=headers)
