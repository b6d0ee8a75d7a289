"""Requests over real sockets to a listener of this process: what is read, answered, refused and cut off."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import h11
import pytest
import uvloop

from kith.api import errors
from kith.core.errors import KithError, Overloaded
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
    """A client that says bytes, and reads answers with a parser of HTTP that is not ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._parser = h11.Connection(h11.CLIENT)

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def answers(self, *methods: str) -> list[Answer]:
        """One answer for each method that was asked, in their order."""
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
                case h11.InformationalResponse() as found:
                    return Answer((found.status_code, {}, b""))

    async def rest(self) -> bytes:
        """All until the end."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""


class World:
    """A listener, and how clients connect to it."""

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
    """Says what it was asked."""
    try:
        body = await exchange.body(BODY_MAX)
    except KithError as error:
        exchange.respond(*errors.respond(error))
        return
    said = f"{exchange.method} {exchange.path}?{exchange.query_string} {len(body)} ".encode() + body[:100]
    exchange.respond(200, [("content-type", "text/plain")], said)


Door = Callable[[Exchange], Awaitable[None]]


@contextlib.asynccontextmanager
async def world(door: Door = echo, *, idle_s: float = 30.0, connections_max: int = 100) -> AsyncIterator[World]:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(door, errors.respond, idle_s=idle_s, connections_max=connections_max)
    await listener.serve(listening)
    made = World(listener, listening.getsockname()[1])
    try:
        yield made
    finally:
        await made.close()


async def one_of(here: World) -> Connection:
    """The one connection there is, from when it was accepted."""
    await until(lambda: len(here.listener) == 1)
    (connection,) = here.listener._shared.connections
    return connection


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)


def play(scene: Coroutine[Any, Any, None]) -> None:
    """As a process runs it: on uvloop."""

    async def within() -> None:
        async with asyncio.timeout(60):
            await scene

    uvloop.run(within())


def scene(function: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    def test() -> None:
        play(function())

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


@scene
async def test_requests_of_one_connection_are_answered_in_their_order() -> None:
    async with world() as here:
        client = await here.client(GET + POST + CHUNKED + GET)
        found = await client.answers("GET", "POST", "POST", "GET")
        assert [one.body for one in found] == [
            b"GET /a b?c=%20&d 0 ", b"POST /p? 5 hello", b"POST /p? 5 hello", b"GET /a b?c=%20&d 0 ",
        ]  # fmt: skip
        assert all(one.status == 200 and one.headers["date"].endswith("GMT") for one in found)


@scene
async def test_requests_are_read_however_they_are_cut() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chosen, whole = random.Random(seed), GET + POST + CHUNKED
    async with world() as here:
        for cuts in [list(range(1, len(whole))), *(sorted(chosen.sample(range(1, len(whole)), 6)) for _ in range(30))]:
            client = await here.client()
            client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                await client.say(whole[start:end])
                await asyncio.sleep(0)
            found = await client.answers("GET", "POST", "POST")
            assert [one.body for one in found] == [b"GET /a b?c=%20&d 0 ", *[b"POST /p? 5 hello"] * 2], cuts
            client.writer.close()


@scene
async def test_a_connection_lives_as_long_as_its_client_says() -> None:
    async with world() as here:
        for raw, lives in (
            (b"GET / HTTP/1.1\r\n\r\n", True),
            (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False),
            (b"GET / HTTP/1.0\r\n\r\n", False),
            (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        ):
            client = await here.client(raw)
            found = await client.answer()
            assert found.status == 200
            assert (found.headers.get("connection") == "close") != lives
            if lives:
                await client.say(GET)
                assert (await client.answer()).status == 200
            else:
                assert await client.rest() == b""


@scene
async def test_answers_that_have_no_body_send_none() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(int(exchange.path[1:]), [], b"body")

    async with world(door) as here:
        client = await here.client()
        for method, status, length in (("HEAD", 200, "4"), ("GET", 204, None), ("GET", 304, None), ("GET", 404, "4")):
            await client.say(f"{method} /{status} HTTP/1.1\r\n\r\n".encode())
            found = await client.answer(method)
            assert (found.status, found.headers.get("content-length")) == (status, length)
            assert found.body == (b"body" if status == 404 else b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"junk\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 1_000_000,
        b"GET /" + b"a" * 1_000_000,
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % number for number in range(500)) + b"\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"GET * HTTP/1.1\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\n\r\n",
        b"CONNECT a://b/c HTTP/1.1\r\nContent-Length: 24\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_in_words_and_what_came_before_it_is_answered(raw: bytes) -> None:
    async def scene() -> None:
        async with world() as here:
            client = await here.client(GET + raw)
            before, refused = await client.answers("GET", "GET")
            assert before.status == 200
            assert refused.status == 400
            assert refused.headers["connection"] == "close"
            assert b'"INVALID_REQUEST"' in refused.body
            assert await client.rest() == b"", "nothing more is answered"

    play(scene())


@scene
async def test_a_header_that_says_who_asks_is_sent_once_and_one_that_is_no_text_is_nothing() -> None:
    told: list[object] = []

    async def door(exchange: Exchange) -> None:
        headers = exchange.headers
        told.extend([headers.get("a"), headers.get("b"), headers.get("none"), "a" in headers, "none" in headers])
        try:
            headers.single("a")
        except KithError as error:
            told.append(error.code)
        told.append(headers.single("b"))
        exchange.respond(200, [], b"")

    async with world(door) as here:
        await (await here.client(b"GET / HTTP/1.1\r\nA: 1 \r\nB: \xc3\xa4\r\na: 2\r\n\r\n")).answer()
    assert told == ["1", "\x7f", None, True, False, "INVALID_REQUEST", "\x7f"]


@scene
async def test_who_offers_http2_or_a_websocket_is_answered_in_this_protocol() -> None:
    async with world() as here:
        for upgrade in (b"h2c", b"websocket"):
            head = b"GET /a%20b?c=%20&d HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
            client = await here.client(head)
            assert (await client.answer()).body == b"GET /a b?c=%20&d 0 "
            await client.say(POST)
            assert (await client.answer("POST")).body == b"POST /p? 5 hello"


@scene
async def test_the_body_of_who_offers_another_protocol_is_no_request() -> None:
    """As a client of Java's sends its first request; or one who hides a second request from a proxy."""
    hidden = b"GET /hidden HTTP/1.1\r\n\r\n"
    offer = b"POST /p HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
    bodies = {b"Content-Length: %d" % len(hidden): hidden, b"Transfer-Encoding: chunked": framed}
    async with world() as here:
        for header, body in bodies.items():
            whole = offer + header + b"\r\n\r\n" + body
            for cut in (len(whole), len(whole) - len(body), len(whole) - 3):
                client = await here.client(whole[:cut])
                await asyncio.sleep(0.01)  # so that it is read in two parts; either way is right
                await client.say(whole[cut:] + GET)
                first, second = await client.answers("POST", "GET")
                assert first.body == b"POST /p? %d %b" % (len(hidden), hidden)
                assert second.body == b"GET /a b?c=%20&d 0 "


@scene
async def test_many_offers_of_another_protocol_in_one_piece_are_answered() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [("said", exchange.headers.get("a") or "")], b"")

    offers = [b"GET / HTTP/1.1\r\nA: %d\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" % n for n in range(1_500)]
    async with world(door) as here:
        client = await here.client(b"".join(offers))
        assert [one.headers["said"] for one in await client.answers(*["GET"] * 1_500)] == [str(n) for n in range(1_500)]


@scene
async def test_what_comes_after_a_body_is_no_header_and_bounded() -> None:
    told: list[tuple[str | None, str | None]] = []
    wanted = asyncio.Event()

    async def door(exchange: Exchange) -> None:
        wanted.set()
        try:
            await exchange.body(BODY_MAX)
            told.append((exchange.headers.single("who"), exchange.headers.get("more")))
            exchange.respond(200, [], b"")
        except KithError as error:
            exchange.respond(*errors.respond(error))

    head = b"POST / HTTP/1.1\r\nWho: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    async with world(door) as here:
        client = await here.client(head + b"0\r\nWho: 2\r\nMore: 3\r\n\r\n")
        assert (await client.answer("POST")).status == 200
        assert told == [("1", None)]
        for endless in (b"0\r\nMore: ", b"1;more="):
            wanted.clear()
            client = await here.client(head + endless)
            await wanted.wait()
            await client.say(b"a" * 1_000_000)
            assert (await client.answer("POST")).status == 400


@scene
async def test_a_body_that_comes_after_many_requests_ahead_is_read() -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def door(exchange: Exchange) -> None:
        begun.set()
        await go.wait()
        await echo(exchange)

    async with world(door) as here:
        client = await here.client(GET)
        await begun.wait()
        await client.say(GET * 30 + POST[:-5])
        (connection,) = here.listener._shared.connections
        await until(lambda: len(connection._queue) == 31)
        go.set()
        await client.answers(*["GET"] * 31)
        await client.say(b"hello")
        assert (await client.answer("POST")).body == b"POST /p? 5 hello"


@scene
async def test_a_client_that_sends_no_more_is_answered_before_the_connection_ends() -> None:
    async with world() as here:
        client = await here.client(GET + POST[:-1])
        client.writer.write_eof()
        whole, cut = await client.answers("GET", "POST")
        assert (whole.status, cut.status) == (200, 400)
        assert b"ended before the body did" in cut.body
        assert await client.rest() == b""


@scene
async def test_who_waits_to_be_told_to_go_on_is_told_once_the_body_is_wanted() -> None:
    async def door(exchange: Exchange) -> None:
        if exchange.path == "/no":
            exchange.respond(403, [], b"")
        else:
            await echo(exchange)

    head = b" HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    async with world(door) as here:
        client = await here.client(b"POST /p" + head)
        assert (await client.answer("POST")).status == 100
        await client.say(b"hello")
        assert (await client.answer("POST")).body == b"POST /p? 5 hello"
        old = await here.client(b"POST /p" + head.replace(b"1.1", b"1.0"))
        await asyncio.sleep(0.01)  # so that it would be told
        await old.say(b"hello")
        assert (await old.answer("POST")).status == 200, "HTTP/1.0 has no such answer"
        refused = await (await here.client(b"POST /no" + head)).answer("POST")
        assert (refused.status, refused.headers["connection"]) == (403, "close")


@scene
async def test_who_waits_is_told_to_go_on_once_however_its_body_comes() -> None:
    got = asyncio.Event()

    async def door(exchange: Exchange) -> None:
        size = 0
        async for chunk in exchange.chunks(BODY_MAX):
            size += len(chunk)
            got.set()
        exchange.respond(200, [], b"%d" % size)

    async with world(door) as here:
        client = await here.client(b"POST /p HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n")
        assert (await client.answer("POST")).status == 100
        await client.say(b"he")
        await got.wait()
        await client.say(b"llo")
        found = await client.answer("POST")
        assert (found.status, found.body) == (200, b"5")


@scene
async def test_a_length_is_read_however_many_zeros_it_begins_with() -> None:
    async with world() as here:
        client = await here.client(b"POST /p HTTP/1.1\r\nContent-Length: " + b"0" * 5_000 + b"5\r\n\r\nhe")
        await asyncio.sleep(0.01)  # so that the rest comes after the head
        await client.say(b"llo")
        assert (await client.answer("POST")).body == b"POST /p? 5 hello"


@scene
async def test_an_address_with_a_host_is_that_of_its_path() -> None:
    async with world() as here:
        for target, found in ((b"http://h/a?b", b"/a?b"), (b"http://h", b"/?"), (b"http://h?b=/a", b"/?b=/a")):
            client = await here.client(b"GET " + target + b" HTTP/1.1\r\n\r\n")
            assert (await client.answer()).body == b"GET " + found + b" 0 "


@scene
async def test_chunks_of_http_1_0_end_the_connection_with_their_answer() -> None:
    """RFC 9112, 6.1: who does not know them there sees another request in them."""
    async with world() as here:
        head = b"POST /p HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        client = await here.client(head + b"0\r\n\r\n" + GET)
        found = await client.answer("POST")
        assert (found.status, found.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


@scene
async def test_a_body_is_bounded_and_the_answer_reaches_who_sends_on() -> None:
    """The client's machine would throw away an answer if the connection broke under what it still sends."""

    async def door(exchange: Exchange) -> None:
        try:
            await exchange.body(1_000)
        except KithError as error:
            exchange.respond(*errors.respond(error))

    size = 8 << 20
    bodies = {
        b"Content-Length: %d" % size: bytes(size),
        b"Transfer-Encoding: chunked": b"10000\r\n" + bytes(1 << 16) + b"\r\n",
    }
    async with world(door) as here:
        for header, body in bodies.items():
            client = await here.client(b"POST / HTTP/1.1\r\n" + header + b"\r\n\r\n" + body)
            found = await client.answer("POST")
            assert (found.status, found.headers["connection"]) == (413, "close")


@scene
async def test_bodies_that_nobody_reads_do_not_stop_a_connection() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client()
        for _ in range(20):
            await client.say(b"POST / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + bytes(60_000))
            found = await client.answer("POST")
            assert found.status == 200
            if found.headers.get("connection") == "close":  # it was answered before its body was here
                client = await here.client()


@scene
async def test_what_is_sent_ahead_waits_in_bounds() -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def door(exchange: Exchange) -> None:
        begun.set()
        await go.wait()
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client()
        request = b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"x" * 10_000)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while True:  # until the kernel's buffers are full too
                async with asyncio.timeout(0.5):
                    await client.say(request)
                    sent += 1
        await begun.wait()
        (connection,) = here.listener._shared.connections
        assert len(connection._queue) < 100
        assert sent > len(connection._queue), "the rest waits with the client"
        go.set()
        assert all(one.status == 200 for one in await client.answers(*["GET"] * sent))


@scene
async def test_small_requests_that_come_in_one_piece_wait_in_bounds_too() -> None:
    go = asyncio.Event()

    async def door(exchange: Exchange) -> None:
        await go.wait()
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client(b"GET / HTTP/1.1\r\n\r\n" * 2_500)
        connection = await one_of(here)
        await until(lambda: not connection._is_reading)
        assert len(connection._queue) < 1_000
        go.set()
        assert all(one.status == 200 for one in await client.answers(*["GET"] * 2_500))


@scene
async def test_a_large_answer_waits_for_its_client() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(1 << 20))

    async with world(door) as here:
        client = await here.client(b"GET / HTTP/1.1\r\n\r\n" * 40)
        await asyncio.sleep(0.3)
        (connection,) = here.listener._shared.connections
        assert connection.unsent() < 8 << 20, "no answer is made while the one before it waits"
        found = await client.answers(*["GET"] * 40)
        assert all(len(one.body) == 1 << 20 for one in found)


def test_a_part_of_a_file_is_sent_and_a_file_that_shrinks_breaks_off(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3_000_000)
    (tmp_path / "f").write_bytes(content)

    async def door(exchange: Exchange) -> None:
        start, end = map(int, exchange.query_string.split("-"))
        await exchange.respond_file(206, [("etag", '"x"')], tmp_path / exchange.path[1:], start, end)

    async def scene() -> None:
        async with world(door) as here:
            client = await here.client()
            for start, end in ((0, 3_000_000), (5, 6), (1_000_000, 2_999_999)):
                await client.say(f"GET /f?{start}-{end} HTTP/1.1\r\n\r\n".encode())
                found = await client.answer()
                assert (found.status, found.body) == (206, content[start:end])
            await client.say(b"HEAD /f?0-9 HTTP/1.1\r\n\r\n")
            assert (await client.answer("HEAD")).headers["content-length"] == "9"
            await client.say(b"GET /f?0-4000000 HTTP/1.1\r\n\r\n")
            with pytest.raises((h11.RemoteProtocolError, ConnectionError)):
                await client.answer()
            client = await here.client(b"GET /none?0-1 HTTP/1.1\r\n\r\n")
            assert await client.rest() == b"", "the door of this test answers no errors"

    play(scene())


class Streams:
    """A door whose answers do not end by themselves."""

    def __init__(self) -> None:
        self.outgoing: list[Outgoing] = []
        self.opened, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.outgoing.append(exchange.stream(200, [("content-type", "text/event-stream")]))
        self.opened.set()
        await exchange.disconnected()
        self.left.set()


@scene
async def test_a_stream_is_sent_piece_by_piece_until_it_ends() -> None:
    door = Streams()
    async with world(door) as here:
        for version, framed in (("1.1", True), ("1.0", False)):
            door.opened.clear()
            client = await here.client(f"GET / HTTP/{version}\r\n\r\n".encode())
            await door.opened.wait()
            outgoing = door.outgoing[-1]
            for piece in (b"one", b"", b"two"):
                outgoing.send(piece)
            outgoing.end()
            found = await client.answer()
            assert found.body == b"onetwo"
            assert (found.headers.get("transfer-encoding") == "chunked") == framed
            await door.left.wait()
            door.left.clear()
            outgoing.send(b"nothing happens")


@scene
async def test_a_client_that_goes_away_is_noticed() -> None:
    door = Streams()
    async with world(door) as here:
        for leave in ("closes", "sends no more", "resets"):
            client = await here.client(GET)
            await door.opened.wait()
            await client.say(GET * 40 + b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + bytes(900_000))
            if leave == "sends no more":
                client.writer.write_eof()
            else:
                if leave == "resets":
                    handle = client.writer.get_extra_info("socket")
                    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.writer.close()
            await door.left.wait()
            door.left.clear()
            door.opened.clear()


@scene
async def test_what_a_client_does_not_take_is_known_and_it_can_be_cut() -> None:
    door = Streams()
    async with world(door) as here:
        client = await here.client(GET)
        await door.opened.wait()
        (outgoing,) = door.outgoing
        sent = 0
        for _ in range(256):
            outgoing.send(bytes(1 << 16))
            sent += 1 << 16
            await asyncio.sleep(0)
        assert outgoing.unsent() > sent // 2
        assert not outgoing.closed
        outgoing.cut()
        await door.left.wait()
        assert outgoing.unsent() == 0
        assert outgoing.closed
        assert len(await client.rest()) < sent


@scene
async def test_a_client_that_takes_nothing_of_its_answer_is_cut_off() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(64 << 20))

    async with world(door, idle_s=0.2) as here:
        client = await here.client(GET)
        await until(lambda: len(here.listener) > 0)
        await until(lambda: len(here.listener) == 0)
        assert len(await client.rest()) < 64 << 20


@scene
async def test_a_connection_beyond_the_bound_is_told_so() -> None:
    async with world(connections_max=2) as here:
        first = await here.client(GET)
        assert (await first.answer()).status == 200
        second = await here.client(GET)
        assert (await second.answer()).status == 200
        third = await here.client()
        assert (await third.answer()).status == errors.status_of(Overloaded(""))
        assert await third.rest() == b""
        third.writer.close()
        await first.say(GET)
        assert (await first.answer()).status == 200


@scene
async def test_a_listener_that_ends_answers_what_has_begun() -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def door(exchange: Exchange) -> None:
        begun.set()
        await go.wait()
        exchange.respond(200, [], b"done")

    async with world(door) as here:
        idle, busy = await here.client(), await here.client(GET)
        await begun.wait()
        closing = asyncio.create_task(here.listener.close(30))
        assert await idle.rest() == b"", "it asked nothing"
        with pytest.raises(ConnectionError):
            await here.client()
        go.set()
        found = await busy.answer()
        assert (found.status, found.body, found.headers["connection"]) == (200, b"done", "close")
        busy.writer.close()
        await closing


@scene
async def test_a_listener_that_ends_does_not_wait_for_who_had_an_answer_already() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(32 << 20))

    async with world(door) as here:
        client = await here.client(GET)
        connection = await one_of(here)
        await until(lambda: connection.unsent() > 0)
        closing = asyncio.create_task(here.listener.close(30))
        await asyncio.sleep(0)
        assert len((await client.answer()).body) == 32 << 20
        assert await client.rest() == b"", "it is told that nothing more is answered"
        client.writer.close()
        await closing


@scene
async def test_what_does_not_end_is_cut_off_at_last() -> None:
    door = Streams()
    async with world(door) as here:
        client = await here.client(GET)
        await door.opened.wait()
        await here.listener.close(0.05)
        await door.left.wait()
        await client.rest()


@scene
async def test_a_door_that_fails_ends_its_connection_and_no_other() -> None:
    told: list[str] = []

    async def door(exchange: Exchange) -> None:
        match exchange.path:
            case "/fails":
                raise ValueError("a bug")
            case "/silent":
                return
            case "/splits":
                exchange.respond(200, [("location", "/\r\nset-cookie: a=b")], b"")
            case "/cancelled":
                waits = asyncio.get_running_loop().create_future()
                waits.cancel()
                await waits
            case "/next":
                told.append("next")
            case _:
                exchange.respond(200, [], b"done")

    async with world(door) as here:
        other = await here.client(GET)
        await other.answer()
        for path in ("fails", "silent", "splits", "cancelled"):
            client = await here.client(f"GET /{path} HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n".encode())
            assert await client.rest() == b""
            assert not told, "what follows is not begun"
        await other.say(GET)
        assert (await other.answer()).body == b"done"


def test_processes_may_share_what_they_listen_on() -> None:
    """Two loops accept from one socket, as two processes do."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    port, ready, stop = listening.getsockname()[1], threading.Barrier(3), threading.Event()
    served: list[str] = []

    def process(name: str) -> None:
        async def serve() -> None:
            async def door(exchange: Exchange) -> None:
                served.append(name)
                exchange.respond(200, [], name.encode())

            listener = Listener(door, errors.respond, idle_s=30, connections_max=100)
            await listener.serve(socket.socket(fileno=listening.dup().detach()))
            ready.wait()
            await until(stop.is_set)
            await listener.close(1)

        uvloop.run(serve())

    threads = [threading.Thread(target=process, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(GET)
                assert client.recv(1_000).startswith(b"HTTP/1.1 200")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        listening.close()
    assert len(served) == 50
