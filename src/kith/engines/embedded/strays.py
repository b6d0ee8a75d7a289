"""Strays: list entries that belong to no edge. The auditor finds and deletes them. Lost entries: see `edge_scans`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import lmdb

from kith.engines.embedded import runs
from kith.engines.embedded.environment import Txn
from kith.engines.embedded.keys import pair_key, read_edge, read_mark, read_prefix
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import Direction
from kith.graph.shapes import Listing

Stray: TypeAlias = tuple[bytes, bytes]
"""The prefix of a run, and a row in it."""


def find_strays(
    txn: Txn, db: lmdb._Database, graph: int, start: bytes, rows_max: int
) -> tuple[list[Stray], bytes | None]:
    """The strays among about `rows_max` list rows, from the block with key `start` on.

    Also returns the key of the block to continue at; None at the end.
    """
    strays: list[Stray] = []
    rows_seen = 0
    for key, rows in runs.blocks(txn.cursor(db), start):
        if rows_seen >= rows_max:
            return strays, key
        prefix = key[: runs.PREFIX]
        listing = read_prefix(graph, prefix)
        for offset in range(0, len(rows), runs.ROW):
            row = rows[offset : offset + runs.ROW]
            if _is_stray(txn, db, listing, row):
                strays.append((prefix, row))
        rows_seen += len(rows) // runs.ROW
    return strays, None


def unlist_strays(batch: Transaction, graph: int, entries: Sequence[Stray]) -> None:
    """Delete strays from their lists, unless they have come to belong to an edge since."""
    for prefix, row in entries:
        if _is_stray(batch.txn, batch.environment.graph_db(graph), read_prefix(graph, prefix), row):
            batch.skip_journal()
            runs.remove(batch.cursor(graph), prefix, row)


def _is_stray(txn: Txn, db: lmdb._Database, listing: Listing, row: bytes) -> bool:
    position, other_end = read_mark(row)
    source, destination = (listing.node, other_end) if listing.direction is Direction.OUT else (other_end, listing.node)
    stored = txn.get(pair_key(source, destination), None, db)
    if stored is None:
        return True
    edge = read_edge(listing.graph, source, destination, stored)
    return edge.state is not listing.state or edge.position != position
