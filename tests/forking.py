"""Runs `kith` commands as forks of one process that has done the imports, which are half of the cost of a start.

    python forking.py DESCRIPTOR PREPARE

DESCRIPTOR is a socket. PREPARE is Python code that runs once, before the first fork. To start a command, send a message
of JSON with four descriptors: stdin, stdout, stderr, and a pipe for the exit status. The answer is the pid. Tests of
the start itself (finding `kith`, its imports, a preloaded library) start real processes instead.
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
"""Modules that most commands import. Importing them must not read the environment."""
_MESSAGE_BYTES = 100_000


class Ended(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str


class Forked:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid, self._status = pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process ends; returns its exit status."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("kith", timeout or 0)
            self.returncode = int(os.read(self._status, 10))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Running:
    """A started command whose output goes to files."""

    def __init__(self, process: Forked, said: Path) -> None:
        self._process, self._said = process, said

    def kill(self) -> None:
        """Send SIGKILL, unless the command has ended."""
        self._process.kill()

    def ended(self) -> bool:
        """Whether the command has ended."""
        return self._process.poll() is not None

    def wait(self, timeout: float | None = None) -> Ended:
        """Wait until the command ends; returns its status and output."""
        status = self._process.wait(timeout)
        return Ended(status, *(self._said.with_suffix(end).read_text() for end in (".out", ".err")))


class Launcher:
    """Starts commands as forks of a process that it runs."""

    def __init__(self, prepare: str = "") -> None:
        self._asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork must not copy a lock that is held
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
        """Start a command, with an empty stdin."""
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
        """Run a command to its end, as `subprocess.run`. After `timeout`, kill it and all processes it started."""
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
        """End the process that forks. Running commands go on."""
        self._asks.close()
        self._process.wait(10)


@cache
def launcher() -> Launcher:
    """The launcher that this test process shares."""
    made = Launcher()
    atexit.register(made.close)
    return made


class Commands:
    """Starts commands, with their output in a folder. `close` kills those that still run."""

    def __init__(self, starting: Launcher, folder: Path) -> None:
        self._starting, self._folder, self._started = starting, folder, list[Forked]()

    def start(self, *arguments: str | Path) -> Running:
        """Start a command."""
        said = self._folder / f"said-{len(self._started)}"
        with said.with_suffix(".out").open("w") as out, said.with_suffix(".err").open("w") as err:
            self._started.append(self._starting.start(*arguments, stdout=out, stderr=err))
        return Running(self._started[-1], said)

    def close(self) -> None:
        """Kill all commands."""
        for process in self._started:
            process.kill()


@contextmanager
def commands(folder: Path, prepare: str = "") -> Iterator[Commands]:
    """Open a Commands with a launcher of its own. `prepare`: code that may, for example, make steps small."""
    starting = Launcher(prepare)
    started = Commands(starting, folder)
    try:
        yield started
    finally:
        started.close()
        starting.close()


def _serve(asks: socket.socket) -> list[str]:
    """Fork once per request. Returns only in the forks, with the arguments of the command."""
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
                    with contextlib.suppress(BrokenPipeError):  # nobody waits for the status any more
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
                return _set_up_fork(json.loads(asked), given, [asks.detach(), woken, wakes, *running.values()])
            running[pid] = given.pop()
            for descriptor in given:
                os.close(descriptor)
            asks.send(str(pid).encode())


def _set_up_fork(asked: dict[str, Any], given: list[int], others: list[int]) -> list[str]:
    """Give this fork the descriptors, folder and environment of its command; returns the arguments."""
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
