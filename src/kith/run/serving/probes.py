"""Probes of a worker: GET /healthz and /readyz, on a port of their own.

An API process answers these itself. Here it is a few lines, as a worker has no other requests: one that cannot be
answered within PATIENCE_S is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from kith.core.errors import Unavailable

PATIENCE_S = 5.0
_HEAD_BYTES_MAX = 8_192


@contextlib.asynccontextmanager
async def answered(host: str, port: int, is_ready: Callable[[], bool]) -> AsyncIterator[None]:
    """Answer probes while the context is open. Unavailable where another program has the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, is_ready))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=_HEAD_BYTES_MAX)
    except OSError as error:
        raise Unavailable(f"cannot answer probes on {host}:{port} ({error.strerror}); name another port") from error
    try:
        yield
    finally:
        server.close()


def _answer(head: bytes, is_ready: Callable[[], bool]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET" or path not in (b"/healthz", b"/readyz"):
        status, body = "404 Not Found", b'{"status":"not found"}'
    elif path == b"/healthz":
        status, body = "200 OK", b'{"status":"ok"}'
    elif is_ready():
        status, body = "200 OK", b'{"status":"ready"}'
    else:
        status, body = "503 Service Unavailable", b'{"status":"not ready"}'
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body
