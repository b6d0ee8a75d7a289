"""Checkpoints: a few times a second the whole store is synced, and that state becomes the journal's base.

Until the next one no page of the base may be written again. LMDB uses a page again once no reader can see the state
that it belongs to. So each process that commits holds a read transaction, its pin, on a state that is not newer than
the base; it moves the pin at its own checkpoints, and drops it when it has committed nothing since. Pins of killed
processes stay until LMDB's reader table is cleared; by then each writer has a pin of its own.

Usually one process syncs for all. One whose checkpoint is due first waits `OTHERS_S` for one by the process that made
the last.

Pages that are freed wait for two checkpoints before they are used again: that is how much larger the file is. So there
is a checkpoint after a number of changes, too. Commits go on while it syncs, so a slow sync leaves more pages waiting.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lmdb
import structlog

from kith.engines.embedded.journal import Journal
from kith.engines.embedded.recovery import newest_meta
from kith.engines.embedded.turns import Turns

INTERVAL_S = 0.1
"""From the first commit after a checkpoint to the next checkpoint, at most; where another process makes them,
`OTHERS_S` more."""
CHANGES_MAX = 1_000
"""A checkpoint is due after so many changes of this process, too, because each may free some pages that wait for it."""
OTHERS_S = 0.15
"""How long one that is due waits for a later one of another process, if it was another that made the last."""
_RETRY_S = 1.0

_log = structlog.get_logger("kith.store")


class _Checkpoint(NamedTuple):
    """A state that is to be the base: its transaction, its meta page, the start of the next entry, a pin on it."""

    txn: int
    meta: bytes
    start: int
    pin: lmdb.Transaction[bytes]


class Checkpoints:
    """Makes the checkpoints of one process."""

    def __init__(self, store: lmdb.Environment, file: Path, journal: Journal, turns: Turns) -> None:
        self._store, self._journal, self._turns = store, journal, turns
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        # changed only by who holds the write lock
        self._pin: lmdb.Transaction[bytes] | None = None
        self._ours = 0
        """The newest transaction of this process."""
        self._changed = 0
        """About how many changes this process committed since its last checkpoint."""
        self._uncovered = threading.Event()
        self._due = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._syncing = threading.Lock()
        self._made = 0
        """The transaction of the last base that this process made."""

    @property
    def broken(self) -> bool:
        """Whether a sync of the store failed, in any process: only processes that open it anew may commit again."""
        return self._journal.store_failed

    @contextlib.contextmanager
    def synced_before_turn(self) -> Iterator[None]:
        """Before a commit takes its turn: sync what `pin_before_commit` would else have to sync while others wait for
        it.
        """
        if self._pin is None:
            base = self._journal.newest_base()
            if base is not None and base.txn != self._store.info()["last_txnid"]:
                self.make(to_commit=True)
        try:
            yield
        except BaseException:
            if self._pin is not None:  # unused if the commit never got its turn; the loop drops it
                self._wake()
            raise

    def pin_before_commit(self, txn: int) -> None:
        """Make sure that this process may commit transaction `txn`, which has the write lock and wrote nothing yet."""
        if self._pin is None:
            base = self._journal.adopt_base()
            pin = self._store.begin()
            if base is None or base.txn != txn - 1:
                with self._abort_pin_on_error(pin):
                    self._cover(txn - 1)
            self._pin = pin

    def make_room(self, txn: int) -> None:
        """Make all before transaction `txn`, which has the write lock, the base: the journal has room then."""
        self._cover(txn - 1)

    def _cover(self, txn: int) -> None:
        """Sync the newest transaction, `txn`, and make it the base. Needs the write lock."""
        meta = self._meta(txn)
        self._sync()
        self._journal.publish(txn, self._journal.end(txn), meta)
        self._made = txn

    def commit_ended(self, txn: int | None, changes: int) -> None:
        """A transaction has ended (None: it did not commit); wakes the thread of the checkpoints."""
        if txn is not None:
            self._ours = txn
            self._changed += changes
            if self._changed >= CHANGES_MAX:
                self._due.set()
        self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="kith-checkpoints", daemon=True)
            self._thread.start()
        self._uncovered.set()

    def make(self, *, to_commit: bool = False) -> None:
        """Sync all that is committed, and make it the base. Errors: lmdb.Error, OSError.

        `to_commit`: this process is about to commit, so it keeps a pin.
        """
        self._finish(self._begin(), to_commit=to_commit)

    def _begin(self) -> _Checkpoint:
        with self._write_lock() as txn:
            pin = self._store.begin()
            with self._abort_pin_on_error(pin):
                self._changed = 0
                return _Checkpoint(txn - 1, self._meta(txn - 1), self._journal.end(txn - 1), pin)

    def _finish(self, begun: _Checkpoint, *, to_commit: bool = False) -> None:
        """Make it the base, unless there is a later one, and move the pin there: both are synced by then."""
        with self._abort_pin_on_error(begun.pin):
            base = self._journal.newest_base()
            if base is None or base.txn < begun.txn:
                self._sync()
                self._made = begun.txn
            with self._write_lock():
                self._check_whole()  # another thread's sync may have failed meanwhile
                self._journal.publish(begun.txn, begun.start, begun.meta)
                base = self._journal.adopt_base()
                is_used = to_commit or base is None or self._ours > base.txn
                pins = [pin for pin in (self._pin, begun.pin) if pin is not None]
                self._pin = max(pins, key=lambda pin: pin.id()) if is_used else None
                unused = [pin for pin in pins if pin is not self._pin]
        for pin in unused:
            pin.abort()

    def _sync(self) -> None:
        """Sync the store, one thread at a time. The kernel reports a page that it could not write only once, to one of
        the threads that sync the file; so each checks whether an earlier sync failed.
        """
        with self._syncing:
            self._check_whole()
            try:
                self._store.sync(True)
            except lmdb.Error:
                self._journal.note_failed_store()
                raise

    def _check_whole(self) -> None:
        """OSError if a sync of the store failed."""
        if self.broken:
            raise OSError(errno.EIO, "the store could not be synced")

    def close(self) -> None:
        """Make the last checkpoint, if this process committed anything since, and stop."""
        self._closing.set()
        self._due.set()
        self._uncovered.set()
        if self._thread is not None:
            self._thread.join()
        if self._pin is not None and not self.broken:
            with contextlib.suppress(lmdb.Error, OSError):  # the journal has what it would have synced
                self.make()
        if self._pin is not None:
            self._pin.abort()
        os.close(self._file)

    def _loop(self) -> None:
        while self._uncovered.wait():
            self._due.wait(INTERVAL_S)
            self._uncovered.clear()
            self._due.clear()
            if self._closing.is_set():  # what was cleared may have been the call of `close`
                return
            if self._pin is None:  # somebody made one meanwhile
                continue
            try:
                begun = self._begin()
                with self._abort_pin_on_error(begun.pin):
                    if self._are_made_elsewhere():
                        self._due.wait(OTHERS_S)
                self._finish(begun)
            except (lmdb.Error, OSError) as error:
                if self.broken:
                    _log.error("the store could not be synced; this process must be replaced", error=str(error))
                    return
                _log.warning("no checkpoint; tried again later", error=str(error))
                self._uncovered.set()  # even if nothing more is committed: the pin keeps pages that others free
                self._closing.wait(_RETRY_S)

    def _are_made_elsewhere(self) -> bool:
        """Whether it was another process that made the last base."""
        base = self._journal.newest_base()
        return base is not None and base.txn != self._made

    def _meta(self, txn: int) -> bytes:
        """The store's meta page of the newest transaction. Needs the write lock."""
        found, meta = newest_meta(self._file)
        if found != txn:
            raise lmdb.CorruptedError(f"the store's meta page is of transaction {found}, not {txn}")
        return meta

    @contextlib.contextmanager
    def _abort_pin_on_error(self, pin: lmdb.Transaction[bytes]) -> Iterator[None]:
        """Give `pin` back if this fails; if it is the store that fails, this process is broken."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, lmdb.Error):
                self._journal.note_failed_store()
            pin.abort()
            raise

    @contextlib.contextmanager
    def _write_lock(self) -> Iterator[int]:
        """Hold LMDB's write lock without writing; yields the number that the next transaction will have."""
        with self._turns.taken():
            txn = self._store.begin(write=True)
            try:
                yield txn.id()
            finally:
                txn.commit()  # empty; an abort would wait for another thread's sync
