"""Bodies of requests over real sockets: reading, bounds, `Expect: 100-continue`, and bodies that nobody reads."""

from __future__ import annotations

import asyncio

from http_world import BODY_MAX, GET, POST, echo, scene, until, world

from kith.api import errors
from kith.core.errors import KithError
from kith.http.exchange import Exchange


@scene
async def test_the_body_of_an_upgrade_offer_is_not_parsed_as_a_request() -> None:
    """Java's client sends such a first request. An attacker could hide a second request from a proxy this way."""
    hidden = b"GET /hidden HTTP/1.1\r\n\r\n"
    offer = b"POST /p HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
    bodies = {b"Content-Length: %d" % len(hidden): hidden, b"Transfer-Encoding: chunked": framed}
    async with world() as here:
        for header, body in bodies.items():
            whole = offer + header + b"\r\n\r\n" + body
            for cut in (len(whole), len(whole) - len(body), len(whole) - 3):
                client = await here.client(whole[:cut])
                await asyncio.sleep(0.01)  # so that it usually arrives in two parts; either way is right
                await client.say(whole[cut:] + GET)
                first, second = await client.answers("POST", "GET")
                assert first.body == b"POST /p? %d %b" % (len(hidden), hidden)
                assert second.body == b"GET /a b?c=%20&d 0 "


@scene
async def test_chunk_extensions_and_trailers_are_bounded_and_never_headers() -> None:
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
async def test_a_body_after_many_pipelined_requests_is_read() -> None:
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
async def test_100_continue_is_sent_once_the_door_reads_the_body() -> None:
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
        await asyncio.sleep(0.01)  # time in which a 100 would be sent
        await old.say(b"hello")
        assert (await old.answer("POST")).status == 200, "HTTP/1.0 has no status 100"
        refused = await (await here.client(b"POST /no" + head)).answer("POST")
        assert (refused.status, refused.headers["connection"]) == (403, "close")


@scene
async def test_100_continue_is_sent_once_even_if_the_body_comes_in_pieces() -> None:
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
async def test_a_content_length_may_have_leading_zeros() -> None:
    async with world() as here:
        client = await here.client(b"POST /p HTTP/1.1\r\nContent-Length: " + b"0" * 5_000 + b"5\r\n\r\nhe")
        await asyncio.sleep(0.01)  # so that the rest comes after the head
        await client.say(b"llo")
        assert (await client.answer("POST")).body == b"POST /p? 5 hello"


@scene
async def test_a_chunked_body_of_http_1_0_closes_the_connection_after_its_answer() -> None:
    """RFC 9112, 6.1: a proxy that ignores `Transfer-Encoding` in HTTP/1.0 takes the chunks for another request."""
    async with world() as here:
        head = b"POST /p HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        client = await here.client(head + b"0\r\n\r\n" + GET)
        found = await client.answer("POST")
        assert (found.status, found.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


@scene
async def test_a_body_is_bounded_and_a_client_that_still_sends_gets_the_answer() -> None:
    """If the connection were reset while the client sends, the client's system would discard the answer."""

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
async def test_bodies_that_nobody_reads_do_not_block_a_connection() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client()
        for _ in range(20):
            await client.say(b"POST / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + bytes(60_000))
            found = await client.answer("POST")
            assert found.status == 200
            if found.headers.get("connection") == "close":  # it was answered before its body had arrived
                client = await here.client()
