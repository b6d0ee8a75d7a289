"""The file of a store: made whole or not at all, and looked at before it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import lmdb

from kith.core.errors import StoreMismatch

STORE_FILE = "store.mdb"


def make_store(file: Path, databases: Sequence[bytes], notes: Mapping[bytes, bytes], bytes_max: int) -> None:
    """Make an empty store with these databases, and with notes in the first of them. It gets its name last."""
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


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
