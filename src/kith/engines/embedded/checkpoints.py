"""Checkpoints: a few times a second the whole store is synced, and that state becomes the journal's base.

Until the next checkpoint, LMDB must not reuse a page of the base. LMDB reuses a freed page once no reader can see a
state that contains it. So each process that commits holds a read transaction, its pin, on a state no newer than the
base. The process moves its pin at its own checkpoints, and drops it when the base covers all commits of the process.
Pins of killed processes stay until LMDB's reader table is cleared; by then each writer has a pin of its own.

Usually one process syncs for all. A process whose checkpoint is due, and that did not make the last one, first waits
`YIELD_S` for a checkpoint by the process that did.

Freed pages wait for two checkpoints before they are reused, and the file is larger by these pages. So a number of
changes (`CHANGES_MAX`) makes a checkpoint due, too. Commits continue while a checkpoint syncs, so a slow sync leaves
more pages waiting.
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
"""Seconds from the first commit after a checkpoint until the next checkpoint begins, at most. `YIELD_S` more where
another process made the last one."""
CHANGES_MAX = 1_000
"""A checkpoint is due after this many changes of this process, too: each may free pages that wait for checkpoints."""
YIELD_S = 0.15
"""Seconds that a due checkpoint waits for a later one by another process, if another process made the last one."""
_RETRY_S = 1.0
"""Seconds before a failed checkpoint is retried."""

_log = structlog.get_logger("kith.store")


class _Checkpoint(NamedTuple):
    """A state that is to become the base: its transaction, its meta page, where the next journal entry starts, and a
    pin on it.
    """

    txn: int
    meta: bytes
    start: int
    pin: lmdb.Transaction[bytes]


class Checkpoints:
    """Makes the checkpoints of one process."""

    def __init__(self, store: lmdb.Environment, file: Path, journal: Journal, turns: Turns) -> None:
        self._store, self._journal, self._turns = store, journal, turns
        self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        # the next three change only under the write lock
        self._pin: lmdb.Transaction[bytes] | None = None
        self._last_commit = 0
        """The newest transaction that this process committed."""
        self._change_count = 0
        """About how many changes this process committed since its last checkpoint."""
        self._uncovered = threading.Event()  # set: there are commits that no checkpoint covers
        self._due = threading.Event()  # set: do not wait until INTERVAL_S, or YIELD_S, is over
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._syncing = threading.Lock()
        self._last_made = 0
        """The transaction of the last base that this process made."""

    @property
    def broken(self) -> bool:
        """Whether a sync of the store failed, in any process. No process may commit until it has reopened the store."""
        return self._journal.store_failed

    @contextlib.contextmanager
    def ensure_pin_before_turn(self) -> Iterator[None]:
        """Wrap a commit, before it takes its turn: if this process has no pin, make the checkpoint that the pin needs.

        Otherwise `pin_before_commit` would make it within the turn, while the other writers wait.
        """
        if self._pin is None:
            base = self._journal.newest_base()
            if base is not None and base.txn != self._store.info()["last_txnid"]:
                self.make(to_commit=True)
        try:
            yield
        except BaseException:
            if self._pin is not None:  # the pin is unused if the commit never got its turn; the loop drops it
                self._wake()
            raise

    def pin_before_commit(self, txn: int) -> None:
        """Pin the base, so that this process may commit transaction `txn`. The transaction has the write lock and has
        written nothing yet.
        """
        if self._pin is None:
            base = self._journal.adopt_base()
            pin = self._store.begin()
            if base is None or base.txn != txn - 1:
                with self._abort_pin_on_error(pin):
                    self._checkpoint_at(txn - 1)
            self._pin = pin

    def make_room(self, txn: int) -> None:
        """Make the state before transaction `txn` the base, so that the journal has room. `txn` has the write lock."""
        self._checkpoint_at(txn - 1)

    def _checkpoint_at(self, txn: int) -> None:
        """Sync the newest committed transaction, `txn`, and make it the base. Needs the write lock."""
        meta = self._meta(txn)
        self._sync()
        self._journal.publish(txn, self._journal.end(txn), meta)
        self._last_made = txn

    def commit_ended(self, txn: int | None, changes: int) -> None:
        """Note that a transaction has ended, and wake the checkpoint thread. `txn` is None if it did not commit."""
        if txn is not None:
            self._last_commit = txn
            self._change_count += changes
            if self._change_count >= CHANGES_MAX:
                self._due.set()
        self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="kith-checkpoints", daemon=True)
            self._thread.start()
        self._uncovered.set()

    def make(self, *, to_commit: bool = False) -> None:
        """Sync the newest committed state, and make it the base. Errors: lmdb.Error, OSError.

        `to_commit`: this process is about to commit, so it keeps a pin.
        """
        self._finish(self._begin(), to_commit=to_commit)

    def _begin(self) -> _Checkpoint:
        with self._write_lock() as txn:
            pin = self._store.begin()
            with self._abort_pin_on_error(pin):
                self._change_count = 0
                return _Checkpoint(txn - 1, self._meta(txn - 1), self._journal.end(txn - 1), pin)

    def _finish(self, checkpoint: _Checkpoint, *, to_commit: bool = False) -> None:
        """Sync the store, make the begun state the base unless there is a later base, and move the pin to it.

        The pin is dropped if the base covers all commits of this process, unless `to_commit`.
        """
        with self._abort_pin_on_error(checkpoint.pin):
            base = self._journal.newest_base()
            if base is None or base.txn < checkpoint.txn:
                self._sync()
                self._last_made = checkpoint.txn
            with self._write_lock():
                self._raise_if_sync_failed()  # another thread's sync may have failed meanwhile
                self._journal.publish(checkpoint.txn, checkpoint.start, checkpoint.meta)
                base = self._journal.adopt_base()
                is_used = to_commit or base is None or self._last_commit > base.txn
                pins = [pin for pin in (self._pin, checkpoint.pin) if pin is not None]
                self._pin = max(pins, key=lambda pin: pin.id()) if is_used else None
                unused = [pin for pin in pins if pin is not self._pin]
        for pin in unused:
            pin.abort()

    def _sync(self) -> None:
        """Sync the store, one thread at a time.

        The kernel reports a page that it could not write only once, to one of the threads that sync the file. So each
        thread first checks whether an earlier sync failed.
        """
        with self._syncing:
            self._raise_if_sync_failed()
            try:
                self._store.sync(True)
            except lmdb.Error:
                self._journal.note_failed_store()
                raise

    def _raise_if_sync_failed(self) -> None:
        """OSError if a sync of the store failed."""
        if self.broken:
            raise OSError(errno.EIO, "the store could not be synced")

    def close(self) -> None:
        """Stop the thread. Make a last checkpoint, if this process committed anything that none covers."""
        self._closing.set()
        self._due.set()
        self._uncovered.set()
        if self._thread is not None:
            self._thread.join()
        if self._pin is not None and not self.broken:
            with contextlib.suppress(lmdb.Error, OSError):  # the journal has what this would have synced
                self.make()
        if self._pin is not None:
            self._pin.abort()
        os.close(self._file)

    def _loop(self) -> None:
        while self._uncovered.wait():
            self._due.wait(INTERVAL_S)
            self._uncovered.clear()
            self._due.clear()
            if self._closing.is_set():  # checked after the events are cleared, because `close` sets them, too
                return
            if self._pin is None:  # a checkpoint was made meanwhile, and covers all commits of this process
                continue
            try:
                checkpoint = self._begin()
                with self._abort_pin_on_error(checkpoint.pin):
                    if self._other_process_leads():
                        self._due.wait(YIELD_S)
                self._finish(checkpoint)
            except (lmdb.Error, OSError) as error:
                if self.broken:
                    _log.error("the store could not be synced; this process must be replaced", error=str(error))
                    return
                _log.warning("a checkpoint failed; it will be retried", error=str(error))
                self._uncovered.set()  # retry even if nothing more is committed: the pin keeps pages from being reused
                self._closing.wait(_RETRY_S)

    def _other_process_leads(self) -> bool:
        """Whether another process made the last base."""
        base = self._journal.newest_base()
        return base is not None and base.txn != self._last_made

    def _meta(self, txn: int) -> bytes:
        """The store's newest meta page, which must be of transaction `txn`. Needs the write lock."""
        meta_txn, meta = newest_meta(self._file)
        if meta_txn != txn:
            raise lmdb.CorruptedError(f"the store's meta page is of transaction {meta_txn}, not {txn}")
        return meta

    @contextlib.contextmanager
    def _abort_pin_on_error(self, pin: lmdb.Transaction[bytes]) -> Iterator[None]:
        """Release `pin` if the body fails. An error of LMDB is noted as a failed store, for all processes."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, lmdb.Error):
                self._journal.note_failed_store()
            pin.abort()
            raise

    @contextlib.contextmanager
    def _write_lock(self) -> Iterator[int]:
        """Hold LMDB's write lock without writing. Yields the number that the next transaction will have."""
        with self._turns.take():
            txn = self._store.begin(write=True)
            try:
                yield txn.id()
            finally:
                txn.commit()  # empty, so this writes nothing; an abort would wait for another thread's sync
