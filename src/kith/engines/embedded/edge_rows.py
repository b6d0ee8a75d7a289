"""Writes the rows of an edge: its own row, and its entries in the lists of both ends."""

from __future__ import annotations

from typing import TypeAlias

import lmdb
import numpy as np
from numpy.typing import NDArray

from kith.core.clock import COUNTER_BITS
from kith.engines.embedded import expiries, runs
from kith.engines.embedded.keys import (
    EDGE_KEY,
    POSITION_6_MAX,
    STATE_BITS,
    edge_row,
    list_prefixes,
    list_row,
    pair_key,
    read_edge,
)
from kith.graph.edge import Edge

Database: TypeAlias = "lmdb._Database"
Txn: TypeAlias = "lmdb.Transaction[bytes]"


def stored_edge(txn: Txn, db: Database, graph: int, source: int, destination: int) -> Edge | None:
    """The edge as stored; None if there is none."""
    row = txn.get(pair_key(source, destination), None, db)
    return None if row is None else read_edge(graph, source, destination, row)


def write_edge(txn: Txn, cursor: runs.RunCursor, db: Database, rows: expiries.Rows, edge: Edge) -> None:
    """Store an edge, in place of whatever is stored."""
    replace_edge(txn, cursor, db, rows, stored_edge(txn, db, edge.graph, edge.source, edge.destination), edge)


def replace_edge(
    txn: Txn, cursor: runs.RunCursor, db: Database, rows: expiries.Rows, stored: Edge | None, edge: Edge
) -> None:
    """Store an edge in place of `stored`, the edge as it is stored now."""
    if edge.expires_ms or (stored is not None and stored.expires_ms):
        expiries.changed(txn, rows, stored, edge)
    txn.put(pair_key(edge.source, edge.destination), edge_row(edge), True, True, False, db)
    if stored is None or (stored.state, stored.position) != (edge.state, edge.position):
        if stored is not None:
            for entry in entries_of(stored):
                runs.remove(cursor, *entry)
        for entry in entries_of(edge):
            runs.insert(cursor, *entry)


def forget_edge(
    txn: Txn, cursor: runs.RunCursor, db: Database, rows: expiries.Rows, graph: int, source: int, destination: int
) -> None:
    """Delete an edge without a trace, as if it had never existed."""
    stored = stored_edge(txn, db, graph, source, destination)
    if stored is not None:
        expiries.changed(txn, rows, stored, None)
        for entry in entries_of(stored):
            runs.remove(cursor, *entry)
        txn.delete(pair_key(source, destination), db=db)


def entries_of(edge: Edge) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """The entries of an edge in the lists of its source and its destination, as (prefix of the run, row)."""
    out_prefix, in_prefix = list_prefixes(edge.source, edge.destination, edge.state)
    return (out_prefix, list_row(edge.position, edge.destination)), (in_prefix, list_row(edge.position, edge.source))


def packed_edges(
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    positions: NDArray[np.int64],
    versions: NDArray[np.uint64],
    states: NDArray[np.uint64],
) -> list[tuple[bytes, bytes]]:
    """The keys and rows of many edges, as `pair_key` and `edge_row` make them."""
    keys = np.column_stack([sources, destinations]).astype(">i8").view(np.uint8).reshape(-1, EDGE_KEY)
    values = np.zeros((len(sources), EDGE_KEY), np.uint8)
    values[:, :8] = ((versions << np.uint64(STATE_BITS)) | states).astype(">u8").view(np.uint8).reshape(-1, 8)
    encoded = positions.astype(">i8").view(np.uint8).reshape(-1, 8)
    short = (positions >= 0) & (positions < POSITION_6_MAX)
    values[short, 8:14] = encoded[short, 2:]
    values[~short, 8:] = encoded[~short]
    lengths = np.where(
        positions == (versions >> np.uint64(COUNTER_BITS)).astype(np.int64), 8, np.where(short, 14, EDGE_KEY)
    )
    longest = int(lengths.max(initial=8))
    cells = _cells(values[:, :longest])
    if len(lengths) and lengths.min() < longest:
        cells = [cell[:length] for cell, length in zip(cells, lengths.tolist(), strict=True)]
    return list(zip(_cells(keys), cells, strict=True))


def _cells(rows: NDArray[np.uint8]) -> list[bytes]:
    """The bytes of each row."""
    cells: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return cells
