"""Runs `kith` commands again and again in forks of one process: each start is past its imports at once.

    python forking.py PREPARE

PREPARE is Python that runs once, before the first fork: it makes the steps of a command small. Lines on stdin are JSON,
and get one line of JSON back: `["start", [argument, ...], file]` forks a process that runs the command, with all that
it says in `file.out` and `file.err`, and answers its pid; `["wait", pid]` answers its exit status once it is gone.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


class Running:
    """A command in its process."""

    def __init__(self, commands: Commands, pid: int, said: Path) -> None:
        self._commands, self._pid, self._said = commands, pid, said

    def kill(self) -> None:
        """Kill -9; nothing where it has ended."""
        os.kill(self._pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Whether it has ended by itself; it is a zombie until `wait`."""
        return ") Z " in Path(f"/proc/{self._pid}/stat").read_text()

    def wait(self) -> Ended:
        """Until it is gone."""
        status = self._commands.ask("wait", self._pid)
        files = [self._said.with_suffix(end) for end in (".out", ".err")]
        return Ended(status, *(file.read_text() if file.exists() else "" for file in files))  # it may not have begun


class Commands:
    """Starts commands."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder, self._started = process, folder, 0

    def start(self, *arguments: str | Path) -> Running:
        """A command that has begun."""
        self._started += 1
        said = self._folder / f"said-{self._started}"
        return Running(self, self.ask("start", [str(argument) for argument in arguments], str(said)), said)

    def ask(self, *line: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def commands(folder: Path, prepare: str = "") -> Iterator[Commands]:
    """A process that starts commands; what they say is kept in `folder`."""
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # so that a fork copies no lock that is held
    arguments = [sys.executable, __file__, prepare]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(arguments, text=True, env=one_thread, **pipes) as process:
        try:
            yield Commands(process, folder)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def _run(arguments: list[str], said: str) -> None:
    """What a fork does."""
    for number, end in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(said + end, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    from kith.commands.cli import main  # noqa: PLC0415

    sys.argv = ["kith", *arguments]
    status = 1
    try:
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def serve(prepare: str) -> None:
    """Obey lines until stdin ends."""
    from kith.commands.cli import MODULES  # noqa: PLC0415

    for module in MODULES.values():
        importlib.import_module(module)

    exec(prepare, {})
    alive: set[int] = set()
    for line in sys.stdin:
        command, *rest = json.loads(line)
        if command == "start":
            pid = os.fork()
            if pid == 0:
                _run(*rest)
            alive.add(pid)
            print(pid, flush=True)
        else:
            print(os.waitstatus_to_exitcode(os.waitpid(rest[0], 0)[1]), flush=True)
            alive.discard(rest[0])
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1])
