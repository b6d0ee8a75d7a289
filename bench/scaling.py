"""What a second process gains on a cluster: an API process for checks, an owner for follows.

Engines, processes and client share the cores, so each rate is shown with the cores that were busy. If all are busy, a
second process gains at most what it takes from the client and the engines.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from bench.figures import SECONDS, Figure, with_peer
from bench.load import Load, run
from bench.on_cluster import HANDED_DOWN, WRITE_CONNECTIONS, checks, cluster, edges, fill, follows, wait_until
from bench.processes import cpu_s
from kith.graph.graphs import FOLLOWS
from kith.run.config import Settings

_CONNECTIONS, _WARM_S, _REBALANCE_WAIT_S = 32, 2.0, 8.0


class _RateAndCores(NamedTuple):
    """A rate, and how many cores were busy meanwhile: with the scaled processes, and with all processes."""

    rate: float
    cores: float
    busy: float


def scaling(folder: Path) -> list[Figure]:
    """Rates with one process and with two."""
    figures = []
    for name, measured, unit in (("api", _api, "checks/s"), ("owners", _owners, "follows/s")):
        one, two = (measured(folder, count) for count in (1, 2))
        if one is None or two is None:
            return []
        says = (
            f"{os.cpu_count()} cores; one took {one.cores:.2f} of a core while {one.busy:.2f} were busy, "
            f"two {two.cores:.2f} while {two.busy:.2f} were"
        )
        figure = Figure(f"cluster-scaling-{name}", two.rate, unit, "shown", data=says)
        figures.append(with_peer(figure, "one process", one.rate))
    return figures


def _api(folder: Path, count: int) -> _RateAndCores | None:
    """Checks that the filter answers, with `count` API processes."""
    with cluster(folder, f"cluster-scaling-api-{count}", workers=count) as settings:
        if settings is None:
            return None
        fill(settings, FOLLOWS, edges())
        wait_until(settings, "kith_filter_edges", lambda found: found >= len(edges()))
        wait_until(settings, "kith_notifications_lag_events", lambda events: events == 0)
        asked = functools.partial(checks, ["filter"])
        load = functools.partial(run, settings.port, asked, connections=_CONNECTIONS, seconds=SECONDS, warm_s=_WARM_S)
        return _measured("kith-api", load)


def _owners(folder: Path, count: int) -> _RateAndCores | None:
    """Follows with `count` owners, which share the partitions."""
    with cluster(folder, f"cluster-scaling-owners-{count}") as settings, contextlib.ExitStack() as more:
        if settings is None:
            return None
        for number in range(1, count):
            more.enter_context(_owner(settings, number))
        asked = functools.partial(follows, count)
        load = functools.partial(run, settings.port, asked, connections=WRITE_CONNECTIONS, seconds=SECONDS, once=True)
        return _measured("kith-apply", functools.partial(load, warm_s=_WARM_S))


@contextlib.contextmanager
def _owner(settings: Settings, number: int) -> Iterator[None]:
    """Run one more owner; yields once it has its share of the partitions."""
    environment = {f"KITH_{setting.upper()}": str(getattr(settings, setting)) for setting in HANDED_DOWN}
    command = [sys.executable, "-m", "kith", "worker", "apply", "--data", f"{settings.data}-owner-{number}"]
    with patch.dict(os.environ, environment):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_REBALANCE_WAIT_S)
        yield
    finally:
        process.terminate()
        process.wait()


def _measured(name: str, load: Callable[[], Load]) -> _RateAndCores:
    """The rate of a load, and the cores that the processes with this name, and all, took meanwhile."""
    pids, began = _named(name), time.perf_counter()
    before, busy = cpu_s(pids), _busy_s()
    rate = load().rate
    took = time.perf_counter() - began
    return _RateAndCores(rate, (cpu_s(pids) - before) / took, (_busy_s() - busy) / took)


def _named(name: str) -> list[int]:
    """Ids of processes with this name and a keyspace of the benchmarks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_ours = b"KITH_CASSANDRA_KEYSPACE=kith_bench_" in (folder / "environ").read_bytes()
            if is_ours and (folder / "comm").read_text().strip() == name:
                found.append(int(folder.name))
    return found


def _busy_s() -> float:
    """Seconds that the cores of this machine have been busy."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
