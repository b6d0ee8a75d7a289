"""HTTP/2, as Apple's push service speaks it: one connection for many requests, and their fate when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpcore
import pytest
from authority import Authority
from coroutines import run_coroutine
from http2_server import Http2Request, Http2Server, Say, http2_server

from kith.outbound import http2
from kith.outbound.addresses import networks_of
from kith.outbound.circuits import OPEN_AFTER
from kith.outbound.errors import SendFailed, SendFault
from kith.outbound.http2 import Connections
from kith.outbound.outbound import ANSWER_BYTES_MAX, Outbound
from kith.outbound.urls import check_url

HOST = "push.example"
LIMIT_S = 60.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def resolve_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def run_with_server(
    authority: Authority, act: Callable[[Outbound, Http2Server], Awaitable[Any]], total_s: float = 5.0
) -> Any:
    async def scenario() -> Any:
        trusted: ssl.SSLContext = authority.trusted()
        outbound = Outbound(networks_of(["127.0.0.1"]), resolve=resolve_here, tls=trusted, total_s=total_s, http2=True)
        async with http2_server(authority.serving(HOST)) as server:
            try:
                return await act(outbound, server)
            finally:
                await outbound.close()

    return run_coroutine(scenario())


async def sent(outbound: Outbound, server: Http2Server, body: bytes) -> int | SendFault:
    """The status of an answer, or why there is none."""
    try:
        return (await outbound.send("POST", f"https://{HOST}:{server.port}/3/device/x", {}, body)).status
    except SendFailed as error:
        return error.fault


def bodies(server: Http2Server) -> list[bytes]:
    return sorted(one.body for one in server.got)


def test_many_requests_share_a_connection(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        assert await sent(outbound, server, b"first") == 200
        said = await asyncio.gather(*(sent(outbound, server, b"%03d" % number) for number in range(50)))
        assert said == [200] * 50
        assert server.connections == 1
        assert bodies(server) == sorted([b"first", *(b"%03d" % number for number in range(50))])

    run_with_server(authority, act)


def test_a_host_that_takes_few_at_once_gets_them_one_after_the_other(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        server.streams_max = 2
        said = await asyncio.gather(*(sent(outbound, server, b"%03d" % number) for number in range(20)))
        assert said == [200] * 20
        assert server.connections == 1

    run_with_server(authority, act)


def test_a_body_of_more_than_the_host_takes_at_once_arrives_whole(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        body = bytes(range(256)) * 1_000
        assert await asyncio.gather(*(sent(outbound, server, body) for _ in range(2))) == [200, 200]
        assert bodies(server) == [body, body]

    run_with_server(authority, act)


def test_an_answer_without_end_is_cut_at_a_bound_and_the_connection_continues(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        server.say = lambda got: "endless" if got.body == b"first" else 200
        answer = await outbound.send("POST", f"https://{HOST}:{server.port}/", {}, b"first")
        assert len(answer.body) == ANSWER_BYTES_MAX
        assert await sent(outbound, server, b"second") == 200
        assert server.connections == 1

    run_with_server(authority, act)


def test_a_request_that_a_host_refused_unprocessed_is_sent_again(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        refused: list[Http2Request] = []

        def say(got: Http2Request) -> Say:
            refused.append(got)
            return "refused" if len(refused) == 1 else 200

        server.say = say
        assert await sent(outbound, server, b"first") == 200
        assert len(refused) == 2
        server.say = lambda _: "refused"
        assert await sent(outbound, server, b"second") is SendFault.BROKEN

    run_with_server(authority, act)


def test_a_host_that_speaks_only_http1_is_called_with_that(authority: Authority) -> None:
    async def serve(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reading.readuntil(b"\r\n\r\n"):
                assert await reading.readexactly(4) == b"body"
                writing.write(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n")
        writing.close()

    async def act(outbound: Outbound, server: Http2Server) -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.serving(HOST)) as plain:
            url = f"https://{HOST}:{plain.sockets[0].getsockname()[1]}/"
            said = [(await outbound.send("POST", url, {}, b"body")).status for _ in range(2)]
            await outbound.close()
        assert said == [201, 201]

    run_with_server(authority, act)


def test_after_a_goaway_before_processing_another_connection_is_used(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        assert await sent(outbound, server, b"first") == 200
        server.say = lambda got: "goaway before" if got.connection == 1 else 200
        assert await sent(outbound, server, b"second") in (200, SendFault.BROKEN)
        assert await sent(outbound, server, b"third") == 200
        assert server.connections == 2
        assert bodies(server)[-1] == b"third"

    run_with_server(authority, act)


@pytest.mark.parametrize("said", ["goaway after", "hang up", "reset"])
def test_after_a_connection_ends_among_many_requests_the_next_is_answered(authority: Authority, said: Say) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        def say(got: Http2Request) -> Say:
            return said if got.body == b"002" else 200

        server.say = say
        found = await asyncio.gather(*(sent(outbound, server, b"%03d" % number) for number in range(4)))
        assert set(found) <= {200, SendFault.BROKEN}
        assert await sent(outbound, server, b"later") == 200
        for number, one in enumerate(found):
            assert one != 200 or b"%03d" % number in bodies(server)

    run_with_server(authority, act)


def test_a_silent_host_is_retried_on_another_connection_and_then_rests(authority: Authority) -> None:
    async def act(outbound: Outbound, server: Http2Server) -> None:
        server.say = lambda got: "nothing" if got.connection == 1 else 200
        assert await sent(outbound, server, b"first") is SendFault.TIMEOUT
        assert await sent(outbound, server, b"second") == 200
        assert server.connections == 2
        server.say = lambda _: "nothing"
        found = await asyncio.gather(*(sent(outbound, server, b"x") for _ in range(OPEN_AFTER)))
        assert found == [SendFault.TIMEOUT] * OPEN_AFTER
        assert await sent(outbound, server, b"x") is SendFault.RESTING

    run_with_server(authority, act, total_s=1.5)


@pytest.mark.parametrize("others_wait", [False, True])
def test_a_slow_connect_is_not_cancelled_by_requests_to_many_other_hosts(
    monkeypatch: pytest.MonkeyPatch, others_wait: bool
) -> None:
    """Users name hosts under the domains of push services: waiting for one must not end as if it was cancelled."""

    async def play() -> None:
        going_on = asyncio.Event()

        class Backend(httpcore.AsyncNetworkBackend):
            async def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
                if host == "slow.example" or others_wait:
                    await going_on.wait()
                raise httpcore.ConnectError(host)

        connections = Connections(Backend(), ssl.create_default_context(), 1)

        def asked(host: str) -> asyncio.Task[Any]:
            target = check_url(f"https://{host}/")
            return asyncio.create_task(connections.send("POST", target, {}, b"", LIMIT_S))

        asking = [asked("slow.example")]
        for number in range(2 * http2.HOSTS_MAX):
            asking.append(asked(f"made-up-{number}.example"))
            await asyncio.sleep(0)
        going_on.set()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(answer) for answer in answers} == {httpcore.ConnectError}
        await connections.close()

    monkeypatch.setattr(http2, "HOSTS_MAX", 3)
    run_coroutine(play())
