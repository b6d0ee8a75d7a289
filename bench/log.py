"""What the log gives: a history told to a watcher, how late a change is told, and a store made from it anew."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import httpx
import numpy as np

from bench.figures import KEY, Figure, free_port, server
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.rebuild import rebuild as rebuilt
from kith.run.config import Settings

_EDGES, _A_REQUEST, _USERS = 200_000, 1_000, 330_000
_LIVE_REQUESTS, _LIVE_A_SECOND, _LIVE_EDGES = 200, 100, 10
_BASE = "/api/v1"
_HEADERS = {"Authorization": f"Bearer {KEY}"}
_LINES = {**_HEADERS, "Accept": "application/x-ndjson"}


def watch(folder: Path) -> list[Figure]:
    """A history of random follows read by one watcher, then how late it is told of more, both over HTTP."""
    with (
        server(_settings(folder / "watch")) as settings,
        httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{_BASE}", headers=_HEADERS, timeout=60) as http,
    ):
        with http.stream("GET", "/watch", headers=_LINES) as response:
            token = json.loads(next(response.iter_lines()))["token"]
        chosen = random.Random(1)
        for _ in range(_EDGES // _A_REQUEST):
            _write(http, chosen, _A_REQUEST)
        told, started = 0, time.perf_counter()
        with http.stream("GET", "/watch", params={"after": token}, headers=_LINES) as response:
            for chunk in response.iter_bytes(1 << 16):
                told += chunk.count(b"\n")
                if told > 0.99 * _EDGES:  # a few follows come twice and change nothing
                    break
        rate = told / (time.perf_counter() - started)
        late_ms = _late_ms(http, chosen)
    says = f"{_EDGES:,} random follows"
    live = f"{_LIVE_EDGES * _LIVE_A_SECOND:,} follows/s, {_LIVE_EDGES} a request"
    return [
        Figure("watch", rate, "changes/s", ">= 200,000", data=f"{says}, read again over HTTP"),
        Figure("watch-p99", float(np.percentile(late_ms, 99)), "ms", "< 1,000", data=live),
    ]


def rebuild(folder: Path) -> list[Figure]:
    """A store made anew from the log of random follows."""
    with (
        server(_settings(folder / "source")) as settings,
        httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{_BASE}", headers=_HEADERS, timeout=60) as http,
    ):
        chosen = random.Random(1)
        for _ in range(_EDGES // _A_REQUEST):
            _write(http, chosen, _A_REQUEST)
    with Environment(folder / "source", create=False) as source, Environment(folder / "again") as target:
        started = time.perf_counter()
        done = rebuilt(source, target)
        took_s = time.perf_counter() - started
    return [Figure("rebuild", done / took_s, "events/s", ">= 150,000", data=f"{_EDGES:,} random follows")]


def _settings(folder: Path) -> Settings:
    return Settings(data=str(folder), port=free_port(), api_keys=(KEY,), workers=1)


def _write(http: httpx.Client, chosen: random.Random, count: int) -> None:
    rows = [
        {"op": "add", "source": chosen.randrange(_USERS), "destination": chosen.randrange(_USERS, 2 * _USERS)}
        for _ in range(count)
    ]
    http.post("/graph/follows/edges", json={"edges": rows}).raise_for_status()


def _late_ms(http: httpx.Client, chosen: random.Random) -> list[float]:
    """From the answer of each write to when a watcher has its last change."""
    answered_s: list[float] = []
    told_s: list[float] = []
    ready = threading.Event()

    def listen() -> None:
        with http.stream("GET", "/watch", headers=_LINES) as response:
            ready.set()
            for line in response.iter_lines():
                if b'"kind":"edge"' in line.encode():
                    told_s.append(time.perf_counter())
                if len(told_s) == _LIVE_REQUESTS * _LIVE_EDGES:
                    return

    thread = threading.Thread(target=listen)
    thread.start()
    ready.wait()
    for number in range(_LIVE_REQUESTS):
        _write(http, chosen, _LIVE_EDGES)
        answered_s.append(time.perf_counter())
        time.sleep(max(0.0, answered_s[0] + (number + 1) / _LIVE_A_SECOND - time.perf_counter()))
    thread.join(10)
    last = told_s[_LIVE_EDGES - 1 :: _LIVE_EDGES]
    return [1000 * (told - answered) for answered, told in zip(answered_s, last, strict=False)]
