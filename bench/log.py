"""The log: a history read by a watcher, live changes sent to a thousand watchers, a rebuilt store, a backup.

Each of the thousand watches one node; half of them read nothing after they connect.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from pathlib import Path

import httpx
import numpy as np

from bench import postgresql
from bench.figures import KEY, SECONDS, Figure, free_port, server, with_peer
from bench.processes import cpu_s
from kith.engines.blobs.archives import FolderArchive
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.rebuild import rebuild as rebuilt
from kith.run.backups.backup_maker import BackupMaker
from kith.run.config import Settings

_EDGES, _A_REQUEST, _USERS = 200_000, 1_000, 330_000
_TURNS = 3
"""The median of these counts, as the speed of a shared machine changes from second to second."""
_MINUTE_S, _A_SECOND = 60, 5_000
_WATCHERS, _FIRST_WATCHED, _FIRST_OTHER = 1_000, 2_000_000, 3_000_000
_A_LIVE_REQUEST, _LIVE_A_SECOND = 100, 50
_LIVE_REQUESTS = int(_LIVE_A_SECOND * SECONDS)
_BASE = "/api/v1"
_HEADERS = {"Authorization": f"Bearer {KEY}"}
_LINES = {**_HEADERS, "Accept": "application/x-ndjson"}


def watch(folder: Path) -> list[Figure]:
    """A history of random mutes read by one watcher; then the delay of follows to other watchers. All over HTTP.

    The history has mutes, because a worker makes a notice of each follow and would do so while the history is read.
    """
    with (
        server(_settings(folder / "watch")) as settings,
        httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{_BASE}", headers=_HEADERS, timeout=60) as http,
    ):
        with http.stream("GET", "/watch", headers=_LINES) as response:
            token = json.loads(next(response.iter_lines()))["token"]
        chosen = random.Random(1)
        for _ in range(_EDGES // _A_REQUEST):
            _write(http, chosen, _A_REQUEST, "mutes")
        reading = [int(file.stem.removeprefix("api-")) for file in (Path(settings.data) / "metrics").glob("api-*.json")]
        turns = [_sent_a_second(http, token, reading) for _ in range(_TURNS)]
        rate, a_core = map(statistics.median, zip(*turns, strict=True))
        late_ms = _lags_ms(http, settings.port, chosen)
    says = f"{_EDGES:,} random mutes; the median of {_TURNS} turns"
    watchers = f"{_WATCHERS:,} watchers of a node each, half of which take nothing"
    live = f"{watchers}; {_A_LIVE_REQUEST * _LIVE_A_SECOND:,} follows/s"
    return [
        Figure("watch", rate, "changes/s", ">= 200,000", data=f"{says}, read again over HTTP"),
        Figure("watch-core", a_core, "changes/s of one core", ">= 200,000", data=f"{says}; of the process that tells"),
        Figure("watch-p99", float(np.percentile(late_ms, 99)), "ms", "< 1,000", data=live),
    ]


def _sent_a_second(http: httpx.Client, token: str, reading: list[int]) -> tuple[float, float]:
    """Changes that a reader of the history from a token is sent: per second, and per CPU second of the processes
    `reading`.
    """
    changes, started_s, started = 0, cpu_s(reading), time.perf_counter()
    with http.stream("GET", "/watch", params={"after": token}, headers=_LINES) as response:
        for chunk in response.iter_bytes(1 << 16):
            changes += chunk.count(b"\n")
            if changes > 0.99 * _EDGES:  # a few edges are drawn twice, and change nothing
                break
    return changes / (time.perf_counter() - started), changes / (cpu_s(reading) - started_s)


def rebuild(folder: Path) -> list[Figure]:
    """Rebuild a store from a log of random follows."""
    with (
        server(_settings(folder / "source")) as settings,
        httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{_BASE}", headers=_HEADERS, timeout=60) as http,
    ):
        chosen = random.Random(1)
        for _ in range(_EDGES // _A_REQUEST):
            _write(http, chosen, _A_REQUEST)
    times_s = []
    for turn in range(_TURNS):
        with Environment(folder / "source", create=False) as source, Environment(folder / f"again-{turn}") as target:
            started_s, began_s = time.process_time(), time.perf_counter()
            done = rebuilt(source, target)
            times_s.append((time.process_time() - started_s, time.perf_counter() - began_s))
    cpu_s, took_s = map(min, zip(*times_s, strict=True))
    chosen, says = random.Random(1), f"{_EDGES:,} random follows; the best of {_TURNS} turns"
    restored = postgresql.restore({_pair(chosen) for _ in range(_EDGES)})
    figure = Figure("rebuild", done / took_s, "events/s", ">= 150,000", data=says)
    return [
        with_peer(figure, "pg_restore of the same edges with an index for each end", restored),
        Figure("rebuild-core", done / cpu_s, "events/s of one core", ">= 150,000", data=says),
    ]


def increment(folder: Path) -> list[Figure]:
    """Back up a minute of random follows, at 5,000 a second, to a folder: written, and read back."""
    edges, source, kept = _MINUTE_S * _A_SECOND, folder / "source", FolderArchive(folder / "kept")
    with Environment(source) as store:
        BackupMaker(store, kept, None).make(whole=True)
    with (
        server(_settings(source)) as settings,
        httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{_BASE}", headers=_HEADERS, timeout=60) as http,
    ):
        chosen = random.Random(1)
        for _ in range(edges // _A_REQUEST):
            _write(http, chosen, _A_REQUEST)
    with Environment(source, create=False) as store:
        started_s, began_s = time.process_time(), time.perf_counter()
        (part,) = BackupMaker(store, kept, None).make(whole=False).parts
        cpu_s, took_s = time.process_time() - started_s, time.perf_counter() - began_s
    size = sum(file.bytes for file in part.files.values())
    says = f"{part.until - part.after:,} events of random follows"
    return [
        Figure("increment", cpu_s, "s of one core", "< 1", data=says),
        Figure("increment-took", took_s, "s", "", data=says),
        Figure("increment-bytes", size / (part.until - part.after), "bytes/event", "", data=says),
    ]


def _settings(folder: Path) -> Settings:
    return Settings(data=str(folder), port=free_port(), api_keys=(KEY,), workers=1)


def _write(http: httpx.Client, chosen: random.Random, count: int, graph: str = "follows") -> None:
    pairs = [_pair(chosen) for _ in range(count)]
    rows = [{"op": "add", "source": source, "destination": destination} for source, destination in pairs]
    http.post(f"/graph/{graph}/edges", json={"edges": rows}).raise_for_status()


def _pair(chosen: random.Random) -> tuple[int, int]:
    return chosen.randrange(_USERS), chosen.randrange(_USERS, 2 * _USERS)


def _lags_ms(http: httpx.Client, port: int, chosen: random.Random) -> list[float]:
    """Milliseconds from sending each write until the watcher of its node has the change."""
    return asyncio.run(_lags(http, port, chosen))


async def _lags(http: httpx.Client, port: int, chosen: random.Random) -> list[float]:
    """Open the watchers, then write from a thread."""
    sent_s: dict[tuple[int, int], float] = {}
    late_ms: list[float] = []
    ready = asyncio.Semaphore(0)

    async def watch_node(node: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asked = f"GET {_BASE}/watch?nodes={node} HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\n"
        writer.write(f"{asked}Authorization: Bearer {KEY}\r\n\r\n".encode())
        await reader.readuntil(b'"here"')
        ready.release()
        if node % 2:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        while line := await reader.readline():
            if b'"kind":"edge"' in line:
                change = json.loads(line[line.index(b"{") :])
                key = int(change["source"]), int(change["destination"])
                late_ms.append(1000 * (time.perf_counter() - sent_s[key]))

    def write() -> None:
        began = time.perf_counter()
        for number in range(_LIVE_REQUESTS):
            pairs = [
                (_FIRST_WATCHED + chosen.randrange(_WATCHERS), _FIRST_OTHER + _A_LIVE_REQUEST * number + at)
                for at in range(_A_LIVE_REQUEST)
            ]
            sent_s.update(dict.fromkeys(pairs, time.perf_counter()))
            edges = [{"op": "add", "source": source, "destination": other} for source, other in pairs]
            http.post("/graph/follows/edges", json={"edges": edges}).raise_for_status()
            time.sleep(max(0.0, began + (number + 1) / _LIVE_A_SECOND - time.perf_counter()))

    tasks = [asyncio.create_task(watch_node(_FIRST_WATCHED + at)) for at in range(_WATCHERS)]
    for _ in tasks:
        await ready.acquire()
    await asyncio.to_thread(write)
    await asyncio.sleep(2)
    for task in tasks:
        task.cancel()
    return late_ms
