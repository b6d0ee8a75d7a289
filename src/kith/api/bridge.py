"""Hands an RSGI request to an ASGI app (Litestar). Bodies are bounded before they get there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import unquote_to_bytes

from kith.api.errors import respond
from kith.api.fast import Exchange, Scope, read_body
from kith.core.errors import KithError


class Bridge:
    """Serves an ASGI app, its lifespan included."""

    def __init__(self, app: Any, body_bytes_max: int) -> None:
        self._app, self._body_bytes_max = app, body_bytes_max

    async def __call__(self, scope: Scope, exchange: Exchange) -> None:
        """Answer one request through the app."""
        try:
            body = await read_body(scope, exchange, self._body_bytes_max)
        except KithError as error:
            exchange.response_bytes(*respond(error))
            return
        await self._app(_asgi(scope), _receive(body, exchange), _Send(exchange))


def _asgi(scope: Scope) -> dict[str, Any]:
    """The request as ASGI describes it."""
    raw_path = scope.path.encode("utf-8", "surrogateescape")
    host, _, port = scope.client.rpartition(":")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": scope.http_version,
        "method": scope.method,
        "scheme": scope.scheme,
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": scope.query_string.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in scope.headers.items()],
        "client": (host, int(port)) if port.isdigit() else None,
        "server": None,
        "state": {},
    }


def _receive(body: bytes, exchange: Exchange) -> Any:
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        with contextlib.suppress(asyncio.CancelledError):
            await exchange.client_disconnect()
        return {"type": "http.disconnect"}

    return receive


class _Send:
    """Collects a whole answer, or streams one that comes in parts."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        self._stream: Any = None

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in message["headers"]]
        elif message["type"] == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            if self._stream is None and not more:
                self._exchange.response_bytes(self._status, self._headers, bytes(body))
                return
            if self._stream is None:
                self._stream = self._exchange.response_stream(self._status, self._headers)
            if body:
                await self._stream.send_bytes(bytes(body))
