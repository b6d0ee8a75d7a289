"""The journal: what was committed since the store's pages were last synced, so that a commit costs one small sync.

A commit writes pages all over the store, and syncing them is most of what a write costs. So a commit syncs one entry
here instead, enough to make its changes again (see `redo`), and the pages are synced some times a second, at a
checkpoint. After a power cut the store goes back to its last checkpoint, the base, and the entries behind it are
applied again (see `recovery`).

    file store.journal
      0          two tails   txn | start | end of the newest entry | newest commit without an entry | crc
                 then a byte: 1 after a sync of the store has failed, until it is opened by one process alone
      512        newest commit without an entry, before it is committed   txn | epoch | crc
      1 SLOT     base        txn | start of the next entry | epoch | relaxed | length | crc | the store's meta page
      2 SLOT     base        the same; the one with the greater txn holds
      3 SLOT     a ring of RING_BYTES of entries       crc | length | txn | epoch | payload

Starts and ends count all bytes ever appended. Entries of consecutive transactions make a chain; it ends where an entry
is missing or torn. Tails are never synced: they tell running processes where to append. Each method names the lock that
it needs: most need LMDB's write lock, so two processes never append at once.

A process may die between a write here and its sync, and then others read what the disk does not have yet. So a base of
another process is synced again before it is relied on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kith.core.errors import StoreUnavailable

JOURNAL_FILE = "store.journal"
RING_BYTES = 4 << 20
_SLOT = 1 << 17  # a tail or a base; the largest page of LMDB is 64 KB
_RING_AT = 3 * _SLOT
_TAIL = struct.Struct("<QQQQI")
_TAIL_ROOM = 64
_BASE = struct.Struct("<QQQ?II")
_ENTRY = struct.Struct("<IIQQ")
PAYLOAD_BYTES_MAX = RING_BYTES - _ENTRY.size
"""Of an entry; what is larger has none."""
_CRC_BYTES = 4
_FAILED_AT = 2 * _TAIL_ROOM
_WITHOUT_ENTRY = struct.Struct("<QQI")
_WITHOUT_ENTRY_AT = 512  # a sector of its own
_RETRY_S = 0.005
_CLOSED_WITHIN_S = 30.0


class Base(NamedTuple):
    """A state of the store that is synced: all its pages, but not which of its two meta pages holds."""

    txn: int
    start: int  # of the entry of the transaction after it
    epoch: int  # of its entries; changes when the folder is opened by its first process
    relaxed: bool  # entries may not be synced
    meta: bytes  # the store's meta page of this transaction


class JournalTail(NamedTuple):
    """The newest entry, as its writer noted it before its transaction was committed."""

    txn: int
    start: int
    end: int
    without_entry: int  # the newest transaction that has none


class Journal:
    """An open journal of one store."""

    def __init__(self, file: Path, *, relaxed: bool = False) -> None:
        """`relaxed`: this process need not sync its entries, if the journal was begun for such processes."""
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._wants_relaxed = relaxed
        self._epoch = 0
        self._relaxed = False
        self._synced: tuple[int, int] | None = None
        """Transaction and epoch of a base that is surely on the disk."""
        self._start = 0
        """Where the base starts, as far as this process knows; it may have moved on."""

    @property
    def store_failed(self) -> bool:
        """Whether a sync of the store failed: nobody knows which pages are on the disk, so all must open it anew."""
        return os.pread(self._fd, 1, _FAILED_AT) == b"\1"

    def note_failed_store(self) -> None:
        """Tell all processes that a sync of the store or of its base failed."""
        with contextlib.suppress(OSError):  # then this process alone is replaced
            self._put(b"\1", _FAILED_AT)

    def close(self) -> None:
        """Close the file, and with it give up the lock."""
        os.close(self._fd)

    def enter(self) -> bool:
        """Wait until the store may be opened; whether no other process has it open.

        If so it is locked for this one alone, until `share`; should it die before that, the next one has it alone.
        StoreUnavailable where others do not close a store that failed.
        """
        until_s = time.monotonic() + _CLOSED_WITHIN_S
        while not self._lock(fcntl.LOCK_EX):
            if not self.store_failed:
                if self._lock(fcntl.LOCK_SH):
                    self.adopt_base()
                    return False
            elif time.monotonic() > until_s:
                raise StoreUnavailable(
                    "the disk failed under the store; stop all processes that use it, and start again"
                )
            time.sleep(_RETRY_S)
        return True

    def share(self) -> None:
        """Let others open the store."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)  # gives the lock up first, so another process may have it alone meanwhile
        self.adopt_base()

    def settle(self, store_txn: Callable[[], int]) -> None:
        """At the end: if nobody else has the store open and it is the base, begin anew there.

        Then no entry is needed any more, and a change made to the store before it is opened again is kept.
        """
        if self._lock(fcntl.LOCK_EX) and not self.store_failed:
            base = self.adopt_base()
            if base is not None and base.txn == store_txn() and (base.start or base.relaxed):
                self.begin(base.txn, base.meta, relaxed=False)

    def _lock(self, how: int) -> bool:
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def newest_base(self) -> Base | None:
        """The last checkpoint, which may not be on the disk yet. Needs no lock, as it syncs nothing: a sync beside that
        of an entry could receive the disk error meant for the entry.
        """
        return max((base for slot in (1, 2) if (base := self._read_base(slot)) is not None), default=None)

    def adopt_base(self) -> Base | None:
        """The last checkpoint, synced if it may not be on the disk yet, from which this process goes on; None before
        the first. Needs the write lock.
        """
        newest = self.newest_base()
        if newest is None:
            return None
        if self._synced != (newest.txn, newest.epoch):
            self._sync_base(newest)
        self._start, self._epoch = newest.start, newest.epoch
        self._relaxed = newest.relaxed and self._wants_relaxed
        return newest

    def _sync_base(self, base: Base) -> None:
        """Sync a base that was written; if that fails, nobody knows which one the disk has."""
        try:
            os.fdatasync(self._fd)
        except OSError:
            self.note_failed_store()
            raise
        self._synced = (base.txn, base.epoch)

    def begin(self, txn: int, meta: bytes, *, relaxed: bool) -> None:
        """Start anew at this state of the store, which must be synced. Needs the store alone.

        `relaxed`: what is committed after it may not be in the journal on the disk.
        """
        epoch = int.from_bytes(os.urandom(8), "little")
        for slot in (1, 2):
            self._write_base(slot, Base(txn, 0, epoch, relaxed, meta))
        self._put(bytes(_FAILED_AT + 1), 0)
        self._write_tail(JournalTail(txn, 0, 0, 0))
        self._sync_base(Base(txn, 0, epoch, relaxed, meta))
        self.adopt_base()

    def append(self, txn: int, payload: bytes | None, make_room: Callable[[], None] = lambda: None) -> bool:
        """Note the transaction that is about to be committed; whether it is durable with that.

        `make_room`: makes a checkpoint of all before, called where that is needed for it to be durable.
        False: not yet, acknowledge it only after a checkpoint. So it is without a payload, where the ring has no room,
        and until a checkpoint has covered the last such transaction. Needs the write lock. Errors: OSError.
        """
        before = self._tail_before(txn)
        length = 0 if payload is None else _ENTRY.size + len(payload)
        if payload is not None and self._wants_checkpoint(before, length):
            make_room()
        gap = before.txn != txn - 1  # a writer that knows no journal
        if payload is None or gap or not self._has_room(before.end + length):
            self._note_without_entry(txn)
            self._write_tail(JournalTail(txn, before.end, before.end, txn))
            return False
        missing = before.without_entry
        if missing and self._is_covered(missing):
            missing = 0
        head = _ENTRY.pack(0, len(payload), txn, self._epoch)[_CRC_BYTES:] + payload
        try:
            self._write(before.end, zlib.crc32(head).to_bytes(_CRC_BYTES, "little") + head)
            if not self._relaxed:
                os.fdatasync(self._fd)
            self._write_tail(JournalTail(txn, before.end, before.end + length, missing))
        except OSError:
            with contextlib.suppress(OSError):  # then the next entry takes its place
                self._write(before.end, bytes(_ENTRY.size))
            raise
        return not missing

    def _wants_checkpoint(self, before: JournalTail, length: int) -> bool:
        """Whether an entry of this length is not durable, or has no room, until all before it is covered."""
        missing = before.without_entry
        if missing and not self._is_covered(missing):
            return True
        return length <= RING_BYTES and not self._has_room(before.end + length)

    def _note_without_entry(self, txn: int) -> None:
        """Note on the disk that the chain will miss a transaction, before pages of it can be there."""
        raw = _WITHOUT_ENTRY.pack(txn, self._epoch, 0)[:-_CRC_BYTES]
        self._put(raw + zlib.crc32(raw).to_bytes(_CRC_BYTES, "little"), _WITHOUT_ENTRY_AT)
        os.fdatasync(self._fd)

    def lacks_entries(self, base: Base) -> bool:
        """Whether a transaction after a base may have been committed without an entry."""
        raw = os.pread(self._fd, _WITHOUT_ENTRY.size, _WITHOUT_ENTRY_AT).ljust(_WITHOUT_ENTRY.size, b"\0")
        txn, epoch, crc = _WITHOUT_ENTRY.unpack(raw)
        return bool(crc == zlib.crc32(raw[:-_CRC_BYTES]) and epoch == base.epoch and txn > base.txn)

    def cancel(self, txn: int) -> None:
        """Take back the entry of a transaction that could not be committed. Needs the write lock."""
        for tail in self._tails():
            if tail.txn == txn and tail.end > tail.start:
                self._write(tail.start, bytes(_ENTRY.size))
                os.fdatasync(self._fd)

    def end(self, txn: int) -> int:
        """Where the entry of the transaction after `txn` starts. Needs the write lock."""
        return self._tail_before(txn + 1).end

    def publish(self, txn: int, start: int, meta: bytes) -> None:
        """Make a synced state the base, unless there is a later one. Needs the write lock."""
        base = self.adopt_base()
        if base is None:
            raise OSError(errno.EIO, "the journal was damaged while it was in use")
        if txn > base.txn:
            older = 1 if self._read_base(1) != base else 2
            newer = base._replace(txn=txn, start=start, meta=meta)
            self._write_base(older, newer)
            self._sync_base(newer)
            self._start = start

    def entries(self, base: Base) -> Iterator[tuple[int, bytes]]:
        """The chain after a base: each transaction and its payload."""
        at, txn = base.start, base.txn + 1
        while at + _ENTRY.size <= base.start + RING_BYTES:
            head = self._read(at, _ENTRY.size)
            crc, length, of, epoch = _ENTRY.unpack(head)
            if (of, epoch) != (txn, base.epoch) or at + _ENTRY.size + length > base.start + RING_BYTES:
                return
            payload = self._read(at + _ENTRY.size, length)
            if zlib.crc32(head[_CRC_BYTES:] + payload) != crc:
                return
            yield txn, payload
            at, txn = at + _ENTRY.size + length, txn + 1

    def _is_covered(self, txn: int) -> bool:
        base = self.adopt_base()
        return base is not None and base.txn >= txn

    def _has_room(self, end: int) -> bool:
        if end - self._start > RING_BYTES:
            self.adopt_base()  # others make checkpoints too
        return end - self._start <= RING_BYTES

    def _tails(self) -> list[JournalTail]:
        raw = os.pread(self._fd, 2 * _TAIL_ROOM, 0).ljust(2 * _TAIL_ROOM, b"\0")
        found = []
        for at in (0, _TAIL_ROOM):
            *fields, crc = _TAIL.unpack_from(raw, at)
            if crc == zlib.crc32(raw[at : at + _TAIL.size - _CRC_BYTES]):
                found.append(JournalTail(*fields))
        return found

    def _tail_before(self, txn: int) -> JournalTail:
        """The newest entry of a committed transaction. One of `txn` itself is of a writer that did not commit it."""
        full = self._start + RING_BYTES  # without a tail nobody knows what is in the ring
        return max((tail for tail in self._tails() if tail.txn < txn), default=JournalTail(0, full, full, 0))

    def _write_tail(self, tail: JournalTail) -> None:
        raw = _TAIL.pack(*tail, 0)[:-_CRC_BYTES]
        self._put(raw + zlib.crc32(raw).to_bytes(_CRC_BYTES, "little"), tail.txn % 2 * _TAIL_ROOM)

    def _read_base(self, slot: int) -> Base | None:
        head = os.pread(self._fd, _BASE.size, slot * _SLOT)
        if len(head) < _BASE.size:
            return None
        txn, start, epoch, relaxed, length, crc = _BASE.unpack(head)
        meta = os.pread(self._fd, min(length, _SLOT), slot * _SLOT + _BASE.size)
        if not meta or zlib.crc32(head[:-_CRC_BYTES] + meta) != crc:
            return None
        return Base(txn, start, epoch, relaxed, meta)

    def _write_base(self, slot: int, base: Base) -> None:
        head = _BASE.pack(*base[:4], len(base.meta), 0)[:-_CRC_BYTES]
        crc = zlib.crc32(head + base.meta).to_bytes(_CRC_BYTES, "little")
        self._put(head + crc + base.meta, slot * _SLOT)

    def _put(self, raw: bytes, at: int) -> None:
        """Write at a place of the file; a full disk cuts a write short, which is an error."""
        if os.pwrite(self._fd, raw, at) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _write(self, at: int, raw: bytes) -> None:
        """Write into the ring, round its end if need be."""
        at %= RING_BYTES
        fits = RING_BYTES - at
        self._put(raw[:fits], _RING_AT + at)
        if len(raw) > fits:
            self._put(raw[fits:], _RING_AT)

    def _read(self, at: int, length: int) -> bytes:
        at %= RING_BYTES
        fits = min(length, RING_BYTES - at)
        raw = os.pread(self._fd, fits, _RING_AT + at).ljust(fits, b"\0")
        return raw + os.pread(self._fd, length - fits, _RING_AT).ljust(length - fits, b"\0") if length > fits else raw
