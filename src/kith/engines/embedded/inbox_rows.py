"""Inbox rows as keys and values of LMDB, and iteration over the rows of a user.

A key has many values, which LMDB keeps sorted (DUPFIXED), so that a page of the file holds only values:

    near   user >> 12, u64    low 12 bits of the user | 52 bits of the notice                        8 bytes
    far    user >> 60, u64    48 bits of the user | low 12 bits of the user | 52 bits of the notice  14 bytes

`near` has the users with ids below NEAR_END. Such ids are usually consecutive, so up to 4,096 users share a key. `far`
has the other users, such as those with ids made from a time, which share few leading bits. The bits of a notice are its
distance from the first id of its week (30 bits of ms, 22 of node and sequence), subtracted from BITS_MAX, so that the
newest notice of a user comes first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import lmdb
import numpy as np

from kith.notifications.inbox import Users, base_of

NEAR_END = 1 << 40
_LOW_BITS, _NOTICE_BITS = 12, 52
BITS_MAX = (1 << _NOTICE_BITS) - 1
"""The bits of the oldest possible notice of a week. Newer notices have smaller bits."""
_LOW_MASK, _MIDDLE_MASK = (1 << _LOW_BITS) - 1, (1 << 48) - 1
_FAR_SHIFT = 60
_U64 = struct.Struct(">Q")


class InboxKey(NamedTuple):
    """Where the rows of a user are: in which database, under which key, and how their values begin."""

    far: bool
    key: bytes
    prefix: bytes
    low: int  # the low 12 bits of the user, which each value holds

    def value(self, bits: int) -> bytes:
        """The value for a notice with these bits."""
        return self.prefix + _U64.pack(self.low << _NOTICE_BITS | bits)


def place_of(user: int) -> InboxKey:
    """The place of a user's rows."""
    if user < NEAR_END:
        return InboxKey(False, _U64.pack(user >> _LOW_BITS), b"", user & _LOW_MASK)
    middle = (user >> _LOW_BITS & _MIDDLE_MASK).to_bytes(6, "big")
    return InboxKey(True, _U64.pack(user >> _FAR_SHIFT), middle, user & _LOW_MASK)


def bits_of(notice: int, period: int) -> int:
    """The bits of a notice of this period; the newer the notice, the smaller."""
    return BITS_MAX - (notice - base_of(period))


def notices_of(values: Sequence[bytes], period: int) -> list[int]:
    """The notice in each of these values, all of one database."""
    newest, mask, bits = base_of(period) + BITS_MAX, BITS_MAX, b"".join(values)
    if len(bits) > _U64.size * len(values):  # values of `far`
        bits = b"".join([value[-_U64.size :] for value in values])
    return [newest - (row & mask) for row in struct.unpack(f">{len(values)}Q", bits)]


def rows_of(users: Users, bits: int) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]:
    """The keys and values of one notice for many ascending users: the rows of `near`, then those of `far`."""
    cut = int(np.searchsorted(users, NEAR_END))
    near, far = users[:cut], users[cut:]
    near_values = _values(near, bits).tobytes()
    far_values = np.empty((len(far), 2), ">u8")
    far_values[:, 0], far_values[:, 1] = far >> _LOW_BITS & _MIDDLE_MASK, _values(far, bits)
    return (
        list(zip(_cut(near >> _LOW_BITS), _slices(near_values, 8), strict=True)),
        list(zip(_cut(far >> _FAR_SHIFT), _slices(far_values.view(np.uint8)[:, 2:].tobytes(), 14), strict=True)),
    )


def rows_after(
    cursors: Sequence[lmdb.Cursor[bytes]], after: bytes, limit: int, period: int
) -> tuple[list[tuple[int, int]], bytes]:
    """Up to `limit` rows of a week after a place, as (user, notice). Also returns the place of the last row; b"" if
    there are no more. `cursors`: of `near` and of `far`.
    """
    rows: list[tuple[int, int]] = []
    first_database = after[0] if after else 0
    for far, cursor in enumerate(cursors):
        if far < first_database:
            continue
        has_row = _set_after(cursor, after[1:9], after[9:]) if after and far == first_database else cursor.first()
        while has_row:
            key, value = cursor.item()
            rows.append((_user_of(key, value), notices_of([value], period)[0]))
            if len(rows) == limit:
                return rows, bytes([far]) + key + value
            has_row = cursor.next()
    return rows, b""


def _set_after(cursor: lmdb.Cursor[bytes], key: bytes, value: bytes) -> bool:
    """Set a cursor to the row after a value of a key. Returns whether there is one."""
    number = int.from_bytes(value, "big") + 1
    if number < 1 << 8 * len(value) and cursor.set_range_dup(key, number.to_bytes(len(value), "big")):
        return True
    return cursor.set_range(_U64.pack(_U64.unpack(key)[0] + 1))


def _user_of(key: bytes, value: bytes) -> int:
    """The user of a row."""
    (high,), (tail,) = _U64.unpack(key), _U64.unpack(value[-_U64.size :])
    low = tail >> _NOTICE_BITS
    if len(value) == _U64.size:
        return int(high << _LOW_BITS | low)
    return int(high << _FAR_SHIFT | int.from_bytes(value[: -_U64.size], "big") << _LOW_BITS | low)


def newest_first(cursor: lmdb.Cursor[bytes], key: bytes, first: bytes, last: bytes) -> Iterator[bytes]:
    """The values from `first` to `last`, both included, ascending: the newest notice first."""
    if not cursor.set_range_dup(key, first):
        return iter(())
    return takewhile(last.__ge__, cursor.iternext_dup())


def oldest_first(cursor: lmdb.Cursor[bytes], key: bytes, first: bytes, last: bytes) -> Iterator[bytes]:
    """The values from `last` to `first`, both included, descending: the oldest notice first."""
    if cursor.set_range_dup(key, last):
        has_value = True if cursor.value() == last else cursor.prev_dup()
    else:
        has_value = cursor.set_key(key) and cursor.last_dup()
    while has_value and (value := cursor.value()) >= first:
        yield value
        has_value = cursor.prev_dup()


def _values(users: Users, bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    low = (users & _LOW_MASK).astype(np.uint64)
    return (low << np.uint64(_NOTICE_BITS) | np.uint64(bits)).astype(">u8")


def _cut(keys: Users) -> list[bytes]:
    return _slices(keys.astype(">u8").tobytes(), 8)


def _slices(packed: bytes, size: int) -> list[bytes]:
    return [packed[offset : offset + size] for offset in range(0, len(packed), size)]
