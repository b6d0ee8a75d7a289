"""`kith serve` as a whole: time to the first answer, and CPU use while idle."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import numpy as np

from bench.figures import KEY, Figure, free_port, serving, wait_for
from bench.load import body_bytes, is_good, request
from kith.run.config import Settings

_STARTS, _TIMEOUT_S = 5, 30.0
_SETTLING_S, _REST_S = 5.0, 20.0
_RETRY_S = 0.002


def startup(folder: Path) -> list[Figure]:
    """Time from the command to the first good answer, in a folder that does not exist yet."""
    took = []
    for number in range(_STARTS):
        settings = _fresh(folder, f"startup-{number}")
        started = time.perf_counter()
        with serving(settings):
            _first_answer(settings.port)
            took.append(time.perf_counter() - started)
    says = f"median of {_STARTS} starts in a fresh folder; worst {max(took):.2f} s"
    return [Figure("startup", float(np.median(took)), "s", "< 1.5", data=says)]


def _first_answer(port: int) -> None:
    """Request a check until the answer is a success."""
    asked, deadline = request("GET", "/api/v1/graph/follows/1/2", KEY), time.perf_counter() + _TIMEOUT_S
    while time.perf_counter() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(asked)
                answer = b""
                while (length := body_bytes(answer)) is None and (data := connection.recv(4096)):
                    answer += data
            if length is not None and is_good(answer, length, len('{"exists":true}')):
                return
        except OSError:
            pass
        time.sleep(_RETRY_S)
    raise RuntimeError(f"no good answer within {_TIMEOUT_S:.0f} s")


def idle(folder: Path) -> list[Figure]:
    """CPU use of all processes of an idle `kith serve`: parent, API and workers."""
    settings = _fresh(folder, "idle")
    with serving(settings) as process:
        wait_for(f"http://127.0.0.1:{settings.port}/readyz")
        time.sleep(_SETTLING_S)
        all_ = family(process.pid)
        before, started = cpu_s(all_), time.perf_counter()
        time.sleep(_REST_S)
        used, took = cpu_s(all_) - before, time.perf_counter() - started
        if family(process.pid) != all_:
            raise RuntimeError("processes came or went while nobody asked")
    says = f"{len(all_)} processes over {_REST_S:.0f} s, an empty store"
    return [Figure("idle", 100 * used / took, "% of a core", "< 1", data=says)]


def _fresh(folder: Path, name: str) -> Settings:
    return Settings(data=str(folder / name), port=free_port(), api_keys=(KEY,))


def family(pid: int) -> list[int]:
    """A process and all of its descendants, by process id."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
    found = [pid]
    for one in found:
        found += sorted(child for child, parent in parents.items() if parent == one)
    return found


def cpu_s(pids: list[int]) -> float:
    """CPU seconds that these processes have used together."""
    ticks = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf("SC_CLK_TCK")
