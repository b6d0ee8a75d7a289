"""What a second process gives on a cluster: of the API to checks, of owners to follows; and what of it the cores allow.

Everything is on the cores of the client, so beside each rate stands what the processes took of them: where all are
busy, what a second process can give is the client's and the engines' part of the time, not more.
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

_CONNECTIONS, _WARM_S, _BALANCED_S = 32, 2.0, 8.0


class _Took(NamedTuple):
    """A rate, and how many cores were taken meanwhile: by the processes that are scaled, and by all there are."""

    rate: float
    cores: float
    busy: float


def scaling(folder: Path) -> list[Figure]:
    """One process and two."""
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


def _api(folder: Path, count: int) -> _Took | None:
    """Checks that the filter answers, by so many API processes."""
    with cluster(folder, f"cluster-scaling-api-{count}", workers=count) as settings:
        if settings is None:
            return None
        fill(settings, FOLLOWS, edges())
        wait_until(settings, "kith_filter_edges", lambda found: found >= len(edges()))
        wait_until(settings, "kith_notifications_lag_events", lambda events: events == 0)
        asked = functools.partial(checks, ["filter"])
        load = functools.partial(run, settings.port, asked, connections=_CONNECTIONS, seconds=SECONDS, warm_s=_WARM_S)
        return _taken("kith-api", load)


def _owners(folder: Path, count: int) -> _Took | None:
    """Follows that so many owners decide, each half of the partitions."""
    with cluster(folder, f"cluster-scaling-owners-{count}") as settings, contextlib.ExitStack() as more:
        if settings is None:
            return None
        for number in range(1, count):
            more.enter_context(_owner(settings, number))
        asked = functools.partial(follows, count)
        load = functools.partial(run, settings.port, asked, connections=WRITE_CONNECTIONS, seconds=SECONDS, once=True)
        return _taken("kith-apply", functools.partial(load, warm_s=_WARM_S))


@contextlib.contextmanager
def _owner(settings: Settings, number: int) -> Iterator[None]:
    """One owner more, which has its part of the partitions."""
    environment = {f"KITH_{setting.upper()}": str(getattr(settings, setting)) for setting in HANDED_DOWN}
    command = [sys.executable, "-m", "kith", "worker", "apply", "--data", f"{settings.data}-owner-{number}"]
    with patch.dict(os.environ, environment):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_BALANCED_S)
        yield
    finally:
        process.terminate()
        process.wait()


def _taken(name: str, load: Callable[[], Load]) -> _Took:
    """What the processes with this name took of the cores during a load."""
    pids, began = _named(name), time.perf_counter()
    before, busy = cpu_s(pids), _busy_s()
    rate = load().rate
    took = time.perf_counter() - began
    return _Took(rate, (cpu_s(pids) - before) / took, (_busy_s() - busy) / took)


def _named(name: str) -> list[int]:
    """Processes of this name that have a keyspace of the benchmarks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_ours = b"KITH_CASSANDRA_KEYSPACE=kith_bench_" in (folder / "environ").read_bytes()
            if is_ours and (folder / "comm").read_text().strip() == name:
                found.append(int(folder.name))
    return found


def _busy_s() -> float:
    """How long the cores of this machine have worked."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
