"""Two regions: a node of Cassandra in each, started for the measure, and an API in each; the first runs the workers.

Kafka and Redis are those that KITH_TEST_KAFKA and KITH_TEST_REDIS name; without them there is no figure. All run on one
machine, so the network between the regions takes no time: the figures are what a second region costs besides.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np

from bench.cluster import cassandra
from bench.figures import Figure, free_port
from bench.on_cluster import cluster, ready
from bench.routes import client
from kith.run.config import Settings

_FOLLOWS, _WARM = 300, 50
_FIRST, _STAR = 1 << 41, 7


def regions(folder: Path) -> list[Figure]:
    """Follows one by one in the first region, and the time until the second region shows them."""
    with cassandra(datacentres=2) as port:
        if port is None:
            return []
        with cluster(folder, "cluster-regions", f"127.0.0.1:{port}", "dc1") as home:
            if home is None:
                return []
            far = msgspec.structs.replace(
                home, cassandra=f"127.0.0.2:{port}", cassandra_datacentre="dc2", port=free_port(), data=f"{home.data}-2"
            )
            with ready(far, "api"):
                took_ms = np.array([_timed(home, far, number) for number in range(_WARM + _FOLLOWS)])[_WARM:]
    says = f"{_FOLLOWS} follows in a row in the other region; no way between the regions; all on the same cores"
    figures = []
    for what, column in (("answered", 0), ("seen", 1), ("propagated", 2)):
        p50, p99 = np.percentile(took_ms[:, column], [50, 99])
        figures += [
            Figure(f"cluster-regions-{what}", float(p50), "ms, p50", "", data=says),
            Figure(f"cluster-regions-{what}-p99", float(p99), "ms, p99", "", data=says),
        ]
    return figures


def _timed(home: Settings, far: Settings, number: int) -> tuple[float, float, float]:
    """Milliseconds from sending a follow until it is answered, until the other region shows it, and between the two."""
    with client(home, _FIRST + number) as here, client(far) as there:
        there.get(f"/graph/follows/{_STAR}/{_STAR}").raise_for_status()
        started = time.perf_counter()
        here.post(f"/users/{_STAR}/follow").raise_for_status()
        answered = time.perf_counter()
        while not there.get(f"/graph/follows/{_FIRST + number}/{_STAR}").raise_for_status().json()["exists"]:
            pass
        seen = time.perf_counter()
    return 1_000 * (answered - started), 1_000 * (seen - started), 1_000 * (seen - answered)
