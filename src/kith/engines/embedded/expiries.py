"""Edges that expire: finds those that have expired, hides them from readers, and lists them for removal.

    database objects   130 | expires_ms u64 | graph u8 | source u64 | destination u64     an edge, by when it expires
                       131 | graph u8 | prefix of a list 9 | expires_ms u64 | entry 16    its entry in each of its lists
    database meta      first-expiry: the least expires_ms u64; no row if no edge expires

An edge has these rows, in every state but REMOVED, from the write that sets its expiry until the write that removes it.
Between its expiry and its removal, readers leave it out (`ExpiredEdges`), so what they read is exact at every moment.
One lookup of `first-expiry` tells a reader that there is nothing to leave out. Each commit removes some expired edges,
and logs that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, takewhile
from typing import TypeAlias

import lmdb

from kith.engines.embedded import runs
from kith.engines.embedded.keys import (
    list_prefix,
    list_prefixes,
    list_row,
    pair_key,
    read_edge,
    read_mark,
    state_at,
    state_of,
)
from kith.graph.edge import Direction, Edge, State, as_of
from kith.graph.shapes import ExpiringEdge, Listing

Rows: TypeAlias = "Mapping[str, lmdb._Database]"
Txn: TypeAlias = "lmdb.Transaction[bytes]"

_BY_TIME, _BY_LIST = 130, 131
_TIME_KEY = struct.Struct(">BQBQQ")
_LIST_HEAD = struct.Struct(f">BB{runs.PREFIX}s")
_TIME = struct.Struct(">Q")
_FIRST = b"first-expiry"
_LOOKED_UP_MAX = 64


def changed(txn: Txn, rows: Rows, before: Edge | None, after: Edge | None) -> None:
    """Update the expiry rows for an edge that was stored: delete those of `before`, and put those of `after`.

    None: there was, or is, no edge.
    """
    old_edge, new_edge = (None if edge is None or not edge.expires_ms else edge for edge in (before, after))
    if old_edge is new_edge is None:
        return
    db = rows["objects"]
    for edge in () if old_edge is None else (old_edge,):
        for key in _keys(edge):
            txn.delete(key, db=db)
    for edge in () if new_edge is None else (new_edge,):
        for key in _keys(edge):
            txn.put(key, b"", db=db)
    soonest = next(_by_time(txn, db), None)
    if soonest is None:
        txn.delete(_FIRST, db=rows["meta"])
    else:
        txn.put(_FIRST, _TIME.pack(soonest[0]), db=rows["meta"])


def expired_edges(txn: Txn, rows: Rows, now_ms: Callable[[], int]) -> ExpiredEdges | None:
    """The edges that have expired by now and are not removed yet; None if there is none."""
    first_ms = first_expiry_ms(txn, rows)
    if first_ms is None:
        return None
    now = now_ms()
    return ExpiredEdges(txn, rows["objects"], now) if first_ms <= now else None


def first_expiry_ms(txn: Txn, rows: Rows) -> int | None:
    """The least expiry time of all edges with expiry rows, in ms; None if there is none."""
    row = txn.get(_FIRST, None, rows["meta"])
    return None if row is None else int(_TIME.unpack(row)[0])


def expiring_by(txn: Txn, rows: Rows, until_ms: int, limit: int) -> list[ExpiringEdge]:
    """See `graph.store.Edges.expiring_by`."""
    by_time = takewhile(lambda row: row[0] <= until_ms, _by_time(txn, rows["objects"]))
    return [ExpiringEdge(*row) for row in islice(by_time, limit)]


class ExpiredEdges:
    """The edges that have expired at `now_ms` and are not removed yet, as one transaction sees them."""

    def __init__(self, txn: Txn, db: lmdb._Database, now_ms: int) -> None:
        self._txn, self._db, self._now_ms = txn, db, now_ms

    def state(self, row: bytes) -> State:
        """The state of a stored edge now; REMOVED if it has expired."""
        return state_at(row, self._now_ms)

    def edge(self, graph: int, source: int, destination: int, row: bytes) -> Edge:
        """A stored edge as it is now; with state REMOVED if it has expired."""
        return as_of(read_edge(graph, source, destination, row), self._now_ms)

    def count(self, listing: Listing) -> int:
        """How many entries of a list have expired."""
        return len(self._keys_of(listing))

    def entries(self, listing: Listing) -> frozenset[bytes]:
        """The entries of a list (see `keys.list_row`) that have expired."""
        return frozenset([key[-runs.ROW :] for key in self._keys_of(listing)])

    def hides(self, listing: Listing, graph: lmdb._Database) -> Callable[[bytes], bool]:
        """A function that tells whether an entry of a list has expired. `graph`: the database of its graph.

        The first 64 entries are looked up one by one, by the rows of their edges. After these, all expired entries of
        the list are read at once.
        """
        get, node, is_out = self._txn.get, listing.node, listing.direction is Direction.OUT
        lookups_left, entries = _LOOKED_UP_MAX, frozenset[bytes]()

        def has_expired(entry: bytes) -> bool:
            nonlocal lookups_left, entries
            if lookups_left:
                lookups_left -= 1
                other_end = read_mark(entry).id
                row = get(pair_key(node, other_end) if is_out else pair_key(other_end, node), None, graph)
                if not lookups_left:
                    entries = self.entries(listing)
                return row is not None and self.state(row) is not state_of(row)
            return entry in entries

        return has_expired

    def first(self, limit: int) -> list[tuple[int, int, int]]:
        """Up to `limit` expired edges as (graph, source, destination), those first that expired first."""
        edges: list[tuple[int, int, int]] = []
        for expires_ms, *edge in _by_time(self._txn, self._db):
            if expires_ms > self._now_ms or len(edges) == limit:
                break
            edges.append((edge[0], edge[1], edge[2]))
        return edges

    def _keys_of(self, listing: Listing) -> list[bytes]:
        """The keys of the expired entries of a list. There may be many, so no loop here is in Python."""
        head = _LIST_HEAD.pack(_BY_LIST, listing.graph, list_prefix(listing))
        end = head + _TIME.pack(self._now_ms + 1)
        cursor = self._txn.cursor(self._db)
        return list(takewhile(end.__gt__, cursor.iternext(values=False))) if cursor.set_range(head) else []


def without(rows: bytes, entries: frozenset[bytes]) -> bytes:
    """Packed entries of a list, without `entries`."""
    if not entries:
        return rows
    return b"".join(
        row for offset in range(0, len(rows), runs.ROW) if (row := rows[offset : offset + runs.ROW]) not in entries
    )


def _keys(edge: Edge) -> Iterator[bytes]:
    time = _TIME.pack(edge.expires_ms)
    yield _TIME_KEY.pack(_BY_TIME, edge.expires_ms, edge.graph, edge.source, edge.destination)
    other_ends = edge.destination, edge.source
    for prefix, other_end in zip(list_prefixes(edge.source, edge.destination, edge.state), other_ends, strict=True):
        yield _LIST_HEAD.pack(_BY_LIST, edge.graph, prefix) + time + list_row(edge.position, other_end)


def _by_time(txn: Txn, db: lmdb._Database) -> Iterator[tuple[int, int, int, int]]:
    """Every edge with an expiry as (expires_ms, graph, source, destination), ascending."""
    cursor = txn.cursor(db)
    if not cursor.set_range(bytes([_BY_TIME])):
        return
    for key in cursor.iternext(values=False):
        if key[0] != _BY_TIME:
            return
        yield _TIME_KEY.unpack(key)[1:]
