"""The event log: every change (see `changes`), in the order of commits, written in the transaction of the change.

    database log    key  first sequence number u64
                    row  a closed row; its bytes are in `event_rows`
             log-open    key "row": first sequence number u64 | the open row, which may have no events

Events are stored in rows of up to 28. New events join the open row; a full row is closed, and never changes again. The
open row is rewritten by every commit. It has a database of its own, because beside the closed rows it would leave their
pages a third empty as it grows and shrinks. Sequence numbers grow by one per event. A number is reused only if a power
cut undid its event.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import lmdb

from kith.core.clock import Hlc
from kith.core.errors import StoreMismatch
from kith.core.events import BULK_LOADED, Event
from kith.engines.embedded.event_rows import (
    MS_BYTES,
    VERSION_BYTES,
    empty_row,
    events_in,
    events_of,
    is_open,
    newest_update,
    packed,
    split_into_rows,
    unpacked,
    version_of,
)
from kith.engines.embedded.history import StorePositions

_SEQUENCE = struct.Struct(">Q")
_OPEN_KEY = b"row"
_STATE = 2  # offset of the state in a change
Decode: TypeAlias = Callable[[int, bytes, StorePositions], list[Event]]


class LogRows(NamedTuple):
    """The two databases of a log: closed rows, and the open row."""

    closed: lmdb._Database
    open: lmdb._Database


def bulk_loaded(graph: int, edges: int, updated_at: Hlc) -> Event:
    """The event that stands for a whole bulk load."""
    return Event(graph, None, BULK_LOADED, edges, 0, 0, updated_at)


class LoggedEvent(NamedTuple):
    """An event as the log stores it. `change`: as `changes` packs it."""

    sequence: int
    logged_ms: bytes
    change: bytes

    @property
    def state(self) -> int:
        """The state of the event's edge; for other events, their kind (see `core.events`)."""
        return self.change[_STATE]


class LogWriter:
    """Appends the events of one transaction, logged at `now_ms`. Call `flush` before the commit."""

    def __init__(self, txn: lmdb.Transaction[bytes], log: LogRows, now_ms: int = 0) -> None:
        self._txn, self._log = txn, log
        self._now = max(0, now_ms).to_bytes(MS_BYTES, "big")
        self._row_first, row = _open_row(txn, log)
        self._version, self._open_events = version_of(row), unpacked(row)
        self._last = self._row_first + len(self._open_events) - 1
        self._events: list[bytes] = []
        self.closed = 0  # how many rows this transaction closed

    @property
    def last(self) -> int:
        """The sequence number of the newest event, pending ones included."""
        return self._last

    def append(self, event: bytes) -> None:
        """Queue an event. `last` is its sequence number then."""
        self._events.append(self._now + event)
        self._last += 1

    def append_all(self, events: Sequence[bytes]) -> None:
        """Queue events, in this order."""
        now = self._now
        self._events += [now + event for event in events]
        self._last += len(events)

    def append_logged(self, event: bytes) -> None:
        """Queue an event of another store's log, with the time at which it was logged there."""
        self._events.append(event)
        self._last += 1

    def append_row(self, first: int, row: bytes) -> bool:
        """Store a row of another store's log unchanged. Returns False if no row of this log begins at event `first`.

        The row replaces the open row, and has all of its events.
        """
        if first != self._row_first or self._events:
            return False
        self._last = first + events_in(row) - 1
        self._version = version_of(row)
        if is_open(row):
            self._open_events = unpacked(row)
            _put_open(self._txn, self._log, first, row)
        else:
            self._open_events, self._row_first = [], self._last + 1
            self.closed += 1
            _put_closed(self._txn, self._log, first, row)
            _put_open(self._txn, self._log, self._row_first, empty_row(row[:VERSION_BYTES]))
        return True

    def flush(self) -> int:
        """Write the queued events. Returns how many there were."""
        if not self._events:
            return 0
        version = max(self._version.to_bytes(VERSION_BYTES, "big"), newest_update(self._events))
        row_first, open_row = self._row_first, empty_row(version)
        for events in split_into_rows(self._open_events + self._events):
            row = packed(version, events)
            if is_open(row):
                open_row = row
            else:
                _put_closed(self._txn, self._log, row_first, row)
                self.closed += 1
                row_first += len(events)
        _put_open(self._txn, self._log, row_first, open_row)
        count = len(self._events)
        self._events.clear()
        return count


def split_open_row(txn: lmdb.Transaction[bytes], log: LogRows) -> None:
    """Upgrade from format 3 or older: move the open row from the database of closed rows into its own."""
    cursor = txn.cursor(log.closed)
    if cursor.last():
        first, row = first_number(cursor.key()), cursor.value()
        if is_open(row):
            cursor.delete()
        else:
            first, row = first + events_in(row), empty_row(row[:VERSION_BYTES])
        _put_open(txn, log, first, row)


def bounds(txn: lmdb.Transaction[bytes], log: LogRows) -> tuple[int, int]:
    """The first and last sequence numbers in the log; (1, 0) if it never had an event."""
    cursor = txn.cursor(log.closed)
    open_first, row = _open_row(txn, log)
    return first_number(cursor.key()) if cursor.first() else open_first, open_first + events_in(row) - 1


def first_open(txn: lmdb.Transaction[bytes], log: LogRows) -> int | None:
    """The number of the first event of the open row; None if it has none."""
    first, row = _open_row(txn, log)
    return first if events_in(row) else None


def first_number(key: bytes) -> int:
    """The number of a row's first event, from the row's key."""
    return int(_SEQUENCE.unpack(key)[0])


def newest_version(txn: lmdb.Transaction[bytes], log: LogRows) -> int:
    """The greatest version ever logged, deleted events included; 0 if it never had an event."""
    return version_of(_open_row(txn, log)[1])


def read(
    txn: lmdb.Transaction[bytes],
    log: LogRows,
    positions: StorePositions,
    after: int,
    limit: int,
    decode: Decode | None = None,
) -> list[Event]:
    """Up to `limit` events with sequence numbers greater than `after`, oldest first.

    `decode`: a function to use in place of `events_of`.
    """
    result, decode = list[Event](), decode or events_of
    for first, row in _stored(txn, log, after + 1):
        events = decode(first, row, positions)
        skipped = max(0, after + 1 - first)
        result += (
            events[skipped : skipped + limit - len(result)] if skipped or len(events) > limit - len(result) else events
        )
        if len(result) == limit:
            break
    return result


def read_logged(txn: lmdb.Transaction[bytes], log: LogRows, after: int, limit: int) -> Iterator[LoggedEvent]:
    """Like `read`, but yields the events as they are stored."""
    for first, events in _read(txn, log, after, limit):
        for sequence, event in enumerate(events, first):
            yield LoggedEvent(sequence, event[:MS_BYTES], event[MS_BYTES:])


def _read(txn: lmdb.Transaction[bytes], log: LogRows, after: int, limit: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Like `read_logged`, a row at a time: the number of the first event that is returned, and the packed events."""
    remaining = limit
    for first, row in _stored(txn, log, after + 1):
        events = unpacked(row)
        skipped = max(0, after + 1 - first)
        if skipped or len(events) > remaining:
            events = events[skipped : skipped + remaining]
        yield first + skipped, events
        remaining -= len(events)
        if remaining <= 0:
            return


def read_rows(txn: lmdb.Transaction[bytes], log: LogRows, sequence: int, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Stored rows, each with the number of its first event, beginning with the row that has event `sequence`.

    Stops when the rows exceed `bytes_max`. The first row does not count, so a second one is read if there is one.
    """
    size = 0
    for number, (first, row) in enumerate(_stored(txn, log, sequence)):
        yield first, row
        size += len(row) if number else 0
        if size > bytes_max:
            return


def _stored(txn: lmdb.Transaction[bytes], log: LogRows, sequence: int) -> Iterator[tuple[int, bytes]]:
    """Rows with the numbers of their first events, beginning with the row that has event `sequence`.

    The last row if the log has not come to that event yet.
    """
    open_first, open_row = _open_row(txn, log)
    is_empty = not events_in(open_row)
    if sequence < open_first or is_empty:
        cursor = txn.cursor(log.closed)
        if cursor.set_range(_SEQUENCE.pack(sequence)):
            has_row = first_number(cursor.key()) == sequence or cursor.prev() or cursor.first()
        else:
            has_row = cursor.last()
        while has_row:
            yield first_number(cursor.key()), cursor.value()
            has_row = cursor.next()
    if not is_empty:
        yield open_first, open_row


def _open_row(txn: lmdb.Transaction[bytes], log: LogRows) -> tuple[int, bytes]:
    """The open row, and the number of its first event. If it has none, the number that the next event will get."""
    raw = txn.get(_OPEN_KEY, None, log.open)
    if raw is None:
        return 1, empty_row(bytes(VERSION_BYTES))
    return int(_SEQUENCE.unpack_from(raw)[0]), raw[_SEQUENCE.size :]


def _put_closed(txn: lmdb.Transaction[bytes], log: LogRows, first: int, row: bytes) -> None:
    """Append a closed row. LMDB's append mode fills pages completely."""
    if not txn.put(_SEQUENCE.pack(first), row, append=True, db=log.closed):
        raise StoreMismatch("the event log has rows behind its open one; restore a backup")


def _put_open(txn: lmdb.Transaction[bytes], log: LogRows, first: int, row: bytes) -> None:
    txn.put(_OPEN_KEY, _SEQUENCE.pack(first) + row, db=log.open)
