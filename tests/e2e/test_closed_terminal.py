"""A terminal that is closed stops a server as SIGTERM does."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from cast import People
from servers import API, KEY, eventually, named, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_under_way_is_answered_though_its_terminal_is_closed(
    tmp_path: Path, people: People, number: signal.Signals
) -> None:
    """A terminal that is closed sends SIGHUP to every process; SIGTERM is sent to the supervisor."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup")
    with serving(tmp_path, start_new_session=True) as server:
        (first,) = named("api", server.process.pid)
        os.kill(first, signal.SIGKILL)  # its replacement is no fork
        eventually(lambda: named("api", server.process.pid) not in ([], [first]) and server.ready(), 60)
        body = json.dumps({"pairs": [[people.alice, people.bob]]}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            head = f"POST {API}/graph/follows/check HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
            connection.sendall(f"{head}expect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
            if number == signal.SIGHUP:
                os.killpg(server.process.pid, number)
            else:
                server.process.send_signal(number)
            eventually(lambda: not named("fanout", server.process.pid))
            connection.sendall(body)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert server.process.wait(60) == 0
    ended = [line for line in server.output().splitlines() if "a process ended" in line]
    assert len(ended) == 1, "the one that was killed"
