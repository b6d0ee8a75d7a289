"""What the kernel says of real connections, and how one is cut."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import eventually

from kith.api import sockets
from kith.api.sockets import Sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is known, and nothing is cut")
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["127.0.0.1", "::1"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """(client, server) of a connection."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server, _ = listener.accept()
    with client, server:
        yield client, server


def name(client: socket.socket) -> str:
    host, port = client.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def stuff(server: socket.socket) -> int:
    """Send until the kernel takes no more; how much that was."""
    server.setblocking(False)
    sent = 0
    try:
        while True:
            sent += server.send(bytes(1 << 16))
    except BlockingIOError:
        return sent


def test_a_client_that_reads_leaves_nothing_unsent(pair: Pair) -> None:
    client, server = pair
    known = Sockets()
    server.sendall(bytes(10_000))
    eventually(lambda: known.unsent(name(client)) == 0)


def test_a_client_that_does_not_read_takes_no_more_until_it_does(pair: Pair) -> None:
    client, server = pair
    known, sent = Sockets(), stuff(server)
    assert known.unsent(name(client)) is None
    left = sent
    while left:
        left -= len(client.recv(1 << 20))
    eventually(lambda: known.unsent(name(client)) == 0)


def test_a_cut_connection_ends_at_once_for_both(pair: Pair) -> None:
    client, server = pair
    stuff(server)
    assert Sockets().cut(name(client))
    with pytest.raises(BrokenPipeError):
        server.sendall(b"x")
    client.settimeout(5)
    while client.recv(1 << 20):
        pass


def test_nothing_is_known_of_a_stranger_or_of_who_is_gone(pair: Pair) -> None:
    client, server = pair
    known, gone = Sockets(), name(client)
    assert known.unsent("127.0.0.1:1") is None
    assert not known.cut("127.0.0.1:1")
    known = Sockets()
    assert known.unsent(gone) == 0
    number = server.fileno()
    server.close()
    with socket.socket() as other:
        os.dup2(other.fileno(), number)  # somebody else has the number now
        assert known.unsent(gone) is None
        assert not known.cut(gone)
        os.close(number)


def test_looking_leaves_no_descriptor_open(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SCANNED_EVERY_S", 0.0)
    known = Sockets()
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        known.unsent("127.0.0.1:1")
        known.unsent(name(pair[0]))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_looking_gives_up_no_lock_of_this_process(pair: Pair, tmp_path: Path) -> None:
    """To close any descriptor of a file drops the locks that a process has on it; LMDB keeps its readers by such."""
    with (tmp_path / "lock").open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        known = Sockets()
        assert known.unsent(name(pair[0])) == 0
        assert known.cut(name(pair[0]))
        taken = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        other = subprocess.run([sys.executable, "-c", taken, str(tmp_path / "lock")], capture_output=True, check=False)
        assert b"BlockingIOError" in other.stderr


def test_a_connection_made_since_the_last_look_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SCANNED_EVERY_S", 0.0)
    client, _ = pair
    known = Sockets()
    assert known.unsent("127.0.0.1:1") is None
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as late:
        accepted, _ = listener.accept()
        with accepted:
            assert known.unsent(name(late)) == 0
            assert known.unsent(name(client)) == 0
