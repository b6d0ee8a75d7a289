"""Runs audits for the console: `kith audit` in its own process, with its state in a file that every process reads.

The process has low priority, so an audit slows requests little. It exits if the process that started it is gone.
A lock beside the state file says whether an audit runs. The kernel releases the lock however the audit process ends.
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
_FINISHED_STATUSES = (0, 1)  # exit statuses of an audit that finished
_ERROR_CHARS_MAX = 2_000


class Report:
    """The file of an audit that runs in this process."""

    def __init__(self, file: Path) -> None:
        self._file, self._before, self._written_ms = file, 0, 0
        self._lock = _lock(file)  # None: the process that started this audit passed us the lock
        self._answer = AuditAnswer("running", wall_ms())
        _write(file, self._answer)

    def progress(self, edges: int) -> None:
        """Note how many edges of the current graph were audited; a smaller number than before means the next graph."""
        last = self._answer.edges - self._before
        if edges < last:
            self._before = self._answer.edges
        self._answer.edges = self._before + edges
        if wall_ms() - self._written_ms > _WRITTEN_EVERY_MS:
            self._written_ms = wall_ms()
            _write(self._file, self._answer)

    def done(self, graphs: Sequence[Audit]) -> None:
        """Note that the audit has ended."""
        edges = sum(audit.edges for audit in graphs)
        began_ms = self._answer.began
        _write(self._file, AuditAnswer("done", began_ms, wall_ms(), edges, list(graphs)))


class AuditProcesses:
    """Starts audits of a data folder, one at a time, and reports on the latest."""

    def __init__(self, data: Path) -> None:
        self._data, self._file = data, data / FILE
        self._process: subprocess.Popen[str] | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def last(self) -> AuditAnswer:
        """State of the latest audit, whichever process started it."""
        try:
            answer = msgspec.json.decode(self._file.read_bytes(), type=AuditAnswer)
        except (OSError, msgspec.DecodeError):
            return AuditAnswer()
        if answer.state == "running" and (free := _lock(self._file)) is not None:
            os.close(free)
            answer.state, answer.error = "failed", "its process was ended before it was done; run another"
        return answer

    async def start(self) -> AuditAnswer:
        """Start an audit. Errors: Conflict while another runs."""
        lock = _lock(self._file)
        if lock is None:
            raise Conflict("an audit runs already; wait for its report")
        answer = AuditAnswer("running", wall_ms())
        try:
            _write(self._file, answer)
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
            os.close(lock)  # the audit process inherited the lock
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        self._waiting = asyncio.ensure_future(asyncio.to_thread(self._wait, self._process, answer))
        return answer

    async def close(self) -> None:
        """End the audit that this process started."""
        if self._process is not None and self._waiting is not None:
            self._process.terminate()
            await self._waiting

    def _wait(self, process: subprocess.Popen[str], answer: AuditAnswer) -> None:
        _, error = process.communicate()
        if process.returncode not in _FINISHED_STATUSES:
            why = error[-_ERROR_CHARS_MAX:].strip() or f"its process ended with status {process.returncode}"
            _write(self._file, AuditAnswer("failed", answer.began, wall_ms(), error=why))


def _lock(file: Path) -> int | None:
    """Take the audit lock of this file; None if another audit holds it.

    Returns a descriptor. The lock is held while this process, or one that inherits the descriptor, keeps it open.
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
