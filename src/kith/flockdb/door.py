"""Holds the connections of FlockDB's clients. Every client that can connect may do everything, so listen only on an
address that your own clients can reach.

The messages of one connection are answered in order. Connections do not wait for each other.
"""

from __future__ import annotations

import asyncio
import socket
import struct

import structlog

from kith.core.stopping import stop
from kith.flockdb.calls import Calls
from kith.flockdb.messages import Inbound, Malformed

CONNECTIONS_MAX = 2_000
"""Most open connections; further ones are closed at once."""
IDLE_S = 600.0
"""A connection without input, or whose client does not take an answer, for this many seconds is closed."""
_LINGER_S = 5.0
_READ_BYTES = 1 << 16
_FRAME = struct.Struct(">i")
_log = structlog.get_logger("kith.flockdb")


class ThriftDoor:
    """Accepts connections, and answers their messages with `calls`."""

    def __init__(self, calls: Calls, *, idle_s: float = IDLE_S, connections_max: int = CONNECTIONS_MAX) -> None:
        self._calls, self._idle_s, self._connections_max = calls, idle_s, connections_max
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def listen(self, accepting: socket.socket) -> asyncio.Server:
        """Accept connections from a listening socket."""
        return await asyncio.start_server(self._connected, sock=accepting, limit=_READ_BYTES)

    async def close(self) -> None:
        """Close every connection after its current call."""
        await stop(*self._open.values())

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) < self._connections_max:
            self._open[writer] = asyncio.create_task(self._run_connection(reader, writer))
        else:
            writer.close()

    async def _run_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError):
            writer.transport.abort()  # the client disconnected, or sends or takes nothing: drop what it did not take
        finally:
            del self._open[writer]
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inbound = Inbound()
        while data := await self._read(reader):
            inbound.feed(data)
            while (answer := await self._answer(inbound)) is not None:
                writer.write(_FRAME.pack(len(answer)) + answer if inbound.framed else answer)
                async with asyncio.timeout(self._idle_s):
                    await writer.drain()
            if inbound.ended:
                _log.info("a connection is closed", client=str(writer.get_extra_info("peername")))
                await _discard_until_closed(reader, writer)
                break

    async def _answer(self, inbound: Inbound) -> bytes | None:
        """The answer to the next message; None if no whole message has arrived."""
        try:
            message = inbound.take()
        except Malformed as error:
            return self._calls.refuse(error)
        return None if message is None else await self._calls.answer(message)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """The next bytes; empty if the client disconnected. TimeoutError."""
        async with asyncio.timeout(self._idle_s):  # unlike `wait_for`, without a task for each read
            return await reader.read(_READ_BYTES)


async def _discard_until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give a client time to read why it is disconnected. Closing while it still sends would discard the answer.
    TimeoutError.
    """
    writer.write_eof()
    async with asyncio.timeout(_LINGER_S):
        while await reader.read(_READ_BYTES):
            pass
