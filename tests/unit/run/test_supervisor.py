"""The supervisor, tested with child processes that only sleep."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from servers import eventually, free_port

from kith.core.errors import Unavailable
from kith.http.sockets import listen_on
from kith.run.config import Settings
from kith.run.serving import children, supervisor
from kith.run.serving.children import Child

SLEEPS = "import time; print('here', flush=True); time.sleep(1000)"
MISSES = f"import signal; signal.signal(signal.SIGTERM, lambda *_: signal.signal(15, signal.SIG_DFL)); {SLEEPS}"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("host", ["255.255.255.255", "224.0.0.1"])
def test_a_broadcast_or_multicast_address_is_refused_though_linux_can_listen_there(host: str) -> None:
    """No client could connect to it."""
    with pytest.raises(Unavailable, match="set `host` to an address of this machine"):
        listen_on(host, 0)


@pytest.mark.parametrize("media_url", ["", "s3://pictures"])
def test_a_cluster_that_keeps_pictures_on_one_machine_is_told(monkeypatch: pytest.MonkeyPatch, media_url: str) -> None:
    monkeypatch.setattr(supervisor.wiring, "cluster_of", lambda _: SimpleNamespace(prepare=lambda _: None))
    with structlog.testing.capture_logs() as lines:
        supervisor.prepare(Settings(engine="cluster", media_url=media_url))
    assert ["media_url" in line["event"] for line in lines] == ([] if media_url else [True])


def test_a_child_that_the_system_refuses_to_start_is_started_later(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    refusals: list[BlockingIOError] = []

    def spawn(child: Child, _: socket.socket) -> int:
        if refusals:
            raise refusals.pop()
        started.append(os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ))
        return started[-1]

    monkeypatch.setattr(children, "_spawn", spawn)
    monkeypatch.setattr(children, "_RESPAWN_S_MAX", 0.1)
    with children.supervised([Child(("worker", "fanout"), forks=False)], listening, 20):
        refusals += [BlockingIOError(11, "Resource temporarily unavailable")] * 2
        os.kill(started[0], signal.SIGKILL)
        eventually(lambda: len(started) == 2)
    assert all(map(is_gone, started))


@pytest.mark.parametrize(
    ("command", "how"),
    [(("/bin/sh", "-c", "kill -BUS $$"), "signal 7 (Bus error)"), (("/bin/sh", "-c", "exit 74"), "exit status 74")],
)
def test_the_log_says_which_process_ended_and_how(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], how: str
) -> None:
    """A process that the kernel kills, as for want of memory, says nothing itself."""
    started: list[int] = []

    def spawn(child: Child, _: socket.socket) -> int:
        words = ("/bin/sleep", "1000") if started else command
        started.append(os.posix_spawn(words[0], words, {}))
        return started[-1]

    monkeypatch.setattr(children, "_spawn", spawn)
    with (
        structlog.testing.capture_logs() as logs,
        children.supervised([Child((children.API,), forks=False)], listening, 20),
    ):
        eventually(lambda: len(started) == 2)
    ended = [line for line in logs if line["event"] == "a process ended, and is replaced"]
    assert [(line["process"], line["pid"], line["how"]) for line in ended] == [("api", started[0], how)]


def test_a_child_that_missed_sigterm_gets_it_again(listening: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child may miss it while it installs its handlers."""
    process = subprocess.Popen([sys.executable, "-c", MISSES], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    monkeypatch.setattr(children, "_spawn", lambda *_: process.pid)
    with children.supervised([Child(("worker", "fanout"), forks=False)], listening, 60):
        pass
    assert is_gone(process.pid)
    process.stdout.close()


def test_processes_that_keep_dying_are_not_restarted_forever(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = supervisor.EndCondition()
    monkeypatch.setattr(children, "_RESPAWN_S", 0.0)
    monkeypatch.setattr(children, "_RESPAWN_S_MAX", 0.0)
    monkeypatch.setattr(children, "_spawn", lambda *_: os.posix_spawn("/bin/false", ["false"], os.environ))
    kept = [Child((children.API,), forks=False, must_not_restart=end.give_up_if_dying)] * 2
    with children.supervised(kept, listening, 20), pytest.raises(Unavailable, match="died"):
        end.wait()


def test_a_single_api_process_that_keeps_dying_is_enough_to_give_up(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pause, and the period in which deaths are counted, is shortened by the same factor."""
    end, faster = supervisor.EndCondition(), 25
    for module, name in ((children, "_RESPAWN_S"), (children, "_RESPAWN_S_MAX"), (supervisor, "_DEATHS_S")):
        monkeypatch.setattr(module, name, getattr(module, name) / faster)
    monkeypatch.setattr(children, "_spawn", lambda *_: os.posix_spawn("/bin/false", ["false"], os.environ))
    kept = [Child((children.API,), forks=False, must_not_restart=end.give_up_if_dying)]
    too_late = threading.Timer(2 * 60 / faster, os.kill, (os.getpid(), signal.SIGTERM))
    too_late.start()
    with end.by_signals(), children.supervised(kept, listening, 20), pytest.raises(Unavailable, match="died"):
        end.wait()
    too_late.cancel()


def test_a_signal_ends_the_supervisor_before_and_during_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    end = supervisor.EndCondition()
    with end.by_signals():
        os.kill(os.getpid(), signal.SIGTERM)  # before `end.wait`
        assert end.wait() is None
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert end.wait() is None


def test_a_signal_in_another_thread_ends_the_supervisor_too() -> None:
    """The system may deliver a signal to any thread, also to one that is about to sleep."""
    end = supervisor.EndCondition()

    def signal_this_thread() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    too_late = threading.Timer(20, os.kill, (os.getpid(), signal.SIGTERM))
    with end.by_signals():
        too_late.start()
        threading.Timer(0.05, signal_this_thread).start()
        assert end.wait() is None
        assert too_late.is_alive(), "only the second signal was noticed"
        too_late.cancel()


def test_the_error_for_a_port_in_use_names_the_port(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), port=free_port())
    with listen_on(settings.host, settings.port), pytest.raises(Unavailable, match=f"{settings.port}.*--port"):
        supervisor.check_port(settings)
    supervisor.check_port(settings)


@pytest.mark.parametrize(
    ("host", "url"), [("::1", "http://[::1]:80"), ("::", "http://127.0.0.1:80"), ("h.example", "http://h.example:80")]
)
def test_the_base_url_is_one_that_a_client_can_use(tmp_path: Path, host: str, url: str) -> None:
    assert supervisor.base_url(Settings(data=str(tmp_path), host=host, port=80)) == url


class Refusing(socket.socket):
    """A socket that may not bind to a privileged port."""

    def bind(self, address: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_the_error_for_an_unusable_address_says_what_to_do(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="stop what listens there, or name another with --port"):
        listen_on("127.0.0.1", listening.getsockname()[1])
    with pytest.raises(Unavailable, match="set `host` to an address of this machine"):
        listen_on("203.0.113.9", free_port())
    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(Unavailable, match="name a port of 1024 or more with --port"):
        listen_on("127.0.0.1", 80)
