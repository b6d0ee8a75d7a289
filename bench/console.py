"""The console: cost of its refresh every ten seconds, cost of a sample, and time to open the page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec

from bench.figures import KEY, Figure, free_port, serving, wait_for
from bench.processes import cpu_s, family
from kith.core.clock import wall_ms
from kith.run.config import Settings
from kith.run.measures.history import EVERY_MS, KEPT, MeasureHistory
from kith.run.measures.metrics import LATENCY_S, Histogram, Metrics, ProcessCounts
from kith.run.opening.folders import metrics_folder

_OPERATIONS = 110
_PROCESSES = 4
_REFRESHES = 200


def console(folder: Path) -> list[Figure]:
    """Measure with an hour of samples in which every process called every operation."""
    settings = Settings(data=str(folder / "console"), port=free_port(), api_keys=(KEY,), workers=1)
    samples = Path(settings.data) / "samples"
    samples.mkdir(parents=True)
    sample_ms = _an_hour(settings, samples)
    with serving(settings) as process, httpx.Client(trust_env=False) as http:
        base = f"http://127.0.0.1:{settings.port}"
        wait_for(f"{base}/readyz")
        http.headers["authorization"] = f"Bearer {KEY}"
        started = time.perf_counter()
        first = http.get(f"{base}/console/numbers")
        opened_ms = 1_000 * (time.perf_counter() - started)
        newest, pids = first.json()["times"][-2], family(process.pid)
        before, began = cpu_s(pids), time.perf_counter()
        for _ in range(_REFRESHES):
            http.get(f"{base}/console/numbers", params={"since": newest}).raise_for_status()
            http.get(f"{base}/console/log").raise_for_status()
        look_s = (cpu_s(pids) - before) / _REFRESHES
        took_s = (time.perf_counter() - began) / _REFRESHES
    every_s = EVERY_MS / 1_000
    look = f"a look takes {1e3 * took_s:.1f} ms"
    says = f"{_OPERATIONS} operations, {KEPT} samples"
    return [
        Figure("console-open", 100 * look_s / every_s, "% of a core", "< 1", data=look),
        Figure("console-sample", 100 * sample_ms / EVERY_MS, "% of a core", "< 1", data=f"{sample_ms:.1f} ms each"),
        Figure("console-first", opened_ms, "ms", "", data=f"{says}, {len(first.content) / 1e3:.0f} kB"),
        Figure("console-samples", sum(one.stat().st_size for one in samples.iterdir()) / 1e6, "MB", "", data=says),
    ]


def _an_hour(settings: Settings, samples: Path) -> float:
    """Write samples of the last hour; CPU time of one, in ms."""
    folder = metrics_folder(settings)

    async def none() -> Mapping[str, float]:
        return {}

    metrics = Metrics(folder, lambda: 0, none)
    history, now = MeasureHistory(samples, metrics), wall_ms()
    took = 0.0
    for step in range(KEPT):
        each = Histogram([step * 10] * (len(LATENCY_S) + 1), step)
        counts = ProcessCounts(latency={f"operation_{number}": each for number in range(_OPERATIONS)})
        for process in range(_PROCESSES):
            (folder / f"api-{process + 1}.json").write_bytes(msgspec.json.encode(counts))
        started = time.process_time()
        asyncio.run(history.take(now - now % EVERY_MS - (KEPT - step) * EVERY_MS))
        took += time.process_time() - started
    metrics.close()
    return 1_000 * took / KEPT
