"""A connection for httpcore that sends all writes of one turn of the event loop together.

HTTP/2 writes three times per request, for many requests at once. Sent one by one, each write would cost a call of TLS
and a system call: a third of the time of a push message.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpcore

_UNREAD_BYTES_MAX = 1 << 18
"""Bytes that may wait to be read; beyond that, reading from the host pauses."""
_SHUTDOWN_S = 1.0


class ConnectionStream(httpcore.AsyncNetworkStream):
    """One connection. Only one task may read at a time, which httpcore ensures."""

    def __init__(self, transport: asyncio.Transport, receive_buffer: ReceiveBuffer) -> None:
        self._transport, self._receive_buffer = transport, receive_buffer
        self._unsent: list[bytes] = []
        self._is_closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's name
        """Read some bytes; b"" at the end. Errors: ReadError, ReadTimeout."""
        try:
            async with asyncio.timeout(timeout):
                return await self._receive_buffer.read(max_bytes)
        except TimeoutError:
            raise httpcore.ReadTimeout from None
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's name
        """Send bytes together with all others of this turn; waits while the host takes none.

        Errors: WriteError, WriteTimeout.
        """
        if not buffer:
            return
        if self._receive_buffer.ended:
            raise httpcore.WriteError("the connection has ended")
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(buffer)
        try:
            async with asyncio.timeout(timeout):
                await self._receive_buffer.writable.wait()
        except TimeoutError:
            raise httpcore.WriteTimeout from None

    async def aclose(self) -> None:
        """Send what was written, and close. Idempotent."""
        if self._is_closed:  # before Python 3.11.3, a TLS connection that is closed twice cannot be aborted
            return
        self._is_closed = True
        self._flush()
        self._transport.close()
        try:
            await asyncio.sleep(0)
        finally:
            self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's name
    ) -> ConnectionStream:
        """The same connection under TLS. Errors: ConnectError, ConnectTimeout."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    self._transport, self._receive_buffer, ssl_context,
                    server_hostname=server_hostname, ssl_shutdown_timeout=_SHUTDOWN_S,
                )  # fmt: skip
        except TimeoutError:
            self._transport.abort()
            raise httpcore.ConnectTimeout from None
        except OSError as error:  # includes errors of TLS
            self._transport.abort()
            raise httpcore.ConnectError(str(error)) from error
        if transport is None:
            raise httpcore.ConnectError("the connection ended before TLS began")
        self._receive_buffer.transport = transport
        return ConnectionStream(transport, self._receive_buffer)

    def get_extra_info(self, info: str) -> Any:
        """For httpcore: whether there is anything to read, or the transport's extra info."""
        if info == "is_readable":
            return self._receive_buffer.is_readable
        return self._transport.get_extra_info(info)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))


class ReceiveBuffer(asyncio.Protocol):
    """Buffers incoming bytes until they are read."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.ended = False
        self.writable = asyncio.Event()
        self.writable.set()
        self._unread, self._arrived = bytearray(), asyncio.Event()
        self._error: Exception | None = None

    @property
    def is_readable(self) -> bool:
        """Whether a read would not wait."""
        return self.ended or bool(self._unread)

    async def read(self, bytes_max: int) -> bytes:
        """Up to `bytes_max` bytes, as soon as there are any; b"" at the end, or the error that ended the connection."""
        while not self.is_readable:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._unread and self._error is not None:
            raise self._error
        chunk = bytes(self._unread[:bytes_max])
        del self._unread[:bytes_max]
        if self.transport is not None and not self.ended and len(self._unread) < _UNREAD_BYTES_MAX:
            self.transport.resume_reading()
        return chunk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._arrived.set()
        if self.transport is not None and len(self._unread) >= _UNREAD_BYTES_MAX:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def _end(self, error: Exception | None) -> None:
        self._error, self.ended = self._error or error, True
        self._arrived.set()
        self.writable.set()


async def connected(address: str, port: int) -> ConnectionStream:
    """Connect to an address. OSError if that fails."""
    transport, receive_buffer = await asyncio.get_running_loop().create_connection(ReceiveBuffer, address, port)
    return ConnectionStream(transport, receive_buffer)
