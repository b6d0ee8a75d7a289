"""Audits for the console: `kith audit` in a process of its own, which keeps its state in a file that all can read.

So an audit slows requests only by the share of the machine that its low priority gets. It ends by itself if the process
that began it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kith.api.resources.console import AuditAnswer
from kith.core.clock import wall_ms
from kith.core.errors import Conflict
from kith.graph.audit import Audit
from kith.run.measures.metrics import runs
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
        self._answer = AuditAnswer("running", os.getpid(), wall_ms())
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
        _write(self._file, AuditAnswer("done", os.getpid(), began, wall_ms(), edges, list(graphs)))


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
        if answer.state == "running" and not runs(answer.pid):
            answer.state, answer.error = "failed", "its process was ended before it was done; run another"
        return answer

    async def start(self) -> AuditAnswer:
        """Begin one. Conflict while one runs."""
        if (await self.last()).state == "running":
            raise Conflict("an audit runs already; wait for its report")
        began = AuditAnswer("running", os.getpid(), wall_ms())
        _write(self._file, began)
        command = processes.command_line("audit", "--data", str(self._data), "--report", str(self._file))
        self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; waited for in a thread
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
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
            failed = AuditAnswer("failed", process.pid, began.began, wall_ms(), error=error[-_ERROR_CHARS_MAX:].strip())
            _write(self._file, failed)


def _write(file: Path, answer: AuditAnswer) -> None:
    partial = file.with_suffix(".part")
    partial.write_bytes(msgspec.json.encode(answer))
    partial.replace(file)
