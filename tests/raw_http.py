"""Sends raw bytes as requests, which client libraries would refuse to send."""

from __future__ import annotations

import socket

from servers import KEY, Server


def raw(server: Server, request: bytes, *, timeout: float = 5.0) -> tuple[int, bytes]:
    """Send bytes; returns status and body of the first answer, or (0, b"") if the connection closes without one."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as connection:
        connection.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received or len(received.partition(b"\r\n\r\n")[2]) < _length(received):
            chunk = connection.recv(65_536)
            if not chunk:
                break
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def _length(received: bytes) -> int:
    for line in received.partition(b"\r\n\r\n")[0].lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def plain(method: str, path: str, *headers: bytes, body: bytes = b"", key: str | None = KEY) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: kith", *headers]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}".encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
