"""An open data folder: one LMDB file with all durable rows, its format number and its small named notes.

    store.mdb        the store; its database `meta` holds notes: format, graphs, signing secret, key hashes, jobs
    store.mdb-lock   LMDB's reader table and write lock
    store.journal    the commits since the last checkpoint; see `journal`
    store.turn       empty; the process that writes locks it, see `turns`

The file grows as pages are written, up to `bytes_max`, and never shrinks.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import lmdb

from kith.core.errors import Conflict, StoreMismatch, StoreUnavailable
from kith.engines.embedded import event_log, formats, owners, redo
from kith.engines.embedded.bells import Doorbell
from kith.engines.embedded.checkpoints import Checkpoints
from kith.engines.embedded.closed_note import CLOSED_KEY, refusal
from kith.engines.embedded.driver_errors import translate, translate_errors
from kith.engines.embedded.history import HISTORY, History, StorePositions, after_opening, read_history
from kith.engines.embedded.journal import JOURNAL_FILE, Journal
from kith.engines.embedded.recovery import Recovery, choose_recovery, give_name, newest_meta, reset_to_base, same_store
from kith.engines.embedded.store_file import STORE_FILE, OpenedFiles, check_length, make_store, sync_folder
from kith.engines.embedded.turns import Turns
from kith.graph.graphs import GRAPHS_MAX, UserEnds, assign

LOG_WHOLE_AFTER = "log/whole-after"
"""The note with the number of the event after which the log holds every change. Without it the log holds all."""
LOADING_NOTE = "loading/"
"""The note `loading/<graph>` of a bulk load in progress holds how many ranges of nodes are written."""
BYTES_MAX_DEFAULT = 1 << 40
TURN_FILE = "store.turn"
_META = b"meta"
_DATABASES = (_META, b"log", b"log-open", b"nodes", b"objects", b"suggestions")
_DATABASES_MAX, _READERS_MAX = GRAPHS_MAX + 8, 1024

Durability = Literal["full", "relaxed"]
Txn: TypeAlias = "lmdb.Transaction[bytes]"


class WriteTransaction:
    """A write transaction in progress.

    `changes`: all its changes, encoded by `redo.encode`; b"" if there are none, because LMDB then reuses the number of
    the transaction. None: the changes are not described, so the commit has no journal entry, and the whole store is
    synced instead. That takes longer.
    `count`: about how many changes it makes; `checkpoints` counts these.
    """

    def __init__(self, txn: Txn) -> None:
        self.txn = txn
        self.changes: bytes | None = None
        self.count = 1


class Environment:
    """An open data folder. Open it once per process, after any fork; close it, or use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        durability: Durability = "full",
        bytes_max: int = BYTES_MAX_DEFAULT,
        create: bool = True,
        follows: bool = False,
    ) -> None:
        """Open the store; the first process to do so recovers it. `durability`: "relaxed" syncs no journal entries.

        `follows`: this process applies another store's log to a store that takes no other writes (see `store_role`).
        """
        self.folder, self._follows, self.doorbell = folder, follows, Doorbell(folder)
        if not create and not (folder / STORE_FILE).exists():
            raise StoreMismatch(f"{folder} holds no Kith data; name the folder with --data", folder=str(folder))
        with translate_errors(f"open {folder}", folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                reason = f"cannot use {folder} as a data folder: {error.strerror}"
                raise StoreUnavailable(f"{reason}; name one that you may write to with --data") from error
            store = folder / STORE_FILE
            owners.refuse_root(store)
            if store.exists() and not store.stat().st_size:
                raise StoreMismatch(
                    f"{store} is empty; restore a backup (`kith restore`), or move the folder away to start anew"
                )
            with contextlib.ExitStack() as opened:
                self.journal = Journal(folder / JOURNAL_FILE, relaxed=durability == "relaxed")
                opened.callback(self.journal.close)
                self._open(opened, bytes_max, relaxed=durability == "relaxed")
                self.positions = StorePositions(self.history())
                self._is_standby, self._history_note = self.is_closed(), self.get_note(HISTORY)
                opened.pop_all()

    def _open(self, opened: contextlib.ExitStack, bytes_max: int, *, relaxed: bool) -> None:
        """Open the store. The first process to do so recovers it. `opened`: closes what was opened if this fails."""
        store = self.folder / STORE_FILE
        alone = self.journal.enter()
        payloads, was_relaxed = list[bytes](), False
        if alone and store.exists():
            payloads, was_relaxed = self._reset_to_base(store)
        elif alone:
            make_store(store, _DATABASES, {b"format": b"%d" % formats.FORMAT}, bytes_max)
        if alone and not payloads:
            give_name(store)
        self.lmdb = lmdb.Environment(
            str(store),
            subdir=False,
            map_size=bytes_max,
            max_dbs=_DATABASES_MAX,
            max_readers=_READERS_MAX,
            max_spare_txns=8,
            sync=False,
            mode=0o600,
        )
        opened.callback(self.lmdb.close)
        self._turns = Turns(self.folder / TURN_FILE)
        opened.callback(self._turns.close)
        check_length(store, self.bytes_used())
        self.files = OpenedFiles(store, Path(f"{store}-lock"), self.folder / TURN_FILE, self.folder / JOURNAL_FILE)
        self._checkpoints = Checkpoints(self.lmdb, store, self.journal, self._turns)
        opened.callback(self._checkpoints.close)
        self._graphs: dict[int, lmdb._Database] = {}
        self.graph_db = self._graphs.__getitem__
        """The database of a graph: its edges and lists (see `keys`)."""
        # opening has a transaction of its own, so that its number differs from those of acknowledged ones
        with self._turns.take(), self.lmdb.begin(write=True) as txn:
            older = self._older_format(txn, alone=alone)
            makes_databases = any(txn.get(name) is None for name in _DATABASES)
            opened_dbs = [self.lmdb.open_db(name, txn=txn) for name in _DATABASES]
            self.notes_db, closed_rows, open_row, self.nodes, self.records, self.suggestions = opened_dbs
            self.log = event_log.LogRows(closed_rows, open_row)
            self.rows = {
                "meta": self.notes_db,
                "nodes": self.nodes,
                "objects": self.records,
                "suggestions": self.suggestions,
            }
            """The databases whose rows `CommitQueue` jobs put and delete, by their names in the journal."""
            self._open_graphs(txn)
            self._redo(txn, payloads, older)
            if alone:
                _, last_event = event_log.bounds(txn, self.log)
                noted = after_opening(txn, self.notes_db, last_event, was_relaxed=was_relaxed, relaxed=relaxed)
                if not payloads and (makes_databases or older or noted):
                    self.lmdb.sync(True)
                    self.journal.begin(*newest_meta(store), relaxed=True)  # until what is written here is synced
        if alone:
            self.lmdb.sync(True)
            self.journal.begin(*newest_meta(store), relaxed=relaxed)
            sync_folder(self.folder)
            self.journal.share()
        self.lmdb.reader_check()  # the slots of killed readers keep old pages from being reused

    def _reset_to_base(self, store: Path) -> tuple[list[bytes], bool]:
        """Reset the store to its base, before it is opened, if it may have lost pages. Returns the payloads to replay,
        and whether later commits may be lost (relaxed durability).
        """
        base, (store_txn, meta) = self.journal.adopt_base(), newest_meta(store)
        if base is None or not same_store(meta, base.meta):
            return [], False
        chain = list(self.journal.entries(base))
        end, lacks_entries = chain[-1][0] if chain else base.txn, self.journal.lacks_entries(base)
        if choose_recovery(base, end, store_txn, lacks_entries=lacks_entries) is Recovery.AS_IS:
            return [], base.relaxed
        reset_to_base(store, base)
        return [payload for _, payload in chain], base.relaxed

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make a last checkpoint if needed, and close the store. Further use raises."""
        self._checkpoints.close()
        self.lmdb.close()
        self._turns.close()
        with contextlib.suppress(OSError, StoreMismatch):  # the journal is valid without it
            self.journal.settle(lambda: newest_meta(self.folder / STORE_FILE)[0])
        self.journal.close()

    @property
    def broken(self) -> bool:
        """Whether a sync of the store failed, so that this process may not commit any more."""
        return self._checkpoints.broken

    @contextlib.contextmanager
    def commit(self) -> Iterator[WriteTransaction]:
        """A write transaction, committed and durable when the context is left.

        Errors: lmdb.Error and OSError, after which nothing is stored; StoreUnavailable; `closed.refusal`; Conflict.
        """
        if self.broken:
            raise StoreUnavailable("the store could not be synced; this process must be replaced")
        self.files.check()
        with self.lmdb.begin() as reading:  # a closed store refuses before the wait for a turn
            self._check_takes_writes(reading)
        with self._checkpoints.ensure_pin_before_turn(), self._turns.take():
            txn, durable, committed = self.lmdb.begin(write=True), True, None
            write = WriteTransaction(txn)
            try:
                number = txn.id()
                self._check_takes_writes(txn)
                self._checkpoints.pin_before_commit(number)
                yield write
                if write.changes != b"":  # room is made first: without an entry it could be read before it is durable
                    durable = self.journal.append(number, write.changes, partial(self._checkpoints.make_room, number))
                txn.commit()
                committed = number if write.changes != b"" else None  # LMDB reuses the number of an empty transaction
            except lmdb.Error:
                txn.abort()
                self._cancel_entry(number)
                raise
            except BaseException:
                txn.abort()
                raise
            finally:
                self._checkpoints.commit_ended(committed, write.count)
        if not durable:
            self._checkpoints.make()

    def _check_takes_writes(self, txn: Txn) -> None:
        closed = txn.get(CLOSED_KEY.encode(), None, self.notes_db)
        if closed is not None and not self._follows:
            raise refusal(closed)
        if closed is None and self._follows:
            raise Conflict(f"{self.folder} is no standby any more")

    def is_closed(self) -> bool:
        """Whether the store takes no writes; see `store_role` for why."""
        return self.get_note(CLOSED_KEY) is not None

    def reopen(self) -> None:
        """Let the store take writes again. May be repeated."""
        if self.is_closed():
            followed, self._follows = self._follows, True
            try:
                self.put_note(CLOSED_KEY, None)
            finally:
                self._follows = followed

    def sync(self) -> None:
        """Sync the whole store, so that it is durable without its journal. Errors: StoreFull, StoreUnavailable."""
        with translate_errors("sync the store", self.folder):
            self._checkpoints.make()

    def free_pages(self) -> bool:
        """Make a checkpoint, so that freed pages can be reused. Returns whether it succeeded."""
        try:
            self._checkpoints.make()
        except (lmdb.Error, OSError):
            return False
        return True

    def _cancel_entry(self, number: int) -> None:
        """Erase the journal entry of a transaction that LMDB refused, unless another process took its number since."""
        with contextlib.suppress(lmdb.Error, OSError):  # the next entry overwrites it anyway
            txn = self.lmdb.begin(write=True)
            try:
                if txn.id() == number:
                    self.journal.cancel(number)
            finally:
                txn.abort()

    def graph_numbers(self) -> dict[str, int]:
        """Every declared graph with its number."""
        raw = self.get_note("graphs")
        return {} if raw is None else dict(json.loads(raw))

    def declare(self, names: list[str]) -> dict[str, int]:
        """Number the graphs that have no number yet, in one transaction. Returns the numbers of all graphs."""
        if not self.graph_numbers().keys() >= set(names):
            with translate_errors("declare graphs"), self.commit() as write:
                raw = write.txn.get(b"graphs", None, self.notes_db)
                numbers = assign({} if raw is None else json.loads(raw), names)
                write.txn.put(b"graphs", json.dumps(numbers).encode(), db=self.notes_db)
                opened = {number: self._open_graph(number, write.txn) for number in numbers.values()}
            self._graphs.update(opened)
            self.user_ends = UserEnds(numbers)
        numbers = self.graph_numbers()
        if not self._graphs.keys() >= set(numbers.values()):  # another process declared some
            with translate_errors("open graphs"), self._turns.take(), self.lmdb.begin(write=True) as txn:
                self._open_graphs(txn)
        return numbers

    def get_note(self, key: str) -> bytes | None:
        """A note by its key; None if there is none."""
        try:
            with self.lmdb.begin(db=self.notes_db) as txn:
                return txn.get(key.encode(), None)
        except lmdb.Error as error:
            raise translate(error, "read") from error

    def notes(self, prefix: str, limit: int | None = None) -> dict[str, bytes]:
        """The notes whose keys start with `prefix`, by the rest of the key; the first `limit` of them."""
        start = prefix.encode()
        notes: dict[str, bytes] = {}
        try:
            with self.lmdb.begin(db=self.notes_db) as txn:
                cursor = txn.cursor()
                has_row = cursor.set_range(start)
                while has_row and len(notes) != limit and cursor.key().startswith(start):
                    notes[cursor.key()[len(start) :].decode()] = cursor.value()
                    has_row = cursor.next()
        except lmdb.Error as error:
            raise translate(error, "read") from error
        return notes

    def history(self) -> History:
        """The history of this store: its restores."""
        return read_history(self.get_note(HISTORY))

    def begin_history(self) -> None:
        """Begin a new history, because this store was restored from a backup."""
        with translate_errors("begin a history"), self.lmdb.begin() as txn:
            _, last_event = event_log.bounds(txn, self.log)
        self.put_note(HISTORY, self.history().restored(last_event).packed())
        self.positions.use_history(self.history())

    def follow_history(self) -> None:
        """On a standby, reload the history if it has changed since the store was opened: its primary sends it."""
        if self._is_standby:
            note = self.get_note(HISTORY)
            if note != self._history_note:
                self._history_note = note
                self.positions.use_history(self.history())

    def put_note(self, key: str, value: bytes | None) -> None:
        """Write a note, or remove it (None), in a commit of its own."""
        with translate_errors("write a note"), self.commit() as write:
            changed = put_note(write.txn, self.notes_db, key, value)
            write.changes = redo.encode(0, [redo.row("meta", key.encode(), value)]) if changed else b""

    def secret(self, name: str) -> bytes:
        """A random secret of 32 bytes, created at its first use and stored."""
        key = f"secret/{name}"
        secret = self.get_note(key)
        if secret is None:
            with translate_errors("make a secret"), self.commit() as write:
                secret = write.txn.get(key.encode(), None, self.notes_db)
                if secret is None:
                    secret = os.urandom(32)
                    put_note(write.txn, self.notes_db, key, secret)
        return secret

    def last_commit(self) -> int:
        """The number of the last transaction that any process committed. Opens no transaction."""
        return int(self.lmdb.info()["last_txnid"])

    def bytes_used(self) -> int:
        """The bytes of the file up to its last page, free pages included."""
        return int(self.lmdb.info()["last_pgno"] + 1) * int(self.lmdb.stat()["psize"])

    def _older_format(self, txn: Txn, *, alone: bool) -> int | None:
        """The older format to upgrade from; None if the format is current. StoreMismatch if it cannot be upgraded."""
        stored_format = int(txn.get(b"format", b"0", self.lmdb.open_db(_META, txn=txn))) if txn.get(_META) else 0
        return stored_format if formats.is_upgraded(stored_format, self.folder, alone=alone) else None

    def _redo(self, txn: Txn, payloads: list[bytes], older: int | None) -> None:
        """Replay the journal, and upgrade an `older` format. A log that held edges only is whole from its end on."""
        if older:
            event_log.split_open_row(txn, self.log)
        redo.replay(txn, payloads, self.log, self.rows, self.graph_db)
        if older == formats.EDGES_LOGGED:
            _, last_event = event_log.bounds(txn, self.log)
            txn.put(LOG_WHOLE_AFTER.encode(), str(last_event).encode(), db=self.notes_db)
        if older:
            txn.put(b"format", b"%d" % formats.FORMAT, db=self.notes_db)

    def _open_graphs(self, txn: Txn) -> None:
        """Open the databases of all declared graphs."""
        numbers = json.loads(txn.get(b"graphs", b"{}", self.notes_db))
        for number in set(numbers.values()) - set(self._graphs):
            self._graphs[number] = self._open_graph(number, txn)
        self.user_ends = UserEnds(numbers)

    def _open_graph(self, number: int, txn: Txn) -> lmdb._Database:
        """Open the database of a graph, and create it if it is new.

        `txn` is needed: without it LMDB's binding begins a transaction, and waits for the write lock while it holds
        Python's global lock. That is a deadlock if another thread of this process has the write lock.
        """
        return self.lmdb.open_db(b"graph-%d" % number, txn=txn)


def put_note(txn: Txn, meta: lmdb._Database, key: str, value: bytes | None) -> bool:
    """Write a note, or remove it (None), inside a transaction. Returns whether that changed anything."""
    return txn.delete(key.encode(), db=meta) if value is None else txn.put(key.encode(), value, db=meta)
