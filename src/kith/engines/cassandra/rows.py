"""Reads rows by their keys, writes the rows that an owner decided, and stores its journal.

`Rows` is everything that an owner needs from Cassandra; tests also implement it in memory.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.row_reader import Key, RowReader, Values
from kith.engines.cassandra.schema import ENDING, JOURNALS, TABLES_BY_NAME
from kith.graph.shapes import Listing

JOURNAL_PART_BYTES = 1 << 20
"""Bytes of a batch in one row of the journal; Cassandra accepts rows of only a few MB."""
_ENDED_ROWS = 5_000
_NAME_BYTES, _COUNT = 8, struct.Struct(">H")


class RowChange(NamedTuple):
    """A row to write. `values` None: delete it. `timestamp`: the write timestamp. `kept_s`: the TTL; 0: none."""

    table: str
    key: Values
    values: Values | None
    timestamp: int
    kept_s: int = 0


class JournalRow(NamedTuple):
    """The journal of a partition of the command log: the epoch of its owner, and the last batch."""

    epoch: int
    batch: bytes


def listed(listing: Listing) -> tuple[int, int, int, int]:
    """A list as the beginning of a key of tables that start with LIST."""
    graph, node, direction, state = listing
    return graph, node, int(direction), int(state)


def of_node(listing: Listing) -> tuple[int, int, int, int]:
    """A list as the beginning of a key of tables that are partitioned by node."""
    graph, node, direction, state = listing
    return node, graph, int(direction), int(state)


def cell_row(listing: Listing, partition: int) -> Key:
    """The key of one partition's counts of a list."""
    return Key("counts", (*of_node(listing), partition))


class Rows(Protocol):
    """What an owner reads and writes. Errors: `StoreUnavailable`."""

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        """The values of each row, without its key; None where there is no row."""
        ...

    async def cells(self, listings: Sequence[Listing]) -> list[list[tuple[int, int, int]]]:
        """The counts of each list, as (partition, length, expiring); see README.md."""
        ...

    def expired_entries(self, listing: Listing, now_ms: int) -> AsyncIterator[Sequence[int]]:
        """The other ends of a list's entries that have expired and are not removed yet, page by page."""
        ...

    async def write(self, changes: Sequence[RowChange]) -> None:
        """Write rows, in any order. Idempotent: writing them again, or late, changes nothing."""
        ...

    async def journal(self, partition: int) -> JournalRow | None:
        """The journal of a partition as last written; None if the partition never had an owner."""
        ...

    async def take_over(self, partition: int, former_epoch: int, epoch: int) -> bool:
        """Set the owner's epoch, if it is still `former_epoch` (0: there is no owner); returns whether it was."""
        ...

    async def write_journal(self, partition: int, epoch: int, batch: bytes) -> bool:
        """Replace the batch of the journal, if `epoch` is still the owner's; returns whether it was."""
        ...


class CassandraRows:
    """`Rows` in Cassandra."""

    def __init__(self, session: Session) -> None:
        self.session, self._reader = session, RowReader(session)

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        return await self._reader.get(keys)

    async def cells(self, listings: Sequence[Listing]) -> list[list[tuple[int, int, int]]]:
        rows_of_lists = await self._reader.all([Key("cells", of_node(listing)) for listing in listings])
        return [[(partition, length, expiring) for partition, length, expiring in rows] for rows in rows_of_lists]

    async def expired_entries(self, listing: Listing, now_ms: int) -> AsyncIterator[Sequence[int]]:
        async for rows in self.session.pages(_ENDED, *listed(listing), now_ms, size=_ENDED_ROWS):
            yield [other_end for (other_end,) in rows]

    async def write(self, changes: Sequence[RowChange]) -> None:
        await self.session.write_many([_statement(change) for change in changes])

    async def journal(self, partition: int) -> JournalRow | None:
        rows = await self.session.rows_serial(_JOURNAL, partition)
        return (
            JournalRow(rows[0][0], _joined_parts({number: part for _, number, part in rows if part})) if rows else None
        )

    async def take_over(self, partition: int, former_epoch: int, epoch: int) -> bool:
        if former_epoch:
            return await self.session.conditional(_TAKE_OVER, epoch, partition, former_epoch)
        return await self.session.conditional(_BEGIN, partition, epoch)

    async def write_journal(self, partition: int, epoch: int, batch: bytes) -> bool:
        name = secrets.token_bytes(_NAME_BYTES)
        count = max(1, -(-len(batch) // JOURNAL_PART_BYTES))
        for number in reversed(range(count)):  # part 0 is written last, and so commits the batch
            part = batch[number * JOURNAL_PART_BYTES : (number + 1) * JOURNAL_PART_BYTES]
            if not await self._write_part(partition, epoch, number, name + _COUNT.pack(count) + part):
                return False
        return True

    async def _write_part(self, partition: int, epoch: int, number: int, part: bytes) -> bool:
        return await self.session.conditional(_WRITE_PART, part, partition, number, epoch)


def _joined_parts(parts: Mapping[int, bytes]) -> bytes:
    """The batch in the rows of a journal, by number.

    Empty if some parts belong to another batch: the owner that started to write that one had finished this one.
    """
    if 0 not in parts:
        return b""
    name, count = parts[0][:_NAME_BYTES], _COUNT.unpack_from(parts[0], _NAME_BYTES)[0]
    in_order = [parts.get(number, b"") for number in range(count)]
    if any(part[:_NAME_BYTES] != name for part in in_order):
        return b""
    return b"".join(part[_NAME_BYTES + _COUNT.size :] for part in in_order)


_LISTED = "graph = ? AND node = ? AND direction = ? AND state = ?"
_ENDED = f"SELECT other FROM {ENDING.name} WHERE {_LISTED} AND expires_ms <= ?"
_JOURNAL = f"SELECT epoch, number, written FROM {JOURNALS.name} WHERE partition = ?"
_BEGIN = f"INSERT INTO {JOURNALS.name} (partition, epoch) VALUES (?, ?) IF NOT EXISTS"
_TAKE_OVER = f"UPDATE {JOURNALS.name} SET epoch = ? WHERE partition = ? IF epoch = ?"
_WRITE_PART = f"UPDATE {JOURNALS.name} SET written = ? WHERE partition = ? AND number = ? IF epoch = ?"


@cache
def _insert(name: str, has_ttl: bool) -> str:
    table = TABLES_BY_NAME[name]
    columns = [*table.key, *(column.split()[0] for column in table.values)]
    marks = ", ".join("?" * len(columns))
    until = " AND TTL ?" if has_ttl else ""
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) USING TIMESTAMP ?{until}"


@cache
def _delete(name: str) -> str:
    key = TABLES_BY_NAME[name].key
    return f"DELETE FROM {name} USING TIMESTAMP ? WHERE {' AND '.join(f'{column} = ?' for column in key)}"


def _statement(change: RowChange) -> tuple[str, Values]:
    """The statement that makes a change, and its values."""
    if change.values is None:
        return _delete(change.table), (change.timestamp, *change.key)
    ttl = (change.kept_s,) if change.kept_s else ()
    return _insert(change.table, bool(ttl)), (*change.key, *change.values, change.timestamp, *ttl)
