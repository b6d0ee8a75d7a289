"""Counters and histograms for `/metrics`: latency per query type, commits, queue, store calls, streams, checks.

Every process counts in plain lists, because a histogram of the Prometheus client costs more than a follow check. Twice
a second each process writes its counts to a file in the `metrics` folder. `/metrics` of any process adds up the files,
so every process gives the same answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kith.core.errors import KithError, StoreFull, StoreUnavailable
from kith.run.measures.descriptions import description_of
from kith.run.measures.paced import Throttle

LATENCY_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
_WRITTEN_EVERY_S = 0.5
_FAILURES = (StoreFull.code, StoreUnavailable.code)
"""Commit errors that are exported even at 0, because an alert on an increase misses the first count of a new series."""


class Histogram(msgspec.Struct):
    """Counts by upper bound, the last one for everything above."""

    counts: list[int]
    total: float = 0.0

    def add(self, bounds: tuple[float, ...], value: float) -> None:
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value


class ProcessCounts(msgspec.Struct):
    """What one process has counted since it started."""

    latency: dict[str, Histogram] = {}
    responses: dict[str, int] = {}  # "operation status"
    commit_s: Histogram = msgspec.field(default_factory=lambda: Histogram([0] * (len(LATENCY_S) + 1)))
    commit_writes: Histogram = msgspec.field(default_factory=lambda: Histogram([0] * (len(SIZES) + 1)))
    commit_failures: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(_FAILURES, 0))
    calls: dict[str, Histogram] = {}  # of ports, by "port method"
    call_errors: dict[str, int] = {}  # "port method code"
    queue_depth: int = 0
    streams: int = 0
    watchers: int = 0
    stream_lag_s: float = 0.0
    stream_events: dict[str, int] = {}
    stream_ends: dict[str, int] = {}
    mentions: dict[str, int] = {}  # "tier outcome"
    checks: dict[str, int] = {}  # "layer answer"
    filter: tuple[int, int, float] | None = None  # edges, bytes, expected share of false positives


class ProcessSnapshot(NamedTuple):
    """The counts that one process wrote. `seen_ms`: when it last wrote them."""

    kind: str
    pid: int
    running: bool
    seen_ms: int
    counts: ProcessCounts


class Metrics:
    """The counts of this process, and the sum over all that share `folder`."""

    def __init__(
        self,
        folder: Path,
        depth: Callable[[], int],
        gauges: Callable[[], Awaitable[Mapping[str, float]]],
        process: str = "api",
    ) -> None:
        """`process`: the kind of this process, the first part of its file's name."""
        self._counts = ProcessCounts()
        self._depth, self._gauges, self._paced = depth, gauges, Throttle(self._render)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._file = folder, folder / f"{process}-{os.getpid()}.json"
        self._stop, self._write_lock = threading.Event(), threading.Lock()
        self._written = b""  # the file's content
        self._thread = threading.Thread(target=self._loop, name="kith-metrics", daemon=True)

    def observe(self, operation: str, started: float, status: int) -> None:
        """Count an answered request; `started` is `time.perf_counter()` at its beginning."""
        _add(self._counts.latency, operation, time.perf_counter() - started)
        key = f"{operation} {status}"
        self._counts.responses[key] = self._counts.responses.get(key, 0) + 1

    def committed(self, jobs: int, writes: int, seconds: float) -> None:
        """See `CommitObserver`."""
        self._counts.commit_s.add(LATENCY_S, seconds)
        self._counts.commit_writes.add(SIZES, writes)

    def failed(self, error: KithError) -> None:
        """See `CommitObserver`."""
        self._counts.commit_failures[error.code] = self._counts.commit_failures.get(error.code, 0) + 1

    def called(self, call: str, seconds: float) -> None:
        """See `observed.CallObserver`."""
        _add(self._counts.calls, call, seconds)

    def call_failed(self, call: str, code: str) -> None:
        """See `observed.CallObserver`."""
        key = f"{call} {code}"
        self._counts.call_errors[key] = self._counts.call_errors.get(key, 0) + 1

    def streaming(self, streams: int) -> None:
        """Set the number of streams that are open in this process."""
        self._counts.streams = streams

    def watching(self, watchers: int) -> None:
        """Set the number of /watch readers that are connected to this process."""
        self._counts.watchers = watchers

    def stream_ended(self, why: str) -> None:
        """Count a stream that ended."""
        self._counts.stream_ends[why] = self._counts.stream_ends.get(why, 0) + 1

    def messages_sent(self, name: str, streams: int) -> None:
        """See `streams.open_streams.Observer`."""
        self._counts.stream_events[name] = self._counts.stream_events.get(name, 0) + streams

    def stream_lag(self, lag_s: float) -> None:
        """See `streams.open_streams.Observer`."""
        self._counts.stream_lag_s = lag_s

    def walk_ended(self, tier: str, told: int, suppressed: int, left: int, dead: int) -> None:
        """Count a finished tier of a mention: rows written, followers who opted out, chunks left, chunks dead."""
        for outcome, number in (("told", told), ("suppressed", suppressed), ("left", left), ("dead", dead)):
            key = f"{tier} {outcome}"
            self._counts.mentions[key] = self._counts.mentions.get(key, 0) + number

    def checked(self, layer: str, present: int, absent: int) -> None:
        """See `checks.layers.CheckObserver`."""
        counts = self._counts.checks
        for answer, number in (("there", present), ("absent", absent)):
            if number:
                counts[f"{layer} {answer}"] = counts.get(f"{layer} {answer}", 0) + number

    def filtering(self, edges: int, size: int, false_positives: float) -> None:
        """Set the size of this process's filter: edges, bytes, and its expected share of false positives."""
        self._counts.filter = edges, size, false_positives

    def start(self) -> None:
        """Start to write the counts to the folder, twice a second."""
        self._thread.start()

    def close(self) -> None:
        """Write the last counts, if there are any, and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write()
        if self._counts == ProcessCounts():  # for example a worker that exits repeatedly because another one runs
            self._file.unlink(missing_ok=True)

    async def render(self) -> bytes:
        """The Prometheus text of all processes. Concurrent requests share one rendering; `paced` limits the rate."""
        return await self._paced.get()

    async def gauges(self) -> Mapping[str, float]:
        """The current gauges of the store, the log and the consumers."""
        return await self._gauges()

    def process_snapshots(self) -> list[ProcessSnapshot]:
        """The counts of each process that shares the folder, this one up to now; ended processes too."""
        self._write()
        return list(self._snapshots())

    async def _render(self) -> bytes:
        return await asyncio.to_thread(self._rendered, await self._gauges())

    def _rendered(self, gauges: Mapping[str, float]) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Collected([snapshot.counts for snapshot in self.process_snapshots()], gauges))
        return generate_latest(registry)

    def _loop(self) -> None:
        while not self._stop.wait(_WRITTEN_EVERY_S):
            self._write()

    def _write(self) -> None:
        partial = self._file.with_suffix(".part")
        with self._write_lock:
            self._counts.queue_depth = self._depth()
            try:
                counts = msgspec.json.encode(self._counts)
                if counts == self._written:
                    os.utime(self._file)  # nothing new, but the process is alive
                else:
                    partial.write_bytes(counts)
                    partial.replace(self._file)
                self._written = counts
            except (OSError, RuntimeError):  # a full disk, or a new operation while encoding: the next round writes it
                self._written = b""
                partial.unlink(missing_ok=True)

    def _snapshots(self) -> Iterator[ProcessSnapshot]:
        for file in self._folder.glob("*.json"):
            try:
                counts = msgspec.json.decode(file.read_bytes(), type=ProcessCounts)
                seen_ms = file.stat().st_mtime_ns // 1_000_000
            except (OSError, msgspec.DecodeError):
                continue
            kind, _, pid = file.stem.rpartition("-")
            if not (running := runs(int(pid))):  # its counters stay, its gauges go to zero
                counts.queue_depth, counts.streams, counts.watchers, counts.stream_lag_s = 0, 0, 0, 0.0
                counts.filter = None
            yield ProcessSnapshot(kind, int(pid), running, seen_ms, counts)


class _Collected:
    """All counts as Prometheus families."""

    def __init__(self, counts: list[ProcessCounts], gauges: Mapping[str, float]) -> None:
        self._counts, self._gauges = counts, gauges

    def collect(self) -> Iterator[Metric]:
        yield _latencies(
            "kith_request_seconds", "Seconds to answer a request, by operation.", ["operation"],
            [counts.latency for counts in self._counts],
        )  # fmt: skip
        yield _counters(
            "kith_responses", "Answers, by operation and status.", ["operation", "status"],
            [counts.responses for counts in self._counts],
        )  # fmt: skip
        yield _latencies(
            "kith_store_call_seconds", "Seconds of calls of stores, by port and method.", ["port", "method"],
            [counts.calls for counts in self._counts],
        )  # fmt: skip
        yield _counters(
            "kith_store_call_errors", "Failed calls of stores, by error.", ["port", "method", "code"],
            [counts.call_errors for counts in self._counts],
        )  # fmt: skip
        seconds = HistogramMetricFamily("kith_commit_seconds", "Seconds of one synced commit.")
        seconds.add_metric([], *_sum(LATENCY_S, [counts.commit_s for counts in self._counts]))
        yield seconds
        writes = HistogramMetricFamily("kith_commit_writes", "Writes in one commit.")
        writes.add_metric([], *_sum(SIZES, [counts.commit_writes for counts in self._counts]))
        yield writes
        yield _counters(
            "kith_commit_failures", "Failed commits, by error.", ["code"],
            [counts.commit_failures for counts in self._counts],
        )  # fmt: skip
        depth = GaugeMetricFamily("kith_commit_queue_depth", "Writes waiting for a commit.")
        depth.add_metric([], sum(counts.queue_depth for counts in self._counts))
        yield depth
        yield from self._streams()
        yield _counters(
            "kith_mentions", "Followers of mentions: told, suppressed; chunks of them: left to pull, dead.",
            ["tier", "outcome"], [counts.mentions for counts in self._counts],
        )  # fmt: skip
        yield from self._checks()
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"kith_{name}", description_of(name), value=value)

    def _checks(self) -> Iterator[Metric]:
        yield _counters(
            "kith_checks", "Checks of edges, by the layer that answered and its answer.", ["layer", "answer"],
            [counts.checks for counts in self._counts],
        )  # fmt: skip
        filters = [counts.filter for counts in self._counts if counts.filter is not None]
        for name, description, index in (
            ("edges", "Edges in the filter; of the process with the largest.", 0),
            ("bytes", "Bytes of the filter; of the process with the largest.", 1),
            ("false_positives", "Expected share of false positives of the filter, by its size.", 2),
        ):
            if filters:
                yield GaugeMetricFamily(
                    f"kith_filter_{name}", description, value=max(sizes[index] for sizes in filters)
                )

    def _streams(self) -> Iterator[Metric]:
        streams = GaugeMetricFamily("kith_streams", "Open streams.")
        streams.add_metric([], sum(counts.streams for counts in self._counts))
        yield streams
        watchers = GaugeMetricFamily("kith_watchers", "Open connections of /watch.")
        watchers.add_metric([], sum(counts.watchers for counts in self._counts))
        yield watchers
        lag = GaugeMetricFamily("kith_stream_lag_seconds", "Lag of streams in seconds, of the slowest process.")
        lag.add_metric([], max((counts.stream_lag_s for counts in self._counts), default=0.0))
        yield lag
        events = [counts.stream_events for counts in self._counts]
        yield _counters("kith_stream_events", "Events sent to streams.", ["event"], events)
        ends = [counts.stream_ends for counts in self._counts]
        yield _counters("kith_stream_ends", "Streams that ended, by cause.", ["cause"], ends)


def runs(process: int) -> bool:
    """Whether a process of this machine still runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _add(histograms: dict[str, Histogram], name: str, seconds: float) -> None:
    histogram = histograms.get(name)
    if histogram is None:
        histogram = histograms[name] = Histogram([0] * (len(LATENCY_S) + 1))
    histogram.add(LATENCY_S, seconds)


def _counters(name: str, description: str, labels: list[str], counts: list[dict[str, int]]) -> Metric:
    """Counters by label values; a key holds these values, separated by spaces."""
    family = CounterMetricFamily(name, description, labels=labels)
    for key in sorted({key for process in counts for key in process}):
        family.add_metric(key.split(" "), sum(process.get(key, 0) for process in counts))
    return family


def _latencies(name: str, description: str, labels: list[str], histograms: list[dict[str, Histogram]]) -> Metric:
    """Latency histograms by label values; keys are as in `_counters`."""
    family = HistogramMetricFamily(name, description, labels=labels)
    for key in sorted({key for histogram in histograms for key in histogram}):
        family.add_metric(
            key.split(" "), *_sum(LATENCY_S, [histogram[key] for histogram in histograms if key in histogram])
        )
    return family


def _sum(bounds: tuple[float, ...], histograms: list[Histogram]) -> tuple[list[tuple[str, float]], float]:
    buckets, running = [], 0
    for index, bound in enumerate((*bounds, float("inf"))):
        running += sum(histogram.counts[index] for histogram in histograms)
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(running)))
    return buckets, sum(histogram.total for histogram in histograms)
