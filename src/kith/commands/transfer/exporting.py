"""Exports every live edge of a graph to a file that `loading` can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from kith.commands.transfer.formats import EdgeFileWriter
from kith.graph.edge import State
from kith.graph.store import Scans


class WrittenEdges(msgspec.Struct, frozen=True):
    """How many edges were written, and how many were left out because they expire, which a file cannot express."""

    written: int
    expiring: int


async def export(store: Scans, graph: int, path: Path, progress: Callable[[int], None]) -> WrittenEdges:
    """Write (source, destination, position) of every edge in state NORMAL that does not expire.

    The file appears under its name only when it is complete. Concurrent writes may or may not be in it.
    """
    edges_written = expiring = 0
    with EdgeFileWriter(path) as writer:
        async for chunk in store.stored(graph):
            live = [edge for edge in chunk if edge.state is State.NORMAL]
            rows = [(edge.source, edge.destination, edge.position) for edge in live if not edge.expires_ms]
            if rows:
                writer.write(np.array(rows, np.int64))
            edges_written += len(rows)
            expiring += len(live) - len(rows)
            progress(edges_written)
    return WrittenEdges(edges_written, expiring)
