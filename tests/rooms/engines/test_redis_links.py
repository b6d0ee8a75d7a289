"""Links to a fake Redis node: answers in order, a silent or closed node, and calls left to the cluster's client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest
from coroutines import Run, answer
from redis.asyncio.cluster import ClusterNode
from redis.exceptions import MovedError, NoScriptError
from structlog.testing import capture_logs

from kith.access.sliding_window import Quota
from kith.core.errors import StoreUnavailable
from kith.engines.redis import script as scripts
from kith.engines.redis.connecting import connect
from kith.engines.redis.links import Links
from kith.engines.redis.quota_store import RedisQuotas
from kith.engines.redis.script import Script

ANSWER_TIMEOUT_S, PATIENCE_S = 0.2, 60.0
Say = Callable[[list[bytes]], bytes | None]


class Waiter:
    """Waits for the answer to one command."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(self, answer: Any) -> None:
        self.answer.set_result(answer)

    def failed(self) -> None:
        self.answer.set_result("failed")


class FakeNode:
    """A fake node. `say` returns its answer to a command; None: it never answers."""

    def __init__(self, say: Say) -> None:
        self.answer_to = say
        self.commands_received: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()  # set once a connection has ended

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        parser = hiredis.Reader()
        while data := await reader.read(1 << 16):
            parser.feed(data)
            while command := parser.gets():
                self.commands_received.append(command)
                answer = self.answer_to(command)
                if answer is not None:
                    writer.write(answer)
        self.ended.set()


@asynccontextmanager
async def fake_node(say: Say, **options: Any) -> AsyncIterator[tuple[FakeNode, Links, ClusterNode]]:
    node = FakeNode(say)
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    links = Links(ANSWER_TIMEOUT_S)
    try:
        yield node, links, ClusterNode("127.0.0.1", server.sockets[0].getsockname()[1], **options)
    finally:
        links.close()
        server.close()


async def sent(links: Links, node: ClusterNode, *commands: tuple[Any, ...]) -> list[Any]:
    """Send commands once there is a link; return their answers."""
    waiters = [Waiter() for _ in commands]
    await until(lambda: links.send(node, list(zip(commands, waiters, strict=True))))
    return [await waiter.answer for waiter in waiters]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition did not hold within 10 s")


def echo(command: list[bytes]) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(command[-1]), command[-1])


def test_answers_come_to_their_callers_and_the_password_is_sent_first(run: Run) -> None:
    async def scene() -> None:
        async with fake_node(
            lambda command: b"+OK\r\n" if command[0] == b"AUTH" else echo(command), password="secret"
        ) as at:
            node, links, address = at
            assert await sent(links, address, ("ECHO", "one"), ("ECHO", b"two")) == [b"one", b"two"]
            assert node.commands_received[0] == [b"AUTH", b"secret"]
            many = await asyncio.gather(*(sent(links, address, ("ECHO", at)) for at in range(50)))
            assert many == [[b"%d" % at] for at in range(50)]
            assert len(node.writers) == 1

    run(scene())


def test_closing_ends_a_connection_whose_password_is_not_answered_yet(run: Run) -> None:
    async def scene() -> None:
        async with fake_node(lambda _: None, password="secret") as (node, links, address):
            links._answer_timeout_s = PATIENCE_S
            assert not links.send(address, [])
            await until(lambda: bool(node.commands_received))
            links.close()
            async with asyncio.timeout(5):
                await node.ended.wait()

    run(scene())


def test_an_error_of_the_server_is_an_answer(run: Run) -> None:
    async def scene() -> None:
        async with fake_node(lambda _: b"-MOVED 7 127.0.0.1:7001\r\n") as (_, links, address):
            (answer,) = await sent(links, address, ("GET", "a"))
            assert isinstance(answer, MovedError)

    run(scene())


def test_a_silent_or_closed_node_fails_waiting_calls_and_is_skipped_for_a_moment(run: Run) -> None:
    async def scene() -> None:
        silent = [True]
        async with fake_node(lambda command: None if silent[0] else echo(command)) as (node, links, address):
            assert await sent(links, address, ("ECHO", 1), ("ECHO", 2)) == ["failed", "failed"]
            silent[0] = False
            assert not links.send(address, [(("ECHO", 3), Waiter())])
            assert await sent(links, address, ("ECHO", 4)) == [b"4"]
            silent[0] = True
            waits = asyncio.create_task(sent(links, address, ("ECHO", 5)))
            await until(lambda: [b"ECHO", b"5"] in node.commands_received)
            node.writers[-1].close()
            assert await waits == ["failed"]

    run(scene())


@pytest.mark.parametrize("refusal", [b"-MOVED 7 127.0.0.1:1\r\n", b"-NOSCRIPT no\r\n", b"-CLUSTERDOWN no\r\n"])
def test_a_call_that_the_node_refuses_is_left_to_the_clusters_client(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusal: bytes
) -> None:
    async def scene() -> None:
        async with fake_node(lambda _: refusal) as (_, links, address):
            cluster = connect("127.0.0.1:1")
            cluster.links = links
            cluster.nodes_manager.slots_cache = {slot: [address] for slot in range(16_384)}
            commands_left: list[Any] = []

            async def send(_: Any, commands: list[Any]) -> list[Any]:
                commands_left.extend(commands)
                return [b"by the client" for _ in commands]

            monkeypatch.setattr(scripts, "send", send)
            script = Script(cluster, "sets.lua")
            await sent(links, address, ("PING",))
            assert await script.run("a", "time") == b"by the client"
            assert len(commands_left) == 1

    run(scene())


def test_a_call_whose_link_ends_is_not_repeated_as_it_may_have_been_done(run: Run) -> None:
    async def scene() -> None:
        async with fake_node(lambda command: b"+OK\r\n" if command == [b"PING"] else None) as (node, links, address):
            cluster = connect("127.0.0.1:1")
            cluster.links = links
            cluster.nodes_manager.slots_cache = {slot: [address] for slot in range(16_384)}
            script = Script(cluster, "sets.lua")
            await sent(links, address, ("PING",))
            assert await answer(script.run("a", "time")) is StoreUnavailable
            assert len(node.commands_received) == 2

    run(scene())


def test_a_node_that_forgot_the_script_is_sent_it_while_another_node_is_down(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async def send(_: Any, commands: list[Any]) -> list[Any]:
            return [NoScriptError("no") if command[0] == "EVALSHA" else b"done" for command in commands]

        async def down(*_: Any, **__: Any) -> None:
            raise StoreUnavailable("a node is down")

        monkeypatch.setattr(scripts, "send", send)
        monkeypatch.setattr(scripts, "ask", down)
        script = Script(connect("127.0.0.1:1"), "sets.lua")
        assert await script.run("a", "time") == b"done"

    run(scene())


def test_a_silent_node_that_leaves_requests_uncounted_is_logged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        cluster = connect("127.0.0.1:1")
        store = RedisQuotas(cluster, count_timeout_s=0.0)
        monkeypatch.setattr(store._script, "run", lambda *_: asyncio.Event().wait())
        with capture_logs() as logged:
            assert (await store.take(0, 7, Quota(1, 60), 0.0)).wait_s == 0
        assert logged[0]["error"]
        await cluster.aclose()

    run(scene())
