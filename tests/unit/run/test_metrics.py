"""Counters of processes, stored in files that outlive them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from coroutines import Run

from kith.core.errors import StoreFull
from kith.run.measures.metrics import Metrics


def metrics(folder: Path, process: str = "api") -> Metrics:
    return Metrics(folder, lambda: 0, no_gauges, process)


async def no_gauges() -> Mapping[str, float]:
    return {}


def test_counters_survive_their_process_and_an_idle_process_leaves_no_file(tmp_path: Path, run: Run) -> None:
    idle, busy = metrics(tmp_path, "worker"), metrics(tmp_path)
    busy.observe("check", time.perf_counter(), 200)
    busy.streaming(3)
    busy.called("edges apply", 0.003)
    busy.call_failed("edges apply", "STORE_FULL")
    for each in (idle, busy):
        run(each.render())
        each.close()
    assert [file.name.partition("-")[0] for file in tmp_path.iterdir()] == ["api"]
    later = metrics(tmp_path, "later")
    text = run(later.render()).decode()
    assert 'kith_responses_total{operation="check",status="200"} 1.0' in text
    assert 'kith_store_call_seconds_bucket{le="0.005",method="apply",port="edges"} 1.0' in text
    assert 'kith_store_call_errors_total{code="STORE_FULL",method="apply",port="edges"} 1.0' in text
    later.close()


def test_commit_failures_are_exported_as_0_before_the_first_so_that_alerts_see_it(tmp_path: Path, run: Run) -> None:
    counting = metrics(tmp_path)
    assert 'kith_commit_failures_total{code="STORE_FULL"} 0.0' in run(counting.render()).decode()
    counting.failed(StoreFull("no room"))
    counting.close()
    later = metrics(tmp_path, "later")
    assert 'kith_commit_failures_total{code="STORE_FULL"} 1.0' in run(later.render()).decode()
    later.close()


def test_an_idle_process_updates_only_the_time_of_its_file(tmp_path: Path) -> None:
    idle = metrics(tmp_path)
    [(file, written)] = [(tmp_path / f"api-{one.pid}.json", one) for one in idle.process_snapshots()]
    inode = file.stat().st_ino
    os.utime(file, (0, 0))
    [seen] = idle.process_snapshots()
    assert seen.seen_ms >= written.seen_ms > 0
    assert file.stat().st_ino == inode
    idle.observe("check", time.perf_counter(), 200)
    [counted] = idle.process_snapshots()
    assert counted.counts.responses == {"check 200": 1}
    assert file.stat().st_ino != inode
    file.unlink()
    assert [one.counts for one in (*idle.process_snapshots(), *idle.process_snapshots())] == [counted.counts]
    idle.close()
