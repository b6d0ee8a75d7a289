"""The cache of parsed heads: a known head gives the same request again. Anything unusual is parsed each time."""

from __future__ import annotations

import asyncio

import pytest
from http_world import only_connection, scene, world

from kith.http.exchange import Exchange
from kith.http.headers import Headers
from kith.http.heads import HEAD_BYTES_MAX, HEADS_MAX, HeadCache

KEY = b"Host: x\r\nAuthorization: Bearer k\r\n"
AGAIN = (
    (b"GET /a?b=1&c=2 HTTP/1.1\r\n" + KEY + b"X-Kith-User: 7\r\n\r\n", "/a", "b=1&c=2", "7"),
    (b"GET /users/8 HTTP/1.1\r\n" + KEY + b"X-Kith-User: 123456789\r\n\r\n", "/users/8", "", "123456789"),
    (b"GET / HTTP/1.1\r\n" + KEY + b"X-Kith-User: 007\r\n\r\n", "/", "", "007"),
    (b"GET /a%20b HTTP/1.1\r\n" + KEY + b"X-Kith-User: 7\r\n\r\n", "/a b", "", "7"),
    (b"GET /a HTTP/1.1\r\n" + KEY + b"X-Kith-User: system\r\n\r\n", "/a", "", "system"),
    (b"GET /a HTTP/1.1\r\n" + KEY + b"X-Kith-User: \r\n\r\n", "/a", "", ""),
    (b"GET /a HTTP/1.1\r\n" + KEY + b"X-Kith-User:  7 \r\n\r\n", "/a", "", "7"),
    (b"GET /a HTTP/1.1\r\n" + KEY + b"\r\n", "/a", "", None),
    (b"GET /a HTTP/1.1\r\nX-Kith-User: 9\r\n" + KEY + b"\r\n", "/a", "", "9"),
)  # fmt: skip


@scene
async def test_requests_are_read_right_whichever_heads_came_before() -> None:
    told: list[tuple[object, ...]] = []

    async def door(exchange: Exchange) -> None:
        who = exchange.headers.single("x-kith-user")
        told.append((exchange.path, exchange.query_string, who, exchange.headers.single("authorization")))
        exchange.respond(200, [], b"")

    async with world(door) as here:
        client = await here.client()
        for raw, *_ in AGAIN * 3:
            await client.say(raw)
            assert (await client.answer()).status == 200
        connection = await only_connection(here)
        assert len(connection._shared.heads) > 1
    assert told == [(*said, "Bearer k") for _, *said in AGAIN * 3]


@scene
async def test_a_body_that_looks_like_a_known_request_is_a_body() -> None:
    inner = b"GET /b HTTP/1.1\r\n" + KEY + b"\r\n"
    async with world() as here:
        client = await here.client(inner)
        assert (await client.answer()).body == b"GET /b? 0 "
        await client.say(b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner))
        await asyncio.sleep(0.02)
        await client.say(inner)
        assert (await client.answer("POST")).body == b"POST /p? %d " % len(inner) + inner[:100]
        await client.say(inner[:9])
        await asyncio.sleep(0.02)
        await client.say(inner[9:] + inner)
        assert [one.body for one in await client.answers("GET", "GET")] == [b"GET /b? 0 "] * 2


@scene
async def test_a_request_that_closes_the_connection_is_parsed_each_time() -> None:
    """`Proxy-Connection` closes it too. A cached head would skip the close, for which the client waits."""
    async with world() as here:
        for header in (b"Connection", b"Proxy-Connection") * 2:
            client = await here.client(b"GET /a HTTP/1.1\r\nHost: x\r\n%b: close\r\n\r\n" % header)
            assert (await client.answer()).headers["connection"] == "close"
            assert await client.rest() == b""


def headers_of(raw: bytes) -> Headers:
    headers = Headers()
    for line in raw.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b":")
        headers.add(name, value.strip())
    return headers


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.0\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Kith-User: 1\r\nX-Kith-User: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Kith-User: 1\r\nx-kith-user:2\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nCookie: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n",
    ],
    ids=["1.0", "POST", "body", "two users", "two users, one otherwise", "proxy", "two requests", "long"],
)  # fmt: skip
def test_an_unusual_head_is_parsed_each_time(raw: bytes) -> None:
    heads = HeadCache()
    heads.add(raw, headers_of(raw))
    assert heads.find(raw) is None


def test_a_head_as_http_libraries_send_it_is_cached() -> None:
    raw = b"GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: keep-alive\r\nUser-Agent: python-httpx/0.28\r\n\r\n"
    heads = HeadCache()
    heads.add(raw, headers_of(raw))
    assert heads.find(raw) is not None


def test_the_cache_of_heads_is_bounded() -> None:
    heads = HeadCache()
    for number in range(HEADS_MAX + 1):
        raw = b"GET / HTTP/1.1\r\nX-Request-Id: %d\r\n\r\n" % number
        heads.add(raw, headers_of(raw))
    assert len(heads) == 1
    assert heads.find(raw) is not None
