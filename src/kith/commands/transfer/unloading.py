"""Export of edges: every live edge of a graph, in a file that `loading` reads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from kith.commands.transfer.formats import EdgeFileWriter
from kith.graph.edge import State
from kith.graph.store import Scans


class Unloaded(msgspec.Struct, frozen=True):
    """How many edges were written, and how many were left out, because they expire, which a row cannot say."""

    written: int
    expiring: int


async def export(store: Scans, graph: int, path: Path, progress: Callable[[int], None]) -> Unloaded:
    """Write (source, destination, position) of every edge in state NORMAL that does not expire.

    The file appears under its name only when it is whole. Edges written meanwhile may or may not be in it.
    """
    written = expiring = 0
    with EdgeFileWriter(path) as writer:
        async for chunk in store.edges(graph):
            live = [
                (int(ends.edge.source), int(ends.edge.destination), ends.edge.position)
                for ends in chunk
                if ends.edge.state == State.NORMAL and not ends.edge.expires_ms
            ]
            expiring += sum(ends.edge.state == State.NORMAL and ends.edge.expires_ms > 0 for ends in chunk)
            if live:
                writer.write(np.array(live, np.int64))
            written += len(live)
            progress(written)
    return Unloaded(written, expiring)
