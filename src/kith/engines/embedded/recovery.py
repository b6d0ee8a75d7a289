"""Recovery: decides whether a store is opened as it is or reset to its last checkpoint, and resets it.

The first process to open a store runs this, after all others stopped, were killed or lost power. LMDB commits without
syncing here (see `journal`), so after a power cut any page newer than the base, the last checkpoint, may be missing.
The pages of the base are intact: they were synced, and LMDB does not reuse them before the next checkpoint (see
`checkpoints`). Only LMDB's two meta pages are overwritten in place, and the journal has a copy of the base's.

    meta page of LMDB 0.9, 64 bits    page number u64 at 0 | magic u32 at 16 | page size u32 at 40 | txn u64 at 144
                                      the last 16 bytes, which LMDB does not use: the name of the store

A store's name is random, and its backups do not carry it. So if somebody replaces the store by another one, the names
differ, and the journal is not replayed on the wrong store.
"""

from __future__ import annotations

import enum
import os
import struct
from pathlib import Path

from kith.core.errors import StoreMismatch
from kith.engines.embedded.journal import Base

_PAGE_NUMBER, _MAGIC, _PAGE_BYTES, _TXN = (0, "<Q"), (16, "<I"), (40, "<I"), (144, "<Q")
_LMDB_MAGIC = 0xBEEFC0DE
_HEAD_BYTES = 152
_NAME_BYTES = 16


class Recovery(enum.Enum):
    """What to do with a store before LMDB opens it."""

    AS_IS = "as it is"
    """Open it unchanged: it is the base, or it is not the store that the journal belongs to, or a version of Kith
    without a journal, which syncs every commit, wrote to it after the base."""
    FROM_BASE = "from the base"
    """Reset it to the base, and replay the entries of the journal."""


def choose_recovery(base: Base | None, chain_end: int, store_txn: int, *, lacks_entries: bool = False) -> Recovery:
    """How to open a store whose newest meta page is of transaction `store_txn`.

    `chain_end`: the last transaction that has an entry in the journal's chain. `lacks_entries`: whether transactions
    after the base may have been committed without an entry.
    """
    if base is None or store_txn == base.txn == chain_end:
        return Recovery.AS_IS
    if store_txn < base.txn:  # a base is synced before it is noted, so an older store was put in place of this one
        return Recovery.AS_IS
    if store_txn > chain_end and not (base.relaxed or lacks_entries):  # no entry: a Kith without a journal committed
        return Recovery.AS_IS
    return Recovery.FROM_BASE


def newest_meta(store: Path | int) -> tuple[int, bytes]:
    """The transaction of a store's newest meta page, and that page. StoreMismatch if it has no valid one."""
    name = "the store" if isinstance(store, int) else store
    fd = store if isinstance(store, int) else os.open(store, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(fd, _HEAD_BYTES, 0).ljust(_HEAD_BYTES, b"\0")
        page_bytes = max(_HEAD_BYTES, min(1 << 16, _field(head, _PAGE_BYTES)))
        pages = [os.pread(fd, page_bytes, slot * page_bytes) for slot in (0, 1)]
    finally:
        if fd is not store:
            os.close(fd)
    valid = [page for page in pages if len(page) >= _HEAD_BYTES and _field(page, _MAGIC) == _LMDB_MAGIC]
    if not valid:
        raise StoreMismatch(f"{name} is damaged, or no store at all; restore a backup (`kith restore`)")
    newest = max(valid, key=lambda page: _field(page, _TXN))
    return _field(newest, _TXN), newest


def same_store(meta: bytes, other_meta: bytes) -> bool:
    """Whether two meta pages belong to one store, by the names in them."""
    return meta[-_NAME_BYTES:] == other_meta[-_NAME_BYTES:]


def give_name(store: Path) -> None:
    """Give a random name to a store that has none, and sync it. No process may have the store open."""
    _, meta = newest_meta(store)
    if any(meta[-_NAME_BYTES:]):
        return
    name = os.urandom(_NAME_BYTES)
    fd = os.open(store, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for end in (len(meta), 2 * len(meta)):
            os.pwrite(fd, name, end - _NAME_BYTES)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def reset_to_base(store: Path, base: Base) -> None:
    """Reset a store to `base`, by writing both meta pages. No process may have the store open."""
    number = _field(base.meta, _PAGE_NUMBER)
    older_meta = bytearray(base.meta)
    struct.pack_into(_PAGE_NUMBER[1], older_meta, _PAGE_NUMBER[0], 1 - number)
    struct.pack_into(_TXN[1], older_meta, _TXN[0], max(0, base.txn - 1))
    fd = os.open(store, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, base.meta, number * len(base.meta))
        os.pwrite(fd, older_meta, (1 - number) * len(base.meta))
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _field(page: bytes, field: tuple[int, str]) -> int:
    offset, format_ = field
    return int(struct.unpack_from(format_, page, offset)[0])
