"""The processes that `kith serve` starts: begun before its first thread, replaced when they die, ended together.

The first of each is a fork, which has imported everything already; its successors are started anew, beside our threads.
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
"""Pause before a process is started again. It doubles while a worker exits by itself, as where another one runs. If API
processes keep dying, the supervisor gives up.
"""
_TERMINATED_S, _KILLED_S = 0.2, 5.0
"""How long an end is waited for after SIGTERM, which is repeated, and after SIGKILL."""
_changing = threading.Lock()  # which processes there are to wait for
_log = structlog.get_logger("kith")


class Child(NamedTuple):
    """A process to keep. `command`: what `kith` is called with; `forks`: whether the first is a fork;
    `must_not_restart`: given the status of `os.waitpid`, says whether no other is to be started.
    """

    command: tuple[str, ...]
    forks: bool = True
    must_not_restart: Callable[[int], bool] = lambda _: False

    @property
    def is_api(self) -> bool:
        """Whether it is an API process."""
        return self.command == (API,)


@contextlib.contextmanager
def kept(children: Sequence[Child], listening: socket.socket, end_within_s: float) -> Iterator[None]:
    """Keep these processes running. `listening`: what API processes accept from. In the end SIGTERM ends them, and
    SIGKILL those that are left after `end_within_s`.
    """
    stopping, running = threading.Event(), list[_Kept]()
    try:
        started = [(child, _start(child, listening)) for child in children]  # all before the first thread
        ours = {pid for _, pid in started}
        running += [_Kept(child, pid, listening, stopping, ours) for child, pid in started]
        yield
    finally:
        stopping.set()
        _end(running, end_within_s)


class _Kept:
    """One process, and the thread that starts another when it dies."""

    def __init__(
        self, child: Child, pid: int, listening: socket.socket, stopping: threading.Event, ours: set[int]
    ) -> None:
        """`ours`: the processes that are kept, of which each has a thread that waits for it."""
        self._child, self._pid, self._listening, self._stopping, self._ours = child, pid, listening, stopping, ours
        self._thread = threading.Thread(target=self._keep, name="kith-supervisor", daemon=True)
        self._thread.start()

    def alive(self) -> bool:
        """Whether there is a process, or will be another one."""
        return self._thread.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        self._thread.join(seconds)

    def _keep(self) -> None:
        pause_s, started = _RESPAWN_S, time.monotonic()
        while True:
            _, status = os.waitpid(self._pid, 0)
            if not self._stopping.is_set() and self._child.must_not_restart(status):
                return
            gave_up = not self._child.is_api and os.WIFEXITED(status) and time.monotonic() - started < _RESPAWN_S_MAX
            pause_s = min(2 * pause_s, _RESPAWN_S_MAX) if gave_up else _RESPAWN_S
            again = self._spawn_again(pause_s)
            if again is None:
                return
            self._pid, started = again, time.monotonic()

    def _spawn_again(self, pause_s: float) -> int | None:
        """Start another process after a pause, as soon as the system lets one start; None where all stop."""
        while not self._stopping.wait(pause_s):
            try:
                with _changing:
                    self._ours.discard(self._pid)
                    _wait_for_orphans(self._ours)
                    again = _spawn(self._child, self._listening)
                    self._ours.add(again)
                    return again
            except OSError as error:  # no memory, or no process id
                _log.warning(
                    "a process cannot be started; it is tried again",
                    process=" ".join(self._child.command),
                    error=str(error),
                )
                pause_s = _RESPAWN_S_MAX
        return None


def _wait_for_orphans(ours: set[int]) -> None:
    """Wait for what a process that died left to this one, where it is process 1 of a container: its dead committer."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid not in ours:
            os.waitpid(dead.si_pid, 0)


def _end(running: Sequence[_Kept], within_s: float) -> None:
    """End processes by SIGTERM; those that are still there after `within_s`, by SIGKILL.

    SIGTERM is repeated: a process that is just being forked may miss it.
    """
    deadline = time.monotonic() + within_s
    while (left := [one for one in running if one.alive()]) and time.monotonic() < deadline:
        for one in left:
            one.send(signal.SIGTERM)
        for one in left:
            one.wait(_TERMINATED_S)
    for one in left:
        one.send(signal.SIGKILL)
    for one in left:
        one.wait(_KILLED_S)


def _start(child: Child, listening: socket.socket) -> int:
    """Start a process while this one has no thread; its id."""
    if not child.forks:
        return _spawn(child, listening)
    sys.stdout.flush()
    sys.stderr.flush()
    return os.fork() or _be(child, listening)


def _be(child: Child, listening: socket.socket) -> NoReturn:
    """What a fork does; its exit status is that of the command.

    SIGTERM ends it until it sets a handler of its own. SIGINT is ignored: a terminal sends it to all processes, and the
    supervisor handles it.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _spawn(child: Child, listening: socket.socket) -> int:
    """Start a process beside our threads; its id. An API process inherits what it accepts from."""
    handle = listening.fileno()
    kept_open = [(os.POSIX_SPAWN_DUP2, handle, handle)] if child.is_api else []  # onto itself: it is not closed then
    return os.posix_spawn(
        sys.executable,
        processes.command_line(*child.command),
        {**os.environ, processes.SOCKET_VARIABLE: str(handle)},
        file_actions=kept_open,
    )
