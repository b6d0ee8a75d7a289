"""Rows of the event log: every change (see `changes`), in the order of commits, in the transaction of the change.

    database log    key  first sequence number u64
                    row  greatest version so far u64 | form u8 | events
             log-open    key "row": first sequence number u64 | the row that is not closed, which may have no events
    event           head of 41 bytes: logged at ms u48 | graph u8 | state before u8 (255: none) | state u8
                    | source u64 | destination u64 | position i64 | updated_at u64; and data, where it has some
    form 0          heads, one after the other; no event has data (the open row only)
         1          EVENTS_PER_ROW heads, by column, deflated
         2          count u8 | length of each data u32 | heads | data (the open row only)
         3          count u8 | deflated: lengths, then heads, both by column | data

A row is closed, and deflated, when it has EVENTS_PER_ROW events or ROW_BYTES_MAX. The open one is written with every
commit and has a database of its own: as a row that grows and shrinks beside closed ones it would leave their pages a
third empty. Sequence numbers grow by one per event; only those of events that a power cut took back are used again. An
event that is not about an edge has a state that no edge has (see `core.events`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import add
from typing import Any, NamedTuple, TypeAlias

import lmdb
import numpy as np

from kith.core.clock import Hlc
from kith.core.errors import StoreMismatch
from kith.core.events import BULK_LOADED, Event, LogPosition
from kith.engines.embedded.changes import NONE_BEFORE
from kith.engines.embedded.history import StorePositions

_EVENT = struct.Struct(">BBBQQqQ")
_HEAD_OF = struct.Struct(">HIBBBQQqQ")
"""The same with when it was logged before it."""
_MS_BYTES = 6
_EVENT_BYTES = _MS_BYTES + _EVENT.size
_SEQUENCE = struct.Struct(">Q")
EVENTS_PER_ROW = 28  # the open row is written with every commit
ROW_BYTES_MAX = 1_600
"""A row of more would not fit into a page beside another."""
_VERSION_BYTES, _FORM_AT, _BODY_AT, _UPDATED_AT, _LENGTH_BYTES = 8, 8, 9, 33, 4
_CLOSED_HEADS = struct.Struct(f"{_EVENT_BYTES}s" * EVENTS_PER_ROW)
"""The heads of a closed row."""
_STATE = 2  # where the state stands in a head
_PLAIN, _DEFLATED, _PLAIN_DATA, _DEFLATED_DATA = range(4)
_OPEN = (_PLAIN, _PLAIN_DATA)
_OPEN_KEY = b"row"
_NO_EVENTS = bytes([_PLAIN])
Decode: TypeAlias = Callable[[int, bytes, StorePositions], list[Event]]


class LogRows(NamedTuple):
    """The databases of a log: of its closed rows, and of the open one."""

    closed: lmdb._Database
    open: lmdb._Database


def bulk_loaded(graph: int, edges: int, updated_at: Hlc) -> Event:
    """The event that stands for a whole bulk load."""
    return Event(graph, None, BULK_LOADED, edges, 0, 0, updated_at)


class Logged(NamedTuple):
    """An event as it is logged. `change`: as `changes` packs it."""

    sequence: int
    logged_ms: bytes
    change: bytes

    @property
    def state(self) -> int:
        """The state of its edge, or what else it is."""
        return self.change[_STATE]


class LogWriter:
    """Appends the events of one transaction, logged at `now_ms`. Call `flush` before the commit."""

    def __init__(self, txn: lmdb.Transaction[bytes], log: LogRows, now_ms: int = 0) -> None:
        self._txn, self._log = txn, log
        self._now = max(0, now_ms).to_bytes(_MS_BYTES, "big")
        self._row_at, row = _open_row(txn, log)
        self._version, self._kept = _version(row), unpacked(row)
        self._last = self._row_at + len(self._kept) - 1
        self._events: list[bytes] = []
        self.closed = 0  # rows that are full

    @property
    def last(self) -> int:
        """The sequence number of the newest event, pending ones included."""
        return self._last

    def append(self, event: bytes) -> None:
        """Queue an event; its sequence number is `last` then."""
        self._events.append(self._now + event)
        self._last += 1

    def append_all(self, events: Sequence[bytes]) -> None:
        """Queue events, in this order."""
        now = self._now
        self._events += [now + event for event in events]
        self._last += len(events)

    def append_logged(self, event: bytes) -> None:
        """Queue an event of another log, as it was logged there."""
        self._events.append(event)
        self._last += 1

    def take_over(self, first: int, row: bytes) -> bool:
        """Store a row of another log as it is, with the number of its first event; False if no row begins there here.

        Its events are those from the last one on that this log has.
        """
        if first != self._row_at or self._events:
            return False
        self._last = first + _events_in(row) - 1
        self._version = _version(row)
        if row[_FORM_AT] in _OPEN:
            self._kept = unpacked(row)
            _put_open(self._txn, self._log, first, row)
        else:
            self._kept, self._row_at = [], self._last + 1
            self.closed += 1
            _put_closed(self._txn, self._log, first, row)
            _put_open(self._txn, self._log, self._row_at, row[:_VERSION_BYTES] + _NO_EVENTS)
        return True

    def flush(self) -> int:
        """Write the queued events; how many there were."""
        if not self._events:
            return 0
        newest = max([event[_UPDATED_AT:_EVENT_BYTES] for event in self._events])
        version = max(self._version.to_bytes(_VERSION_BYTES, "big"), newest)
        at, last = self._row_at, _NO_EVENTS
        for events in _rows(self._kept + self._events):
            packed = _packed(events)
            if packed[0] in _OPEN:
                last = packed
            else:
                _put_closed(self._txn, self._log, at, version + packed)
                self.closed += 1
                at += len(events)
        _put_open(self._txn, self._log, at, version + last)
        count = len(self._events)
        self._events.clear()
        return count


def separate_open(txn: lmdb.Transaction[bytes], log: LogRows) -> None:
    """Take the open row out from among the closed ones, where stores of format 3 and before have it."""
    cursor = txn.cursor(log.closed)
    if cursor.last():
        first, row = first_number(cursor.key()), cursor.value()
        if row[_FORM_AT] in _OPEN:
            cursor.delete()
        else:
            first, row = first + _events_in(row), row[:_VERSION_BYTES] + _NO_EVENTS
        _put_open(txn, log, first, row)


def bounds(txn: lmdb.Transaction[bytes], log: LogRows) -> tuple[int, int]:
    """The first and last sequence number kept; (1, 0) when empty."""
    cursor = txn.cursor(log.closed)
    opened, row = _open_row(txn, log)
    return first_number(cursor.key()) if cursor.first() else opened, opened + _events_in(row) - 1


def first_open(txn: lmdb.Transaction[bytes], log: LogRows) -> int | None:
    """The number of the first event of the open row; None if it has none."""
    first, row = _open_row(txn, log)
    return first if _events_in(row) else None


def first_number(key: bytes) -> int:
    """The number of the first event of a row with this key."""
    return int(_SEQUENCE.unpack(key)[0])


def newest_ms(row: bytes) -> int:
    """When the newest event of a row was logged."""
    return int.from_bytes(unpacked(row)[-1][:_MS_BYTES], "big")


def newest_version(txn: lmdb.Transaction[bytes], log: LogRows) -> int:
    """The greatest version ever logged, deleted events included; 0 when empty."""
    return _version(_open_row(txn, log)[1])


def read(
    txn: lmdb.Transaction[bytes],
    log: LogRows,
    positions: StorePositions,
    after: int,
    limit: int,
    decode: Decode | None = None,
) -> list[Event]:
    """Up to `limit` events with a sequence number greater than `after`, oldest first. `decode`: as `events_of`."""
    found, decode = list[Event](), decode or events_of
    for first, row in _stored(txn, log, after + 1):
        events = decode(first, row, positions)
        known = max(0, after + 1 - first)
        found += events[known : known + limit - len(found)] if known or len(events) > limit - len(found) else events
        if len(found) == limit:
            break
    return found


def events_of(first: int, row: bytes, positions: StorePositions) -> list[Event]:
    """The events of a row, of which the first has this number."""
    heads, data = _parts_of(row)
    positions_of_events = positions.of_many(first, len(heads) // _EVENT_BYTES)
    return list(map(_event, positions_of_events, _HEAD_OF.iter_unpack(heads), data or repeat(b"")))


def read_logged(txn: lmdb.Transaction[bytes], log: LogRows, after: int, limit: int) -> Iterator[Logged]:
    """Like `read`, as they are logged."""
    for first, events in _read(txn, log, after, limit):
        for sequence, event in enumerate(events, first):
            yield Logged(sequence, event[:_MS_BYTES], event[_MS_BYTES:])


def _read(txn: lmdb.Transaction[bytes], log: LogRows, after: int, limit: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Events of each row, as they are there, with the number of the first."""
    left = limit
    for at, row in _stored(txn, log, after + 1):
        events = unpacked(row)
        known = max(0, after + 1 - at)
        if known or len(events) > left:
            events = events[known : known + left]
        yield at + known, events
        left -= len(events)
        if left <= 0:
            return


def read_rows(txn: lmdb.Transaction[bytes], log: LogRows, sequence: int, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Rows as they are stored, each with the number of its first event, from the one on that has the event `sequence`.

    They end after `bytes_max`, the first of them not counted: so there is one that follows it, where the log has it.
    """
    size = 0
    for number, (first, row) in enumerate(_stored(txn, log, sequence)):
        yield first, row
        size += len(row) if number else 0
        if size > bytes_max:
            return


def _stored(txn: lmdb.Transaction[bytes], log: LogRows, sequence: int) -> Iterator[tuple[int, bytes]]:
    """Rows with the numbers of their first events, from the one on that has this event; the last if none has it yet."""
    opened, last = _open_row(txn, log)
    is_empty = not _events_in(last)
    if sequence < opened or is_empty:
        cursor = txn.cursor(log.closed)
        if cursor.set_range(_SEQUENCE.pack(sequence)):
            found = first_number(cursor.key()) == sequence or cursor.prev() or cursor.first()
        else:
            found = cursor.last()
        while found:
            yield first_number(cursor.key()), cursor.value()
            found = cursor.next()
    if not is_empty:
        yield opened, last


def _open_row(txn: lmdb.Transaction[bytes], log: LogRows) -> tuple[int, bytes]:
    """The open row, with the number of its first event or, where it has none, of the next one."""
    raw = txn.get(_OPEN_KEY, None, log.open)
    if raw is None:
        return 1, bytes(_VERSION_BYTES) + _NO_EVENTS
    return int(_SEQUENCE.unpack_from(raw)[0]), raw[_SEQUENCE.size :]


def _put_closed(txn: lmdb.Transaction[bytes], log: LogRows, first: int, row: bytes) -> None:
    """Append a row, which leaves full pages behind."""
    if not txn.put(_SEQUENCE.pack(first), row, append=True, db=log.closed):
        raise StoreMismatch("the event log has rows behind its open one; restore a backup")


def _put_open(txn: lmdb.Transaction[bytes], log: LogRows, first: int, row: bytes) -> None:
    txn.put(_OPEN_KEY, _SEQUENCE.pack(first) + row, db=log.open)


def _version(row: bytes) -> int:
    """The greatest version when a row was written."""
    return int.from_bytes(row[:_VERSION_BYTES], "big")


def change_of(event: bytes) -> bytes:
    """What an event of a row changes, as `changes` packs it."""
    return event[_MS_BYTES:]


def logged_ms(event: bytes) -> int:
    """When an event of a row was logged, in ms since the epoch; 0 for none."""
    return int.from_bytes(event[:_MS_BYTES], "big")


def _rows(events: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The events of each row."""
    start = size = 0
    for end, event in enumerate(events, 1):
        size += len(event)
        if end - start == EVENTS_PER_ROW or size >= ROW_BYTES_MAX:
            yield events[start:end]
            start, size = end, 0
    if start < len(events):
        yield events[start:]


def _packed(events: Sequence[bytes]) -> bytes:
    """The part of a row after its version. By column, bytes of neighbouring events are alike: a third remains."""
    together = b"".join(events)
    count = len(events)
    closed = count == EVENTS_PER_ROW or len(together) >= ROW_BYTES_MAX
    if len(together) == count * _EVENT_BYTES:
        if not closed:
            return bytes([_PLAIN]) + together
        return bytes([_DEFLATED]) + zlib.compress(_by_column(together, _EVENT_BYTES), 1)
    lengths = struct.pack(f">{count}I", *(len(event) - _EVENT_BYTES for event in events))
    heads = b"".join([event[:_EVENT_BYTES] for event in events])
    data = b"".join([event[_EVENT_BYTES:] for event in events])
    if not closed:
        return bytes([_PLAIN_DATA, count]) + lengths + heads + data
    columns = _by_column(lengths, _LENGTH_BYTES) + _by_column(heads, _EVENT_BYTES)
    return bytes([_DEFLATED_DATA, count]) + zlib.compress(columns + data, 1)


def unpacked(row: bytes) -> list[bytes]:
    """The events of a row. StoreMismatch if it is not as it was written, or in a form of a newer Kith."""
    heads, data = _parts_of(row)
    each = list(_CLOSED_HEADS.unpack(heads)) if len(heads) == _CLOSED_HEADS.size else _cut(heads)
    return list(map(add, each, data)) if data else each


def _parts_of(row: bytes) -> tuple[bytes, list[bytes]]:
    """The heads of the events of a row, and the data of each; none, where no event has any. StoreMismatch."""
    try:
        parts = _read_parts(row)
    except (zlib.error, struct.error, IndexError, ValueError):  # ValueError: columns of different lengths
        parts = None
    if parts is None:
        raise StoreMismatch("a row of the event log is damaged; restore a backup")
    return parts


def _cut(heads: bytes) -> list[bytes]:
    return [heads[at : at + _EVENT_BYTES] for at in range(0, len(heads), _EVENT_BYTES)]


def _read_parts(row: bytes) -> tuple[bytes, list[bytes]] | None:
    """See `_parts_of`; None if some of it is missing."""
    if row[_FORM_AT] > _DEFLATED_DATA:
        raise StoreMismatch("the event log has rows of a newer Kith; upgrade this one")
    form, raw = row[_FORM_AT], row[_BODY_AT:]
    if form == _DEFLATED:
        heads = _by_row(zlib.decompress(raw), EVENTS_PER_ROW)
        return (heads, []) if len(heads) == _CLOSED_HEADS.size else None
    if form == _PLAIN:
        return None if len(raw) % _EVENT_BYTES else (raw, [])
    count, raw = raw[0], raw[1:]
    heads_at, data_at = count * _LENGTH_BYTES, count * (_LENGTH_BYTES + _EVENT_BYTES)
    lengths, heads = raw[:heads_at], raw[heads_at:data_at]
    if form == _DEFLATED_DATA:
        raw = zlib.decompress(raw)
        lengths, heads = _by_row(raw[:heads_at], count), _by_row(raw[heads_at:data_at], count)
    data = []
    for length in struct.unpack(f">{count}I", lengths):
        data.append(raw[data_at : data_at + length])
        data_at += length
    return (heads, data) if data_at == len(raw) else None


def _by_column(rows: bytes, width: int) -> bytes:
    """The bytes of rows of one width, column by column."""
    return np.frombuffer(rows, np.uint8).reshape(-1, width).T.tobytes()


def _by_row(columns: bytes, count: int) -> bytes:
    """What `_by_column` made of `count` rows, as it was."""
    return np.frombuffer(columns, np.uint8).reshape(-1, count).T.tobytes()


def _events_in(row: bytes) -> int:
    form = row[_FORM_AT]
    if form == _PLAIN:
        return (len(row) - _BODY_AT) // _EVENT_BYTES
    return EVENTS_PER_ROW if form == _DEFLATED else row[_BODY_AT]


def _event(log_position: LogPosition, head: tuple[Any, ...], data: bytes) -> Event:
    high, low, graph, before, state, source, destination, position, updated_at = head
    known = None if before == NONE_BEFORE else before
    return Event(graph, known, state, source, destination, position, updated_at, high << 32 | low, log_position, data)
