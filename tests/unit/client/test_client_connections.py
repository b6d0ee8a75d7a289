"""Both clients over real connections: what cancelled calls and closed clients leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import queue
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from servers import eventually

from kith.client import AsyncKith, Kith, Retry, Unreachable
from kith.client.connections import CONNECTIONS
from kith.client.streams import FeedEvent

KEY = "sk-very-secret"
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"exists":true}'
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    b'id: 1-1\nevent: unread\ndata: {"count":0,"partial":false}\n\n'
)
TURNS, REPEATED = 20, 60  # a call takes some 16 turns of the loop; of 60 cancelled at each, over 100 met a bad moment
LONG_S = 30.0
WAIT_S = 1.0


def test_calls_cancelled_at_any_moment_reserve_no_connections() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(ANSWER)
        writer.close()

    async def run() -> bool:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, AsyncKith(f"http://127.0.0.1:{port}", KEY, timeout_s=LONG_S, retry=Retry(tries=1)) as kith:
            for turns in [*range(TURNS)] * REPEATED:
                call = asyncio.create_task(kith.exists("follows", 1, 2))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
            return await kith.exists("follows", 1, 2)

    assert asyncio.run(run())


class SlowService:
    """Answers once `answering` is set."""

    def __init__(self) -> None:
        self.asked, self.full, self.answering = 0, asyncio.Event(), asyncio.Event()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.asked == CONNECTIONS:
            self.full.set()
        await self.answering.wait()
        return httpx.Response(200, json={"exists": True})

    def client(self) -> AsyncKith:
        return AsyncKith("http://kith.example", KEY, transport=httpx.MockTransport(self.answer))

    async def calls_on_all_connections(self, kith: AsyncKith) -> list[asyncio.Task[bool]]:
        sent = [asyncio.create_task(kith.exists("follows", 1, 2)) for _ in range(CONNECTIONS)]
        await self.full.wait()
        return sent


def test_a_call_cancelled_before_it_has_a_connection_is_not_sent() -> None:
    async def run() -> int:
        service = SlowService()
        async with service.client() as kith:
            sent = await service.calls_on_all_connections(kith)
            waiting = asyncio.create_task(kith.exists("follows", 1, 2))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            service.answering.set()
            assert all(await asyncio.gather(*sent))
            return service.asked

    assert asyncio.run(run()) == CONNECTIONS


def test_a_cancelled_call_whose_request_fails_later_logs_nothing() -> None:
    logged = list[object]()

    async def run() -> None:
        asked, failing = asyncio.Event(), asyncio.Event()

        async def fail(request: httpx.Request) -> httpx.Response:
            asked.set()
            await failing.wait()
            raise httpx.ReadError("the service stopped")

        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        async with AsyncKith("http://kith.example", KEY, transport=httpx.MockTransport(fail)) as kith:
            call = asyncio.create_task(kith.exists("follows", 1, 2))
            await asked.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            failing.set()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.wait(others)
            del others
        gc.collect()

    asyncio.run(run())
    assert logged == []


def test_calls_that_waited_in_vain_for_a_connection_reserve_none() -> None:
    """Threads give up just when connections become free. Afterwards all connections can be used at once."""
    ports, together, asked = queue.SimpleQueue[int](), threading.Event(), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                asked += 1
                await asyncio.sleep(WAIT_S / 2)
                while together.is_set() and asked < CONNECTIONS:  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(WAIT_S / 20)
                writer.write(ANSWER)
        writer.close()

    async def run_server() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=CONNECTIONS)
        ports.put(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run_server()), daemon=True).start()
    kith = Kith(f"http://127.0.0.1:{ports.get(timeout=LONG_S)}", KEY, timeout_s=WAIT_S, retry=Retry(tries=1))
    with kith, ThreadPoolExecutor(4 * CONNECTIONS) as threads:
        calls = [threads.submit(kith.exists, "follows", 1, 2) for _ in range(10 * CONNECTIONS)]
        refused = [call for call in calls if isinstance(call.exception(), Unreachable)]
        assert refused
        asked = 0
        together.set()
        kith._http.timeout = LONG_S  # however busy the machine is
        assert all(threads.map(lambda _: kith.exists("follows", 1, 2), range(CONNECTIONS)))


def test_streams_cancelled_at_any_moment_leave_no_connection_open() -> None:
    connected, alone = 0, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        alone.clear()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(STREAM)
        writer.close()
        connected -= 1
        if not connected:
            alone.set()

    async def follow(kith: AsyncKith) -> None:
        async for _ in kith.feed_stream():
            pass

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, AsyncKith(f"http://127.0.0.1:{port}", KEY) as kith:
            for turns in [*range(TURNS)] * 20:
                following = asyncio.create_task(follow(kith))
                for _ in range(turns):
                    await asyncio.sleep(0)
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            async with asyncio.timeout(LONG_S):
                await alone.wait()

    asyncio.run(run())


def test_a_stream_that_waits_in_another_thread_ends_once_its_client_is_closed() -> None:
    found = queue.SimpleQueue[object]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kith = Kith(f"http://127.0.0.1:{listening.getsockname()[1]}", KEY)

        def follow() -> None:
            for event in kith.feed_stream():
                found.put(event)

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        with listening.accept()[0] as connection:
            connection.sendall(STREAM)
            found.get(timeout=LONG_S)
            eventually(lambda: waits(following), LONG_S)
            kith.close()
            following.join(LONG_S)
            assert not following.is_alive()


def test_a_stream_that_waits_for_a_connection_ends_once_its_client_is_closed() -> None:
    async def follow(kith: AsyncKith) -> list[FeedEvent]:
        return [event async for event in kith.feed_stream()]

    async def run() -> list[FeedEvent]:
        service = SlowService()
        async with service.client() as kith:
            sent = await service.calls_on_all_connections(kith)
            following = asyncio.create_task(follow(kith))
            await asyncio.sleep(0)
        service.answering.set()
        assert all(await asyncio.gather(*sent))
        return await following

    assert asyncio.run(run()) == []


def waits(thread: threading.Thread) -> bool:
    """Whether the thread waits for the network."""
    return Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()[0] == "S"
