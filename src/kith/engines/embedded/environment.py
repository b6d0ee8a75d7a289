"""The store of a data folder: one LMDB file, its format number and its small named notes.

    store.mdb        the store; database `meta` holds notes: format, graphs, signing secret, key hashes, jobs
    store.mdb-lock   LMDB's reader table and writer lock
    store.journal    what was committed since the store was last synced; see `journal`

The file grows as pages are written, up to `bytes_max`, and never shrinks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import lmdb

from kith.core.errors import KithError, StoreFull, StoreMismatch, StoreUnavailable
from kith.core.history import History, Restore
from kith.engines.embedded import event_log, redo
from kith.engines.embedded.checkpoints import Checkpoints
from kith.engines.embedded.journal import JOURNAL_FILE, Base, Journal
from kith.engines.embedded.recovery import Opening, choose_opening, go_back, newest_meta
from kith.graph.graphs import GRAPHS_MAX, assign

FORMAT = 2
STORE_FILE = "store.mdb"
LOADING = "loading/"
"""The note `loading/<graph>` of a bulk load in progress: how many ranges of nodes are written."""
BYTES_MAX_DEFAULT = 1 << 40
_HISTORY = "history"
_META, _LOG, _NODES, _OBJECTS = b"meta", b"log", b"nodes", b"objects"
_SUGGESTIONS = b"suggestions"
_DATABASES_MAX = GRAPHS_MAX + 8
_READERS_MAX = 1024
_ROOM_BYTES_MIN = 1 << 20

Durability = Literal["full", "relaxed"]
Txn: TypeAlias = "lmdb.Transaction[bytes]"


class Write:
    """A write transaction in progress.

    `changes`: what `redo.encode` makes of all that it changes, b"" if that is nothing. While it is None the changes are
    not described, and the whole store is synced for them, which takes longer.
    """

    def __init__(self, txn: Txn) -> None:
        self.txn = txn
        self.changes: bytes | None = None


class Environment:
    """An open data folder. Open it once per process, after any fork; close it, or use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        durability: Durability = "full",
        bytes_max: int = BYTES_MAX_DEFAULT,
        create: bool = True,
    ) -> None:
        self.folder = folder
        if not create and not (folder / STORE_FILE).exists():
            raise StoreMismatch(f"{folder} holds no Kith data; name the folder with --data", folder=str(folder))
        with translated(f"open {folder}", folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreUnavailable(f"cannot use {folder} as a data folder: {error.strerror}") from error
            store = folder / STORE_FILE
            if store.exists() and not store.stat().st_size:
                raise StoreMismatch(f"{store} is empty; restore a backup, or delete the file to start anew")
            self.journal = Journal(folder / JOURNAL_FILE)
            try:
                self._open(bytes_max, relaxed=durability == "relaxed")
            except BaseException:
                self.journal.close()
                raise

    def _open(self, bytes_max: int, *, relaxed: bool) -> None:
        """Open the store; the first process that does makes sure that it is whole."""
        store = self.folder / STORE_FILE
        alone = self.journal.enter()
        base = self.journal.base() if alone and store.exists() else None
        payloads = self._go_back(store, base) if base is not None else []
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
        self._check_length()
        self.meta = self.lmdb.open_db(_META)
        self.log = self.lmdb.open_db(_LOG)
        self.nodes = self.lmdb.open_db(_NODES)
        self.records = self.lmdb.open_db(_OBJECTS)
        self.suggestions = self.lmdb.open_db(_SUGGESTIONS)
        self.rows = {"meta": self.meta, "nodes": self.nodes, "objects": self.records, "suggestions": self.suggestions}
        """The databases whose rows `CommitQueue` jobs put and delete, by the names that the journal has for them."""
        self._graphs: dict[int, lmdb._Database] = {}
        self._checkpoints = Checkpoints(self.lmdb, store, self.journal)
        self._check_format()
        self._open_graphs()
        if payloads:
            with self.lmdb.begin(write=True) as txn:
                redo.replay(txn, payloads, self.log, self.rows, self.graph_db)
        if alone:
            self.lmdb.sync(True)
            self.journal.begin(*newest_meta(store), relaxed=relaxed)
            self.journal.share()
        self.lmdb.reader_check()  # slots of readers that were killed would keep old pages alive

    def _go_back(self, store: Path, base: Base) -> list[bytes]:
        """Before the store is opened: make it its base, if it may have lost pages; what to do again then."""
        chain = list(self.journal.entries(base))
        end = chain[-1][0] if chain else base.txn
        if choose_opening(base, end, newest_meta(store)[0]) is Opening.AS_IS:
            return []
        go_back(store, base)
        return [payload for _, payload in chain]

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Further use raises."""
        self._checkpoints.close()
        self.lmdb.close()
        self.journal.close()

    @property
    def broken(self) -> bool:
        """Whether this process may commit nothing more, because it could not sync the store."""
        return self._checkpoints.broken

    @contextlib.contextmanager
    def commit(self) -> Iterator[Write]:
        """A write transaction, durable when this is left.

        Errors: lmdb.Error and OSError, after which nothing is stored; StoreUnavailable.
        """
        if self.broken:
            raise StoreUnavailable("the store could not be synced; this process must be replaced")
        txn, durable, committed = self.lmdb.begin(write=True), True, None
        try:
            number = txn.id()
            self._checkpoints.protect(number)
            write = Write(txn)
            yield write
            if write.changes != b"":
                durable = self.journal.append(number, write.changes)
            txn.commit()
            committed = number
        except lmdb.Error:
            txn.abort()
            self._uncommitted(number)
            raise
        except BaseException:
            txn.abort()
            raise
        finally:
            self._checkpoints.passed(committed)
        if not durable:
            self._checkpoints.make()

    def free_pages(self) -> bool:
        """Make the pages that were freed since the last checkpoints usable again; whether that could be done."""
        try:
            self._checkpoints.make()
        except (lmdb.Error, OSError):
            return False
        return True

    def _uncommitted(self, number: int) -> None:
        """Take back what the journal has of a transaction that LMDB refused, unless another process has its number."""
        with contextlib.suppress(lmdb.Error, OSError):  # then the next entry takes its place
            txn = self.lmdb.begin(write=True)
            try:
                if txn.id() == number:
                    self.journal.cancel(number)
            finally:
                txn.abort()

    def graph_db(self, graph: int) -> lmdb._Database:
        """The database of a graph: its edges and lists (see `keys`)."""
        return self._graphs[graph]

    def graph_numbers(self) -> dict[str, int]:
        """Every graph of this folder with its number."""
        raw = self.get_note("graphs")
        return {} if raw is None else dict(json.loads(raw))

    def declare(self, names: list[str]) -> dict[str, int]:
        """Give numbers to the graphs that have none yet, in one transaction; the numbers of all graphs."""
        if not self.graph_numbers().keys() >= set(names):
            with translated("declare graphs"), self.commit() as write:
                raw = write.txn.get(b"graphs", None, self.meta)
                numbers = assign({} if raw is None else json.loads(raw), names)
                write.txn.put(b"graphs", json.dumps(numbers).encode(), db=self.meta)
                opened = {number: self._open_graph(number, write.txn) for number in numbers.values()}
            self._graphs.update(opened)
        self._open_graphs()
        return self.graph_numbers()

    def get_note(self, key: str) -> bytes | None:
        """A note by its key; None if there is none."""
        try:
            with self.lmdb.begin(db=self.meta) as txn:
                return txn.get(key.encode(), None)
        except lmdb.Error as error:
            raise translate(error, "read") from error

    def notes(self, prefix: str, limit: int | None = None) -> dict[str, bytes]:
        """The notes whose keys start with `prefix`, by the rest of their keys; at most the first `limit`."""
        start = prefix.encode()
        found: dict[str, bytes] = {}
        try:
            with self.lmdb.begin(db=self.meta) as txn:
                cursor = txn.cursor()
                more = cursor.set_range(start)
                while more and len(found) != limit and cursor.key().startswith(start):
                    found[cursor.key()[len(start) :].decode()] = cursor.value()
                    more = cursor.next()
        except lmdb.Error as error:
            raise translate(error, "read") from error
        return found

    def history(self) -> History:
        """The restores that this store has been through."""
        raw = self.get_note(_HISTORY)
        return History(tuple(Restore(*restore) for restore in json.loads(raw or b"[]")))

    def begin_history(self) -> None:
        """Begin a new history, because this store was restored from a backup."""
        with translated("begin a history"), self.lmdb.begin() as txn:
            _, last = event_log.bounds(txn, self.log)
        self.put_note(_HISTORY, json.dumps(self.history().restored(last).restores).encode())

    def put_note(self, key: str, value: bytes | None) -> None:
        """Write a note, or remove it (None), synced."""
        with translated("write a note"), self.commit() as write:
            put_note(write.txn, self.meta, key, value)
            write.changes = redo.encode(0, [redo.row("meta", key.encode(), value)])

    def secret(self, name: str) -> bytes:
        """A random secret of 32 bytes, made at its first use and kept."""
        key = f"secret/{name}"
        found = self.get_note(key)
        if found is None:
            with translated("make a secret"), self.commit() as write:
                found = write.txn.get(key.encode(), None, self.meta)
                if found is None:
                    found = os.urandom(32)
                    put_note(write.txn, self.meta, key, found)
        return found

    def bytes_used(self) -> int:
        """How many bytes of the file are in use, in whole pages, free ones included."""
        return int(self.lmdb.info()["last_pgno"] + 1) * int(self.lmdb.stat()["psize"])

    def copy_to(self, target: Path) -> None:
        """Write a compacted, consistent copy to the folder `target`, while others read and write."""
        target.mkdir(parents=True, exist_ok=True)
        partial = target / f"{STORE_FILE}.part"
        with translated(f"back up to {target}", target):
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                self.lmdb.copyfd(descriptor, compact=True)
                os.fsync(descriptor)
            except BaseException:
                partial.unlink()
                raise
            finally:
                os.close(descriptor)
            partial.replace(target / STORE_FILE)
            sync_folder(target)

    def _check_length(self) -> None:
        """StoreMismatch if the file was cut short: reading past its end would kill this process without a message.

        A good file may end before its last page too, because LMDB need not write pages that were freed again. So a
        short file is first read by another process, which tells by whether it survives.
        """
        store = self.folder / STORE_FILE
        if store.stat().st_size >= self.bytes_used():
            return
        walked = subprocess.run([sys.executable, "-c", _WALK, str(store)], capture_output=True, check=False)  # noqa: S603
        if walked.returncode:
            raise StoreMismatch(f"{store} is cut short or damaged; restore a backup (`kith restore`)")

    def _check_format(self) -> None:
        found = self.get_note("format")
        if found is None:
            with self.lmdb.begin(write=True) as txn:  # a new store, which nobody else has open
                put_note(txn, self.meta, "format", str(FORMAT).encode())
        elif int(found) > FORMAT:
            raise StoreMismatch(
                f"{self.folder} was written by a newer Kith (format {int(found)}, this one knows {FORMAT}); "
                "upgrade Kith, or restore a backup made by this version",
                format=int(found),
                known=FORMAT,
            )
        elif int(found) < FORMAT:
            raise StoreMismatch(
                f"{self.folder} was written by an older Kith (format {int(found)}, this one knows {FORMAT}); "
                "export its edges with that version, and import them into a new folder",
                format=int(found),
                known=FORMAT,
            )

    def _open_graphs(self) -> None:
        unopened = set(self.graph_numbers().values()) - set(self._graphs)
        if unopened:
            with self.lmdb.begin(write=True) as txn:
                opened = {number: self._open_graph(number, txn) for number in unopened}
            self._graphs.update(opened)

    def _open_graph(self, number: int, txn: Txn) -> lmdb._Database:
        """Open the database of a graph, which is made if it is new.

        Without a transaction of ours LMDB's binding begins one, and waits for the write lock with the interpreter's
        lock held: for ever, if another thread of this process has the one and needs the other.
        """
        return self.lmdb.open_db(b"graph-%d" % number, txn=txn)


def put_note(txn: Txn, meta: lmdb._Database, key: str, value: bytes | None) -> None:
    """Write or remove a note inside a transaction."""
    if value is None:
        txn.delete(key.encode(), db=meta)
    else:
        txn.put(key.encode(), value, db=meta)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_WALK = """
import sys, lmdb
store = lmdb.Environment(sys.argv[1], subdir=False, readonly=True, lock=False, max_dbs=1000)
with store.begin() as txn:
    for name in [bytes(name) for name, _ in txn.cursor()]:
        for _ in txn.cursor(store.open_db(name, txn=txn, create=False)):
            pass
"""


@contextlib.contextmanager
def translated(action: str, folder: Path | None = None) -> Iterator[None]:
    """Turn errors of LMDB and the system into ours. `action`: what was tried, for the message."""
    try:
        yield
    except KithError:
        raise
    except lmdb.Error as error:
        raise translate(error, action, folder) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"no room on the disk to {action}; nothing was changed") from error
        raise StoreUnavailable(f"could not {action}: {error.strerror}") from error


def translate(error: Exception, action: str, folder: Path | None = None) -> KithError:
    """Our error for one of LMDB's.

    A full disk cuts a write short, which LMDB reports as EIO; so then the free space of `folder` is checked.
    """
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if code == errno.EIO and folder is not None and _is_full(folder):
        code = errno.ENOSPC
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(f"the store has reached `store_bytes_max`; raise it to {action}. Nothing was changed")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"no room on the disk to {action}; free some and repeat. Nothing was changed")
    if isinstance(error, lmdb.VersionMismatchError | lmdb.InvalidError):
        return StoreMismatch(f"could not {action}: not a store of this version ({error})")
    return StoreUnavailable(f"could not {action}: {error}")


def _is_full(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < _ROOM_BYTES_MIN
