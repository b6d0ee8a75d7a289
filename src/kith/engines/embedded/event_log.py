"""Rows of the event log: every change of an edge, in the order of commits, in the transaction of the change.

    database log    key  first sequence number u64
                    row  greatest version so far u64 | 0 | events of 41 bytes, fewer than EVENTS_PER_ROW (the last row)
                         greatest version so far u64 | 1 | EVENTS_PER_ROW events, by column, deflated
    event           logged at ms u48 | graph u8 | state before u8 (255: none) | state u8 | source u64 | destination u64
                    | position i64 | updated_at u64

Sequence numbers grow by one per event and are never reused. An event that is not about an edge has a state that no edge
has (see `core.events`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import lmdb

from kith.core.clock import Hlc
from kith.core.events import BULK_LOADED, Event, LogPosition
from kith.core.ids import NodeId
from kith.engines.embedded.history import Positions
from kith.graph.edge import Edge, State

_EVENT = struct.Struct(">BBBQQqQ")
_MS_BYTES = 6
_EVENT_BYTES = _MS_BYTES + _EVENT.size
_SEQUENCE = struct.Struct(">Q")
EVENTS_PER_ROW = 28  # the last row is written with every commit
_ROW_BYTES = EVENTS_PER_ROW * _EVENT_BYTES
_VERSION, _HEAD = 8, 9
_PLAIN, _DEFLATED = 0, 1
NONE_BEFORE = 255
_TRIM_ROWS_A_COMMIT = 8


def pack_change(before: State | None, edge: Edge) -> bytes:
    """The bytes of the event of an applied change, for `LogWriter.append`."""
    return _EVENT.pack(
        edge.graph,
        NONE_BEFORE if before is None else before,
        edge.state,
        edge.source,
        edge.destination,
        edge.position,
        edge.updated_at,
    )


def edge_of(event: bytes) -> Edge | None:
    """The edge that an event of `pack_change` is about; None for an announcement."""
    graph, _, state, source, destination, position, updated_at = _EVENT.unpack(event)
    if state > State.REMOVED:
        return None
    return Edge(graph, NodeId(source), NodeId(destination), State(state), position, Hlc(updated_at))


def pack_announcement(event: Event) -> bytes:
    """The bytes of an event that is not about an edge, for `LogWriter.append`, which numbers it."""
    return _EVENT.pack(
        event.graph, NONE_BEFORE, event.state, event.source, event.destination, event.position, event.updated_at
    )


def bulk_loaded(graph: int, edges: int, updated_at: Hlc) -> Event:
    """The event that stands for a whole bulk load."""
    return Event(graph, None, BULK_LOADED, edges, 0, 0, updated_at)


class LogWriter:
    """Appends the events of one transaction, logged at `now_ms`. Call `flush` before the commit."""

    def __init__(self, txn: lmdb.Transaction[bytes], log: lmdb._Database, now_ms: int) -> None:
        self._txn, self._log = txn, log
        self._now = max(0, now_ms).to_bytes(_MS_BYTES, "big")
        cursor = txn.cursor(log)
        self._row_at, self._kept, self._version = 1, b"", 0
        if cursor.last():
            row = cursor.value()
            self._row_at = _SEQUENCE.unpack(cursor.key())[0]
            self._version = int.from_bytes(row[:_VERSION], "big")
            if row[_VERSION] == _PLAIN:
                self._kept = row[_HEAD:]
            else:
                self._row_at += EVENTS_PER_ROW
        self._last = self._row_at + len(self._kept) // _EVENT_BYTES - 1
        self._events: list[bytes] = []

    @property
    def last(self) -> int:
        """The sequence number of the newest event, pending ones included."""
        return self._last

    def append(self, event: bytes) -> None:
        """Queue an event; its sequence number is `last` then."""
        self._events.append(self._now + event)
        self._last += 1

    def flush(self, events_max: int) -> bool:
        """Write the queued events, and delete the oldest rows beyond `events_max` events; whether there were any."""
        if not self._events:
            return False
        newest = max(int.from_bytes(event[-8:], "big") for event in self._events)
        version = max(self._version, newest).to_bytes(_VERSION, "big")
        pending = self._kept + b"".join(self._events)
        at, new = self._row_at, not self._kept
        for start in range(0, len(pending), _ROW_BYTES):
            row = version + _packed(pending[start : start + _ROW_BYTES])
            self._txn.put(_SEQUENCE.pack(at), row, append=new, db=self._log)  # appended rows leave full pages behind
            at, new = at + EVENTS_PER_ROW, True
        rows = len(self._events) // EVENTS_PER_ROW + _TRIM_ROWS_A_COMMIT
        self._events.clear()
        cursor = self._txn.cursor(self._log)
        for _ in range(rows):
            if not cursor.first() or self._last - _SEQUENCE.unpack(cursor.key())[0] < events_max + EVENTS_PER_ROW:
                break
            cursor.delete()
        return True


def bounds(txn: lmdb.Transaction[bytes], log: lmdb._Database) -> tuple[int, int]:
    """The first and last sequence number kept; (1, 0) when empty."""
    cursor = txn.cursor(log)
    if not cursor.first():
        return 1, 0
    first = _SEQUENCE.unpack(cursor.key())[0]
    cursor.last()
    return first, _SEQUENCE.unpack(cursor.key())[0] + _events_in(cursor.value()) - 1


def newest_version(txn: lmdb.Transaction[bytes], log: lmdb._Database) -> int:
    """The greatest version ever logged, deleted events included; 0 when empty."""
    cursor = txn.cursor(log)
    return int.from_bytes(cursor.value()[:_VERSION], "big") if cursor.last() else 0


def read(
    txn: lmdb.Transaction[bytes], log: lmdb._Database, positions: Positions, after: int, limit: int
) -> Iterator[Event]:
    """Up to `limit` events with a sequence number greater than `after`, oldest first."""
    cursor = txn.cursor(log)
    if not cursor.set_range(_SEQUENCE.pack(after + 1)):
        if not cursor.last():
            return
    elif _SEQUENCE.unpack(cursor.key())[0] > after + 1:
        cursor.prev() or cursor.first()
    left = limit
    while left > 0:
        at, row = _SEQUENCE.unpack(cursor.key())[0], _unpacked(cursor.value())
        for offset in range(0, len(row), _EVENT_BYTES):
            sequence = at + offset // _EVENT_BYTES
            if sequence > after and left > 0:
                yield _unpack(positions.of(sequence), row[offset : offset + _EVENT_BYTES])
                left -= 1
        if not cursor.next():
            return


def _packed(events: bytes) -> bytes:
    """The part of a row after its version. By column, bytes of neighbouring events are alike: a third remains."""
    if len(events) < _ROW_BYTES:
        return bytes([_PLAIN]) + events
    columns = b"".join(events[at::_EVENT_BYTES] for at in range(_EVENT_BYTES))
    return bytes([_DEFLATED]) + zlib.compress(columns, 1)


def _unpacked(row: bytes) -> bytes:
    """The events of a row."""
    if row[_VERSION] == _PLAIN:
        return row[_HEAD:]
    columns = zlib.decompress(row[_HEAD:])
    return b"".join(columns[at::EVENTS_PER_ROW] for at in range(EVENTS_PER_ROW))


def _events_in(row: bytes) -> int:
    return (len(row) - _HEAD) // _EVENT_BYTES if row[_VERSION] == _PLAIN else EVENTS_PER_ROW


def _unpack(mark: LogPosition, raw: bytes) -> Event:
    graph, before, state, source, destination, position, updated_at = _EVENT.unpack_from(raw, _MS_BYTES)
    return Event(
        graph,
        None if before == NONE_BEFORE else before,
        state,
        source,
        destination,
        position,
        Hlc(updated_at),
        int.from_bytes(raw[:_MS_BYTES], "big"),
        mark,
    )
