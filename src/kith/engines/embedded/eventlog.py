"""The event log: every change of an edge, in the order of its commit, in the same transaction.

    database log    key  first sequence number u64
                    row  greatest version so far u64 | events of 35 bytes, at most EVENTS_PER_ROW;
                         the last row is filled before a new one starts
    event           graph u8 | state before u8 (255: none) | state u8 | source u64 | destination u64
                    | position i64 | updated_at u64

Sequence numbers grow by one an event and are never reused. A bulk load writes one event with state
BULK_LOADED and the number of edges as its source: consumers read the graph itself instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

import lmdb

from kith.core.clock import Hlc
from kith.core.ids import NodeId
from kith.engines.embedded.keys import STATES
from kith.graph.edge import Edge, State

_EVENT = struct.Struct(">BBBQQqQ")
_SEQUENCE = struct.Struct(">Q")
EVENTS_PER_ROW = 28  # four rows fill a page
_ROW_BYTES = EVENTS_PER_ROW * _EVENT.size
_HEAD = 8
NONE_BEFORE = 255
BULK_LOADED = 254
_TRIM_ROWS_A_COMMIT = 8

Txn: TypeAlias = "lmdb.Transaction[bytes]"


def pack_change(before: State | None, edge: Edge) -> bytes:
    """The event of one applied change."""
    return _EVENT.pack(
        edge.graph,
        NONE_BEFORE if before is None else before,
        edge.state,
        edge.source,
        edge.destination,
        edge.position,
        edge.updated_at,
    )


def pack_bulk_load(graph: int, edges: int, updated_at: Hlc) -> bytes:
    """The event that stands for a whole bulk load."""
    return _EVENT.pack(graph, NONE_BEFORE, BULK_LOADED, edges, 0, 0, updated_at)


class LogWriter:
    """Appends the events of one transaction; `flush` before it commits."""

    def __init__(self, txn: Txn, log: lmdb._Database) -> None:
        self._txn, self._log = txn, log
        cursor = txn.cursor(log)
        self._row_at, self._kept, self._version = 1, b"", 0
        if cursor.last():
            row = cursor.value()
            self._row_at, self._kept = _SEQUENCE.unpack(cursor.key())[0], row[_HEAD:]
            self._version = int.from_bytes(row[:_HEAD], "big")
        self._last = self._row_at + len(self._kept) // _EVENT.size - 1
        self._events: list[bytes] = []

    @property
    def last(self) -> int:
        """The sequence number of the newest event, pending ones included."""
        return self._last

    def append(self, event: bytes) -> int:
        """Queue an event; its sequence number."""
        self._events.append(event)
        self._last += 1
        return self._last

    def flush(self, events_max: int) -> None:
        """Write what is queued, and forget the oldest rows beyond `events_max` events."""
        if not self._events:
            return
        newest = max(int.from_bytes(event[-8:], "big") for event in self._events)
        head = max(self._version, newest).to_bytes(_HEAD, "big")
        pending = self._kept + b"".join(self._events)
        at = self._row_at
        for start in range(0, len(pending), _ROW_BYTES):
            self._txn.put(_SEQUENCE.pack(at), head + pending[start : start + _ROW_BYTES], db=self._log)
            at += EVENTS_PER_ROW
        rows = len(self._events) // EVENTS_PER_ROW + _TRIM_ROWS_A_COMMIT
        self._events.clear()
        cursor = self._txn.cursor(self._log)
        for _ in range(rows):
            if not cursor.first() or self._last - _SEQUENCE.unpack(cursor.key())[0] < events_max + EVENTS_PER_ROW:
                return
            cursor.delete()


def bounds(txn: Txn, log: lmdb._Database) -> tuple[int, int]:
    """The first and last sequence number kept; (1, 0) when empty."""
    cursor = txn.cursor(log)
    if not cursor.first():
        return 1, 0
    first = _SEQUENCE.unpack(cursor.key())[0]
    cursor.last()
    return first, _SEQUENCE.unpack(cursor.key())[0] + (len(cursor.value()) - _HEAD) // _EVENT.size - 1


def newest_version(txn: Txn, log: lmdb._Database) -> int:
    """The greatest version ever written, forgotten events included; 0 when empty."""
    cursor = txn.cursor(log)
    return int.from_bytes(cursor.value()[:_HEAD], "big") if cursor.last() else 0


class Event:
    """One event as read back. `edge` is None for a bulk load, whose size is then `edges`."""

    __slots__ = ("before", "edge", "edges", "graph", "sequence", "updated_at")

    def __init__(self, sequence: int, raw: bytes) -> None:
        graph, before, state, source, destination, position, updated_at = _EVENT.unpack(raw)
        self.sequence, self.graph, self.updated_at = sequence, graph, updated_at
        self.before = None if before == NONE_BEFORE else STATES[before]
        self.edge: Edge | None = None
        self.edges = 1
        if state == BULK_LOADED:
            self.edges = source
        else:
            self.edge = Edge(graph, NodeId(source), NodeId(destination), STATES[state], position, Hlc(updated_at))


def read(txn: Txn, log: lmdb._Database, after: int, limit: int) -> Iterator[Event]:
    """Up to `limit` events with a sequence number greater than `after`, oldest first."""
    cursor = txn.cursor(log)
    if not cursor.set_range(_SEQUENCE.pack(after + 1)):
        if not cursor.last():
            return
    elif _SEQUENCE.unpack(cursor.key())[0] > after + 1:
        cursor.prev() or cursor.first()
    left = limit
    while left > 0:
        at, row = _SEQUENCE.unpack(cursor.key())[0], cursor.value()[_HEAD:]
        for offset in range(0, len(row), _EVENT.size):
            sequence = at + offset // _EVENT.size
            if sequence > after and left > 0:
                yield Event(sequence, row[offset : offset + _EVENT.size])
                left -= 1
        if not cursor.next():
            return
