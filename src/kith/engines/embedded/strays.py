"""Strays: entries of lists that belong to no edge. The auditor finds and deletes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import lmdb

from kith.engines.embedded import runs
from kith.engines.embedded.batch import Transaction
from kith.engines.embedded.environment import Txn
from kith.engines.embedded.keys import pair_key, read_edge, read_mark, read_prefix
from kith.graph.edge import Direction

Stray: TypeAlias = tuple[bytes, bytes]
"""The prefix of a run, and a row in it."""


def find_strays(
    txn: Txn, db: lmdb._Database, graph: int, start: bytes, rows_max: int
) -> tuple[list[Stray], bytes | None]:
    """The strays of about `rows_max` rows from the block `start` on, and the block to continue at; None at the end."""
    found: list[Stray] = []
    seen = 0
    for key, rows in runs.blocks(txn.cursor(db), start):
        if seen >= rows_max:
            return found, key
        prefix = key[: runs.PREFIX]
        for at in range(0, len(rows), runs.ROW):
            if _is_stray(txn, db, graph, prefix, rows[at : at + runs.ROW]):
                found.append((prefix, rows[at : at + runs.ROW]))
        seen += len(rows) // runs.ROW
    return found, None


def unlist_strays(batch: Transaction, graph: int, entries: Sequence[Stray]) -> None:
    """Delete entries from their lists, unless they belong to an edge by now."""
    for prefix, row in entries:
        if _is_stray(batch.txn, batch.environment.graph_db(graph), graph, prefix, row):
            batch.undescribed()
            runs.remove(batch.cursor(graph), prefix, row)


def _is_stray(txn: Txn, db: lmdb._Database, graph: int, prefix: bytes, row: bytes) -> bool:
    listing, mark = read_prefix(graph, prefix), read_mark(row)
    pair = (listing.node, mark.id) if listing.direction is Direction.OUT else (mark.id, listing.node)
    stored = txn.get(pair_key(*pair), None, db)
    if stored is None:
        return True
    edge = read_edge(graph, *pair, stored)
    return (edge.state, edge.position) != (listing.state, mark.position)
