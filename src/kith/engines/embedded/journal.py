"""The journal: the commits since the last checkpoint. It makes a commit durable with one small sync.

A commit changes pages all over the store, and syncing these pages is most of the cost of a write. So a commit syncs one
journal entry instead, which holds enough to replay the commit (see `redo`). A checkpoint syncs the pages a few times a
second. After a power cut the store is reset to its last checkpoint, the base, and the entries after it are replayed
(see `recovery`).

    file store.journal
      0          two tails   txn | start | end of the newest entry | newest commit without an entry | crc
      128        one byte    1 after a sync of the store has failed, until one process alone opens the store
      512        newest commit without an entry, noted before it is committed   txn | epoch | crc
      1 SLOT     base        txn | start of the next entry | epoch | relaxed | length | crc | the store's meta page
      2 SLOT     base        the same; the one with the greater txn is valid
      3 SLOT     entries, in a ring of RING_BYTES      crc | length | txn | epoch | payload

Starts and ends are offsets that count all bytes ever appended. Entries of consecutive transactions form a chain, which
ends where an entry is missing or torn. Tails are never synced: they only tell running processes where to append. Each
method names the lock that it needs. Most need LMDB's write lock, so two processes never append at once.

A process may die between writing to this file and syncing it. Other processes then read from the page cache what the
disk does not have. So before a process relies on a base of another process, it syncs the file again.
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
"""Room for the entries since the base, in bytes."""
_SLOT = 1 << 17  # a tail or a base; the largest page of LMDB is 64 KB
_RING_AT = 3 * _SLOT
_TAIL = struct.Struct("<QQQQI")
_TAIL_ROOM = 64
_BASE = struct.Struct("<QQQ?II")
_ENTRY = struct.Struct("<IIQQ")
PAYLOAD_BYTES_MAX = RING_BYTES - _ENTRY.size
"""The largest payload of an entry, in bytes. A commit with a larger one has no entry."""
_CRC_BYTES = 4
_FAILED_AT = 2 * _TAIL_ROOM
_WITHOUT_ENTRY = struct.Struct("<QQI")
_WITHOUT_ENTRY_AT = 512  # a sector of its own
_RETRY_S = 0.005
_CLOSE_TIMEOUT_S = 30.0
"""Seconds that `enter` waits for other processes to close a store that failed."""


class Base(NamedTuple):
    """A synced state of the store: its pages are on the disk. LMDB overwrites its meta page, so `meta` is a copy."""

    txn: int
    start: int  # where the entry of transaction `txn + 1` begins
    epoch: int  # random; entries after this base carry it. A new one whenever the journal is restarted (`begin`)
    relaxed: bool  # entries may not be synced
    meta: bytes  # the store's meta page of this transaction


class JournalTail(NamedTuple):
    """Where the newest entry lies. Its writer notes this before the transaction is committed."""

    txn: int
    start: int
    end: int
    without_entry: int  # the newest transaction without an entry; 0 if there is none, or once a checkpoint covers it


class Journal:
    """An open journal of one store."""

    def __init__(self, file: Path, *, relaxed: bool = False) -> None:
        """`relaxed`: this process does not sync its entries, if the journal's base is relaxed too."""
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._wants_relaxed = relaxed
        self._epoch = 0
        self._relaxed = False
        self._synced: tuple[int, int] | None = None
        """Transaction and epoch of the newest base that this process knows to be on the disk."""
        self._start = 0
        """Start of the newest base that this process has read; another process may have made a newer one."""

    @property
    def store_failed(self) -> bool:
        """Whether a sync of the store failed. Which pages are on the disk is unknown then, so every process must close
        the store, and the next one to open it recovers it.
        """
        return os.pread(self._fd, 1, _FAILED_AT) == b"\1"

    def note_failed_store(self) -> None:
        """Note for all processes that a sync of the store or of a base failed."""
        with contextlib.suppress(OSError):  # only this process learns of the failure then, and is replaced
            self._put(b"\1", _FAILED_AT)

    def close(self) -> None:
        """Close the file, which releases the lock on it."""
        os.close(self._fd)

    def enter(self) -> bool:
        """Wait until the store may be opened. Returns whether no other process has it open.

        True: this process holds an exclusive lock until `share`. If it dies before that, the next process to enter gets
        the exclusive lock. False: this process holds a shared lock. StoreUnavailable if a sync of the store failed and
        the other processes do not close it within 30 s.
        """
        until_s = time.monotonic() + _CLOSE_TIMEOUT_S
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
        """Let other processes open the store, by downgrading the lock to a shared one."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)  # not atomic: another process may hold the exclusive lock in between
        self.adopt_base()

    def settle(self, store_txn: Callable[[], int]) -> None:
        """Restart the journal at the base, if no other process has the store open and the store is the base.

        Called when the store is closed; `store_txn` reads the store's newest transaction. The journal needs none of its
        entries then, and a change that another program makes to the closed store is kept at the next opening.
        """
        if self._lock(fcntl.LOCK_EX) and not self.store_failed:
            base = self.adopt_base()
            if base is not None and base.txn == store_txn() and (base.start or base.relaxed):
                self.begin(base.txn, base.meta, relaxed=False)

    def _lock(self, mode: int) -> bool:
        try:
            fcntl.flock(self._fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def newest_base(self) -> Base | None:
        """The last checkpoint, which may not be on the disk yet; None before the first. Needs no lock.

        It must not sync the file: a sync without the write lock could receive the disk error of an entry that another
        thread syncs, and that entry would be acknowledged.
        """
        return max((base for slot in (1, 2) if (base := self._read_base(slot)) is not None), default=None)

    def adopt_base(self) -> Base | None:
        """The last checkpoint, synced first if it may not be on the disk yet; None before the first.

        From then on this process appends entries of its epoch. Needs the write lock.
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
        """Sync a base that was written. If that fails, it is unknown which base the disk has: the store has failed."""
        try:
            os.fdatasync(self._fd)
        except OSError:
            self.note_failed_store()
            raise
        self._synced = (base.txn, base.epoch)

    def begin(self, txn: int, meta: bytes, *, relaxed: bool) -> None:
        """Restart the journal with this state of the store as its base. The state must be synced.

        Needs the exclusive lock of `enter`. `relaxed`: later commits may not have an entry on the disk.
        """
        epoch = int.from_bytes(os.urandom(8), "little")
        for slot in (1, 2):
            self._write_base(slot, Base(txn, 0, epoch, relaxed, meta))
        self._put(bytes(_FAILED_AT + 1), 0)
        self._write_tail(JournalTail(txn, 0, 0, 0))
        self._sync_base(Base(txn, 0, epoch, relaxed, meta))
        self.adopt_base()

    def append(self, txn: int, payload: bytes | None, make_room: Callable[[], None] = lambda: None) -> bool:
        """Append the entry of the transaction that is about to be committed. Returns whether that makes it durable.

        False: acknowledge the transaction only after the next checkpoint. This is so without a payload, where the ring
        has no room, where an earlier writer left a gap, and while no checkpoint covers an earlier transaction without
        an entry. `make_room` makes a checkpoint of all earlier transactions; it is called where a payload needs that to
        become durable. Needs the write lock. Errors: OSError.
        """
        tail = self._tail_before(txn)
        length = 0 if payload is None else _ENTRY.size + len(payload)
        if payload is not None and self._wants_checkpoint(tail, length):
            make_room()
        gap = tail.txn != txn - 1  # a writer that does not know the journal committed in between
        if payload is None or gap or not self._has_room(tail.end + length):
            self._note_without_entry(txn)
            self._write_tail(JournalTail(txn, tail.end, tail.end, txn))
            return False
        missing = tail.without_entry
        if missing and self._is_covered(missing):
            missing = 0
        head = _ENTRY.pack(0, len(payload), txn, self._epoch)[_CRC_BYTES:] + payload
        try:
            self._write(tail.end, zlib.crc32(head).to_bytes(_CRC_BYTES, "little") + head)
            if not self._relaxed:
                os.fdatasync(self._fd)
            self._write_tail(JournalTail(txn, tail.end, tail.end + length, missing))
        except OSError:
            with contextlib.suppress(OSError):  # the next entry overwrites it anyway
                self._write(tail.end, bytes(_ENTRY.size))
            raise
        return not missing

    def _wants_checkpoint(self, tail: JournalTail, length: int) -> bool:
        """Whether an entry of this length becomes durable, or has room, only after a checkpoint of all before it."""
        missing = tail.without_entry
        if missing and not self._is_covered(missing):
            return True
        return length <= RING_BYTES and not self._has_room(tail.end + length)

    def _note_without_entry(self, txn: int) -> None:
        """Note on the disk that the chain will lack transaction `txn`, before any of its pages can reach the disk."""
        raw = _WITHOUT_ENTRY.pack(txn, self._epoch, 0)[:-_CRC_BYTES]
        self._put(raw + zlib.crc32(raw).to_bytes(_CRC_BYTES, "little"), _WITHOUT_ENTRY_AT)
        os.fdatasync(self._fd)

    def lacks_entries(self, base: Base) -> bool:
        """Whether a transaction after `base` may have been committed without an entry."""
        raw = os.pread(self._fd, _WITHOUT_ENTRY.size, _WITHOUT_ENTRY_AT).ljust(_WITHOUT_ENTRY.size, b"\0")
        txn, epoch, crc = _WITHOUT_ENTRY.unpack(raw)
        return bool(crc == zlib.crc32(raw[:-_CRC_BYTES]) and epoch == base.epoch and txn > base.txn)

    def cancel(self, txn: int) -> None:
        """Erase the entry of a transaction that could not be committed. Needs the write lock."""
        for tail in self._tails():
            if tail.txn == txn and tail.end > tail.start:
                self._write(tail.start, bytes(_ENTRY.size))
                os.fdatasync(self._fd)

    def end(self, txn: int) -> int:
        """Where the entry of the transaction after `txn` starts. Needs the write lock."""
        return self._tail_before(txn + 1).end

    def publish(self, txn: int, start: int, meta: bytes) -> None:
        """Make a synced state the base, unless there is a later base. Needs the write lock."""
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
        """The chain of entries after a base: each transaction with its payload."""
        offset, txn = base.start, base.txn + 1
        while offset + _ENTRY.size <= base.start + RING_BYTES:
            head = self._read(offset, _ENTRY.size)
            crc, length, entry_txn, epoch = _ENTRY.unpack(head)
            if (entry_txn, epoch) != (txn, base.epoch) or offset + _ENTRY.size + length > base.start + RING_BYTES:
                return
            payload = self._read(offset + _ENTRY.size, length)
            if zlib.crc32(head[_CRC_BYTES:] + payload) != crc:
                return
            yield txn, payload
            offset, txn = offset + _ENTRY.size + length, txn + 1

    def _is_covered(self, txn: int) -> bool:
        base = self.adopt_base()
        return base is not None and base.txn >= txn

    def _has_room(self, end: int) -> bool:
        if end - self._start > RING_BYTES:
            self.adopt_base()  # another process may have made a checkpoint
        return end - self._start <= RING_BYTES

    def _tails(self) -> list[JournalTail]:
        raw = os.pread(self._fd, 2 * _TAIL_ROOM, 0).ljust(2 * _TAIL_ROOM, b"\0")
        tails = []
        for offset in (0, _TAIL_ROOM):
            *fields, crc = _TAIL.unpack_from(raw, offset)
            if crc == zlib.crc32(raw[offset : offset + _TAIL.size - _CRC_BYTES]):
                tails.append(JournalTail(*fields))
        return tails

    def _tail_before(self, txn: int) -> JournalTail:
        """The newest tail before transaction `txn`. A tail of `txn` itself is of a writer that did not commit it."""
        full = self._start + RING_BYTES  # without a tail it is unknown what is in the ring: treat it as full
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

    def _put(self, raw: bytes, offset: int) -> None:
        """Write at an offset of the file. A full disk may cut the write short; that is an OSError."""
        if os.pwrite(self._fd, raw, offset) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _write(self, offset: int, raw: bytes) -> None:
        """Write into the ring, and wrap at its end."""
        offset %= RING_BYTES
        room = RING_BYTES - offset
        self._put(raw[:room], _RING_AT + offset)
        if len(raw) > room:
            self._put(raw[room:], _RING_AT)

    def _read(self, offset: int, length: int) -> bytes:
        offset %= RING_BYTES
        room = min(length, RING_BYTES - offset)
        raw = os.pread(self._fd, room, _RING_AT + offset).ljust(room, b"\0")
        return raw + os.pread(self._fd, length - room, _RING_AT).ljust(length - room, b"\0") if length > room else raw
