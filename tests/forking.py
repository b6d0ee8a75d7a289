"""Runs `kith` in forks of one process that has made its imports, which are half of what a start costs.

    python forking.py DESCRIPTOR PREPARE

DESCRIPTOR is a socket, PREPARE Python that runs once, before the first fork. A message of JSON with descriptors (stdin,
stdout, stderr, and a pipe for the exit status) begins a command, and is answered with its pid. What makes the real
start of a process (`kith` found, its imports, a library before it) is for tests that start it without this.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

_IMPORTED = ("kith.run.serving.supervisor", "typer", "rich.console", "rich.progress")
"""What most commands import, and what reads nothing of their environment meanwhile."""
_MESSAGE_BYTES = 100_000


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


class Forked:
    """A process; as `subprocess.Popen`, of which it has what tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid, self._status = pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Until it is gone; its exit status."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("kith", timeout or 0)
            self.returncode = int(os.read(self._status, 10))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing where it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)


class Running:
    """A command whose words are kept in files."""

    def __init__(self, process: Forked, said: Path) -> None:
        self._process, self._said = process, said

    def kill(self) -> None:
        """Kill -9; nothing where it has ended."""
        self._process.kill()

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def wait(self, timeout: float | None = None) -> Ended:
        """Until it is gone."""
        status = self._process.wait(timeout)
        return Ended(status, *(self._said.with_suffix(end).read_text() for end in (".out", ".err")))


class Launcher:
    """Starts commands."""

    def __init__(self, prepare: str = "") -> None:
        self._asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # so that a fork copies no lock that is held
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), prepare],
                env=one_thread, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._one_asks = threading.Lock()

    def start(
        self,
        *arguments: str | Path,
        stdout: IO[Any],
        stderr: IO[Any],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        start_new_session: bool = False,
    ) -> Forked:
        """A command that has begun; with nothing on stdin."""
        asked = {
            "arguments": [str(argument) for argument in arguments],
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "leads": start_new_session,
        }
        ours, theirs = os.pipe()
        with open(os.devnull) as nothing, self._one_asks:
            given = [nothing.fileno(), stdout.fileno(), stderr.fileno(), theirs]
            socket.send_fds(self._asks, [json.dumps(asked).encode()], given)
            pid = int(self._asks.recv(_MESSAGE_BYTES))
        os.close(theirs)
        return Forked(pid, ours)

    def run(
        self, *arguments: str | Path, timeout: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end, as `subprocess.run`; one that hangs is killed with all that it started."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(*arguments, stdout=out, stderr=err, env=env, cwd=cwd, start_new_session=True)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read(), err.read())

    def close(self) -> None:
        """Start no more."""
        self._asks.close()
        self._process.wait(10)


@cache
def launcher() -> Launcher:
    """The one of this process of tests."""
    made = Launcher()
    atexit.register(made.close)
    return made


class Commands:
    """Starts commands whose words are kept in a folder; those that still run die in the end."""

    def __init__(self, starting: Launcher, folder: Path) -> None:
        self._starting, self._folder, self._started = starting, folder, list[Forked]()

    def start(self, *arguments: str | Path) -> Running:
        """A command that has begun."""
        said = self._folder / f"said-{len(self._started)}"
        with said.with_suffix(".out").open("w") as out, said.with_suffix(".err").open("w") as err:
            self._started.append(self._starting.start(*arguments, stdout=out, stderr=err))
        return Running(self._started[-1], said)

    def close(self) -> None:
        """End all."""
        for process in self._started:
            process.kill()


@contextmanager
def commands(folder: Path, prepare: str = "") -> Iterator[Commands]:
    """Starts commands whose steps `prepare` may make small."""
    starting = Launcher(prepare)
    started = Commands(starting, folder)
    try:
        yield started
    finally:
        started.close()
        starting.close()


def _serve(asks: socket.socket) -> list[str]:
    """Fork for each that asks; returns in each fork, with the arguments of its command."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asks, woken], [], [])
        if woken in ready:
            os.read(woken, 1_000)
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                        os.write(running[pid], str(os.waitstatus_to_exitcode(status)).encode())
                    os.close(running.pop(pid))
        if asks in ready:
            asked, given, _, _ = socket.recv_fds(asks, _MESSAGE_BYTES, 4)
            if not asked:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return _become(json.loads(asked), given, [asks.detach(), woken, wakes, *running.values()])
            running[pid] = given.pop()
            for descriptor in given:
                os.close(descriptor)
            asks.send(str(pid).encode())


def _become(asked: dict[str, Any], given: list[int], others: list[int]) -> list[str]:
    """Make this fork what the command would have been, started in the usual way."""
    for number, descriptor in enumerate(given[:3]):
        os.dup2(descriptor, number)
    for descriptor in [*given, *others]:
        os.close(descriptor)
    if asked["leads"]:
        os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    return list(asked["arguments"])


if __name__ == "__main__":
    for _module in _IMPORTED:
        importlib.import_module(_module)
    exec(sys.argv[2], {})
    gc.freeze()
    _arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["kith", *_arguments]
    importlib.import_module("kith.commands.cli").main()
