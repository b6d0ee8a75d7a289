"""Audits for the console: `kith audit` in a process of its own, which keeps its state in a file that all can read.

So an audit slows requests only by the share of the machine that its low priority gets. It ends by itself if the process
that began it is gone. A lock beside the file tells whether an audit runs: the kernel frees it however its process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kith.api.resources.console import AuditAnswer
from kith.core.clock import wall_ms
from kith.core.errors import Conflict
from kith.graph.audit import Audit
from kith.run.serving import processes

FILE = "audit.json"
_NICENESS = 10
_WRITTEN_EVERY_MS = 500
_FOUND = (0, 1)  # statuses of an audit that came to its end
_ERROR_CHARS_MAX = 2_000


class Report:
    """The file of an audit that runs in this process."""

    def __init__(self, file: Path) -> None:
        self._file, self._before, self._written_ms = file, 0, 0
        self._lock = _lock(file)  # None: the process that began this audit gave us the lock
        self._answer = AuditAnswer("running", wall_ms())
        _write(file, self._answer)

    def progress(self, edges: int) -> None:
        """Note how many edges of a graph were looked at; fewer than before means the next graph."""
        last = self._answer.edges - self._before
        if edges < last:
            self._before = self._answer.edges
        self._answer.edges = self._before + edges
        if wall_ms() - self._written_ms > _WRITTEN_EVERY_MS:
            self._written_ms = wall_ms()
            _write(self._file, self._answer)

    def done(self, graphs: Sequence[Audit]) -> None:
        """Note that the audit has ended."""
        edges = sum(found.edges for found in graphs)
        began = self._answer.began
        _write(self._file, AuditAnswer("done", began, wall_ms(), edges, list(graphs)))


class AuditProcesses:
    """Starts audits of a data folder, one at a time, and tells of the last."""

    def __init__(self, data: Path) -> None:
        self._data, self._file = data, data / FILE
        self._process: subprocess.Popen[str] | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def last(self) -> AuditAnswer:
        """How the last audit is, whichever process began it."""
        try:
            answer = msgspec.json.decode(self._file.read_bytes(), type=AuditAnswer)
        except (OSError, msgspec.DecodeError):
            return AuditAnswer()
        if answer.state == "running" and (free := _lock(self._file)) is not None:
            os.close(free)
            answer.state, answer.error = "failed", "its process was ended before it was done; run another"
        return answer

    async def start(self) -> AuditAnswer:
        """Begin one. Conflict while one runs."""
        lock = _lock(self._file)
        if lock is None:
            raise Conflict("an audit runs already; wait for its report")
        began = AuditAnswer("running", wall_ms())
        try:
            _write(self._file, began)
            command = processes.command_line("audit", "--data", str(self._data), "--report", str(self._file))
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; waited for in a thread
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(lock,),
            )
        finally:
            os.close(lock)  # the audit has it now
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        self._waiting = asyncio.ensure_future(asyncio.to_thread(self._wait, self._process, began))
        return began

    async def close(self) -> None:
        """End the audit that this process began."""
        if self._process is not None and self._waiting is not None:
            self._process.terminate()
            await self._waiting

    def _wait(self, process: subprocess.Popen[str], began: AuditAnswer) -> None:
        _, error = process.communicate()
        if process.returncode not in _FOUND:
            why = error[-_ERROR_CHARS_MAX:].strip() or f"its process ended with status {process.returncode}"
            _write(self._file, AuditAnswer("failed", began.began, wall_ms(), error=why))


def _lock(file: Path) -> int | None:
    """A descriptor that holds the lock of audits with this file, here and in processes that inherit it; None where an
    audit runs.
    """
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _write(file: Path, answer: AuditAnswer) -> None:
    partial = file.with_suffix(".part")
    partial.write_bytes(msgspec.json.encode(answer))
    partial.replace(file)
