"""Hands an RSGI request to an ASGI app (Litestar). Bodies are bounded before they get there.

Every request has a deadline. An upload has a later one, and its body goes on as it comes. Files are sent by granian
(the `pathsend` extension of ASGI, with a `start` and an `end`): what Python streams to a slow reader, granian 2.8 keeps
in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from kith.api.backend import Backend
from kith.api.errors import respond, status_of, unexpected
from kith.api.fast import UNREADABLE, Exchange, Scope, body_chunks, read_body
from kith.api.media import UPLOAD_PATH
from kith.core.errors import KithError, TimedOut

_READ_ON_BYTES, _READ_ON_S = 1 << 20, 1.0


class Bridge:
    """Serves an ASGI app, its lifespan included."""

    def __init__(self, app: Any, backend: Backend) -> None:
        self._app, self._backend = app, backend

    async def __call__(self, scope: Scope, exchange: Exchange) -> None:
        """Answer one request through the app, in bounded time, and count it."""
        started, bounds = time.perf_counter(), self._backend.bounds
        upload = scope.path == UPLOAD_PATH and scope.method == "POST"
        chunks = body_chunks(scope, exchange, bounds.upload_bytes_max) if upload else None
        request, send = _asgi(scope), _Send(exchange, chunks)
        try:
            async with asyncio.timeout(bounds.upload_timeout_s if upload else bounds.timeout_s):
                if chunks is not None:
                    receive = _receive_parts(chunks, exchange)
                else:
                    receive = _receive(await read_body(scope, exchange, bounds.body_bytes_max), exchange)
                await self._app(request, receive, send)
        except KithError as error:
            send.refuse(error)
        except TimeoutError:
            setting = "upload_timeout_ms" if upload else "request_timeout_ms"
            send.refuse(TimedOut(f"this took longer than `{setting}`; ask for less, or try again"))
        except Exception as error:  # the app answers its own errors; this is one of how it does
            send.refuse(unexpected(error, scope.path))
        handler = request.get("route_handler")
        self._backend.metrics.observe(getattr(handler, "name", None) or "unmatched", started, send.status)


def _asgi(scope: Scope) -> dict[str, Any]:
    """The request as ASGI describes it."""
    raw_path = scope.path.encode("utf-8", "surrogateescape")
    host, _, port = scope.client.rpartition(":")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": scope.http_version,
        "method": "GET" if scope.method == "HEAD" else scope.method,  # granian leaves the body out
        "scheme": scope.scheme,
        "path": scope.path,
        "raw_path": raw_path,
        "query_string": scope.query_string.encode("latin-1", "replace"),
        "root_path": "",
        "headers": _headers(scope),
        "client": (host, int(port)) if port.isdigit() else None,
        "server": ("kith", 80),  # stands for the Host header in addresses; see `_headers`
        "state": {},
    }


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """All headers but Host: the app would make addresses of it, which fails where it is none, and needs none.

    granian leaves those out that are not ASCII, so they are put back as unreadable.
    """
    sent = ((name, value) for name, value in scope.headers.items() if name != "host")
    shown = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent]
    names = {b"host", *(name for name, _ in shown)}
    hidden = [name for key in scope.headers.keys() if (name := key.encode("latin-1")) not in names]  # noqa: SIM118
    return [*shown, *((name, UNREADABLE.encode()) for name in hidden)]


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


def _receive_parts(chunks: AsyncIterator[bytes], exchange: Exchange) -> Any:
    """The body as it comes."""
    whole = False

    async def receive() -> dict[str, Any]:
        nonlocal whole
        if not whole:
            chunk = await anext(chunks, None)
            whole = chunk is None
            return {"type": "http.request", "body": chunk or b"", "more_body": not whole}
        with contextlib.suppress(asyncio.CancelledError):
            await exchange.client_disconnect()
        return {"type": "http.disconnect"}

    return receive


class _Send:
    """Collects a whole answer, or streams one that comes in parts. `unread`: what the app may leave of the body."""

    def __init__(self, exchange: Exchange, unread: AsyncIterator[bytes] | None) -> None:
        self._exchange, self._unread = exchange, unread
        self.status = 500
        self._headers: list[tuple[str, str]] = []
        self._stream: Any = None
        self._answered = False

    def refuse(self, error: KithError) -> None:
        """Answer with an error, unless an answer is already on its way."""
        if not self._answered and self._stream is None:
            self.status = status_of(error)
            self._exchange.response_bytes(*respond(error))

    async def _read_on(self) -> None:
        """Take in the rest of a body that is nearly there; answered before, the connection would break, and the answer
        be lost with it.
        """
        left = _READ_ON_BYTES
        with contextlib.suppress(KithError, TimeoutError):
            async with asyncio.timeout(_READ_ON_S):
                while self._unread is not None and left > 0 and (chunk := await anext(self._unread, None)) is not None:
                    left -= len(chunk)

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in message["headers"]]
        elif message["type"] == "http.response.pathsend":
            self._answered, path, end = True, message["path"], message["end"]
            self._exchange.response_file_range(self.status, self._headers, path, message["start"], end)
        elif message["type"] == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            if self._stream is None and not more:
                await self._read_on()
                self._answered = True
                self._exchange.response_bytes(self.status, self._headers, bytes(body))
                return
            if self._stream is None:
                self._stream = self._exchange.response_stream(self.status, self._headers)
            if body:
                await self._stream.send_bytes(bytes(body))
