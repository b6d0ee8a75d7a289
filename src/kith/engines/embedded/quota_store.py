"""The QuotaStore of one machine: a file of counts that all its processes share, read and written in place.

    file quotas-1    kind x SETS x WAYS rows of 80 bytes
    row              user + 1 u64 (0: free) | part u64 | 16 counts u32, newest first (see `core.quota`)

A user's rows lie in the set that the id chooses; in a full set the row that has rested longest gives way. Each call
locks its set, for some microseconds; the kernel lets go of what a killed process held. The file is sparse and never
synced: after a power cut some counts are gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kith.access import sliding_window
from kith.access.sliding_window import Counts, Quota, Taken

_Answer = TypeVar("_Answer")
FILE = "quotas-1"
SETS, WAYS = 8_192, 8
"""65,536 users a kind whose counts are kept at once: 5 MB."""
_ROW = struct.Struct(f">QQ{sliding_window.PARTS + 1}I")
_HEADS = struct.Struct(">" + f"QQ{4 * (sliding_window.PARTS + 1)}x" * WAYS)
_SET_BYTES = WAYS * _ROW.size
_MIX = 0x9E3779B97F4A7C15  # spreads ids that lie close together, and ids with the same low bits


class FileQuotas:
    """See `core.quota.QuotaStore`. One a process, used by one thread."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)

    def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> Taken:
        return self._update(kind, user, lambda held: sliding_window.take(held, quota_, now_s))

    def give_back(self, kind: int, user: int, part: int) -> None:
        self._update(kind, user, lambda held: (sliding_window.give_back(held, part), None))

    def _update(self, kind: int, user: int, change: Callable[[Counts], tuple[Counts, _Answer]]) -> _Answer:
        """Replace a user's counts by `change` of them, while nobody else does; its answer."""
        at, descriptor = _place(kind, user), self._descriptor
        fcntl.lockf(descriptor, fcntl.LOCK_EX, _SET_BYTES, at)
        try:
            rows = os.pread(descriptor, _SET_BYTES, at).ljust(_SET_BYTES, b"\0")
            way, held = _find(rows, user)
            counts, answer = change(held)
            if counts is not held:
                with contextlib.suppress(OSError):  # a full disk counts nobody; the port says so
                    os.pwrite(descriptor, _ROW.pack(user + 1, counts.part, *counts.counts), at + way * _ROW.size)
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, _SET_BYTES, at)
        return answer


def _find(rows: bytes, user: int) -> tuple[int, Counts]:
    """The user's row in a set, or the one to use instead."""
    heads = _HEADS.unpack(rows)
    owners, parts = heads[::2], heads[1::2]
    if user + 1 not in owners:
        return parts.index(min(parts)), Counts()
    way = owners.index(user + 1)
    return way, Counts(parts[way], _ROW.unpack_from(rows, way * _ROW.size)[2:])


def _place(kind: int, user: int) -> int:
    """Where the set of a user begins."""
    return (kind * SETS + (user * _MIX >> 32) % SETS) * _SET_BYTES
