"""One request and its answer, over an HTTP/1.1 connection."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from kith.core.errors import BadRequest, BodyTooLarge, KithError
from kith.http.headers import Headers, Pairs

JSON: Pairs = [("content-type", "application/json")]
"""The headers of nearly every answer; their bytes are prepared."""
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_JSON_LINES = {status: line + b"content-type: application/json\r\n" for status, line in _STATUS_LINES.items()}
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}
_BODILESS = frozenset((204, 304))
_FILE_CHUNK_BYTES = 1 << 18
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_QUEUED = struct.Struct("i")


class Wire(Protocol):
    """The connection, as its exchanges see it. `socket`: its file descriptor until it is closed. `draining`: it takes
    no further request after this one. `last_lines`: the last lines of every answer's head.
    """

    socket: int | None
    closed: bool
    draining: bool

    @property
    def last_lines(self) -> bytes: ...
    def write(self, raw: bytes) -> None: ...
    def unsent(self) -> int: ...
    async def wait_for_room(self) -> None: ...
    async def wait_for_disconnect(self) -> None: ...
    def consumed(self, size: int) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Exchange:
    """One request, answered once by `respond`, `respond_file` or `stream`.

    `path` is percent-decoded except %2F; `query_string` is as it was sent. `added`: headers for the answer, whatever it
    is.
    """

    __slots__ = (
        "_chunks", "_connection", "_failure", "_waiter", "added", "answered", "complete", "headers", "method", "path",
        "persistent", "query_string", "version",
    )  # fmt: skip

    def __init__(self, connection: Wire, headers: Headers | None = None) -> None:
        self._connection = connection
        self.headers = Headers() if headers is None else headers
        self.added: Pairs = []
        self.method = self.path = self.query_string = ""
        self.version = "1.1"
        self.persistent = True  # whether the connection can take another request after this one
        self.complete = False  # whether the whole request has arrived
        self.answered = False
        self._chunks: list[bytes] = []  # of the body, not read yet
        self._waiter: asyncio.Future[None] | None = None
        self._failure: KithError | None = None  # why the rest of the body will not arrive

    @classmethod
    def of_get(cls, connection: Wire, target: bytes, headers: Headers) -> Exchange:
        """A complete HTTP/1.1 GET with a plain target."""
        exchange = cls(connection, headers)
        exchange.method, exchange.complete = "GET", True
        exchange.path, _, exchange.query_string = target.decode().partition("?")
        return exchange

    # Called by the connection as the request arrives.

    def begin(self, method: bytes, target: bytes, version: str, persistent: bool) -> None:
        """The head arrived. BadRequest if its target is not a path."""
        self.method, self.version, self.persistent = _METHODS.get(method) or method.decode(), version, persistent
        if not target.isascii():
            raise BadRequest("the address of a request is ASCII; write other letters as %XX of their UTF-8")
        if version != "1.1":
            if version != "1.0":
                raise BadRequest(f"this is HTTP/{version}; send HTTP/1.1")
            if "transfer-encoding" in self.headers:  # not part of 1.0: a proxy may see the end of the request elsewhere
                self.persistent = False
        self._refuse_codings()
        text = target.decode()
        if not text.startswith("/"):  # http://host/path, the form for proxies
            scheme, mark, location = text.partition("://")
            if not (scheme and mark):
                raise BadRequest("the address of a request begins with /; see /docs")
            place, query_mark, query = location.partition("?")
            text = f"/{place.partition('/')[2]}{query_mark}{query}"
        path, _, self.query_string = text.partition("?")
        self.path = _decoded(path) if "%" in path else path

    def _refuse_codings(self) -> None:
        """BadRequest if the body is compressed or otherwise encoded, which is not supported."""
        for name, plain in (("transfer-encoding", "chunked"), ("content-encoding", "identity")):
            coding = self.headers.single(name)
            if coding is not None and coding.strip().lower() != plain:
                raise BadRequest(f"{name} is {coding[:40]!r}, which is not supported; send the body without it")

    def head(self, target: bytes) -> bytes:
        """The head as bytes again, without the offer of another protocol."""
        request_line = b"%b %b HTTP/%b" % (self.method.encode(), target, self.version.encode())
        return b"\r\n".join([request_line, *self.headers.lines(without=b"upgrade"), b"", b""])

    def arrived(self, chunk: bytes) -> None:
        """A part of the body arrived."""
        self._chunks.append(chunk)
        self._wake()

    def end(self) -> None:
        """The whole body arrived."""
        self.complete = True
        if self._waiter is not None:
            self._wake()

    def fail(self, why: KithError) -> None:
        """The rest of the body will not arrive."""
        self._failure = self._failure or why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Reading.

    async def body(self, bytes_max: int) -> bytes:
        """The whole body. BodyTooLarge as soon as its size is known; BadRequest if the connection ends first."""
        if not self.complete:
            return b"".join([chunk async for chunk in self.chunks(bytes_max)])
        whole = self.take()
        if len(whole) > bytes_max:
            raise _too_large(bytes_max)
        return whole

    async def chunks(self, bytes_max: int) -> AsyncIterator[bytes]:
        """The body in chunks as they arrive. Errors as for `body`."""
        declared, size = self.headers.get("content-length"), 0
        if declared is not None and declared.isdigit() and int(declared.lstrip("0") or "0") > bytes_max:
            raise _too_large(bytes_max)
        expected = self.headers.get("expect") or ""
        if expected.lower() == "100-continue" and self.version == "1.1" and not (self.complete or self._chunks):
            self._connection.write(_CONTINUE)
        while (chunk := await self._read()) is not None:
            size += len(chunk)
            if size > bytes_max:
                raise _too_large(bytes_max)
            yield chunk

    async def _read(self) -> bytes | None:
        """The part of the body that arrived since the last call, or the next one; None at its end."""
        while not self._chunks:
            if self.complete:
                return None
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def take(self) -> bytes:
        """The part of the body that arrived and was not read yet; may be empty."""
        if not self._chunks:
            return b""
        chunks, self._chunks = self._chunks, []
        part = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._connection.consumed(len(part))
        return part

    async def disconnected(self) -> None:
        """Wait until the client disconnects or the answer ends."""
        await self._connection.wait_for_disconnect()

    # Answering.

    def respond(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send an answer with this body."""
        head = self._head(status, headers, len(body))
        self._connection.write(head if self.method == "HEAD" or status in _BODILESS else head + body)

    async def respond_file(self, status: int, headers: Pairs, file: Path, start: int, end: int) -> None:
        """Send the bytes of a file from `start` to `end`, as fast as the client reads them. OSError, before anything is
        sent, if the file cannot be read. If the file is shorter than expected, the answer is cut off.
        """
        with await asyncio.to_thread(file.open, "rb", buffering=0) as content:
            self._connection.write(self._head(status, headers, end - start))
            if self.method == "HEAD":
                return
            content.seek(start)
            while start < end and not self._connection.closed:
                chunk = await asyncio.to_thread(content.read, min(_FILE_CHUNK_BYTES, end - start))
                if not chunk:
                    self._connection.abort()
                    return
                start += len(chunk)
                self._connection.write(chunk)
                await self._connection.wait_for_room()

    def stream(self, status: int, headers: Pairs) -> Outgoing:
        """Begin an answer of unknown length. The connection closes after it."""
        self.persistent = False
        is_chunked = self.version == "1.1"
        self._connection.write(self._head(status, headers, None))
        return Outgoing(self._connection, is_chunked)

    def _head(self, status: int, headers: Pairs, size: int | None) -> bytes:
        """The head of the answer. `size`: of its body in bytes; None if unknown."""
        if self.answered:
            raise RuntimeError("a request is answered once")
        self.answered = True
        if not self.complete or self._connection.draining:
            self.persistent = False
        head = _JSON_LINES[status] if headers is JSON else _STATUS_LINES[status] + _lines(headers)
        if self.added:
            head += _lines(self.added)
        if size is None:
            if self.version == "1.1":
                head += b"transfer-encoding: chunked\r\n"
        elif status not in _BODILESS:
            head += b"content-length: %d\r\n" % size
        if not self.persistent:
            head += b"connection: close\r\n"
        elif self.version != "1.1":
            head += b"connection: keep-alive\r\n"
        return head + self._connection.last_lines


Serve = Callable[[Exchange], Awaitable[None]]
"""Answers one request."""


class Outgoing:
    """An answer of unknown length: more can be sent until it ends."""

    __slots__ = ("_connection", "_is_chunked")

    def __init__(self, connection: Wire, is_chunked: bool) -> None:
        self._connection, self._is_chunked = connection, is_chunked

    @property
    def closed(self) -> bool:
        """Whether the client has disconnected; what is sent then is lost."""
        return self._connection.closed

    def send(self, raw: bytes) -> None:
        """Send bytes. They wait in this process while the client does not read."""
        if raw:
            self._connection.write(b"%x\r\n%b\r\n" % (len(raw), raw) if self._is_chunked else raw)

    def unsent(self) -> int:
        """Bytes sent that the client's machine has not acknowledged: those in this process and in the kernel."""
        handle = self._connection.socket
        if handle is None:
            return 0
        try:
            queued: int = _QUEUED.unpack(fcntl.ioctl(handle, termios.TIOCOUTQ, bytes(_QUEUED.size)))[0]
        except OSError:  # closed meanwhile, or the system does not support it
            queued = 0
        return queued + self._connection.unsent()

    def end(self) -> None:
        """End the answer and the connection."""
        if self._is_chunked:
            self._connection.write(b"0\r\n\r\n")
        self._connection.finish()

    def cut(self) -> None:
        """Close the connection at once, without sending what waits."""
        self._connection.abort()


def _lines(headers: Pairs) -> bytes:
    """Headers as lines. ValueError if one contains a line break."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise ValueError("a header of an answer has a line break in it")
    return text.encode("latin-1")


def _decoded(path: str) -> str:
    """A path, percent-decoded except %2F, so that a proxy that filters paths sees the same segments."""
    return unquote(path.replace("%2F", "%252F").replace("%2f", "%252f"), errors="replace")


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {bytes_max} bytes; send less at a time", max=bytes_max)
