"""The file of a store: made whole or not at all, and looked at before it is read."""

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
"""The folder in a data folder in which a store is made, from a backup or a snapshot, before it gets its name."""


def make_store(file: Path, databases: Sequence[bytes], notes: Mapping[bytes, bytes], bytes_max: int) -> None:
    """Make an empty store with these databases, and with notes in the first of them. It gets its name last.

    StoreMismatch where the folder had a store, or is being given one.
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
            first, *_ = [store.open_db(name, txn=txn) for name in databases]
            for key, value in notes.items():
                txn.put(key, value, db=first)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(file)
    sync_folder(file.parent)


def _refuse_in_place_of_another(file: Path) -> None:
    if (made := file.with_name(RESTORING)).exists():
        raise StoreMismatch(
            f"a restore into {file.parent}, or the first snapshot of a standby, was cut short or is under way: wait "
            f"for it, or run the same command again; to begin with an empty store move {made} away"
        )
    journal = file.with_name(JOURNAL_FILE)
    if journal.exists() and journal.stat().st_size:
        raise StoreMismatch(
            f"{file} is gone, and {journal} beside it has what was written to it last: put {file.name} back, or "
            f"restore a backup (`kith restore`); to begin with an empty store move {journal.name} away"
        )


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OpenedFiles:
    """Files that a process has open by their names. One that is deleted goes on without a name until it is closed;
    what is written to it meanwhile is lost.
    """

    def __init__(self, *files: Path) -> None:
        self._files = [(str(file), _identity(str(file))) for file in files]

    def lost(self) -> str:
        """Which of them is deleted, or another file by now; "" if none is."""
        return next((file for file, opened in self._files if _identity(file) != opened), "")

    def check(self) -> None:
        """StoreUnavailable where one of them is lost."""
        if lost := self.lost():
            raise StoreUnavailable(lost_says(lost))


def lost_says(file: str) -> str:
    """What is wrong where a process has lost a file, and what to do."""
    return (  # clients read it, and are told no path of this machine
        f"{Path(file).name} of the data folder was deleted or replaced while this server has it open; "
        "stop the server, put the folder or a backup back (`kith restore`), and start again"
    )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_length(store: Path, bytes_used: int) -> None:
    """StoreMismatch if the file was cut short: reading past its end would kill this process without a message.

    A good file may end before its last page too, because LMDB need not write pages that were freed again. So a
    short file is first read by another process, which tells by whether it survives.
    """
    if store.stat().st_size >= bytes_used:
        return
    walked = subprocess.run([sys.executable, "-P", "-c", _WALK, str(store)], capture_output=True, check=False)  # noqa: S603
    if walked.returncode:
        raise StoreMismatch(f"{store} is cut short or damaged; restore a backup (`kith restore`)")


_WALK = """
import sys, lmdb
store = lmdb.Environment(sys.argv[1], subdir=False, readonly=True, lock=False, max_dbs=1000)
with store.begin() as txn:
    for name in [bytes(name) for name, _ in txn.cursor()]:
        for _ in txn.cursor(store.open_db(name, txn=txn, create=False)):
            pass
"""
