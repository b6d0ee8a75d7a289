"""How long the log keeps events: the oldest go beyond a number, a size or an age, unless a lease keeps them.

    meta   log-lease/<name>   (sequence number u64, renewed at ms) as MessagePack: it and what follows are kept

A lease counts for `LogBounds.lease_ms` after it was renewed, while the log is no larger than
`LogBounds.leased_bytes_max`. Rows are deleted one at a time; the same transaction reads the leases, so nobody takes a
lease of what is deleted. The last row that has events stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import lmdb
import msgspec

from kith.engines.embedded import event_log, event_rows
from kith.engines.embedded.event_log import LogRows

LEASE = "log-lease/"
ROWS_A_COMMIT = 8
"""How many rows a commit deletes beyond those that it closes, so that no commit is long."""
_ROWS_AT_REST = 1_000
_LOOKED_MS = 10_000
"""How often ages are looked at while a lease keeps the oldest events."""
_read = msgspec.msgpack.Decoder(tuple[int, int]).decode


class LogBounds(NamedTuple):
    """The bounds of a log: the settings `log_events_max`, `log_bytes_max`, `log_keep_hours` (None: however old),
    `log_lease_hours` and `log_leased_bytes_max`.
    """

    events_max: int = 10_000_000
    bytes_max: int = 1 << 32
    age_ms_max: int | None = None
    lease_ms: int = 72 * 3_600_000
    leased_bytes_max: int = 1 << 34


KEEP = LogBounds()


class Leased(NamedTuple):
    """A lease as it is stored: up to which event its holder is, and when it said so."""

    name: str
    sequence: int
    renewed_ms: int


class Retention:
    """Forgets the oldest events, for one process."""

    def __init__(self, keep: LogBounds, log: LogRows, meta: lmdb._Database) -> None:
        self.keep, self._log, self._meta = keep, log, meta
        self._young_until_ms = 0
        """Until then the oldest event is not too old."""

    def due(self, now_ms: int) -> bool:
        """Whether events may have become too old while nothing was written."""
        return self.keep.age_ms_max is not None and now_ms >= self._young_until_ms

    def forget(self, txn: lmdb.Transaction[bytes], last: int, now_ms: int, rows: int | None = None) -> bool:
        """Forget the oldest; whether any went. `last`: the newest event; `rows`: how many rows the transaction closed,
        None: it adds nothing.
        """
        rows_max = _ROWS_AT_REST if rows is None else rows + ROWS_A_COMMIT
        cursor, held, done = txn.cursor(self._log.closed), None, 0
        while done < rows_max and cursor.first():
            row = cursor.value()
            following = event_log.first_number(cursor.key()) if cursor.next() else event_log.first_open(txn, self._log)
            if following is None:
                break
            end = following - 1
            size = self.size(txn)
            if last - end < self.keep.events_max and size <= self.keep.bytes_max and not self._too_old(row, now_ms):
                break
            if held is None:
                held = min((one.sequence for one in leased(txn, self._meta) if self.counts(one, now_ms)), default=last)
            if end >= held and size <= self.keep.leased_bytes_max:
                self._young_until_ms = max(self._young_until_ms, now_ms + _LOOKED_MS)
                break
            cursor.first()
            cursor.delete()
            done += 1
        return done > 0

    def size(self, txn: lmdb.Transaction[bytes]) -> int:
        """Bytes of the log, in whole pages: those of its closed rows."""
        stat = txn.stat(self._log.closed)
        return int(stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]))

    def counts(self, lease: Leased, now_ms: int) -> bool:
        """Whether a lease was renewed lately."""
        return now_ms < lease.renewed_ms + self.keep.lease_ms

    def _too_old(self, row: bytes, now_ms: int) -> bool:
        """Whether the newest event of the oldest row is. A row is read once, and again when it may have become so."""
        if self.keep.age_ms_max is None or now_ms < self._young_until_ms:
            return False
        self._young_until_ms = event_rows.newest_ms(row) + self.keep.age_ms_max
        return now_ms >= self._young_until_ms


def leased(txn: lmdb.Transaction[bytes], meta: lmdb._Database) -> Iterator[Leased]:
    """All leases, by name."""
    cursor, start = txn.cursor(meta), LEASE.encode()
    more = cursor.set_range(start)
    while more and cursor.key().startswith(start):
        yield Leased(cursor.key()[len(start) :].decode(), *_read(cursor.value()))
        more = cursor.next()


def lease_row(sequence: int, now_ms: int) -> bytes:
    """A lease as it is stored."""
    return msgspec.msgpack.encode((sequence, now_ms))
