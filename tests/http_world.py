"""An HTTP listener in this process, clients that send it raw bytes, and tests that are coroutines on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import h11
import uvloop

from kith.api import errors
from kith.core.errors import KithError
from kith.http.connection import Connection
from kith.http.exchange import Exchange, Outgoing
from kith.http.listener import Listener

GET = b"GET /a%20b?c=%20&d HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: t\r\n\r\n"
BODY_MAX = 1 << 24


class Answer(tuple[int, dict[str, str], bytes]):
    """Status, headers and body of an answer."""

    status = property(lambda self: self[0])
    headers = property(lambda self: self[1])
    body = property(lambda self: self[2])


class Client:
    """A client that sends raw bytes, and reads answers with h11, a parser that is not Kith's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._parser = h11.Connection(h11.CLIENT)

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def answers(self, *methods: str) -> list[Answer]:
        """The answers to requests with these methods, in their order."""
        return [await self.answer(method) for method in methods]

    async def answer(self, method: str = "GET") -> Answer:
        parser, left = h11.Connection(h11.CLIENT), self._parser.trailing_data[0]
        parser.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        parser.send(h11.EndOfMessage())
        if left:
            parser.receive_data(left)
        self._parser, status, headers, body = parser, 0, {}, bytearray()
        while True:
            match parser.next_event():
                case h11.NEED_DATA:
                    parser.receive_data(await self.reader.read(65_536))
                case h11.Response() as found:
                    status = found.status_code
                    headers = {name.decode(): value.decode() for name, value in found.headers}
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    return Answer((status, headers, bytes(body)))
                case h11.ConnectionClosed():
                    raise AssertionError("the connection ended without an answer")
                case h11.InformationalResponse() as found:
                    return Answer((found.status_code, {}, b""))

    async def rest(self) -> bytes:
        """All bytes until the connection closes."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""


class HttpWorld:
    """A listener, and the clients that are connected to it."""

    def __init__(self, listener: Listener, port: int) -> None:
        self.listener, self._port = listener, port
        self._clients: list[Client] = []

    async def client(self, raw: bytes = b"") -> Client:
        made = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients.append(made)
        if raw:
            await made.say(raw)
        return made

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()
        await self.listener.close(5)


async def echo(exchange: Exchange) -> None:
    """Answer with the request's method, path, query, and length and first 100 bytes of the body."""
    try:
        body = await exchange.body(BODY_MAX)
    except KithError as error:
        exchange.respond(*errors.respond(error))
        return
    said = f"{exchange.method} {exchange.path}?{exchange.query_string} {len(body)} ".encode() + body[:100]
    exchange.respond(200, [("content-type", "text/plain")], said)


Door = Callable[[Exchange], Awaitable[None]]


@contextlib.asynccontextmanager
async def world(door: Door = echo, *, idle_s: float = 30.0, connections_max: int = 100) -> AsyncIterator[HttpWorld]:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(door, errors.respond, idle_s=idle_s, connections_max=connections_max)
    await listener.serve(listening)
    made = HttpWorld(listener, listening.getsockname()[1])
    try:
        yield made
    finally:
        await made.close()


async def only_connection(here: HttpWorld) -> Connection:
    """Wait until the listener has one connection; returns it."""
    await until(lambda: len(here.listener) == 1)
    (connection,) = here.listener._shared.connections
    return connection


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - nothing signals it
        await asyncio.sleep(0.01)


def play(scene: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on uvloop, as API processes do. Time limit: 60 s."""

    async def within() -> None:
        async with asyncio.timeout(60):
            await scene

    uvloop.run(within())


def scene(function: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Makes a test of a coroutine function."""

    def test() -> None:
        play(function())

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


class Streams:
    """A door whose answers are streams that it never ends."""

    def __init__(self) -> None:
        self.outgoing: list[Outgoing] = []
        self.opened, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.outgoing.append(exchange.stream(200, [("content-type", "text/event-stream")]))
        self.opened.set()
        await exchange.disconnected()
        self.left.set()
