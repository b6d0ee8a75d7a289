"""Whether the processes of `kith serve` still run: each says so every second, and one that falls silent is killed.

The supervisor then starts another. Silence is counted in looks of the supervisor, a second apart; so time in which all
processes are stopped, or the machine is slow for all of them, counts little. A process that never said anything is
still starting.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
from collections.abc import Iterator

import structlog

PIPE_VARIABLE = "KITH_SERVE_HEARTBEAT"
"""The descriptor of the pipe into which processes of a supervisor write."""
EVERY_S = 1.0
_PID = struct.Struct("=i")
_READ_BYTES = 1 << 16
_log = structlog.get_logger("kith")


def beat() -> None:
    """Tell the supervisor, which must be our parent, that this process runs."""
    pipe = os.environ.get(PIPE_VARIABLE)
    if pipe:
        with contextlib.suppress(OSError):  # it looks at nothing any more
            os.write(int(pipe), _PID.pack(os.getpid()))


@contextlib.contextmanager
def open_pipe() -> Iterator[int]:
    """Open the pipe on which processes started from here on say that they run; yields its reading end."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    os.set_inheritable(writing, True)
    os.environ[PIPE_VARIABLE] = str(writing)
    try:
        yield reading
    finally:
        del os.environ[PIPE_VARIABLE]
        os.close(reading)
        os.close(writing)


@contextlib.contextmanager
def watched(reading: int, silent_s: int) -> Iterator[None]:
    """Kill each of our processes that was heard before, and then not for `silent_s`. Runs a thread."""
    stopping = threading.Event()
    watch = threading.Thread(target=_watch, args=(reading, silent_s, stopping), name="kith-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        stopping.set()
        watch.join()


def _watch(reading: int, silent_s: int, stopping: threading.Event) -> None:
    silent: dict[int, int] = {}
    while not stopping.wait(EVERY_S):
        silent = {pid: looks + 1 for pid, looks in silent.items()} | dict.fromkeys(_heard(reading), 0)
        for pid in [pid for pid, looks in silent.items() if looks * EVERY_S >= silent_s]:
            del silent[pid]
            if _is_ours(pid):
                _log.error("a process hangs; it is replaced", pid=pid, silent_s=silent_s)
                os.kill(pid, signal.SIGKILL)


def _heard(reading: int) -> list[int]:
    """The processes that wrote since the last look."""
    try:
        return [pid for (pid,) in _PID.iter_unpack(os.read(reading, _READ_BYTES))]
    except BlockingIOError:
        return []


def _is_ours(pid: int) -> bool:
    """Whether this is a process of ours that runs; its number may be another's by now."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
