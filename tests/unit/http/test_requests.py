"""Parsing of requests from real sockets: split anywhere, pipelined, malformed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket

import pytest
from http_world import CHUNKED, GET, POST, only_connection, play, scene, until, world

from kith.core.errors import KithError
from kith.http.exchange import Exchange


@scene
async def test_requests_of_one_connection_are_answered_in_order() -> None:
    async with world() as here:
        client = await here.client(GET + POST + CHUNKED + GET)
        found = await client.answers("GET", "POST", "POST", "GET")
        assert [one.body for one in found] == [
            b"GET /a b?c=%20&d 0 ", b"POST /p? 5 hello", b"POST /p? 5 hello", b"GET /a b?c=%20&d 0 ",
        ]  # fmt: skip
        assert all(one.status == 200 and one.headers["date"].endswith("GMT") for one in found)


@scene
async def test_requests_are_read_wherever_they_are_split() -> None:
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
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhe",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused_and_the_one_before_it_is_answered(raw: bytes) -> None:
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
async def test_a_repeated_header_is_not_single_and_one_that_is_no_ascii_is_unreadable() -> None:
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
async def test_an_offer_of_http2_or_a_websocket_is_answered_in_http_1_1() -> None:
    async with world() as here:
        for upgrade in (b"h2c", b"websocket"):
            head = b"GET /a%20b?c=%20&d HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
            client = await here.client(head)
            assert (await client.answer()).body == b"GET /a b?c=%20&d 0 "
            await client.say(POST)
            assert (await client.answer("POST")).body == b"POST /p? 5 hello"


@scene
async def test_many_upgrade_offers_in_one_piece_are_answered() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [("said", exchange.headers.get("a") or "")], b"")

    offers = [b"GET / HTTP/1.1\r\nA: %d\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" % n for n in range(1_500)]
    async with world(door) as here:
        client = await here.client(b"".join(offers))
        assert [one.headers["said"] for one in await client.answers(*["GET"] * 1_500)] == [str(n) for n in range(1_500)]


@scene
async def test_an_absolute_url_as_target_is_read_as_its_path() -> None:
    async with world() as here:
        for target, found in ((b"http://h/a?b", b"/a?b"), (b"http://h", b"/?"), (b"http://h?b=/a", b"/?b=/a")):
            client = await here.client(b"GET " + target + b" HTTP/1.1\r\n\r\n")
            assert (await client.answer()).body == b"GET " + found + b" 0 "


@scene
async def test_pipelined_requests_wait_in_a_bounded_queue() -> None:
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
        assert sent > len(connection._queue), "the rest waits at the client"
        go.set()
        assert all(one.status == 200 for one in await client.answers(*["GET"] * sent))


@scene
async def test_small_pipelined_requests_in_one_piece_wait_in_a_bounded_queue_too() -> None:
    go = asyncio.Event()

    async def door(exchange: Exchange) -> None:
        await go.wait()
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client(b"GET / HTTP/1.1\r\n\r\n" * 2_500)
        connection = await only_connection(here)
        await until(lambda: not connection._is_reading)
        assert len(connection._queue) < 1_000
        go.set()
        assert all(one.status == 200 for one in await client.answers(*["GET"] * 2_500))
