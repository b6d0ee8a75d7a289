"""Answers over real sockets: large answers, files, streams, and clients that do not read."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from pathlib import Path

import h11
import pytest
from http_world import GET, Streams, only_connection, play, scene, until, world

from kith.http.exchange import Exchange


@scene
async def test_answers_that_may_have_no_body_send_none() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(int(exchange.path[1:]), [], b"body")

    async with world(door) as here:
        client = await here.client()
        for method, status, length in (("HEAD", 200, "4"), ("GET", 204, None), ("GET", 304, None), ("GET", 404, "4")):
            await client.say(f"{method} /{status} HTTP/1.1\r\n\r\n".encode())
            found = await client.answer(method)
            assert (found.status, found.headers.get("content-length")) == (status, length)
            assert found.body == (b"body" if status == 404 else b"")


@scene
async def test_a_large_answer_waits_for_its_client() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(1 << 20))

    async with world(door) as here:
        client = await here.client(b"GET / HTTP/1.1\r\n\r\n" * 40)
        await asyncio.sleep(0.3)
        (connection,) = here.listener._shared.connections
        assert connection.unsent() < 8 << 20, "no answer is made while the previous one waits to be sent"
        found = await client.answers(*["GET"] * 40)
        assert all(len(one.body) == 1 << 20 for one in found)


def test_a_range_of_a_file_is_sent_and_a_file_that_shrinks_breaks_the_connection(tmp_path: Path) -> None:
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
            assert await client.rest() == b"", "the door of this test sends no error answers"

    play(scene())


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
async def test_unsent_bytes_of_a_stream_are_counted_and_its_client_can_be_cut_off() -> None:
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
async def test_a_client_that_reads_nothing_of_its_answer_is_cut_off() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(64 << 20))

    async with world(door, idle_s=0.2) as here:
        client = await here.client(GET)
        await until(lambda: len(here.listener) > 0)
        await until(lambda: len(here.listener) == 0)
        assert len(await client.rest()) < 64 << 20


@scene
async def test_a_client_that_reads_nothing_is_cut_off_though_its_stream_keeps_sending() -> None:
    """As with the heartbeats of a stream."""
    door = Streams()
    async with world(door, idle_s=1_000) as here:
        await here.client(GET)
        await door.opened.wait()
        connection, (outgoing,) = await only_connection(here), door.outgoing
        outgoing.send(bytes(64 << 20))
        for now_s in range(100, 140, 10):
            assert not connection.closed
            await asyncio.sleep(0.05)
            connection.check(now_s, 25.0)
            outgoing.send(b"here")
        await until(lambda: connection.closed)


@scene
async def test_a_connection_is_not_cut_off_while_answers_are_being_sent() -> None:
    """Answers of equal length look like one answer that the client does not read."""
    async with world(idle_s=30.0) as here:
        await here.client()
        connection = await only_connection(here)
        for now_s in (1_000.0, 1_040.0):
            connection.write(b"HTTP/1.1 200 OK\r\n")
            connection.check(now_s, 30.0)
            connection.quiet_since_s = now_s + 40.0
            await asyncio.sleep(0.05)
        assert not connection.closed


@scene
async def test_the_system_drops_a_client_that_acknowledges_nothing() -> None:
    """A phone that loses its network does not close its connections."""
    async with world(idle_s=30.0) as here:
        await here.client()
        with socket.socket(fileno=os.dup((await only_connection(here)).socket or 0)) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
