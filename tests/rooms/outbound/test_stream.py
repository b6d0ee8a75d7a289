"""A connection to a host: what is written in one turn is sent together, and what arrives is buffered within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpcore
import pytest
from coroutines import run_coroutine

from kith.outbound.stream import ConnectionStream, ReceiveBuffer, connected


class Host(asyncio.Protocol):
    """Keeps what arrives, piece by piece, and sends `says`."""

    def __init__(self, says: bytes, *, leaves: bool) -> None:
        self.says, self.leaves = says, leaves
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.says)
        if self.leaves:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self.pieces.put_nowait(data)


def run_with_host(
    act: Callable[[ConnectionStream, Host], Awaitable[None]], says: bytes = b"", *, leaves: bool = False
) -> None:
    async def scenario() -> None:
        host = Host(says, leaves=leaves)
        server = await asyncio.get_running_loop().create_server(lambda: host, "127.0.0.1", 0)
        async with server:
            stream = await connected("127.0.0.1", server.sockets[0].getsockname()[1])
            try:
                await act(stream, host)
            finally:
                await stream.aclose()

    run_coroutine(scenario())


class Recorded(asyncio.Transport):
    """Records what is written, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False


def test_parts_written_in_one_turn_are_sent_together() -> None:
    async def scenario() -> None:
        transport = Recorded()
        stream = ConnectionStream(transport, ReceiveBuffer())
        for part in (b"head ", b"body ", b"end"):
            await stream.write(part)
        await asyncio.sleep(0)
        await stream.write(b"more")
        await asyncio.sleep(0)
        assert transport.written == [b"head body end", b"more"]

    run_coroutine(scenario())


def test_written_bytes_are_sent_before_the_connection_ends() -> None:
    async def act(stream: ConnectionStream, host: Host) -> None:
        await stream.write(b"good bye")
        await stream.aclose()
        assert await host.pieces.get() == b"good bye"

    run_with_host(act)


def test_a_host_that_sends_more_than_is_read_waits_and_is_read_whole() -> None:
    said = bytes(range(256)) * 20_000

    async def act(stream: ConnectionStream, host: Host) -> None:
        heard = b""
        while some := await stream.read(1 << 16):
            heard += some
        assert heard == said
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"is anybody there?")

    run_with_host(act, said, leaves=True)


def test_a_silent_host_is_waited_for_until_the_timeout() -> None:
    async def act(stream: ConnectionStream, host: Host) -> None:
        assert not stream.get_extra_info("is_readable")
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(1, timeout=0.01)

    run_with_host(act)
