"""`kith serve` whose committers hang, or wait to write while their API process is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from ledger import opened
from processes import API_KEY, ServerGroup, serving
from servers import alive, free_port, named

from kith.engines.embedded.environment import TURN_FILE

_FOLLOWED = 7
_TURN = """
import fcntl, os, sys
turn = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(turn, fcntl.LOCK_EX, 1, 0)
fcntl.lockf(turn, fcntl.LOCK_EX, 1, 1)
print("held", flush=True)
sys.stdin.readline()
"""
_AS_PROCESS_1 = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become its children
os.execv(sys.executable, [sys.executable, "-P", "-m", "kith", *sys.argv[1:]])
"""


@contextlib.contextmanager
def turn_held(folder: Path) -> Iterator[Callable[[], None]]:
    """Let another process hold the turn to write, until the yielded function is called."""
    command = [sys.executable, "-c", _TURN, str(folder / TURN_FILE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"

        def release() -> None:
            holder.stdin.close()  # type: ignore[union-attr]
            holder.wait()

        try:
            yield release
        finally:
            with contextlib.suppress(OSError, ValueError):
                release()


def follow(server: ServerGroup, source: int, timeout_s: float = 8.0) -> int:
    """Send a follow; returns the status, or 0 without an answer."""
    try:
        with server.client(timeout_s) as client:
            answer = client.post(f"/api/v1/users/{_FOLLOWED}/follow", headers={"x-kith-user": str(source)})
            return answer.status_code
    except httpx.TransportError:
        return 0


def follow_in_thread(server: ServerGroup, source: int) -> tuple[threading.Thread, list[int]]:
    """Send a follow that has to wait. Returns its thread, and a list that its status is added to."""
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(follow(server, source, 20)))
    thread.start()
    time.sleep(0.7)  # by then the committer waits for its turn
    return thread, statuses


def committer_of(api: int) -> int:
    """The pid of the committer of an API process."""
    (pid,) = named("committer", api)
    return pid


def test_a_hanging_committer_is_replaced_together_with_its_api_process(tmp_path: Path) -> None:
    variables = {"KITH_HANG_TIMEOUT_S": "3", "KITH_REQUEST_TIMEOUT_MS": "1000"}
    with serving(tmp_path / "data", environment=variables) as server:
        assert follow(server, 100) == 200
        os.kill(committer_of(*server.workers()), signal.SIGSTOP)
        server.wait_until("replaced", lambda: follow(server, 200) == 200, 20)


def test_a_server_that_ended_leaves_no_hanging_committer(tmp_path: Path) -> None:
    with serving(tmp_path / "data", environment={"KITH_DRAIN_TIMEOUT_S": "2"}) as server:
        assert follow(server, 100) == 200
        pid = committer_of(*server.workers())
        os.kill(pid, signal.SIGSTOP)
        server.process.terminate()
        server.process.wait(30)
        server.wait_until("the committer is gone", lambda: not alive(pid), 5)


def test_a_write_that_waits_when_the_server_ends_is_not_done_later(tmp_path: Path) -> None:
    with serving(tmp_path / "data", environment={"KITH_DRAIN_TIMEOUT_S": "2"}) as server:
        assert follow(server, 100) == 200
        pid = committer_of(*server.workers())
        with turn_held(tmp_path / "data") as release:
            thread, _ = follow_in_thread(server, 200)
            server.process.terminate()
            server.process.wait(30)
            thread.join()
            server.wait_until("the committer is gone", lambda: not alive(pid), 5)
            release()
    with opened(tmp_path / "data") as (environment, store):
        follows = environment.graph_numbers()["follows"]
        pairs = [(100, _FOLLOWED), (200, _FOLLOWED)]
        assert asyncio.run(store.exists_many(follows, pairs)) == [True, False]


def test_a_waiting_write_of_a_killed_process_is_not_done_after_a_later_write(tmp_path: Path) -> None:
    """A follow waits in one API process, which is killed. The other process then answers the unfollow."""
    with serving(tmp_path / "data", workers=2, environment={"KITH_REQUEST_TIMEOUT_MS": "20000"}) as server:
        assert follow(server, 100) == 200
        first, second = server.workers()
        committer = committer_of(first)
        with turn_held(tmp_path / "data") as release:
            os.kill(second, signal.SIGSTOP)  # so that the first process accepts the connection
            thread, statuses = follow_in_thread(server, 200)
            os.kill(committer, signal.SIGSTOP)  # as on a busy machine, where the committer gets no CPU time
            os.kill(second, signal.SIGCONT)
            os.kill(first, signal.SIGKILL)
            thread.join()
            release()
        with server.client(15.0) as client:
            undone = client.delete(f"/api/v1/users/{_FOLLOWED}/follow", headers={"x-kith-user": "200"})
            assert (statuses, undone.status_code, undone.json()["following"]) == ([0], 200, False), undone.text
        server.wait_until("the committer is gone", lambda: not alive(committer), 5)
        with server.client() as client:
            pairs = [[100, _FOLLOWED], [200, _FOLLOWED]]
            answer = client.post("/api/v1/graph/follows/check", json={"pairs": pairs})
            assert answer.json()["exists"] == [True, False]


def test_a_server_as_process_1_of_a_container_leaves_no_zombie_of_a_killed_api_process(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", _AS_PROCESS_1, "serve", "--data", str(tmp_path / "data"), "--port", str(port)]
    variables = {**os.environ, "KITH_API_KEYS": API_KEY, "KITH_WORKERS": "1"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)
    server = ServerGroup(process, port, tmp_path / "log")
    try:
        server.wait_until("ready", lambda: server.is_ready() and len(server.workers()) == 1)
        (api,) = server.workers()
        os.kill(api, signal.SIGKILL)
        server.wait_until("replaced", lambda: server.workers() not in ([], [api]) and server.is_ready())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]
        assert "Z" not in states
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
