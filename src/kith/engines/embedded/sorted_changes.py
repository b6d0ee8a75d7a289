"""Replays many events of a log with the same result as `changes.apply`, several times faster: new edges in key order.

Each page is then written once, in order, by a few calls of LMDB. Everything else is done one by one: edges that existed
before, change twice or expire, and lists that get entries older than their newest one. The blocks of a list may be cut
at other places than if its edges had come one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import lmdb
import numpy as np
from numpy.typing import NDArray

from kith.core.errors import StoreMismatch
from kith.core.events import EDGE_FORGOTTEN
from kith.engines.embedded import changes, runs
from kith.engines.embedded.changes import NONE_BEFORE, Databases, GraphDatabase
from kith.engines.embedded.edge_rows import packed_edges
from kith.engines.embedded.keys import SIGN, list_tag
from kith.graph.edge import Direction, State

FEW = 32
"""Up to this many edges of a graph are done one by one."""
_HEADS = np.dtype(
    [
        ("graph", "u1"),
        ("before", "u1"),
        ("state", "u1"),
        ("source", ">u8"),
        ("destination", ">u8"),
        ("position", ">i8"),
        ("updated_at", ">u8"),
    ]
)
"""The head of an event, as `changes` packs it."""


def apply_events(txn: lmdb.Transaction[bytes], events: Sequence[bytes], rows: Databases, graph: GraphDatabase) -> None:
    """Apply these events, packed by `changes`. They follow the events that were applied before.

    Errors: StoreMismatch if the store has an edge that the log says is new.
    """
    edges: dict[int, list[bytes]] = {}
    for event in events:
        state = event[2]
        if state <= State.REMOVED:
            edges.setdefault(event[0], []).append(event)
            continue
        if state == EDGE_FORGOTTEN:  # earlier events of the graph must be applied first
            _apply_edges(txn, edges.pop(event[0], []), rows, graph)
        changes.apply(txn, event, rows, graph)
    for events_of_graph in edges.values():
        _apply_edges(txn, events_of_graph, rows, graph)


def _apply_edges(txn: lmdb.Transaction[bytes], events: Sequence[bytes], rows: Databases, graph: GraphDatabase) -> None:
    """Apply events about edges of one graph."""
    singly: Sequence[bytes] = events
    if len(events) > FEW:
        heads = np.frombuffer(b"".join([event[: _HEADS.itemsize] for event in events]), _HEADS)
        expires = np.fromiter((len(event) > _HEADS.itemsize for event in events), np.bool_, len(events))
        order = np.lexsort((heads["destination"], heads["source"]))
        sources, destinations = heads["source"][order], heads["destination"][order]
        is_repeat = (sources[1:] == sources[:-1]) & (destinations[1:] == destinations[:-1])
        pad = np.zeros(1, np.bool_)
        is_new = (heads["before"][order] == NONE_BEFORE) & ~np.append(pad, is_repeat) & ~np.append(is_repeat, pad)
        is_new &= ~expires[order]
        if is_new.any():
            _add_new(txn.cursor(graph(events[0][0])), heads[order[is_new]], checked=False)
        singly = [events[index] for index in np.sort(order[~is_new]).tolist()]
    for event in singly:
        changes.apply(txn, event, rows, graph)


def add_new(cursor: runs.RunCursor, events: Sequence[bytes]) -> None:
    """Write new edges of one graph, from their events. The edges must not exist; none comes twice or expires."""
    heads = np.frombuffer(b"".join(events), _HEADS)
    _add_new(cursor, heads[np.lexsort((heads["destination"], heads["source"]))], checked=True)


def _add_new(cursor: runs.RunCursor, heads: NDArray[np.void], *, checked: bool) -> None:
    """Write new edges, sorted by source and destination. `checked`: the caller has checked that they do not exist."""
    sources, destinations = heads["source"].astype(np.int64), heads["destination"].astype(np.int64)
    positions, versions = heads["position"].astype(np.int64), heads["updated_at"].astype(np.uint64)
    states = heads["state"].astype(np.uint64)
    items = packed_edges(sources, destinations, positions, versions, states)
    if not checked and cursor.getmulti([key for key, _ in items]):
        raise StoreMismatch(
            "the store has an edge that the log says is new: it is not what that log made; use a new folder"
        )
    nodes = np.concatenate([sources, destinations])
    tags = np.concatenate([states + list_tag(end, State.NORMAL) for end in (Direction.OUT, Direction.IN)])
    _add_entries(cursor, nodes, tags, np.tile(positions, 2), np.concatenate([destinations, sources]), items)


def _add_entries(
    cursor: runs.RunCursor,
    nodes: NDArray[np.int64],
    tags: NDArray[np.uint64],
    positions: NDArray[np.int64],
    other_ends: NDArray[np.int64],
    edges: Sequence[tuple[bytes, bytes]],
) -> None:
    """Add entries to lists. A node and a tag are the prefix of a list. `edges`: edge rows to put in the same pass."""
    order = np.lexsort((other_ends, positions, tags, nodes))
    nodes, tags = nodes[order], tags[order]
    prefixes = np.empty((len(order), runs.PREFIX), np.uint8)
    prefixes[:, :8] = nodes.astype(">i8").view(np.uint8).reshape(-1, 8)
    prefixes[:, 8] = tags
    entries = np.empty((len(order), 2), ">u8")
    entries[:, 0] = positions[order].view(np.uint64) ^ np.uint64(SIGN)
    entries[:, 1] = other_ends[order].view(np.uint64)
    borders = np.flatnonzero((nodes[1:] != nodes[:-1]) | (tags[1:] != tags[:-1])) + 1
    runs.extend(cursor, prefixes, entries.tobytes(), [0, *borders.tolist(), len(order)], edges)
