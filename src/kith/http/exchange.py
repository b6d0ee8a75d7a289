"""One request and its answer, over a connection of HTTP/1.1."""

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
"""The headers of nearly every answer, which are ready as bytes."""
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_JSON_LINES = {status: line + b"content-type: application/json\r\n" for status, line in _STATUS_LINES.items()}
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}
_BODILESS = frozenset((204, 304))
_FILE_CHUNK_BYTES = 1 << 18
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_QUEUED = struct.Struct("i")


class Wire(Protocol):
    """The connection, as a request and its answer know it. `socket`: its descriptor, until it is closed; `draining`:
    no other request is taken after this one; `last_lines`: the end of the head of every answer.
    """

    socket: int | None
    closed: bool
    draining: bool

    @property
    def last_lines(self) -> bytes: ...
    def write(self, raw: bytes) -> None: ...
    def unsent(self) -> int: ...
    async def wait_for_room(self) -> None: ...
    async def wait_until_gone(self) -> None: ...
    def taken(self, size: int) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Exchange:
    """One request, which is answered once by `respond`, `respond_file` or `stream`.

    `path` is percent-decoded but for %2F, `query_string` as it was sent. `added`: headers of whatever answer it gets.
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
        self.persistent = True  # whether the connection is good for another request after this one
        self.complete = False  # whether the whole request is here
        self.answered = False
        self._chunks: list[bytes] = []  # of the body, that nobody has read
        self._waiter: asyncio.Future[None] | None = None
        self._failure: KithError | None = None  # why the rest of the body does not come

    @classmethod
    def of_get(cls, connection: Wire, target: bytes, headers: Headers) -> Exchange:
        """A GET of HTTP/1.1 that is here whole, of a plain target."""
        exchange = cls(connection, headers)
        exchange.method, exchange.complete = "GET", True
        exchange.path, _, exchange.query_string = target.decode().partition("?")
        return exchange

    # What came, told by the connection.

    def begin(self, method: bytes, target: bytes, version: str, persistent: bool) -> None:
        """The head is here. BadRequest if its target is no path."""
        self.method, self.version, self.persistent = _METHODS.get(method) or method.decode(), version, persistent
        if not target.isascii():
            raise BadRequest("the address of a request is ASCII; write other letters as %XX of their UTF-8")
        if version != "1.1":
            if version != "1.0":
                raise BadRequest(f"this is HTTP/{version}; send HTTP/1.1")
            if "transfer-encoding" in self.headers:  # which 1.0 does not have: others may see its end elsewhere
                self.persistent = False
        self._refuse_codings()
        text = target.decode()
        if not text.startswith("/"):  # http://host/path, as a proxy is asked
            scheme, mark, rest = text.partition("://")
            if not (scheme and mark):
                raise BadRequest("the address of a request begins with /; see /docs")
            place, asked, query = rest.partition("?")
            text = f"/{place.partition('/')[2]}{asked}{query}"
        path, _, self.query_string = text.partition("?")
        self.path = _decoded(path) if "%" in path else path

    def _refuse_codings(self) -> None:
        """BadRequest if the body is packed, which nothing here unpacks."""
        for name, plain in (("transfer-encoding", "chunked"), ("content-encoding", "identity")):
            coding = self.headers.single(name)
            if coding is not None and coding.strip().lower() != plain:
                raise BadRequest(f"{name} is {coding[:40]!r}, and bodies are not unpacked here; send the body as it is")

    def head(self, target: bytes) -> bytes:
        """The head once more, without the offer of another protocol."""
        first = b"%b %b HTTP/%b" % (self.method.encode(), target, self.version.encode())
        return b"\r\n".join([first, *self.headers.lines(without=b"upgrade"), b"", b""])

    def arrived(self, chunk: bytes) -> None:
        """A part of the body is here."""
        self._chunks.append(chunk)
        self._wake()

    def end(self) -> None:
        """The body is all here."""
        self.complete = True
        if self._waiter is not None:
            self._wake()

    def fail(self, why: KithError) -> None:
        """The rest of the body does not come."""
        self._failure = self._failure or why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Reading.

    async def body(self, bytes_max: int) -> bytes:
        """The whole body. BodyTooLarge as soon as it is known to be; BadRequest if the connection ends before it."""
        if not self.complete:
            return b"".join([chunk async for chunk in self.chunks(bytes_max)])
        whole = self.take()
        if len(whole) > bytes_max:
            raise _too_large(bytes_max)
        return whole

    async def chunks(self, bytes_max: int) -> AsyncIterator[bytes]:
        """The body as it comes. Errors: as of `body`."""
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
        """What came of the body since the last time, or comes next; None at its end."""
        while not self._chunks:
            if self.complete:
                return None
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def take(self) -> bytes:
        """What came of the body and nobody has read; empty if nothing did."""
        if not self._chunks:
            return b""
        chunks, self._chunks = self._chunks, []
        taken = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._connection.taken(len(taken))
        return taken

    async def disconnected(self) -> None:
        """Wait until the client has gone, or the answer has ended."""
        await self._connection.wait_until_gone()

    # Answering.

    def respond(self, status: int, headers: Pairs, body: bytes) -> None:
        """Answer with these bytes."""
        head = self._head(status, headers, len(body))
        self._connection.write(head if self.method == "HEAD" or status in _BODILESS else head + body)

    async def respond_file(self, status: int, headers: Pairs, file: Path, start: int, end: int) -> None:
        """Answer with the bytes of a file from `start` to `end`, as fast as the client takes them. OSError, before
        anything was sent, if it cannot be read. Cut off where it turns out to be shorter.
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
        """Begin an answer of unknown length. The connection ends with it."""
        self.persistent = False
        is_chunked = self.version == "1.1"
        self._connection.write(self._head(status, headers, None))
        return Outgoing(self._connection, is_chunked)

    def _head(self, status: int, headers: Pairs, size: int | None) -> bytes:
        """The head of the answer. `size`: of its body, in bytes; None while nobody knows."""
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
    """An answer of unknown length, of which more can be sent until it ends."""

    __slots__ = ("_connection", "_is_chunked")

    def __init__(self, connection: Wire, is_chunked: bool) -> None:
        self._connection, self._is_chunked = connection, is_chunked

    @property
    def closed(self) -> bool:
        """Whether the client is gone: what is sent goes nowhere."""
        return self._connection.closed

    def send(self, raw: bytes) -> None:
        """Hand bytes over; they wait in this process while the client takes none."""
        if raw:
            self._connection.write(b"%x\r\n%b\r\n" % (len(raw), raw) if self._is_chunked else raw)

    def unsent(self) -> int:
        """Bytes handed over that the client's machine has not confirmed: those that wait here, and in the kernel."""
        handle = self._connection.socket
        if handle is None:
            return 0
        try:
            queued: int = _QUEUED.unpack(fcntl.ioctl(handle, termios.TIOCOUTQ, bytes(_QUEUED.size)))[0]
        except OSError:  # closed meanwhile, or a system that does not say
            queued = 0
        return queued + self._connection.unsent()

    def end(self) -> None:
        """End the answer, and with it the connection."""
        if self._is_chunked:
            self._connection.write(b"0\r\n\r\n")
        self._connection.finish()

    def cut(self) -> None:
        """End the connection at once, whatever waits for the client."""
        self._connection.abort()


def _lines(headers: Pairs) -> bytes:
    """Headers as lines. ValueError if one has a line break in it."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise ValueError("a header of an answer has a line break in it")
    return text.encode("latin-1")


def _decoded(path: str) -> str:
    """A path, percent-decoded but for its %2F: a proxy that lets some paths through sees no / there."""
    return unquote(path.replace("%2F", "%252F").replace("%2f", "%252f"), errors="replace")


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {bytes_max} bytes; send less at a time", max=bytes_max)
