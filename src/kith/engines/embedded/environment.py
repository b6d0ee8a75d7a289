"""The store of a data folder: one LMDB file, its format number and its small named notes.

    store.mdb        the store; database `meta` holds notes: format, graphs, signing secret, key hashes, jobs
    store.mdb-lock   LMDB's reader table and writer lock

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
from kith.engines.embedded import event_log
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
            self.lmdb = lmdb.Environment(
                str(folder / STORE_FILE),
                subdir=False,
                map_size=bytes_max,
                max_dbs=_DATABASES_MAX,
                max_readers=_READERS_MAX,
                max_spare_txns=8,
                metasync=durability == "full",
                mode=0o600,
            )
            self._check_length()
            self.meta = self.lmdb.open_db(_META)
            self.log = self.lmdb.open_db(_LOG)
            self.nodes = self.lmdb.open_db(_NODES)
            self.records = self.lmdb.open_db(_OBJECTS)
            self.suggestions = self.lmdb.open_db(_SUGGESTIONS)
            self.lmdb.reader_check()  # slots of readers that were killed would keep old pages alive
        self._graphs: dict[int, lmdb._Database] = {}
        self._check_format()
        for number in self.graph_numbers().values():
            self._open_graph(number)

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Further use raises."""
        self.lmdb.close()

    def graph_db(self, graph: int) -> lmdb._Database:
        """The database of a graph: its edges and lists (see `keys`)."""
        return self._graphs[graph]

    def graph_numbers(self) -> dict[str, int]:
        """Every graph of this folder with its number."""
        raw = self.get_note("graphs")
        return {} if raw is None else dict(json.loads(raw))

    def declare(self, names: list[str]) -> dict[str, int]:
        """Give numbers to the graphs that have none yet, in one transaction; the numbers of all graphs."""
        with translated("declare graphs"), self.lmdb.begin(write=True) as txn:
            raw = txn.get(b"graphs", None, self.meta)
            numbers = assign({} if raw is None else json.loads(raw), names)
            txn.put(b"graphs", json.dumps(numbers).encode(), db=self.meta)
        for number in numbers.values():
            self._open_graph(number)
        return numbers

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
        with translated("write a note"), self.lmdb.begin(db=self.meta, write=True) as txn:
            put_note(txn, self.meta, key, value)

    def secret(self, name: str) -> bytes:
        """A random secret of 32 bytes, made at its first use and kept."""
        key = f"secret/{name}".encode()
        with translated("read a secret"), self.lmdb.begin(db=self.meta, write=True) as txn:
            found = txn.get(key, None)
            if found is None:
                found = os.urandom(32)
                txn.put(key, found)
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
            self.put_note("format", str(FORMAT).encode())
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

    def _open_graph(self, number: int) -> None:
        if number not in self._graphs:
            self._graphs[number] = self.lmdb.open_db(b"graph-%d" % number)


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
    code = getattr(error, "code", 0)
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
