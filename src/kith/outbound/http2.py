"""HTTP/2 (RFC 9113): one connection per host, which all requests to it share.

The library h2 speaks the protocol. This module opens connections, waits for answers, and decides what happens to
requests when a connection ends. httpcore's own client takes three times as long per request; see
docs/decisions/0032-push.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import httpcore
from hpack import NeverIndexedHeaderTuple

from kith.outbound.stream import ConnectionStream
from kith.outbound.urls import Target

IDLE_MAX_S = 30.0
"""How long an unused connection is kept."""
HOSTS_MAX = 100
"""Hosts with a connection; beyond that, the connection that was opened first is closed."""
TRIES_MAX = 2
"""Connections that a request is tried on, if the first one ended before the host handled the request."""
_PORT, _PROTOCOLS = 443, ["h2", "http/1.1"]
_STREAMS_MAX = 100
_WINDOW_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_GOAWAY_S = 1.0
_CONFIG = h2.config.H2Configuration(
    validate_outbound_headers=False, normalize_outbound_headers=False, validate_inbound_headers=False
)
"""No header checks: sent headers are lower case already, and received ones are not forwarded."""

HeaderPairs = Sequence[tuple[bytes, bytes]]


class Received(NamedTuple):
    """An answer. `body`: its first bytes, up to a bound."""

    status: int
    headers: HeaderPairs
    body: bytes


class NotHandled(Exception):
    """The host did not handle the request, and the connection ends: the request may be sent on another connection."""


class _Exchange:
    """A request that waits for its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[Received] = loop.create_future()
        self.began_s, self.status = time.monotonic(), 0
        self.headers: HeaderPairs = ()
        self.body = bytearray()

    def end(self) -> None:
        """Hand the answer over; nothing more of it is read."""
        if not self.answer.done():
            self.answer.set_result(Received(self.status, self.headers, bytes(self.body)))

    def fail(self, error: Exception) -> None:
        """Report that there will be no answer."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Http2Connection:
    """One connection. `bytes_max`: bytes of an answer's body that are read."""

    def __init__(self, stream: ConnectionStream, bytes_max: int) -> None:
        self._stream, self._bytes_max = stream, bytes_max
        self._h2 = h2.connection.H2Connection(_CONFIG)
        self._exchanges: dict[int, _Exchange] = {}
        self._changed = asyncio.Event()  # set when a stream ended, or the host may accept more
        self._ready = asyncio.Event()  # set once the host sent its settings
        self._used_s = self._heard_s = time.monotonic()
        self._draining = False
        self._reading = asyncio.create_task(self._read())

    @property
    def usable(self) -> bool:
        """Whether a new request may use this connection."""
        if self._draining or self._reading.done():
            return False
        return bool(self._exchanges) or time.monotonic() - self._used_s < IDLE_MAX_S

    async def send(self, headers: HeaderPairs, body: bytes) -> Received:
        """Send a request; returns its answer. Errors: NotHandled; those of httpcore."""
        await self._wait_for_slot()
        try:
            id_ = self._h2.get_next_available_stream_id()
            self._h2.send_headers(id_, headers, end_stream=not body)
        except h2.exceptions.ProtocolError as error:  # out of stream ids, or the connection has ended
            self._draining = True
            raise NotHandled from error
        exchange = self._exchanges[id_] = _Exchange(asyncio.get_running_loop())
        try:
            await self._send_body(id_, exchange, body)
            await self._flush()
            return await exchange.answer
        except h2.exceptions.ProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error
        finally:
            self._release(id_, exchange)

    async def drain(self) -> None:
        """Drain: accept no new requests, and close once the pending ones are answered."""
        self._draining = True
        if not self._exchanges:
            await self.close()

    async def close(self) -> None:
        """Send GOAWAY, and close."""
        self._draining = True
        with contextlib.suppress(h2.exceptions.ProtocolError, httpcore.NetworkError, TimeoutError):
            self._h2.close_connection()
            async with asyncio.timeout(_GOAWAY_S):
                await self._flush()
        self._reading.cancel()
        await self._stream.aclose()

    async def _wait_for_slot(self) -> None:
        """Wait until the host accepts one more concurrent request."""
        await self._ready.wait()
        while not self._draining and len(self._exchanges) >= self._h2.remote_settings.max_concurrent_streams:
            await self._wait()
        if self._draining or self._reading.done():
            raise NotHandled

    async def _send_body(self, id_: int, exchange: _Exchange, body: bytes) -> None:
        offset = 0
        while offset < len(body):
            size = min(len(body) - offset, self._h2.local_flow_control_window(id_), self._h2.max_outbound_frame_size)
            if size <= 0:
                await self._flush()
                await self._wait()
                if not exchange.answer.done():
                    continue
                with contextlib.suppress(h2.exceptions.ProtocolError):  # answered early, or ended: stop sending
                    self._h2.reset_stream(id_)
                return
            self._h2.send_data(id_, body[offset : offset + size], end_stream=offset + size == len(body))
            offset += size

    async def _wait(self) -> None:
        """Wait until `_changed` is set."""
        self._changed.clear()
        await self._changed.wait()

    async def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            await self._stream.write(data)

    def _release(self, id_: int, exchange: _Exchange) -> None:
        """End a request that was answered, or that its caller gave up.

        If nothing came from the host for over half of the time that the request waited, stop using the connection.
        """
        self._used_s = time.monotonic()
        is_abandoned = self._exchanges.pop(id_, None) is not None
        is_answered = exchange.answer.done() and not exchange.answer.cancelled()
        if is_abandoned and not self._reading.done():
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._h2.reset_stream(id_, h2.errors.ErrorCodes.CANCEL)
            silent_s, waited_s = self._used_s - self._heard_s, self._used_s - exchange.began_s
            self._draining |= not is_answered and silent_s > waited_s / 2  # the connection may be dead
        if self._draining and not self._exchanges:
            self._reading.cancel()
        if is_answered:
            exchange.answer.exception()  # marks it as retrieved, as nobody may be waiting any more
        self._changed.set()

    async def _read(self) -> None:
        """Read until the connection ends."""
        error: Exception = httpcore.RemoteProtocolError("the connection ended")
        try:
            self._h2.local_settings = _settings()
            self._h2.initiate_connection()
            self._h2.increment_flow_control_window(_WINDOW_BYTES)
            await self._flush()
            while data := await self._stream.read(_READ_BYTES):
                self._heard_s = time.monotonic()
                for event in self._h2.receive_data(data):
                    self._handle(event)
                await self._flush()
        except (httpcore.NetworkError, h2.exceptions.ProtocolError) as ended:
            error = ended if isinstance(ended, httpcore.NetworkError) else httpcore.RemoteProtocolError(str(ended))
        finally:
            self._draining = True
            self._ready.set()
            self._changed.set()
            for exchange in self._exchanges.values():
                exchange.fail(error)
            await self._stream.aclose()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RemoteSettingsChanged():
                self._ready.set()
            case h2.events.ConnectionTerminated():
                self._draining = True
                last_handled_id = event.last_stream_id
                for id_, exchange in self._exchanges.items():
                    if last_handled_id is not None and id_ > last_handled_id:
                        exchange.fail(NotHandled())
            case h2.events.ResponseReceived():
                self._take_head(self._exchanges.get(event.stream_id or 0), event.headers or [])
            case h2.events.DataReceived():
                self._take_data(event)
            case h2.events.StreamEnded():
                self._settle(event.stream_id, None)
            case h2.events.StreamReset():
                is_refused = event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
                error = NotHandled() if is_refused else httpcore.RemoteProtocolError("the host reset the stream")
                self._settle(event.stream_id, error)
        self._changed.set()

    def _settle(self, id_: int | None, error: Exception | None) -> None:
        """Complete a request with its answer, or with an error."""
        exchange = self._exchanges.pop(id_ or 0, None)
        if exchange is None:  # its caller gave up
            return
        if error is None:
            exchange.end()
        else:
            exchange.fail(error)

    def _take_head(self, exchange: _Exchange | None, headers: HeaderPairs) -> None:
        if exchange is not None:
            status = next((value for name, value in headers if name == b":status"), b"")
            if not status.isdigit():
                exchange.fail(httpcore.RemoteProtocolError("the host sent no status"))
                return
            exchange.status = int(status)
            exchange.headers = [(name, value) for name, value in headers if not name.startswith(b":")]

    def _take_data(self, event: h2.events.DataReceived) -> None:
        id_, exchange = event.stream_id or 0, self._exchanges.get(event.stream_id or 0)
        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, id_)
        if exchange is not None:
            exchange.body += event.data or b""
            if len(exchange.body) >= self._bytes_max:  # ignore the rest
                del exchange.body[self._bytes_max :]
                exchange.end()


class Connections:
    """One connection per host. `backend`: opens connections; `bytes_max`: bytes of an answer's body that are read."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext, bytes_max: int) -> None:
        self._backend, self._tls, self._bytes_max = backend, tls, bytes_max
        self._connections: dict[tuple[str, int], asyncio.Task[Http2Connection | None]] = {}

    async def send(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes, connect_s: float
    ) -> Received | None:
        """Send a request; returns its answer, or None if the host does not speak HTTP/2.

        Errors: SendFailed; those of httpcore.
        """
        port, head = target.port or _PORT, _head(method, target, headers, body)
        for attempt in range(1, TRIES_MAX + 1):
            connection = await self._connection(target.host, port, connect_s)
            if connection is None:
                return None
            try:
                return await connection.send(head, body)
            except NotHandled:
                if attempt == TRIES_MAX:
                    raise httpcore.RemoteProtocolError("the host accepts no requests") from None
        return None

    async def close(self) -> None:
        """Close every connection."""
        opening, self._connections = self._connections, {}
        for task in opening.values():
            if (connection := _connected(task)) is not None:
                await connection.close()
            task.cancel()

    async def _connection(self, host: str, port: int, connect_s: float) -> Http2Connection | None:
        """The connection of a host; opened if there is no usable one."""
        task = self._connections.get((host, port))
        if task is None or _is_unusable(task):
            if task is not None:
                del self._connections[host, port]
                await _drain(task)
            task = self._connections.get((host, port))
            if task is None:
                task = self._connections[host, port] = asyncio.create_task(self._open(host, port, connect_s))
                task.add_done_callback(partial(self._forget_failed, (host, port)))
            if len(self._connections) > HOSTS_MAX:
                await self._drain_oldest()
        return await asyncio.shield(task)

    async def _drain_oldest(self) -> None:
        """Drain the connection that was opened first. Connections that are still opening are left: requests wait."""
        for address, task in self._connections.items():
            if task.done():
                del self._connections[address]
                await _drain(task)
                return

    def _forget_failed(self, address: tuple[str, int], task: asyncio.Task[Http2Connection | None]) -> None:
        """Forget a connection that could not be opened. Reads its error, as nobody may be waiting for it any more."""
        failed = task.cancelled() or task.exception() is not None
        if failed and self._connections.get(address) is task:
            del self._connections[address]

    async def _open(self, host: str, port: int, connect_s: float) -> Http2Connection | None:
        stream = await self._backend.connect_tcp(host, port, connect_s)
        self._tls.set_alpn_protocols(_PROTOCOLS)
        stream = await stream.start_tls(self._tls, host, connect_s)
        if stream.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            await stream.aclose()
            return None
        assert isinstance(stream, ConnectionStream)  # noqa: S101 - what `pinned` opens
        return Http2Connection(stream, self._bytes_max)


def _connected(task: asyncio.Task[Http2Connection | None]) -> Http2Connection | None:
    """The connection that was opened; None if that failed, or has not finished."""
    return None if not task.done() or task.cancelled() or task.exception() is not None else task.result()


def _is_unusable(task: asyncio.Task[Http2Connection | None]) -> bool:
    """Whether another connection must be opened."""
    if task.done() and (task.cancelled() or task.exception() is not None):
        return True
    connection = _connected(task)
    return connection is not None and not connection.usable


async def _drain(task: asyncio.Task[Http2Connection | None]) -> None:
    connection = _connected(task)
    if connection is not None:
        await connection.drain()
    task.cancel()  # if it is still opening


def _settings() -> h2.settings.Settings:
    codes = h2.settings.SettingCodes
    return h2.settings.Settings(
        client=True,
        initial_values={
            codes.ENABLE_PUSH: 0,
            codes.MAX_CONCURRENT_STREAMS: _STREAMS_MAX,
            codes.MAX_HEADER_LIST_SIZE: 65_536,
        },
    )


def _head(method: str, target: Target, headers: Mapping[str, str], body: bytes) -> HeaderPairs:
    """The head of a request over HTTP/2."""
    return [
        (b":method", method.encode()),
        (b":authority", target.authority.encode()),
        (b":scheme", target.scheme.encode()),
        NeverIndexedHeaderTuple(b":path", target.path.encode()),  # may hold a secret, and differs each time
        *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        (b"content-length", b"%d" % len(body)),
    ]
