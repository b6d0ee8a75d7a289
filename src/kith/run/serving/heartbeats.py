"""Heartbeats of the processes of `kith serve`: each beats every second, and the supervisor kills one that hangs.

The supervisor then starts another. It counts missed beats at its own polls, a second apart. So time in which all
processes are stopped, or the whole machine is slow, counts little. A process that never beat is still starting.
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
"""Holds the descriptor of the pipe into which a supervisor's processes write their beats."""
EVERY_S = 1.0
_PID = struct.Struct("=i")
_READ_BYTES = 1 << 16
_log = structlog.get_logger("kith")


def beat() -> None:
    """Send a heartbeat to the supervisor, which must be our parent."""
    pipe = os.environ.get(PIPE_VARIABLE)
    if pipe:
        with contextlib.suppress(OSError):  # the supervisor reads no more
            os.write(int(pipe), _PID.pack(os.getpid()))


@contextlib.contextmanager
def open_pipe() -> Iterator[int]:
    """Open the pipe for the beats of processes started from here on; yields its reading end."""
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
def kill_silent(reading: int, silent_s: int) -> Iterator[None]:
    """Run a thread that kills each of our processes whose beats stopped for `silent_s`."""
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
        silent = {pid: missed + 1 for pid, missed in silent.items()} | dict.fromkeys(_read_beats(reading), 0)
        for pid in [pid for pid, missed in silent.items() if missed * EVERY_S >= silent_s]:
            del silent[pid]
            if _is_ours(pid):
                _log.error("a process hangs; it is replaced", pid=pid, silent_s=silent_s)
                os.kill(pid, signal.SIGKILL)


def _read_beats(reading: int) -> list[int]:
    """Ids of the processes that beat since the last poll."""
    try:
        return [pid for (pid,) in _PID.iter_unpack(os.read(reading, _READ_BYTES))]
    except BlockingIOError:
        return []


def _is_ours(pid: int) -> bool:
    """Whether this is a running child of ours; the id may have been reused by another process."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
