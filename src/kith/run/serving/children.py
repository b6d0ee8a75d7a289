"""Starts the processes of `kith serve`, replaces those that die, and ends all of them together.

Each child is first forked, before the supervisor has a thread, so it has all imports already. Its replacements are
spawned as new programs, because the supervisor has threads by then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import structlog

from kith.core.errors import KithError
from kith.run.serving import processes, server, worker

API = "api-process"
"""The command of an API process."""
_RESPAWN_S, _RESPAWN_S_MAX = 0.5, 10.0
"""Pause before a process is restarted: the shortest and the longest. It doubles while a worker exits on its own, for
example because another worker holds its group. If API processes keep dying, the supervisor gives up.
"""
_TERM_WAIT_S, _KILL_WAIT_S = 0.2, 5.0
"""Seconds to wait for a process to end: between repeated SIGTERMs, and after SIGKILL."""
_children_lock = threading.Lock()  # guards the set of process ids that have a waiting thread
_log = structlog.get_logger("kith")


class Child(NamedTuple):
    """A process to keep running. `command`: the arguments of `kith`. `forks`: the first process is forked.

    `must_not_restart`: given the exit status of `os.waitpid`, whether the process is not to be replaced.
    """

    command: tuple[str, ...]
    forks: bool = True
    must_not_restart: Callable[[int], bool] = lambda _: False

    @property
    def is_api(self) -> bool:
        """Whether it is an API process."""
        return self.command == (API,)

    @property
    def name(self) -> str:
        """Its name in log lines."""
        return "api" if self.is_api else " ".join(self.command)


@contextlib.contextmanager
def supervised(children: Sequence[Child], listening: socket.socket, end_within_s: float) -> Iterator[None]:
    """Keep these processes running. At the end, send SIGTERM; after `end_within_s`, SIGKILL those that are left.

    `listening`: the socket that API processes accept from.
    """
    stopping, running = threading.Event(), list[_KeptChild]()
    try:
        started = [(child, _start(child, listening)) for child in children]  # all before the first thread
        kept_ids = {pid for _, pid in started}
        running += [_KeptChild(child, pid, listening, stopping, kept_ids) for child, pid in started]
        yield
    finally:
        stopping.set()
        _end_all(running, end_within_s)


class _KeptChild:
    """One process, and the thread that replaces it when it dies."""

    def __init__(
        self, child: Child, pid: int, listening: socket.socket, stopping: threading.Event, kept_ids: set[int]
    ) -> None:
        """`kept_ids`: ids of all kept processes; each has a thread that waits for it."""
        self._child, self._pid, self._kept_ids = child, pid, kept_ids
        self._listening, self._stopping = listening, stopping
        self._thread = threading.Thread(target=self._supervise, name="kith-supervisor", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Whether the process runs, or will be replaced."""
        return self._thread.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so many seconds."""
        self._thread.join(seconds)

    def _supervise(self) -> None:
        pause_s, started = _RESPAWN_S, time.monotonic()
        while True:
            _, status = os.waitpid(self._pid, 0)
            if not self._stopping.is_set() and self._child.must_not_restart(status):
                return
            if not self._stopping.is_set():
                _log.warning(
                    "a process ended, and is replaced", process=self._child.name, pid=self._pid, how=_end(status)
                )
            gave_up = not self._child.is_api and os.WIFEXITED(status) and time.monotonic() - started < _RESPAWN_S_MAX
            pause_s = min(2 * pause_s, _RESPAWN_S_MAX) if gave_up else _RESPAWN_S
            new_pid = self._spawn_again(pause_s)
            if new_pid is None:
                return
            self._pid, started = new_pid, time.monotonic()

    def _spawn_again(self, pause_s: float) -> int | None:
        """Start the replacement after a pause, retrying while the system refuses; None where all processes stop."""
        while not self._stopping.wait(pause_s):
            try:
                with _children_lock:
                    self._kept_ids.discard(self._pid)
                    _reap_orphans(self._kept_ids)
                    new_pid = _spawn(self._child, self._listening)
                    self._kept_ids.add(new_pid)
                    return new_pid
            except OSError as error:  # no memory, or no process id
                _log.warning(
                    "a process cannot be started; it is tried again",
                    process=self._child.name,
                    error=str(error),
                )
                pause_s = _RESPAWN_S_MAX
        return None


def _end(status: int) -> str:
    """How a process ended, by its status of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)} ({signal.strsignal(os.WTERMSIG(status))})"
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def _reap_orphans(kept_ids: set[int]) -> None:
    """Reap orphans, such as a dead API process's committer; as process 1 of a container, this process adopts them."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid not in kept_ids:
            os.waitpid(dead.si_pid, 0)


def _end_all(running: Sequence[_KeptChild], within_s: float) -> None:
    """Send SIGTERM to processes; after `within_s`, SIGKILL to those that are left.

    SIGTERM is repeated, because a process that is just being forked may miss it.
    """
    deadline = time.monotonic() + within_s
    while (alive := [child for child in running if child.alive()]) and time.monotonic() < deadline:
        for child in alive:
            child.send(signal.SIGTERM)
        for child in alive:
            child.wait(_TERM_WAIT_S)
    for child in alive:
        child.send(signal.SIGKILL)
    for child in alive:
        child.wait(_KILL_WAIT_S)


def _start(child: Child, listening: socket.socket) -> int:
    """Start a process before this one has a thread; returns its id."""
    if not child.forks:
        return _spawn(child, listening)
    sys.stdout.flush()
    sys.stderr.flush()
    return os.fork() or _run_forked(child, listening)


def _run_forked(child: Child, listening: socket.socket) -> NoReturn:
    """Run the child in a forked process, and exit with its status.

    SIGTERM ends the process until it sets its own handler.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    processes.ignore_terminal()
    status = 1
    try:
        settings = processes.settings_of_process()
        if child.is_api:
            server.run(settings, listening)
        else:
            listening.close()
            worker.run(child.command[1:], settings)
        status = 0
    except KithError as error:
        print(f"kith: {error.message}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # the terminal was closed
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _spawn(child: Child, listening: socket.socket) -> int:
    """Start a process while this one has threads; returns its id. An API process inherits the listening socket."""
    handle = listening.fileno()
    kept_open = [(os.POSIX_SPAWN_DUP2, handle, handle)] if child.is_api else []  # dup2 onto itself clears close-on-exec
    return os.posix_spawn(
        sys.executable,
        processes.command_line(*child.command),
        {**os.environ, processes.SOCKET_VARIABLE: str(handle)},
        file_actions=kept_open,
    )
