"""Starts and kills writers (`writer.py`) by forks, without a new interpreter for each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WRITER = Path(__file__).with_name("writer.py")
_FIRST_S = 30.0


class Zygote:
    """Starts and kills writers over one folder."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder
        self._acks: dict[int, Path] = {}

    def start(self, seed: int) -> int:
        """Start a writer and wait for its first acknowledgement. Returns its pid."""
        acks = self._folder.parent / f"acks-{seed}"
        pid = self._ask(f"start {seed} {acks}")
        self._acks[pid] = acks
        self.wait_for_more(pid, 0)
        return pid

    def wait_for_more(self, pid: int, than_bytes: int) -> int:
        """Wait until the acknowledgements of a writer exceed `than_bytes`. Returns their bytes."""
        deadline = time.monotonic() + _FIRST_S
        while time.monotonic() < deadline:
            size = self._acks[pid].stat().st_size if self._acks[pid].exists() else 0
            if size > than_bytes:
                return size
            time.sleep(0.001)
        raise AssertionError(f"writer {pid} acknowledged nothing for {_FIRST_S} s")

    def said(self, pid: int) -> str:
        """The acknowledgements of a writer so far."""
        return self._acks[pid].read_text()

    def kill(self, pid: int) -> str:
        """Kill with SIGKILL. Returns what the writer had acknowledged."""
        assert self._ask(f"kill {pid}") == -9, "the writer died by itself"
        acks = self._acks.pop(pid)
        text = acks.read_text()
        acks.unlink()
        return text

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def zygote_over(folder: Path) -> Iterator[Zygote]:
    """A zygote over a data folder. Its writers are killed at the end."""
    command = [sys.executable, str(WRITER), "--zygote", str(folder)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # so that a fork copies no held lock
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=one_thread) as process:
        try:
            yield Zygote(process, folder)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)
