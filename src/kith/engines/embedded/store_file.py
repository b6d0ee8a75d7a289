"""The file of a store: creates it atomically, checks its length, and notices when it is deleted or replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import lmdb

from kith.core.errors import StoreMismatch, StoreUnavailable
from kith.engines.embedded.journal import JOURNAL_FILE

STORE_FILE = "store.mdb"
RESTORING = "restoring"
"""The folder inside a data folder where a restore or a standby's first snapshot is made, until it is complete."""


def make_store(file: Path, databases: Sequence[bytes], notes: Mapping[bytes, bytes], bytes_max: int) -> None:
    """Make an empty store with these databases, and `notes` in the first of them.

    It is written under another name and renamed last, so it is there whole or not at all. StoreMismatch where the
    folder had a store that is gone, or where a restore is in progress.
    """
    _refuse_in_place_of_another(file)
    partial = file.with_name(f"{file.name}.part")
    partial.unlink(missing_ok=True)
    try:
        with (
            lmdb.Environment(
                str(partial), subdir=False, lock=False, map_size=bytes_max, max_dbs=len(databases), mode=0o600
            ) as store,
            store.begin(write=True) as txn,
        ):
            notes_db, *_ = [store.open_db(name, txn=txn) for name in databases]
            for key, value in notes.items():
                txn.put(key, value, db=notes_db)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(file)
    sync_folder(file.parent)


def _refuse_in_place_of_another(file: Path) -> None:
    if (restoring := file.with_name(RESTORING)).exists():
        raise StoreMismatch(
            f"a restore into {file.parent}, or the first snapshot of a standby, was cut short or is under way: wait "
            f"for it, or run the same command again; to begin with an empty store move {restoring} away"
        )
    journal = file.with_name(JOURNAL_FILE)
    if journal.exists() and journal.stat().st_size:
        raise StoreMismatch(
            f"{file} is gone, and {journal} beside it has what was written to it last: put {file.name} back, or "
            f"restore a backup (`kith restore`); to begin with an empty store move {journal.name} away"
        )


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the file names in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OpenedFiles:
    """The files that a process has open. A file that is deleted stays usable until it is closed, but all that is
    written to it is lost; so each commit checks that the names still lead to the same files.
    """

    def __init__(self, *files: Path) -> None:
        self._files = [(str(file), _identity(str(file))) for file in files]

    def lost(self) -> str:
        """The name of a file that was deleted or replaced; "" if there is none."""
        return next((file for file, identity in self._files if _identity(file) != identity), "")

    def check(self) -> None:
        """StoreUnavailable if a file was deleted or replaced."""
        if lost_file := self.lost():
            raise StoreUnavailable(lost_message(lost_file))


def lost_message(file: str) -> str:
    """The error text for a deleted or replaced file: what is wrong, and what to do."""
    return (  # clients read this, so it names no path of this machine
        f"{Path(file).name} of the data folder was deleted or replaced while this server has it open; "
        "stop the server, put the folder or a backup back (`kith restore`), and start again"
    )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_length(store: Path, bytes_used: int) -> None:
    """StoreMismatch if the file was cut short. Reading past its end would kill this process without a message.

    An intact file may also end before its last page, because LMDB need not write pages that were freed again. So
    another process reads a short file first; if that process is killed, the file is damaged.
    """
    if store.stat().st_size >= bytes_used:
        return
    walk = subprocess.run([sys.executable, "-P", "-c", _WALK, str(store)], capture_output=True, check=False)  # noqa: S603
    if walk.returncode:
        raise StoreMismatch(f"{store} is cut short or damaged; restore a backup (`kith restore`)")


_WALK = """
import sys, lmdb
store = lmdb.Environment(sys.argv[1], subdir=False, readonly=True, lock=False, max_dbs=1000)
with store.begin() as txn:
    for name in [bytes(name) for name, _ in txn.cursor()]:
        for _ in txn.cursor(store.open_db(name, txn=txn, create=False)):
            pass
"""
