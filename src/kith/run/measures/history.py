"""History of the metrics over the last hour, for the console: a file of counts every ten seconds.

Every API process takes samples, but only the first one at each moment writes the file. So all processes answer alike,
and a killed process loses nothing. The files are in `samples/` beside the store and survive a restart; the oldest are
deleted. Limit: percentiles are as fine as the bounds of the histograms (`metrics.LATENCY_S`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from pathlib import Path

import msgspec
import structlog

from kith.api.resources.console import NumbersAnswer, OperationNumbers, ProcessNumbers
from kith.core.clock import wall_ms
from kith.core.errors import Unavailable
from kith.run.measures.metrics import LATENCY_S, Histogram, Metrics, ProcessSnapshot

EVERY_MS = 10_000
KEPT = 360
"""Samples kept: an hour of them."""
ENDED_SHOWN_MS = 3_600_000
"""How long a process that ended is still listed."""
_log = structlog.get_logger("kith")


class Sample(msgspec.Struct):
    """The counts of all processes up to `at_ms`. A histogram is a list of counts by bound.

    `latency`: a histogram for each operation, left as raw JSON: a curve reads an hour of samples but needs one
    operation.
    """

    at_ms: int
    latency: dict[str, msgspec.Raw]
    requests: list[int]  # of all operations
    failed: dict[str, int]  # answers with status 500 and above, by operation
    commits: list[int]
    writes: float
    gauges: dict[str, float | None]  # None: an infinite age, which JSON cannot hold


class MeasureHistory:
    """The samples of a data folder."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder, self._metrics = folder, metrics
        folder.mkdir(exist_ok=True)

    async def run(self) -> None:
        """Take a sample at every tenth second of the clock, until cancelled. A failed sample is skipped."""
        while True:
            now_ms = wall_ms()
            at_ms = now_ms - now_ms % EVERY_MS + EVERY_MS
            await asyncio.sleep((at_ms - now_ms) / 1_000)
            try:
                await self.take(at_ms)
            except (OSError, Unavailable) as error:
                _log.warning("no sample for the console this time", error=str(error))

    async def take(self, at_ms: int) -> None:
        """Write the sample of this moment, unless another process does; delete the oldest."""
        gauges = await self._metrics.gauges()
        await asyncio.to_thread(self._write, at_ms, gauges)

    async def numbers(self, since_ms: int, operation: str | None) -> NumbersAnswer:
        """Curves from `since_ms` on, and the table of operations over all kept samples."""
        return await asyncio.to_thread(self._numbers, since_ms, operation)

    def _write(self, at_ms: int, gauges: Mapping[str, float]) -> None:
        sample_file = self._folder / f"{at_ms:015d}.json"
        if sample_file.exists():
            return
        try:
            partial = sample_file.with_suffix(".part").open("xb")
        except FileExistsError:
            return
        with partial:
            partial.write(msgspec.json.encode(summed(at_ms, self._metrics.process_snapshots(), gauges)))
        Path(partial.name).rename(sample_file)
        oldest_ms = at_ms - (KEPT - 1) * EVERY_MS
        for file in self._folder.glob("[0-9]*.*"):
            if not oldest_ms <= int(file.stem) <= at_ms + EVERY_MS:  # also files from when the clock was ahead
                file.unlink(missing_ok=True)

    def _numbers(self, since_ms: int, operation: str | None) -> NumbersAnswer:
        files = sorted(self._folder.glob("*.json"))
        new = sum(int(file.stem) > since_ms for file in files)
        samples = list(_read(files[max(0, len(files) - new - 1) :]))  # and the one before, as the base of differences
        oldest = next(_read(files), None)
        processes = self._metrics.process_snapshots()
        latest = summed(wall_ms(), processes, {})
        return NumbersAnswer(
            now=latest.at_ms,
            every_ms=EVERY_MS,
            times=[sample.at_ms for sample in samples if sample.at_ms > since_ms],
            series=_curves(samples, since_ms, operation),
            operations=_table(oldest or _empty_sample(latest.at_ms), latest),
            processes=[
                ProcessNumbers(process.kind, process.pid, process.running, process.seen_ms)
                for process in sorted(processes, key=lambda process: (not process.running, -process.seen_ms))
                if process.running or process.seen_ms > latest.at_ms - ENDED_SHOWN_MS
            ],
        )


def summed(at_ms: int, processes: Sequence[ProcessSnapshot], gauges: Mapping[str, float]) -> Sample:
    """The sum of what all processes counted, as a sample."""
    none = [0] * (len(LATENCY_S) + 1)
    sample = Sample(at_ms, {}, none, {}, none, 0, {})
    latency: dict[str, list[int]] = {}
    depth = streams = watchers = 0
    lag_s = 0.0
    for process in processes:
        counts = process.counts
        for name, histogram in counts.latency.items():
            latency[name] = _added(latency.get(name), histogram)
            sample.requests = _added(sample.requests, histogram)
        for key, number in counts.responses.items():
            operation, _, status = key.rpartition(" ")
            if status >= "500":
                sample.failed[operation] = sample.failed.get(operation, 0) + number
        sample.commits = _added(sample.commits, counts.commit_s)
        sample.writes += counts.commit_writes.total
        depth, streams, watchers = depth + counts.queue_depth, streams + counts.streams, watchers + counts.watchers
        lag_s = max(lag_s, counts.stream_lag_s)
    sample.latency = {name: msgspec.Raw(msgspec.json.encode(counts)) for name, counts in latency.items()}
    live = {"commit_queue_depth": depth, "streams": streams, "watchers": watchers, "stream_lag_seconds": lag_s}
    values = {**gauges, **live}  # some are booleans, hence `float` below
    sample.gauges = {name: float(value) if isfinite(value) else None for name, value in values.items()}
    return sample


def quantile_ms(counts: Sequence[int], share: float) -> float | None:
    """The time in ms within which `share` of these were answered, interpolated in its bucket; None for no counts."""
    remaining = share * sum(counts)
    if not remaining:
        return None
    lower = 0.0
    for bound, count in zip(LATENCY_S, counts, strict=False):
        if count >= remaining:
            return (lower + (bound - lower) * remaining / count) * 1_000
        remaining, lower = remaining - count, bound
    return LATENCY_S[-1] * 1_000  # or longer


def _curves(samples: Sequence[Sample], since_ms: int, operation: str | None) -> dict[str, list[float | None]]:
    """By the name of the curve, a value for each sample after `since_ms`; None where a sample has no value."""
    rows = [_point(None, samples[0], operation)] if samples and samples[0].at_ms > since_ms else []
    rows += [_point(before, after, operation) for before, after in pairwise(samples)]
    names = sorted({name for row in rows for name in row})
    return {name: [_rounded(row.get(name)) for row in rows] for name in names}


def _point(before: Sample | None, after: Sample, operation: str | None) -> dict[str, float | None]:
    values: dict[str, float | None] = dict(after.gauges)
    if before is None:
        return values
    seconds = (after.at_ms - before.at_ms) / 1_000
    before = _comparable(before, after)
    values |= _times("requests", _difference(before.requests, after.requests), seconds)
    values["requests_failed"] = sum(
        max(0, number - before.failed.get(name, 0)) for name, number in after.failed.items()
    )
    commits = _difference(before.commits, after.commits)
    values |= _times("commits", commits, seconds)
    values["writes_rate"] = (after.writes - before.writes) / seconds
    if number := sum(commits):
        values["writes_per_commit"] = (after.writes - before.writes) / number
    if operation is not None:
        values |= _times(
            "operation", _difference(_histogram_of(before, operation), _histogram_of(after, operation)), seconds
        )
    return values


def _times(name: str, counts: Sequence[int], seconds: float) -> dict[str, float | None]:
    return {
        f"{name}_rate": sum(counts) / seconds,
        f"{name}_p50_ms": quantile_ms(counts, 0.5),
        f"{name}_p99_ms": quantile_ms(counts, 0.99),
    }


def _table(before: Sample, after: Sample) -> list[OperationNumbers]:
    """Every operation that was called since the first sample, the most often called first."""
    rows, before = [], _comparable(before, after)
    for name in after.latency:
        grown = _difference(_histogram_of(before, name), _histogram_of(after, name))
        if number := sum(grown):
            failed = max(0, after.failed.get(name, 0) - before.failed.get(name, 0))
            p50, p99 = quantile_ms(grown, 0.5), quantile_ms(grown, 0.99)
            rows.append(OperationNumbers(name, number, failed, p50 or 0.0, p99 or 0.0))
    return sorted(rows, key=lambda row: (-row.count, row.name))


def _added(counts: list[int] | None, histogram: Histogram) -> list[int]:
    return list(histogram.counts) if counts is None else [a + b for a, b in zip(counts, histogram.counts, strict=True)]


def _comparable(before: Sample, after: Sample) -> Sample:
    """The sample to subtract from `after`: zeros where the counts restarted in between, as when a server starts."""
    restarted = any(b > a for b, a in zip(before.requests, after.requests, strict=False))
    return _empty_sample(before.at_ms) if restarted or after.writes < before.writes else before


def _empty_sample(at_ms: int) -> Sample:
    return Sample(at_ms, {}, [], {}, [], 0, {})


def _histogram_of(sample: Sample, operation: str) -> list[int]:
    """The histogram of an operation; empty where it was never called."""
    raw = sample.latency.get(operation)
    return [] if raw is None else msgspec.json.decode(raw, type=list[int])


def _difference(before: Sequence[int], after: Sequence[int]) -> Sequence[int]:
    """The counts that were added between two samples."""
    return [max(0, a - b) for b, a in zip(before, after, strict=True)] if before and after else after


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _read(files: Sequence[Path]) -> Iterator[Sample]:
    for file in files:
        try:
            yield msgspec.json.decode(file.read_bytes(), type=Sample)
        except (OSError, msgspec.DecodeError):  # just deleted, or truncated by a full disk
            continue
