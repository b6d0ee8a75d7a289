"""Answers probes of a worker: GET /healthz, /readyz and /metrics, on their own port.

An API process answers these at its door. A worker has no other requests, so a minimal HTTP server does. A request that
is not answered within PATIENCE_S is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from kith.core.errors import KithError
from kith.http.sockets import listen_on

PATIENCE_S = 5.0
_HEAD_BYTES_MAX = 8_192
_UNAVAILABLE, _PROMETHEUS = "503 Service Unavailable", "text/plain; version=0.0.4; charset=utf-8"


@contextlib.asynccontextmanager
async def serve_probes(
    host: str, port: int, is_ready: Callable[[], bool], metrics: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[None]:
    """Answer probes while the context is open. Errors: Unavailable where another program uses the port.

    `metrics`: renders the counts for Prometheus.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(head, is_ready, metrics))
                await writer.drain()
        writer.close()

    accepting = listen_on(host, port, port_option="--probe-port")
    server = await asyncio.start_server(answer, sock=accepting, limit=_HEAD_BYTES_MAX)
    try:
        yield
    finally:
        server.close()


async def _answer(head: bytes, is_ready: Callable[[], bool], metrics: Callable[[], Awaitable[bytes]]) -> bytes:
    method, _, target = head.partition(b" ")
    path = target.partition(b" ")[0].partition(b"?")[0]
    kind, status = "application/json", "200 OK"
    if method == b"GET" and path == b"/healthz":
        body = b'{"status":"ok"}'
    elif method == b"GET" and path == b"/readyz":
        status, body = ("200 OK", b'{"status":"ready"}') if is_ready() else (_UNAVAILABLE, b'{"status":"not ready"}')
    elif method == b"GET" and path == b"/metrics":
        try:
            kind, body = _PROMETHEUS, await metrics()
        except KithError:  # a store does not answer
            status, body = _UNAVAILABLE, b'{"status":"away"}'
    else:
        status, body = "404 Not Found", b'{"status":"not found"}'
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body
