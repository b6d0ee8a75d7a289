"""A standby on the same machine: its lag, its cost for the primary, and the time until it takes over.

The load is 5,000 random follows a second, 10 per request. Primary and standby share the cores and the disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import numpy as np

from bench.figures import KEY, SECONDS, Figure, free_port, wait_for
from bench.load import request, run
from bench.processes import cpu_s, family
from kith.run.config import Settings

_A_SECOND, _A_REQUEST, _USERS = 5_000, 10, 330_000
_PROBES_A_SECOND = 20
_TURNS = 5
"""Turns, each with and without a standby, because the speed of a shared machine changes within minutes."""
_COMMIT_WAIT_MS = 2
"""`commit_wait_ms` of both: writes wait for others, so a primary that shares its cores commits equally often."""
_BASE = "/api/v1"
_HEADERS = {"Authorization": f"Bearer {KEY}"}
_LINES = {**_HEADERS, "Accept": "application/x-ndjson"}
_TIMEOUT_S, _RETRY_S = 30.0, 0.005


def standby(folder: Path) -> list[Figure]:
    """Load a primary alone and one with a standby, in turns; then kill the primary and promote the standby."""
    load = f"{_A_SECOND:,} follows/s, {_A_REQUEST} a request, both on one machine"
    with (
        _machine(folder / "primary") as (primary, process),
        _machine(folder / "standby", of=primary) as (second, _),
    ):
        _wait_level(second)
        with _machine(folder / "alone") as (alone, without):
            turns = [(_loaded(alone, without, turn), _loaded(primary, process, turn)) for turn in range(_TURNS)]
        late = _LagProbes(primary, second)
        _loaded(primary, process, _TURNS)
        late_ms = late.stop()
        took_s = _failover(second, process)
    alone_s, beside_s = map(sum, zip(*turns, strict=True))
    return [
        Figure("standby-p99", float(np.percentile(late_ms, 99)), "ms", "< 100", data=f"{load}; {len(late_ms)} probes"),
        Figure("standby-p50", float(np.median(late_ms)), "ms", "", data=load),
        Figure(
            "standby-cost",
            100 * (beside_s / alone_s - 1),
            "% of CPU",
            "< 10",
            data=f"{load}; all its processes, {_TURNS} turns each",
        ),
        Figure("standby-takeover", took_s, "s", "< 5", data="from kill -9 to the first acknowledged write"),
    ]


@contextlib.contextmanager
def _machine(folder: Path, of: Settings | None = None) -> Iterator[tuple[Settings, subprocess.Popen[bytes]]]:
    """Run `kith serve` or `kith standby` over a new folder; yields once it is ready."""
    settings = Settings(data=str(folder), port=free_port(), api_keys=(KEY,), workers=1)
    named = ["serve", "--api-key", KEY] if of is None else ["standby", "--of", _url(of)]
    command = [sys.executable, "-m", "kith", *named, "--data", settings.data, "--port", str(settings.port)]
    variables = {
        **os.environ,
        "KITH_API_KEYS": KEY,
        "KITH_PRIMARY_KEY": KEY,
        "KITH_COMMIT_WAIT_MS": str(_COMMIT_WAIT_MS),
    }
    process = subprocess.Popen(
        [*command, "--workers", "1"], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(f"{_url(settings)}/readyz")
        yield settings, process
    finally:
        process.terminate()
        process.wait()


def _wait_level(second: Settings) -> None:
    """Wait until the standby follows."""
    deadline = time.perf_counter() + _TIMEOUT_S
    while "ms behind" not in httpx.get(f"{_url(second)}/readyz").json()["standby"]:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"the standby does not follow within {_TIMEOUT_S:.0f} s")
        time.sleep(_RETRY_S)


def _loaded(settings: Settings, process: subprocess.Popen[bytes], seed: int) -> float:
    """CPU seconds that the processes of a server take for the load."""
    processes = family(process.pid)
    before = cpu_s(processes)
    make = functools.partial(_follows, seed)
    run(settings.port, make, connections=16, seconds=SECONDS, warm_s=0.0, once=True, arrivals=_A_SECOND / _A_REQUEST)
    return cpu_s(processes) - before


def _follows(seed: int) -> list[bytes]:
    chosen = random.Random(seed)
    return [_written("follows", chosen) for _ in range(int((SECONDS + 5) * _A_SECOND / _A_REQUEST))]


def _written(graph: str, chosen: random.Random) -> bytes:
    rows = [
        {"op": "add", "source": chosen.randrange(_USERS), "destination": chosen.randrange(_USERS, 2 * _USERS)}
        for _ in range(_A_REQUEST)
    ]
    return request("POST", f"{_BASE}/graph/{graph}/edges", KEY, msgspec.json.encode({"edges": rows}))


class _LagProbes:
    """Probes of the lag: writes to the primary, and a watcher of the standby that sees them."""

    def __init__(self, primary: Settings, second: Settings) -> None:
        self._answered: dict[int, float] = {}
        self._told: dict[int, float] = {}
        self._stop, watching = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(second, watching), daemon=True),
            threading.Thread(target=self._probe, args=(primary,), daemon=True),
        ]
        self._threads[0].start()
        watching.wait()
        self._threads[1].start()

    def _watch(self, second: Settings, watching: threading.Event) -> None:
        asked = {"graphs": "mutes"}
        with (
            httpx.Client(base_url=_url(second), headers=_LINES, timeout=60) as http,
            http.stream("GET", f"{_BASE}/watch", params=asked) as response,
        ):
            for line in response.iter_lines():
                said = msgspec.json.decode(line)
                watching.set()
                if said["kind"] == "edge":
                    self._told[int(said["destination"])] = time.perf_counter()
                if self._stop.is_set() and self._told.keys() >= self._answered.keys():
                    return

    def _probe(self, primary: Settings) -> None:
        with httpx.Client(base_url=_url(primary), headers=_HEADERS, timeout=60) as http:
            number = 0
            while not self._stop.wait(1 / _PROBES_A_SECOND):
                number += 1
                rows = [{"op": "add", "source": 1, "destination": 1 + number}]
                http.post(f"{_BASE}/graph/mutes/edges", json={"edges": rows}).raise_for_status()
                self._answered[1 + number] = time.perf_counter()

    def stop(self) -> list[float]:
        """Milliseconds from the answer of each probe until the standby's watcher saw it; 0 if the watcher was first."""
        time.sleep(1.0)
        self._stop.set()
        self._threads[1].join()
        self._threads[0].join(_TIMEOUT_S)
        return [1000 * max(0.0, self._told[number] - at) for number, at in self._answered.items()]


def _failover(second: Settings, primary: subprocess.Popen[bytes]) -> float:
    """Kill the primary and promote its standby; the time until the standby acknowledges a write."""
    started = time.perf_counter()
    os.killpg(primary.pid, signal.SIGKILL)
    subprocess.run(
        [sys.executable, "-m", "kith", "promote", "--data", second.data], check=True, stdout=subprocess.DEVNULL
    )
    rows = {"edges": [{"op": "add", "source": 1, "destination": 2}]}
    while time.perf_counter() - started < _TIMEOUT_S:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(f"{_url(second)}{_BASE}/graph/follows/edges", json=rows, headers=_HEADERS, timeout=1)
            if answer.status_code == 200:
                return time.perf_counter() - started
        time.sleep(_RETRY_S)
    raise RuntimeError(f"no write was acknowledged within {_TIMEOUT_S:.0f} s")


def _url(settings: Settings) -> str:
    return f"http://127.0.0.1:{settings.port}"
