"""The activity of users, in an LMDB file of its own, `activity.mdb`: when each was last seen, and who is online.

    database seen     user >> 12, u64    low 12 bits of each known user, u16, ascending; then when seen, u32, in minutes
    database online   name of a process  until ms, u64 | users, i64 each, ascending

Up to 4,096 users share a row if their ids are consecutive, so checking 100,000 users reads some thousand rows. The
users who are online are cached until the next write. The row of a process that ended is deleted when another process
reports.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import lmdb
import numpy as np
from numpy.typing import NDArray

from kith.core.clock import wall_ms
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.turns import Turns
from kith.notifications.activity import (
    SEEN_STEP_MS,
    Connected,
    Users,
    are_connected,
    check_lookup_size,
    first_connected,
)

_LOW_BITS = 12
_LOW_MASK = (1 << _LOW_BITS) - 1
_KEY = struct.Struct(">Q")
_UNTIL = struct.Struct("<q")
_USER_BYTES = 6
_BYTES_MAX = 1 << 36
_IN_LOOP_MAX = 1_000

Lows = NDArray[np.uint16]
Minutes = NDArray[np.uint32]


class EmbeddedActivity:
    """See `notifications.activity.Activity`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._online: tuple[int, dict[bytes, Connected]] = (-1, {})
        with translate_errors("open the activity of users", folder):
            self._lmdb = lmdb.Environment(
                str(folder / "activity.mdb"), subdir=False, map_size=_BYTES_MAX, max_dbs=2, max_readers=1024, mode=0o600
            )
            self._turns = Turns(folder / "activity.turn")
            with self._turns.take(), self._lmdb.begin(write=True) as txn:
                self._seen_db = self._lmdb.open_db(b"seen", txn=txn)
                self._online_db = self._lmdb.open_db(b"online", txn=txn)
            self._lmdb.reader_check()

    async def seen(self, users: Users, at_ms: int) -> None:
        check_lookup_size(len(users))
        if len(users):
            await asyncio.to_thread(self._see, users, at_ms)

    async def last_seen(self, users: Users) -> Users:
        check_lookup_size(len(users))
        return self._last_seen(users) if len(users) <= _IN_LOOP_MAX else await asyncio.to_thread(self._last_seen, users)

    async def set_online(self, process: str, users: Users, until_ms: int) -> None:
        await asyncio.to_thread(self._set_online, process.encode(), users, until_ms)

    async def online(self, users: Users, now_ms: int) -> NDArray[np.bool_]:
        return are_connected(self._all_online().values(), users, now_ms)

    async def online_page(self, after: int, limit: int, now_ms: int) -> Users:
        check_lookup_size(limit)
        return first_connected(self._all_online().values(), after, limit, now_ms)

    def close(self) -> None:
        """Close the file, once no thread writes it."""
        with self._turns.take():
            self._lmdb.close()
        self._turns.close()

    def _see(self, users: Users, at_ms: int) -> None:
        minute = at_ms // SEEN_STEP_MS
        with (
            translate_errors("write who was seen", self._folder),
            self._turns.take(),
            self._lmdb.begin(write=True) as txn,
        ):
            for key, part in _blocks(users):
                lows, minutes = _read(txn.get(key, b"", self._seen_db))
                seen_lows = (part & _LOW_MASK).astype(np.uint16)
                is_known = np.isin(lows, seen_lows)
                minutes[is_known] = np.maximum(minutes[is_known], np.uint32(minute))
                new_lows = seen_lows[~np.isin(seen_lows, lows)]
                lows = np.concatenate((lows, new_lows))
                minutes = np.concatenate((minutes, np.full(len(new_lows), minute, np.uint32)))
                order = np.argsort(lows)
                txn.put(key, lows[order].tobytes() + minutes[order].tobytes(), db=self._seen_db)

    def _last_seen(self, users: Users) -> Users:
        order = np.argsort(users, kind="stable")
        ascending = users[order]
        minutes_seen, start = np.zeros(len(users), np.int64), 0
        with translate_errors("read who was seen"), self._lmdb.begin(self._seen_db) as txn:
            for key, part in _blocks(ascending):
                lows, minutes = _read(txn.get(key, b""))
                if len(lows):
                    wanted_lows = part & _LOW_MASK
                    places = np.minimum(np.searchsorted(lows, wanted_lows), len(lows) - 1)
                    minutes_seen[start : start + len(part)] = np.where(lows[places] == wanted_lows, minutes[places], 0)
                start += len(part)
        result = np.empty_like(minutes_seen)
        result[order] = minutes_seen * SEEN_STEP_MS
        return result

    def _set_online(self, process: bytes, users: Users, until_ms: int) -> None:
        with (
            translate_errors("write who is online", self._folder),
            self._turns.take(),
            self._lmdb.begin(write=True) as txn,
        ):
            with txn.cursor(self._online_db) as cursor:
                for name, row in list(cursor):
                    if _UNTIL.unpack_from(row)[0] < wall_ms() and name != process:
                        txn.delete(name, db=self._online_db)
            txn.put(process, _UNTIL.pack(until_ms) + np.sort(users).tobytes(), db=self._online_db)

    def _all_online(self) -> dict[bytes, Connected]:
        """The rows of all processes, cached until the next write."""
        with translate_errors("read who is online"), self._lmdb.begin(self._online_db) as txn:
            version = txn.id()
            if version != self._online[0]:
                rows = {
                    name: Connected(_UNTIL.unpack_from(row)[0], np.frombuffer(row, np.int64, offset=_UNTIL.size))
                    for name, row in txn.cursor()
                }
                self._online = version, rows
        return self._online[1]


def _blocks(users: Users) -> list[tuple[bytes, Users]]:
    """Ascending users, grouped by the row that they are in; each group with the row's key."""
    if not len(users):
        return []
    blocks = users >> _LOW_BITS
    borders = np.flatnonzero(np.diff(blocks)) + 1
    block_numbers = blocks[np.concatenate(([0], borders))].tolist()
    return [(_KEY.pack(block), part) for block, part in zip(block_numbers, np.split(users, borders), strict=True)]


def _read(row: bytes) -> tuple[Lows, Minutes]:
    count = len(row) // _USER_BYTES
    return np.frombuffer(row, np.uint16, count), np.frombuffer(row, np.uint32, count, offset=2 * count).copy()
