"""Retention of the log: the oldest events are deleted beyond a number, a size or an age, unless a lease keeps them.

    meta   log-lease/<name>   (sequence number u64, renewed at ms) as MessagePack: events from that number on are kept

A lease holds for `LogBounds.lease_ms` after it was renewed, while the log is no larger than
`LogBounds.leased_bytes_max`. Rows are deleted one at a time, in a transaction that also reads the leases. So nobody can
take a lease on events that are being deleted. The last row that has events is never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import lmdb
import msgspec

from kith.engines.embedded import event_log, event_rows
from kith.engines.embedded.event_log import LogRows

LEASE_PREFIX = "log-lease/"
ROWS_A_COMMIT = 8
"""Rows that a commit deletes beyond the number that it closes, at most, so that no commit takes long."""
_ROWS_IDLE_MAX = 1_000
"""Rows deleted by a commit that adds no events, at most."""
_AGE_CHECK_MS = 10_000
"""How often ages are checked while a lease keeps the oldest events."""
_read = msgspec.msgpack.Decoder(tuple[int, int]).decode


class LogBounds(NamedTuple):
    """The bounds of a log. Settings, in this order: `log_events_max`, `log_bytes_max`, `log_keep_hours` (None: no bound
    on age), `log_lease_hours`, `log_leased_bytes_max`.
    """

    events_max: int = 10_000_000
    bytes_max: int = 1 << 32
    age_ms_max: int | None = None
    lease_ms: int = 72 * 3_600_000
    leased_bytes_max: int = 1 << 34


DEFAULT_BOUNDS = LogBounds()


class StoredLease(NamedTuple):
    """A stored lease. `sequence`: the last event that its holder has handled. `renewed_ms`: when it was renewed."""

    name: str
    sequence: int
    renewed_ms: int


class Retention:
    """Deletes the oldest events, for one process."""

    def __init__(self, bounds: LogBounds, log: LogRows, meta: lmdb._Database) -> None:
        self.bounds, self._log, self._meta = bounds, log, meta
        self._young_until_ms = 0
        """Before this time (ms since the epoch) the oldest row is not too old, so it need not be read."""

    def due(self, now_ms: int) -> bool:
        """Whether events may have become too old since the oldest row was last read."""
        return self.bounds.age_ms_max is not None and now_ms >= self._young_until_ms

    def forget(self, txn: lmdb.Transaction[bytes], last_event: int, now_ms: int, rows: int | None = None) -> bool:
        """Delete the oldest events that are out of bounds. Returns whether any were deleted.

        `last_event`: the newest event. `rows`: how many rows the transaction closed; None if it adds no events.
        """
        rows_max = _ROWS_IDLE_MAX if rows is None else rows + ROWS_A_COMMIT
        cursor, leased_from, deleted = txn.cursor(self._log.closed), None, 0
        while deleted < rows_max and cursor.first():
            row = cursor.value()
            next_first = event_log.first_number(cursor.key()) if cursor.next() else event_log.first_open(txn, self._log)
            if next_first is None:
                break
            end = next_first - 1
            size = self.size(txn)
            if (
                last_event - end < self.bounds.events_max
                and size <= self.bounds.bytes_max
                and not self._is_too_old(row, now_ms)
            ):
                break
            if leased_from is None:
                leased_from = min(
                    (lease.sequence for lease in leased(txn, self._meta) if self.is_valid(lease, now_ms)),
                    default=last_event,
                )
            if end >= leased_from and size <= self.bounds.leased_bytes_max:
                self._young_until_ms = max(self._young_until_ms, now_ms + _AGE_CHECK_MS)
                break
            cursor.first()
            cursor.delete()
            deleted += 1
        return deleted > 0

    def size(self, txn: lmdb.Transaction[bytes]) -> int:
        """Bytes of the log's closed rows, in whole pages."""
        stat = txn.stat(self._log.closed)
        return int(stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]))

    def is_valid(self, lease: StoredLease, now_ms: int) -> bool:
        """Whether a lease still holds: it was renewed within `lease_ms`."""
        return now_ms < lease.renewed_ms + self.bounds.lease_ms

    def _is_too_old(self, row: bytes, now_ms: int) -> bool:
        """Whether the newest event of the oldest row is too old. Reads the row only when it may have become too old."""
        if self.bounds.age_ms_max is None or now_ms < self._young_until_ms:
            return False
        self._young_until_ms = event_rows.newest_ms(row) + self.bounds.age_ms_max
        return now_ms >= self._young_until_ms


def leased(txn: lmdb.Transaction[bytes], meta: lmdb._Database) -> Iterator[StoredLease]:
    """All leases, by name."""
    cursor, start = txn.cursor(meta), LEASE_PREFIX.encode()
    has_row = cursor.set_range(start)
    while has_row and cursor.key().startswith(start):
        yield StoredLease(cursor.key()[len(start) :].decode(), *_read(cursor.value()))
        has_row = cursor.next()


def lease_row(sequence: int, now_ms: int) -> bytes:
    """A lease as it is stored."""
    return msgspec.msgpack.encode((sequence, now_ms))
