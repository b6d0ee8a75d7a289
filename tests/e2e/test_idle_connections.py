"""Idle connections are closed, so nobody can keep others out by opening many."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import People
from raw_http import plain
from servers import API, Server, eventually, serving
from stream_listener import Listener

IDLE_S = 0.5
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a short idle timeout."""
    with serving(tmp_path_factory.mktemp("hurried"), KITH_CONNECTION_IDLE_S=str(IDLE_S)) as running:
        yield running


def connected(server: Server, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(sent)
    return connection


@pytest.mark.parametrize(
    "sent",
    [b"", PREFACE, PREFACE[:3], b"G", plain("GET", f"{API}/users/1")[:-2], plain("GET", "/healthz", key=None)],
    ids=["nothing", "HTTP/2", "half of HTTP/2", "a letter", "half a head", "one request and no other"],
)
def test_an_idle_connection_is_closed(impatient: Server, sent: bytes) -> None:
    with connected(impatient, sent) as connection, contextlib.suppress(ConnectionResetError):
        while connection.recv(65_536):
            pass


def test_a_quiet_stream_stays_open(impatient: Server, people: People) -> None:
    with impatient.client(acting=people.alice) as http, Listener(http) as listener:
        with connected(impatient) as other:  # opened later, and closed earlier
            assert not other.recv(1)
        with impatient.client(acting=people.bob) as bob:
            bob.post(f"{API}/users/{people.alice}/follow").raise_for_status()
        with impatient.client(acting=people.alice) as own:
            own.post(f"{API}/posts", json={"content": {"text": "still here"}}).raise_for_status()
        assert listener.wait("new_post")


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_more_idle_connections_than_descriptors_keep_nobody_out(tmp_path: Path) -> None:
    with serving(tmp_path, KITH_CONNECTION_IDLE_S=str(IDLE_S)) as server, contextlib.ExitStack() as many:
        counts = eventually(lambda: list((server.data / "metrics").glob("api-*.json")))
        resource.prlimit(int(counts[0].stem.removeprefix("api-")), resource.RLIMIT_NOFILE, (256, 256))
        for _ in range(300):
            many.enter_context(connected(server))
        eventually(server.ready, seconds=30)
