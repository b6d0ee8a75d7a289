"""When connections end, over real sockets: as the client asks, at a bound, with the process, or by a fault."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import threading

import pytest
import uvloop
from http_world import GET, POST, Streams, only_connection, scene, until, world

from kith.api import errors
from kith.core.errors import Overloaded
from kith.http.connection import Connection
from kith.http.exchange import Exchange
from kith.http.listener import Listener


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
async def test_a_client_that_half_closes_is_answered_before_the_connection_ends() -> None:
    async with world() as here:
        client = await here.client(GET + POST[:-1])
        client.writer.write_eof()
        whole, cut = await client.answers("GET", "POST")
        assert (whole.status, cut.status) == (200, 400)
        assert b"ended before the body did" in cut.body
        assert await client.rest() == b""


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
async def test_a_connection_that_ended_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()  # the collector would free cycles, but only later
    try:
        async with world() as here:
            for asked in (GET, POST, b"no request"):
                client = await here.client(asked)
                await client.reader.read(1)
                client.writer.close()
            await until(lambda: not any(isinstance(one, Connection) for one in gc.get_objects()))
    finally:
        gc.enable()


@scene
async def test_a_connection_beyond_the_bound_is_answered_with_an_error() -> None:
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
async def test_a_closing_listener_answers_requests_that_have_begun() -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def door(exchange: Exchange) -> None:
        begun.set()
        await go.wait()
        exchange.respond(200, [], b"done")

    async with world(door) as here:
        idle, busy = await here.client(), await here.client(GET)
        await begun.wait()
        closing = asyncio.create_task(here.listener.close(30))
        assert await idle.rest() == b"", "it sent no request"
        with pytest.raises(ConnectionError):
            await here.client()
        go.set()
        found = await busy.answer()
        assert (found.status, found.body, found.headers["connection"]) == (200, b"done", "close")
        busy.writer.close()
        await closing


@scene
async def test_a_closing_listener_answers_requests_on_their_way() -> None:
    async with world() as here:
        client = await here.client(GET)
        assert (await client.answer()).headers.get("connection") is None
        closing = asyncio.create_task(here.listener.close(30))
        await asyncio.sleep(0)
        await client.say(GET)
        found = await client.answer()
        assert (found.status, found.headers["connection"]) == (200, "close")
        assert await client.rest() == b""
        client.writer.close()
        await closing


@scene
async def test_a_connection_accepted_just_before_the_listener_closes_ends_with_its_answer() -> None:
    async def connect_and_close_after(turns: int) -> None:
        is_closing = False

        async def door(exchange: Exchange) -> None:
            exchange.respond(200, [], b"late" if is_closing else b"early")

        async def close() -> None:
            nonlocal is_closing
            is_closing = True
            await here.listener.close(30)

        async with world(door) as here:
            opening = asyncio.create_task(here.client(GET))
            for _ in range(turns):
                await asyncio.sleep(0)
            closing = asyncio.create_task(close())
            with contextlib.suppress(ConnectionError):  # it was not accepted
                client = await opening
                answer = await client.reader.read(1 << 16)
                assert b"late" not in answer or b"connection: close" in answer
                client.writer.close()
            await closing

    for turns in range(8):
        await connect_and_close_after(turns)


@scene
async def test_a_closing_listener_does_not_wait_for_more_requests_after_an_answer() -> None:
    async def door(exchange: Exchange) -> None:
        exchange.respond(200, [], bytes(32 << 20))

    async with world(door) as here:
        client = await here.client(GET)
        connection = await only_connection(here)
        await until(lambda: connection.unsent() > 0)
        closing = asyncio.create_task(here.listener.close(30))
        await asyncio.sleep(0)
        assert len((await client.answer()).body) == 32 << 20
        assert await client.rest() == b"", "the connection is closed after the answer"
        client.writer.close()
        await closing


@scene
async def test_a_stream_that_does_not_end_is_cut_off_when_the_listener_closes() -> None:
    door = Streams()
    async with world(door) as here:
        client = await here.client(GET)
        await door.opened.wait()
        await here.listener.close(0.05)
        await door.left.wait()
        await client.rest()


@scene
async def test_a_failure_of_the_door_ends_only_its_own_connection() -> None:
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
            assert not told, "the next pipelined request is not started"
        await other.say(GET)
        assert (await other.answer()).body == b"done"


def test_processes_may_share_a_listening_socket() -> None:
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
