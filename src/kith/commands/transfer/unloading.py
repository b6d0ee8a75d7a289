"""Export of edges: every live edge of a graph, in a file that `loading` reads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from kith.commands.transfer.formats import Writer
from kith.graph.edge import State
from kith.graph.store import Scans


async def export(store: Scans, graph: int, path: Path, progress: Callable[[int], None]) -> int:
    """Write (source, destination, position) of every edge in state NORMAL; how many there were.

    The file appears under its name only when it is whole. Edges written meanwhile may or may not be in it.
    """
    written = 0
    with Writer(path) as writer:
        async for chunk in store.edges(graph):
            live = [
                (int(ends.edge.source), int(ends.edge.destination), ends.edge.position)
                for ends in chunk
                if ends.edge.state == State.NORMAL
            ]
            if live:
                writer.write(np.array(live, np.int64))
            written += len(live)
            progress(written)
    return written
