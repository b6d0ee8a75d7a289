"""Lists as runs of packed blocks: 16 bytes an entry, the count stored beside them, the newest entries in one read.

A run is a sorted sequence of 16-byte rows under a prefix of 9 bytes. It is cut into blocks:

    prefix | 0 | greatest row   ->  rows                 a sealed block: the rows up to that row
    prefix | 1                  ->  length u32 | rows    the tail: the length of the run, and its greatest rows

So a seek to `prefix | 0 | row` lands on the block that holds `row`, or on the tail. Lists are ordered by time, so
nearly every insert appends to the tail and touches one page. A full tail becomes a sealed block. A block holds at most
BLOCK_ROWS rows: four such blocks fill an LMDB page of 4 KB (docs/decisions/0001). Blocks that shrink are not joined
again; only empty ones are deleted. `kith backup` compacts a store.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import lmdb
import numpy as np
from numpy.typing import NDArray

ROW = 16
PREFIX = 9
BLOCK_ROWS = 61
_LENGTH = 4
_RUNS_AT_ONCE = 64
_SEALED_KEY, _TAIL_KEY = PREFIX + 1 + ROW, PREFIX + 1  # key lengths of blocks; keys of edges may lie in between
_SEALED = b"\0"
_TAIL = b"\1"

RunCursor: TypeAlias = "lmdb.Cursor[bytes]"


def length(txn: lmdb.Transaction[bytes], db: lmdb._Database, prefix: bytes) -> int:
    """How many rows the run has; one lookup."""
    tail = txn.get(prefix + _TAIL, None, db)
    return 0 if tail is None else length_of(tail)


def exists(txn: lmdb.Transaction[bytes], db: lmdb._Database, prefix: bytes) -> bool:
    """Whether the run has any row. An empty run has no tail."""
    return txn.get(prefix + _TAIL, None, db) is not None


def length_of(tail: bytes) -> int:
    """The length of the run with this tail."""
    return int.from_bytes(tail[:_LENGTH], "big")


def tail_key(prefix: bytes) -> bytes:
    """The key of the tail of a run."""
    return prefix + _TAIL


def newest_in(tail: bytes | None, limit: int) -> bytes | None:
    """The greatest `limit` rows of a run, ascending, from its tail; None if they are not all in the tail."""
    if tail is None:
        return b""
    rows = len(tail) - _LENGTH
    if rows >= limit * ROW:
        return tail[-limit * ROW :]
    return tail[_LENGTH:] if rows == ROW * length_of(tail) else None


def short(txn: lmdb.Transaction[bytes], db: lmdb._Database, prefix: bytes) -> bytes | None:
    """The rows of a run that is only a tail, ascending; None if it has more blocks."""
    tail = txn.get(prefix + _TAIL, None, db)
    if tail is None:
        return b""
    rows = tail[_LENGTH:]
    return rows if len(rows) == ROW * int.from_bytes(tail[:_LENGTH], "big") else None


def insert(cursor: RunCursor, prefix: bytes, row: bytes) -> bool:
    """Add `row`; False if it was there already."""
    tail_key = prefix + _TAIL
    if not cursor.set_key(tail_key):
        return cursor.put(tail_key, (1).to_bytes(_LENGTH, "big") + row)
    tail = cursor.value()
    count, rows = int.from_bytes(tail[:_LENGTH], "big"), tail[_LENGTH:]
    if rows[-ROW:] < row and 0 < len(rows) < BLOCK_ROWS * ROW:  # nearly every insert
        return cursor.put(tail_key, (count + 1).to_bytes(_LENGTH, "big") + rows + row)
    if row < rows[:ROW] or not rows:
        cursor.set_range(prefix + _SEALED + row)
        key = cursor.key()
        if key != tail_key:
            if not _insert_sealed(cursor, prefix, key, cursor.value(), row):
                return False
            return cursor.put(tail_key, (count + 1).to_bytes(_LENGTH, "big") + rows)
    changed = _inserted(rows, row)
    if changed is None:
        return False
    if len(changed) > BLOCK_ROWS * ROW:
        # an append seals the full block and leaves the new row alone in the tail; any other insert cuts it in half
        cut = len(changed) - ROW if row == changed[-ROW:] else len(changed) // ROW // 2 * ROW
        sealed, changed = changed[:cut], changed[cut:]
        cursor.put(prefix + _SEALED + sealed[-ROW:], sealed)
    return cursor.put(tail_key, (count + 1).to_bytes(_LENGTH, "big") + changed)


def remove(cursor: RunCursor, prefix: bytes, row: bytes) -> bool:
    """Remove `row`; False if it was not there."""
    tail_key = prefix + _TAIL
    if not cursor.set_key(tail_key):
        return False
    tail = cursor.value()
    count, rows = int.from_bytes(tail[:_LENGTH], "big"), tail[_LENGTH:]
    offset = _find(rows, row)
    if offset >= 0:
        rows = rows[:offset] + rows[offset + ROW :]
    else:
        cursor.set_range(prefix + _SEALED + row)
        key = cursor.key()
        block = cursor.value()
        offset = -1 if key == tail_key else _find(block, row)
        if offset < 0:
            return False
        block = block[:offset] + block[offset + ROW :]
        if not block or key[PREFIX + 1 :] == row:
            cursor.delete()
        if block:
            cursor.put(prefix + _SEALED + block[-ROW:], block)
    if count <= 1 and not rows:
        return cursor.set_key(tail_key) and cursor.delete()
    return cursor.put(tail_key, max(0, count - 1).to_bytes(_LENGTH, "big") + rows)


def contains(cursor: RunCursor, prefix: bytes, row: bytes) -> bool:
    """Whether the run has exactly this row."""
    block = _block_at(cursor, prefix, row)
    return block is not None and _find(block, row) >= 0


def below(cursor: RunCursor, prefix: bytes, row: bytes | None, limit: int) -> list[bytes]:
    """Up to `limit` rows less than `row` (or the greatest, without it), greatest first."""
    if row is None:
        block = cursor.value()[_LENGTH:] if cursor.set_key(prefix + _TAIL) else None
    else:
        block = _block_at(cursor, prefix, row)
    if block is None:
        return []
    end = len(block) if row is None else _lower_bound(block, row)
    result: list[bytes] = []
    while True:
        for offset in range(end - ROW, -1, -ROW):
            result.append(block[offset : offset + ROW])
            if len(result) == limit:
                return result
        if not cursor.prev() or cursor.key()[:PREFIX] != prefix:
            return result
        block = cursor.value()  # blocks before the first reached are always sealed
        end = len(block)


def above(cursor: RunCursor, prefix: bytes, row: bytes, limit: int) -> list[bytes]:
    """Up to `limit` rows greater than `row`, least first."""
    block = _block_at(cursor, prefix, row)
    result: list[bytes] = []
    while block is not None:
        start = _lower_bound(block, row)
        if block[start : start + ROW] == row:
            start += ROW
        for offset in range(start, len(block), ROW):
            result.append(block[offset : offset + ROW])
            if len(result) == limit:
                return result
        block = _next_block(cursor, prefix)
    return result


def rows_newest(cursor: RunCursor, prefix: bytes, newest: int | None, before: bytes | None = None) -> bytes:
    """Rows in ascending order: all, or the greatest `newest` of them. `before`: of the rows less than this only."""
    if before is None:
        block = cursor.value()[_LENGTH:] if cursor.set_key(prefix + _TAIL) else None
    else:
        block = _block_at(cursor, prefix, before)
        block = block and block[: _lower_bound(block, before)]
    if block is None:
        return b""
    blocks = [block]
    room = None if newest is None else newest * ROW - len(blocks[0])
    while (room is None or room > 0) and cursor.prev() and cursor.key()[:PREFIX] == prefix:
        blocks.append(cursor.value())
        if room is not None:
            room -= len(blocks[-1])
    rows = b"".join(reversed(blocks))
    return rows if newest is None else rows[max(0, len(rows) - newest * ROW) :]


class Length(NamedTuple):
    """The length of a run: as stored in its tail, and as counted from its rows (`real`)."""

    prefix: bytes
    stored: int
    real: int


def lengths(cursor: RunCursor) -> Iterator[Length]:
    """The length of every run from where the cursor is; reads the whole database from there on."""
    prefix, stored, real = b"", 0, 0
    for key, value in cursor.iternext():
        if len(key) not in (_SEALED_KEY, _TAIL_KEY):
            continue
        if key[:PREFIX] != prefix:
            if prefix:
                yield Length(prefix, stored, real)
            prefix, stored, real = key[:PREFIX], 0, 0
        if len(key) == _TAIL_KEY:
            stored, value = int.from_bytes(value[:_LENGTH], "big"), value[_LENGTH:]  # noqa: PLW2901
        real += len(value) // ROW
    if prefix:
        yield Length(prefix, stored, real)


def after(prefix: bytes) -> bytes:
    """The first key that can follow a run."""
    return prefix + _TAIL + b"\0"


def length_at(cursor: RunCursor, prefix: bytes) -> Length:
    """The length of one run, which may have lost its tail; reads all of it."""
    run = next(lengths(cursor), None) if cursor.set_range(prefix + _SEALED) else None
    return run if run is not None and run.prefix == prefix else Length(prefix, 0, 0)


def set_length(cursor: RunCursor, prefix: bytes, real: int) -> None:
    """Correct the stored length of a run, with a new tail if it was lost (repair only)."""
    rows = cursor.value()[_LENGTH:] if cursor.set_key(prefix + _TAIL) else b""
    if real or rows:
        cursor.put(prefix + _TAIL, real.to_bytes(_LENGTH, "big") + rows)
    elif cursor.set_key(prefix + _TAIL):
        cursor.delete()


def blocks(cursor: RunCursor, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every block from the key `start` on, as (its key, its rows); reads the whole database."""
    if not cursor.set_range(start):
        return
    for key, value in cursor.iternext():
        if len(key) == _SEALED_KEY:
            yield key, value
        elif len(key) == _TAIL_KEY:
            yield key, value[_LENGTH:]


def pack(prefixes: NDArray[np.uint8], rows: NDArray[np.uint8]) -> Iterator[tuple[bytes, bytes]]:
    """The blocks, in key order, of rows sorted by (prefix, row): the bulk form of `insert` into an empty database.

    `prefixes`: (n, 9), `rows`: (n, 16), both uint8. Each run must be whole within one call.
    """
    total = len(rows)
    if total == 0:
        return
    changes = np.flatnonzero((prefixes[1:] != prefixes[:-1]).any(axis=1)) + 1
    starts = [0, *changes.tolist()]
    ends = [*changes.tolist(), total]
    heads = prefixes[starts].tobytes()
    packed = rows.tobytes()
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        prefix = heads[index * PREFIX : (index + 1) * PREFIX]
        row = start
        while end - row > BLOCK_ROWS:
            block = packed[row * ROW : (row + BLOCK_ROWS) * ROW]
            yield prefix + _SEALED + block[-ROW:], block
            row += BLOCK_ROWS
        yield prefix + _TAIL, (end - start).to_bytes(_LENGTH, "big") + packed[row * ROW : end * ROW]


def extend(
    cursor: RunCursor,
    prefixes: NDArray[np.uint8],
    rows: bytes,
    borders: Sequence[int],
    beside: Sequence[tuple[bytes, bytes]],
) -> None:
    """Add new rows to many runs. The rows from each border to the next belong to one run, in ascending order.

    `prefixes`: (n, 9), sorted. `beside`: other items to put between the runs, in the order of keys. Runs are read and
    written 64 at a time, so that pages are still in the processor's cache when they are written.
    """
    heads = prefixes[borders[:-1]].tobytes()
    keys = [heads[start : start + PREFIX] + _TAIL for start in range(0, len(heads), PREFIX)]
    items_put = 0
    for start in range(0, len(keys), _RUNS_AT_ONCE):
        chunk, following = keys[start : start + _RUNS_AT_ONCE], start + _RUNS_AT_ONCE
        changed = _extended(cursor, chunk, rows, borders[start : following + 1])
        end = bisect(beside, (chunk[-1],)) if following < len(keys) else len(beside)
        cursor.putmulti(sorted([*beside[items_put:end], *changed]))
        items_put = end


def _extended(
    cursor: RunCursor, keys: Sequence[bytes], rows: bytes, borders: Sequence[int]
) -> list[tuple[bytes, bytes]]:
    """The blocks to put for runs whose new rows come after all their old rows. Other runs are extended right here."""
    tail_of = dict(cursor.getmulti(keys)).get
    appended: list[tuple[bytes, bytes]] = []
    append, room, number_of, single = appended.append, BLOCK_ROWS * ROW, int.from_bytes, (1).to_bytes(_LENGTH, "big")
    offsets = [ROW * border for border in borders]
    for key, start, end in zip(keys, offsets, offsets[1:], strict=False):
        block, tail = rows[start:end], tail_of(key)
        if tail is None:
            if end - start == ROW:
                append((key, single + block))
                continue
            count = (end - start) // ROW
        elif len(tail) < _LENGTH + ROW or not tail[-ROW:] < block[:ROW]:
            for offset in range(0, len(block), ROW):
                insert(cursor, key[:PREFIX], block[offset : offset + ROW])
            continue
        else:
            count = number_of(tail[:_LENGTH], "big") + (end - start) // ROW
            block = tail[_LENGTH:] + block
        while len(block) > room:
            sealed, block = block[:room], block[room:]
            append((key[:PREFIX] + _SEALED + sealed[-ROW:], sealed))
        append((key, count.to_bytes(_LENGTH, "big") + block))
    return appended


def _block_at(cursor: RunCursor, prefix: bytes, row: bytes) -> bytes | None:
    """The rows of the block where `row` is or would be; leaves the cursor there. None: no block at or after `row`."""
    if not cursor.set_range(prefix + _SEALED + row):
        return None
    return _rows_here(cursor, prefix)


def _next_block(cursor: RunCursor, prefix: bytes) -> bytes | None:
    return _rows_here(cursor, prefix) if cursor.next() else None


def _rows_here(cursor: RunCursor, prefix: bytes) -> bytes | None:
    key = cursor.key()
    if key[:PREFIX] != prefix:
        return None
    value = cursor.value()
    return value[_LENGTH:] if key[PREFIX:] == _TAIL else value


def _insert_sealed(cursor: RunCursor, prefix: bytes, key: bytes, block: bytes, row: bytes) -> bool:
    changed = _inserted(block, row)
    if changed is None:
        return False
    if len(changed) > BLOCK_ROWS * ROW:
        cut = len(changed) // ROW // 2 * ROW
        lower, changed = changed[:cut], changed[cut:]
        cursor.put(prefix + _SEALED + lower[-ROW:], lower)
    return cursor.put(key, changed)


def _inserted(block: bytes, row: bytes) -> bytes | None:
    """`block` with `row` inserted in order; None if the row is there already."""
    if row > block[-ROW:]:
        return block + row
    offset = _lower_bound(block, row)
    if block[offset : offset + ROW] == row:
        return None
    return block[:offset] + row + block[offset:]


def _find(block: bytes, row: bytes) -> int:
    """The offset of `row` in `block`, or -1."""
    offset = block.find(row)  # several times faster than a binary search, because blocks are short
    while offset > 0 and offset % ROW:
        offset = block.find(row, offset + 1)
    return offset


def _lower_bound(block: bytes, row: bytes) -> int:
    """The offset of the first row that is not less than `row`."""
    low, high = 0, len(block) // ROW
    while low < high:
        middle = (low + high) // 2
        if block[middle * ROW : middle * ROW + ROW] < row:
            low = middle + 1
        else:
            high = middle
    return low * ROW
