"""Kills processes that write from two threads each, like commits and checkpoints. Another process must then continue.

turn_writers.py FOLDER SEED KILLS
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
from pathlib import Path

from kith.engines.embedded.environment import Environment

_THREADS, _PATIENCE_S = 2, 60.0
_COUNT = struct.Struct("<q")
_counts = mmap.mmap(-1, 2 * _COUNT.size)  # commits of each of the two processes, shared by forks


def start(folder: Path, writer: int) -> int:
    """Fork a process that commits forever; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            write_on(folder, writer)
        finally:
            os._exit(1)
    return pid


def write_on(folder: Path, writer: int) -> None:
    with Environment(folder, durability="relaxed") as environment:

        def commit() -> None:
            while True:
                with environment.commit() as write:
                    write.changes = b""
                _COUNT.pack_into(_counts, writer * _COUNT.size, committed(writer) + 1)

        for _ in range(_THREADS - 1):
            threading.Thread(target=commit, daemon=True).start()
        commit()


def committed(writer: int) -> int:
    return int(_COUNT.unpack_from(_counts, writer * _COUNT.size)[0])


def wait_for_more(writer: int, count: int) -> None:
    target, until = committed(writer) + count, time.monotonic() + _PATIENCE_S
    while committed(writer) < target:
        if time.monotonic() > until:
            raise SystemExit(f"process {writer} got no turn to write within {_PATIENCE_S} s")
        time.sleep(0.0005)


def main(folder: Path, seed: int, kills: int) -> None:
    Environment(folder).close()
    chosen, lasting = random.Random(seed), start(folder, 1)
    running = [lasting]
    try:
        for _ in range(kills):
            running.append(start(folder, 0))
            wait_for_more(0, 3)
            time.sleep(chosen.uniform(0, 0.004))
            os.kill(running[-1], signal.SIGKILL)
            os.waitpid(running.pop(), 0)
            wait_for_more(1, 5)
        print(f"{kills} kills")
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
