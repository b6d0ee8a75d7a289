"""Samples of the last hour: which process writes them, how many are kept, and the curves made of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from coroutines import Run

from kith.run.measures.history import EVERY_MS, KEPT, MeasureHistory, quantile_ms
from kith.run.measures.metrics import LATENCY_S, Metrics

AT = 1_700_000_000_000
GONE_PID = 4_194_303


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    """The metrics of one process."""
    made = metrics_in(tmp_path)
    yield made
    made.close()


def metrics_in(folder: Path, bytes_: float = 5.0) -> Metrics:
    async def gauges() -> Mapping[str, float]:
        return {"store_bytes": bytes_, "fanout_lag_oldest_seconds": float("inf"), "backup_failing": True}

    return Metrics(folder / "metrics", lambda: 3, gauges)


def called(metrics: Metrics, seconds: float, times: int = 1, status: int = 200) -> None:
    """Record `times` calls of an operation that took `seconds` each."""
    for _ in range(times):
        metrics.observe("check", time.perf_counter() - seconds, status)


def test_a_curve_shows_what_happened_between_two_samples(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    history = MeasureHistory(tmp_path / "samples", metrics)
    called(metrics, 0.3, 7)
    run(history.take(AT))
    called(metrics, 0.03, 20)
    called(metrics, 0.03, 5, status=503)
    metrics.committed(1, 8, 0.002)
    run(history.take(AT + EVERY_MS))
    told = run(history.numbers(0, "check"))
    assert told.times == [AT, AT + EVERY_MS]
    assert told.series["requests_rate"] == [None, 2.5]
    assert told.series["operation_rate"] == [None, 2.5]
    assert told.series["requests_failed"] == [None, 5]
    assert 25 <= (told.series["operation_p99_ms"][1] or 0) <= 50
    assert told.series["writes_per_commit"] == [None, 8]
    assert told.series["commit_queue_depth"] == [3, 3]
    assert told.series["store_bytes"] == [5, 5]
    assert told.series["fanout_lag_oldest_seconds"] == [None, None], "JSON has no infinity"
    assert told.series["backup_failing"] == [1, 1]
    (row,) = told.operations
    assert (row.name, row.count, row.failed) == ("check", 25, 5)


def test_samples_since_a_time_equal_the_end_of_the_whole(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    history = MeasureHistory(tmp_path / "samples", metrics)
    for step in range(4):
        called(metrics, 0.001, step)
        run(history.take(AT + step * EVERY_MS))
    whole = run(history.numbers(0, None))
    new = run(history.numbers(AT + EVERY_MS, None))
    assert new.times == whole.times[2:]
    assert new.series["requests_rate"] == whole.series["requests_rate"][2:]
    assert run(history.numbers(AT + 3 * EVERY_MS, None)).times == []


def test_of_concurrent_processes_one_writes_the_sample_and_all_answer_alike(tmp_path: Path, run: Run) -> None:
    one, other = metrics_in(tmp_path, 1.0), metrics_in(tmp_path, 2.0)
    histories = [MeasureHistory(tmp_path / "samples", each) for each in (one, other)]

    async def at_once() -> None:
        await asyncio.gather(*(history.take(AT) for history in histories))

    run(at_once())
    first, second = (run(history.numbers(0, None)).series["store_bytes"] for history in histories)
    assert first == second
    assert len(first) == 1
    assert [file.suffix for file in (tmp_path / "samples").iterdir()] == [".json"]
    one.close()
    other.close()


def test_only_an_hour_of_samples_is_kept(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    history = MeasureHistory(tmp_path / "samples", metrics)
    run(history.take(AT))
    sample = (tmp_path / "samples" / f"{AT:015d}.json").read_bytes()
    for step in (*range(1, KEPT), KEPT + 1_000):  # the last sample is of a clock that was ahead
        at = AT + step * EVERY_MS
        (tmp_path / "samples" / f"{at:015d}.json").write_bytes(sample.replace(b"%d" % AT, b"%d" % at))
    run(history.take(AT + KEPT * EVERY_MS))
    times = run(history.numbers(0, None)).times
    kept = sorted(int(file.stem) for file in (tmp_path / "samples").iterdir())
    assert len(kept) == len(times) == KEPT
    assert (kept[0], kept[-1]) == (AT + EVERY_MS, AT + KEPT * EVERY_MS)


def test_a_restart_keeps_the_samples_and_counts_from_zero(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    called(metrics, 0.001, 100)
    run(MeasureHistory(tmp_path / "samples", metrics).take(AT))
    for file in (tmp_path / "metrics").iterdir():
        file.unlink()
    again = metrics_in(tmp_path / "again")  # the first server of a folder resets its counts
    called(again, 0.001, 30)
    history = MeasureHistory(tmp_path / "samples", again)
    run(history.take(AT + EVERY_MS))
    told = run(history.numbers(0, None))
    assert told.series["requests_rate"] == [None, 3.0]
    assert [row.count for row in told.operations] == [30]
    again.close()


def test_a_truncated_sample_is_left_out(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    history = MeasureHistory(tmp_path / "samples", metrics)
    run(history.take(AT))
    (tmp_path / "samples" / f"{AT + EVERY_MS:015d}.json").write_bytes(b'{"at')
    run(history.take(AT + 2 * EVERY_MS))
    told = run(history.numbers(0, None))
    assert told.times == [AT, AT + 2 * EVERY_MS]
    assert all(len(values) == 2 for values in told.series.values())


def test_a_process_that_ended_is_listed_for_an_hour(metrics: Metrics, tmp_path: Path, run: Run) -> None:
    left = tmp_path / "metrics" / f"fanout-{GONE_PID}.json"
    left.write_bytes(json.dumps({"watchers": 4, "queue_depth": 9}).encode())
    history = MeasureHistory(tmp_path / "samples", metrics)
    told = {one.kind: one for one in run(history.numbers(0, None)).processes}
    assert told["api"].running
    assert (told["fanout"].pid, told["fanout"].running) == (GONE_PID, False)
    run(history.take(AT))
    assert run(history.numbers(0, None)).series["watchers"] == [0], "connections of an ended process do not count"
    os.utime(left, (time.time() - 4_000, time.time() - 4_000))
    assert [one.kind for one in run(history.numbers(0, None)).processes] == ["api"]


def test_percentiles_lie_within_the_bounds_of_their_bucket() -> None:
    empty = [0] * (len(LATENCY_S) + 1)
    assert quantile_ms(empty, 0.5) is None
    one = [*empty]
    one[3] = 10
    assert LATENCY_S[2] * 1_000 < (quantile_ms(one, 0.01) or 0) <= (quantile_ms(one, 0.99) or 0) <= LATENCY_S[3] * 1_000
    one[-1] = 10
    assert quantile_ms(one, 0.99) == LATENCY_S[-1] * 1_000
