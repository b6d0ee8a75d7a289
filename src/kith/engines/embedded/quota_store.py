"""The QuotaStore of one machine: a file of counts that all processes share, and read and write in place.

    file quotas-2    kind x SETS x WAYS rows of 88 bytes
    row              user + 1 u64 (0: free) | part u64 | last f64 | 16 counts u32 (see `access.sliding_window`)

A hash of the user's id chooses a set of WAYS rows. In a full set, the row with the oldest part is replaced. Each call
locks its set for some microseconds; the kernel frees the lock of a killed process. The file is sparse and never synced,
so a power cut may lose counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from kith.access import sliding_window
from kith.access.sliding_window import Counts, Quota, QuotaUsage, TakeResult
from kith.engines.embedded.byte_locks import lock, unlock

_Answer = TypeVar("_Answer")
FILE = "quotas-2"
SETS, WAYS = 8_192, 8
"""Room for the counts of 65,536 users per kind: 6 MB."""
_ROW = struct.Struct(f">QQd{sliding_window.PARTS + 1}I")
_TABLE = np.dtype([("owner", ">u8"), ("part", ">u8"), ("last_s", ">f8"), ("counts", ">u4", sliding_window.PARTS + 1)])
_HEADS = struct.Struct(">" + f"QQ{_ROW.size - 16}x" * WAYS)
_SET_BYTES = WAYS * _ROW.size
_MIX = 0x9E3779B97F4A7C15  # spreads ids that lie close together, and ids with the same low bits


class FileQuotas:
    """See `access.sliding_window.QuotaStore`. One per process, used by one thread."""

    immediate = True

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    async def take(self, kind: int, user: int, quota_: Quota, now_s: float) -> TakeResult:
        return self._update(kind, user, lambda counts: sliding_window.take(counts, quota_, now_s))

    async def refund(self, kind: int, user: int, part: int) -> None:
        self._update(kind, user, lambda counts: (sliding_window.refund(counts, part), None))

    async def fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[QuotaUsage]:
        return await asyncio.to_thread(self._fullest, kind, quota, used_min, now_s, limit)

    def _fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[QuotaUsage]:
        """Reads without locks, so a row that is being written may be counted wrongly."""
        rows = os.pread(self._descriptor, SETS * _SET_BYTES, kind * SETS * _SET_BYTES)
        table = np.frombuffer(rows[: len(rows) // _ROW.size * _ROW.size], _TABLE)
        used_rows = table[(table["owner"] > 0) & (table["counts"].sum(axis=1) >= used_min)]
        columns = [used_rows[name].tolist() for name in ("owner", "part", "last_s", "counts")]
        usages = [
            QuotaUsage(owner - 1, sliding_window.used(Counts(part, tuple(counts), last_s), quota, now_s))
            for owner, part, last_s, counts in zip(*columns, strict=True)
        ]
        return sorted((row for row in usages if row.used >= used_min), key=lambda row: (-row.used, row.user))[:limit]

    def _update(self, kind: int, user: int, change: Callable[[Counts], tuple[Counts, _Answer]]) -> _Answer:
        """Replace a user's counts by what `change` makes of them, under the lock, and return its answer."""
        offset, descriptor = _place(kind, user), self._descriptor
        lock(descriptor, _SET_BYTES, offset)
        try:
            rows = os.pread(descriptor, _SET_BYTES, offset).ljust(_SET_BYTES, b"\0")
            row_number, stored = _find(rows, user)
            counts, answer = change(stored)
            if counts is not stored:
                with contextlib.suppress(OSError):  # a full disk counts nothing; the port allows that
                    row = _ROW.pack(user + 1, counts.part, counts.last_s, *counts.counts)
                    os.pwrite(descriptor, row, offset + row_number * _ROW.size)
        finally:
            unlock(descriptor, _SET_BYTES, offset)
        return answer


def _find(rows: bytes, user: int) -> tuple[int, Counts]:
    """The number of the user's row in a set, with its counts; if there is none, the row to replace, with no counts."""
    heads = _HEADS.unpack(rows)
    owners, parts = heads[::2], heads[1::2]
    if user + 1 not in owners:
        return parts.index(min(parts)), Counts()
    row_number = owners.index(user + 1)
    _, part, last_s, *counts = _ROW.unpack_from(rows, row_number * _ROW.size)
    return row_number, Counts(part, tuple(counts), last_s)


def _place(kind: int, user: int) -> int:
    """The offset of a user's set in the file."""
    return (kind * SETS + (user * _MIX >> 32) % SETS) * _SET_BYTES
