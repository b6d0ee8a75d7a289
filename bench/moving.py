"""`kith move`: moves a served folder to distributed engines (see `bench.on_cluster`), and switches to them.

The engines, the folder's server (idle) and the move share the same cores.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.figures import Figure, generated, imported, server
from bench.on_cluster import named
from kith.run.config import Settings
from kith.run.moves import to_cluster
from kith.run.moves.to_cluster import MoveResult

_USERS, _EDGES = 10_000, 30_000


def move(folder: Path) -> list[Figure]:
    """Edges copied and compared a second, and how long writes were refused at the switch."""
    with named(folder, "cluster-move") as cluster:
        if cluster is None:
            return []
        data = generated(folder, _USERS, _EDGES)
        old = imported(folder, data)
        with server(old):
            _, copied_s = _moved(cluster, old)
            compared, compared_s = _moved(cluster, old, audited=True)
            switched, _ = _moved(cluster, old, switch=True)
    if not compared.agrees or switched.closed_s is None:
        raise RuntimeError("the folder and the cluster differ after a move that nobody disturbed")
    says = f"{data.says}; one node of each engine on the cores of the move"
    return [
        Figure("cluster-move", _EDGES / copied_s, "edges/s", "", data=says),
        Figure("cluster-move-compared", _EDGES / compared_s, "edges/s", "", data=f"both sides, lists, counts; {says}"),
        Figure("cluster-move-closed", switched.closed_s, "s", "", data=f"without writes meanwhile; {says}"),
    ]


def _moved(
    cluster: Settings, old: Settings, *, audited: bool = False, switch: bool = False
) -> tuple[MoveResult, float]:
    """Run the move once; returns its result and the seconds it took."""
    started = time.perf_counter()
    moved = asyncio.run(
        to_cluster.move(cluster, Path(old.data), switch=switch, audited=audited, tell=lambda what, number: None)
    )
    return moved, time.perf_counter() - started
