"""One client connection: parses its requests and answers them one after the other.

Pipelined requests wait, within limits; above these the connection stops reading. After its last answer a connection
lingers for a while and discards further input. If it were closed with unread bytes, the client's machine would discard
the answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

import httptools
import structlog

from kith.core.errors import BadRequest, KithError
from kith.http.exchange import Exchange
from kith.http.serving_state import ServingState

_HEAD_BYTES_MAX = 1 << 16
_HEADERS_MAX = 100
_PIPELINED_MAX = 16  # requests that wait for the one being answered
_UNREAD_BYTES_MAX = 1 << 18  # of request bodies that no handler has read yet
_PARSE_BYTES = 1 << 14  # parsed at once: small, so that few requests are begun before it shows that they must wait
_HELD_BYTES_MAX = 1 << 16  # of answers that are written and not yet sent
_DISCARDED_BYTES_MAX = 1 << 24
LINGER_S = 2.0
"""How long a connection lingers after its last answer, so that the client can read it and disconnect."""

_log = structlog.get_logger("kith.http")


class Connection(asyncio.Protocol):
    """One client connection. The parser calls `on_...`; the event loop calls the methods of `asyncio.Protocol`."""

    __slots__ = (
        "_answering", "_arriving", "_discarded", "_disconnected", "_head_bytes", "_held", "_in_head", "_is_at_end",
        "_is_between", "_is_finishing", "_is_reading", "_parser", "_queue", "_refusal", "_room", "_sent", "_sent_acked",
        "_sent_acked_at_s", "_shared", "_target", "_transport", "_unparsed", "_unread", "closed", "draining",
        "quiet_since_s", "socket",
    )  # fmt: skip

    def __init__(self, shared: ServingState) -> None:
        self._shared = shared
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self.socket: int | None = None  # its descriptor
        self.closed = self.draining = False
        self._is_at_end = False  # the client sends no more
        self.quiet_since_s = shared.now_s  # since when it is idle or lingers
        self._queue: deque[Exchange] = deque()  # begun and not yet answered
        self._arriving = Exchange(self)  # the last exchange that began
        self._target, self._in_head = b"", False
        self._is_between = True  # the parser is not inside a request
        self._head_bytes = 0  # bytes of a head so far, without a body in between
        self._refusal: KithError | None = None  # the error of the request that is being parsed
        self._unread = 0  # bytes of request bodies that no handler has read
        self._unparsed = memoryview(b"")  # received and not parsed; meanwhile reading is paused
        self._answering: asyncio.Task[None] | None = None
        self._is_reading, self._is_finishing, self._discarded = True, False, 0
        self._held = b""  # written and not yet sent: see `ServingState.hold`
        self._room: asyncio.Future[None] | None = None  # set while the client's buffer is full
        self._disconnected: asyncio.Future[None] | None = None
        self._sent = 0  # bytes handed to the transport, ever
        self._sent_acked, self._sent_acked_at_s = -1, 0.0  # bytes read by the client, and when that last changed

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast(asyncio.Transport, transport)
        handle = transport.get_extra_info("socket")
        self.socket = None if handle is None else handle.fileno()
        self._shared.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client disconnected."""
        self.closed, self.socket, self._transport = True, None, None
        self._end_of_input()
        self._queue.clear()
        self._unparsed = memoryview(b"")
        if self._room is not None:
            self.resume_writing()
        self._shared.connection_closed(self)
        del self._parser, self._arriving  # they refer back here: without this cycle the connection is freed at once

    def eof_received(self) -> bool:
        """The client sends no more, but may still wait for answers."""
        self.send_held()
        self._end_of_input()
        return self._answering is not None

    def _end_of_input(self) -> None:
        self._is_at_end = True
        self._arriving.fail(BadRequest("the connection ended before the body did; send it whole"))
        if self._disconnected is not None and not self._disconnected.done():
            self._disconnected.set_result(None)

    def data_received(self, data: bytes | memoryview) -> None:
        """Parse requests, and start answering if nothing is being answered."""
        if len(data) > _PARSE_BYTES:
            self._parse_in_chunks(memoryview(data))
            return
        if self._is_finishing or self._refusal is not None:
            self._discard(len(data))
            return
        if self._answering is not None or not self._is_between or isinstance(data, memoryview):
            self._parse(data)
        elif (cached_head := self._shared.heads.find(data)) is not None:
            self._arriving, self._head_bytes = Exchange.of_get(self, *cached_head), 0
            self._queue.append(self._arriving)
        else:
            self._parse(data)
            if self._is_between and len(self._queue) == 1 and self._refusal is None and self._arriving.persistent:
                self._shared.heads.add(data, self._arriving.headers)
        if self._answering is None:
            if self._queue or self._refusal is not None:
                self._answering = self._shared.loop.create_task(self._answer_all())
        elif len(self._queue) > _PIPELINED_MAX:
            self._pause_reading()

    def _parse(self, data: bytes | memoryview) -> None:
        """Feed the parser, and note what it refuses."""
        arriving, unread = self._arriving, self._unread
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._parse_without_upgrade(memoryview(data), upgrade.args[0])
        except httptools.HttpParserInvalidMethodError:
            self._refusal = BadRequest("HTTP has no such method; see /docs")
        except httptools.HttpParserError as error:
            self._refusal = self._refusal or BadRequest(f"this is not HTTP/1.1 that we can read: {error}")
        if not arriving.complete and self._arriving is arriving:  # else part of the data may be an earlier request's
            self._head_bytes = self._head_bytes + len(data) if self._unread == unread else 0
            if self._head_bytes > _HEAD_BYTES_MAX:
                why = f"the head of a request, or what comes after its body, has at most {_HEAD_BYTES_MAX} bytes"
                self._refusal = self._refusal or BadRequest(why)
        if self._refusal is not None:
            self._arriving.fail(self._refusal)

    def _parse_in_chunks(self, data: memoryview) -> None:
        while data and len(self._queue) <= _PIPELINED_MAX:
            self.data_received(data[:_PARSE_BYTES])
            data = data[_PARSE_BYTES:]
        if data:
            self._unparsed = data
            self._pause_reading()

    def _parse_without_upgrade(self, data: memoryview, offset: int) -> None:
        """Continue at `offset`, after a head that offers HTTP/2 or a WebSocket, as if it offered neither.

        The parser ends such a request after its head. What follows may be the request's body and must not be parsed as
        another request. So its head is fed to a new parser without the offer.
        """
        while self._refusal is None:
            offered = self._queue.pop()
            if offered.method == "CONNECT":
                self._refusal = BadRequest("this is no proxy; see /docs")
                return
            data, self._parser = data[offset:], httptools.HttpRequestParser(self)
            self._parser.feed_data(offered.head(self._target))
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                offset = upgrade.args[0]
            else:
                return

    def pause_writing(self) -> None:
        """The client's buffer is full."""
        self._room = self._shared.loop.create_future()

    def resume_writing(self) -> None:
        """The client's buffer has room again."""
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # Callbacks of the parser, which would swallow an exception raised here.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._arriving, self._is_between = Exchange(self), False
        self._target, self._in_head = b"", True

    def on_url(self, part: bytes) -> None:
        """A part of the request's target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        if self._in_head:  # trailers after the body are ignored: a proxy does not check them for credentials
            self._arriving.headers.add(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete."""
        parser, exchange = self._parser, self._arriving
        self._in_head, self._head_bytes = False, 0
        try:
            exchange.begin(parser.get_method(), self._target, parser.get_http_version(), parser.should_keep_alive())
        except BadRequest as error:
            self._refusal = self._refusal or error
        if len(exchange.headers) > _HEADERS_MAX:
            self._refusal = BadRequest(f"a request has at most {_HEADERS_MAX} headers")
        if self._refusal is None:
            self._queue.append(exchange)

    def on_body(self, chunk: bytes) -> None:
        """A part of the body."""
        if self._refusal is not None:
            return
        self._unread += len(chunk)
        self._arriving.arrived(chunk)
        if self._unread > _UNREAD_BYTES_MAX:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._is_between = True
        self._arriving.end()

    # Answering.

    async def _answer_all(self) -> None:
        """Answer the waiting requests, one after the other."""
        shared = self._shared
        while self._queue and not self._is_finishing:
            exchange = self._queue.popleft()
            shared.send_if_late()
            try:
                await shared.door(exchange)
            except (Exception, asyncio.CancelledError):  # also if what the handler awaits was cancelled
                _log.exception("an answer broke off", path=exchange.path)
                self.abort()
            exchange.take()  # discards what the handler did not read
            if not exchange.answered:
                self.abort()
            elif not exchange.persistent:
                self.finish()
            if self._queue:  # a pipelining client may not be reading answers
                self.send_held()
            if self._room is not None:
                await self.wait_for_room()
            if not self._is_reading:
                self._resume_reading()  # the next request may wait for its body
        self._answering = None
        self.quiet_since_s = shared.now_s
        if self._refusal is not None and not self._is_finishing:
            self.refuse(self._refusal)
        elif self._is_at_end or self.draining:
            self.finish()
        self._resume_reading()

    def refuse(self, error: KithError) -> None:
        """Answer an unreadable request with an error, and read nothing more."""
        exchange = Exchange(self)
        exchange.respond(*self._shared.refusal(error))
        self.finish()

    def write(self, raw: bytes) -> None:
        """Write bytes to the client, if it is still connected."""
        if self._held:
            self._held += raw
            if len(self._held) > _HELD_BYTES_MAX:
                self.send_held()
        elif self._transport is not None and not self._is_finishing:
            self._held = raw
            self._shared.hold(self)

    def send_held(self) -> None:
        """Send everything written so far."""
        raw, self._held = self._held, b""
        transport = self._transport
        if raw and transport is not None and not transport.is_closing():
            self._sent += len(raw)
            transport.write(raw)

    async def wait_for_room(self) -> None:
        """Wait until the client's buffer has room."""
        self.send_held()
        while self._room is not None and not self.closed:
            await asyncio.shield(self._room)

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects or its last answer ends. Further input is discarded; if it stayed unread, a
        disconnect would go unnoticed.
        """
        if self._is_at_end or self._is_finishing:
            return
        self._refusal = self._refusal or BadRequest("nothing is answered after a stream")
        self._queue.clear()
        self._unparsed, self._unread = memoryview(b""), 0
        self._resume_reading()
        if self._disconnected is None:
            self._disconnected = self._shared.loop.create_future()
        await asyncio.shield(self._disconnected)

    def unsent(self) -> int:
        """Bytes that wait in this process."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size() + len(self._held)

    @property
    def last_lines(self) -> bytes:
        """The last lines of every answer's head."""
        return self._shared.last_lines

    # Pausing and resuming reading.

    def consumed(self, size: int) -> None:
        """A handler has read this many bytes of a body."""
        self._unread -= size
        self._resume_reading()

    def _pause_reading(self) -> None:
        if self._is_reading and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading or self._transport is None:
            return
        while self._is_finishing or (self._unread <= _UNREAD_BYTES_MAX and len(self._queue) <= _PIPELINED_MAX):
            if self._unparsed:
                unparsed, self._unparsed = self._unparsed, memoryview(b"")
                self._parse_in_chunks(unparsed)
            elif not self._transport.is_closing():
                self._is_reading = True
                self._transport.resume_reading()
                return
            else:
                return

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > _DISCARDED_BYTES_MAX:
            self.abort()

    # Ending.

    def finish(self) -> None:
        """Send what was written so far, then tell the client that nothing more comes, so that it may disconnect."""
        if self._is_finishing or self._transport is None:
            return
        self.send_held()
        self._is_finishing = True
        self._queue.clear()
        self.quiet_since_s = self._shared.now_s
        if self._disconnected is not None and not self._disconnected.done():
            self._disconnected.set_result(None)
        if self._is_at_end:
            self.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self._resume_reading()

    def close(self) -> None:
        """Close after sending what was written so far."""
        self.send_held()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, without sending what waits."""
        self._queue.clear()
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """Close if no request is being answered. While `draining`, busy connections close with their answer."""
        if self._answering is None and not self._is_finishing:
            self.close()

    def check(self, now_s: float, idle_s: float) -> None:
        """Close the connection if it is idle too long or its client reads nothing. Called regularly."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if waiting:
            acked = self._sent - waiting
            if acked != self._sent_acked:
                self._sent_acked, self._sent_acked_at_s = acked, now_s
            elif now_s - self._sent_acked_at_s > idle_s:
                self.abort()
            return
        self._sent_acked = -1
        is_at_rest = self._answering is None and not self._held
        if is_at_rest and now_s - self.quiet_since_s > (LINGER_S if self._is_finishing else idle_s):
            self.abort() if self._is_finishing else self.close()
