"""Rows by their keys: read many at once, and write what an owner decided.

What an owner needs of Cassandra is `Rows`, which tests also have in memory.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.schema import ENDING, JOURNALS, OWNED, Table
from kith.graph.shapes import Listing

Values = tuple[Any, ...]
Part = tuple[Listing, int]
"""A part of a list, by where it begins; see `parts`."""
TABLES = {table.name: table for table in OWNED}
_KEYS_A_STATEMENT, _PLACES_A_STATEMENT = 64, 16
JOURNAL_PART_BYTES = 1 << 20
"""Of a batch, in one row of the journal: Cassandra takes rows of some MB."""
_NAME_BYTES, _COUNT = 8, struct.Struct(">H")
T = TypeVar("T")


class Key(NamedTuple):
    """A row of a table."""

    table: str
    key: Values


class Change(NamedTuple):
    """A row as it will be; None: it is deleted. `kept_s`: Cassandra forgets it after so long; 0: never."""

    table: str
    key: Values
    values: Values | None
    timestamp: int
    kept_s: int = 0


class Journal(NamedTuple):
    """What is written down of a partition of the log of commands: its owner's number, and the last batch."""

    epoch: int
    batch: bytes


def listed(listing: Listing) -> tuple[int, int, int, int]:
    """A list as the beginning of a key."""
    graph, node, direction, state = listing
    return graph, node, int(direction), int(state)


class Rows(Protocol):
    """What an owner reads and writes. Errors: `StoreUnavailable`."""

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        """The values of each row, without its key; None where there is none."""
        ...

    async def cells(self, listings: Sequence[Listing]) -> list[list[tuple[int, int, int]]]:
        """The counts of each list as (partition, length, expiring), see README.md."""
        ...

    async def ended(self, listings: Sequence[Listing], now_ms: int) -> list[list[int]]:
        """The other ends of the entries of each list that are over by now, and still there."""
        ...

    async def entries(self, parts: Sequence[Part]) -> list[list[tuple[int, int]]]:
        """Each part of a list whole, as (other end, expires_ms)."""
        ...

    async def write(self, changes: Sequence[Change]) -> None:
        """Write rows, in any order. Doing it again changes nothing, nor does doing it late."""
        ...

    async def journal(self, partition: int) -> Journal | None:
        """What is written down of a partition, as the last of these left it; None if it never had an owner."""
        ...

    async def take_over(self, partition: int, before: int, epoch: int) -> bool:
        """Make `epoch` the number of the owner, where it is still `before` (0: where there is none)."""
        ...

    async def write_down(self, partition: int, epoch: int, batch: bytes) -> bool:
        """Replace the batch, where `epoch` is still the number of the owner."""
        ...


class CassandraRows:
    """`Rows` in Cassandra."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        orders: dict[tuple[str, Values], list[Values]] = defaultdict(list)  # by table and partition of Cassandra
        for table, key in dict.fromkeys(keys):
            chooses = len(TABLES[table].place)
            orders[table, key[:chooses]].append(key[chooses:])
        alike: dict[tuple[str, Values, tuple[Values, ...]], list[Any]] = defaultdict(list)
        for (table, place), some in orders.items():
            for at in range(0, len(some), _KEYS_A_STATEMENT):
                alike[table, place[:-1], tuple(some[at : at + _KEYS_A_STATEMENT])].append(place[-1])
        found: dict[Key, Values] = {}
        asked = [
            self._at(TABLES[table], place, lasts[at : at + _PLACES_A_STATEMENT], some)
            for (table, place, some), lasts in alike.items()
            for at in range(0, len(lasts), _PLACES_A_STATEMENT)
        ]
        for rows in await asyncio.gather(*asked):
            found.update(rows)
        return [found.get(key) for key in keys]

    async def _at(
        self, table: Table, place: Values, lasts: Sequence[Any], orders: Sequence[Values]
    ) -> Iterable[tuple[Key, Values]]:
        """The rows of partitions of Cassandra, which differ in the last column that chooses them; the same of each."""
        lasts, orders = _padded(lasts), _padded(orders if table.order else [])
        values = (*place, *lasts, *(value for order in orders for value in order))
        rows = await self.session.rows(_select(table, len(lasts), len(orders)), *values)
        width = 1 + len(table.order)
        return [(Key(table.name, place + row[:width]), row[width:]) for row in rows]

    async def cells(self, listings: Sequence[Listing]) -> list[list[tuple[int, int, int]]]:
        found = await asyncio.gather(*(self.session.rows(_CELLS, *listed(listing)) for listing in listings))
        return [[(partition, length, expiring) for partition, length, expiring in rows] for rows in found]

    async def ended(self, listings: Sequence[Listing], now_ms: int) -> list[list[int]]:
        found = await asyncio.gather(*(self.session.rows(_ENDED, *listed(listing), now_ms) for listing in listings))
        return [[other for (other,) in rows] for rows in found]

    async def entries(self, parts: Sequence[Part]) -> list[list[tuple[int, int]]]:
        found = await asyncio.gather(*(self.session.rows(_ENTRIES, *listed(listing), part) for listing, part in parts))
        return [[(other, expires_ms) for other, expires_ms in rows] for rows in found]

    async def write(self, changes: Sequence[Change]) -> None:
        await self.session.together([_written(change) for change in changes])

    async def journal(self, partition: int) -> Journal | None:
        rows = await self.session.serial(_JOURNAL, partition)
        return Journal(rows[0][0], _whole({number: part for _, number, part in rows if part})) if rows else None

    async def take_over(self, partition: int, before: int, epoch: int) -> bool:
        if before:
            return await self.session.conditional(_TAKE_OVER, epoch, partition, before)
        return await self.session.conditional(_BEGIN, partition, epoch)

    async def write_down(self, partition: int, epoch: int, batch: bytes) -> bool:
        name = secrets.token_bytes(_NAME_BYTES)
        count = max(1, -(-len(batch) // JOURNAL_PART_BYTES))
        for number in reversed(range(count)):  # the first is the last to be written, and says that all are
            part = batch[number * JOURNAL_PART_BYTES : (number + 1) * JOURNAL_PART_BYTES]
            if not await self._write_part(partition, epoch, number, name + _COUNT.pack(count) + part):
                return False
        return True

    async def _write_part(self, partition: int, epoch: int, number: int, part: bytes) -> bool:
        return await self.session.conditional(_WRITE_DOWN, part, partition, number, epoch)


def _whole(parts: Mapping[int, bytes]) -> bytes:
    """The batch of some rows of a journal.

    Nothing, if parts of another are among its own: whoever began to write down another was done with it.
    """
    if 0 not in parts:
        return b""
    name, count = parts[0][:_NAME_BYTES], _COUNT.unpack_from(parts[0], _NAME_BYTES)[0]
    some = [parts.get(number, b"") for number in range(count)]
    if any(part[:_NAME_BYTES] != name for part in some):
        return b""
    return b"".join(part[_NAME_BYTES + _COUNT.size :] for part in some)


_LISTED = "graph = ? AND node = ? AND direction = ? AND state = ?"
_CELLS = f"SELECT partition, length, expiring FROM counts WHERE {_LISTED}"
_ENDED = f"SELECT other FROM {ENDING.name} WHERE {_LISTED} AND expires_ms <= ?"
_ENTRIES = f"SELECT other, expires_ms FROM list_entries WHERE {_LISTED} AND part = ?"
_JOURNAL = f"SELECT epoch, number, written FROM {JOURNALS.name} WHERE partition = ?"
_BEGIN = f"INSERT INTO {JOURNALS.name} (partition, epoch) VALUES (?, ?) IF NOT EXISTS"
_TAKE_OVER = f"UPDATE {JOURNALS.name} SET epoch = ? WHERE partition = ? IF epoch = ?"
_WRITE_DOWN = f"UPDATE {JOURNALS.name} SET written = ? WHERE partition = ? AND number = ? IF epoch = ?"


def _padded(values: Sequence[T]) -> Sequence[T]:
    """As many values as a power of two, with the last one repeated: so there are few statements to prepare."""
    return [*values, *[values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))] if values else values


@cache
def _select(table: Table, places: int, orders: int) -> str:
    """The statement for rows of some partitions of Cassandra: the end of their keys, and their values."""
    *chosen, last = (column.split()[0] for column in table.place)
    order = [column.split()[0] for column in table.order]
    shown = ", ".join([last, *order, *(column.split()[0] for column in table.values)])
    where = [f"{column} = ?" for column in chosen]
    where.append(f"{last} = ?" if places == 1 else f"{last} IN ({', '.join('?' * places)})")
    if order:
        marks = f"({', '.join('?' * len(order))})"
        where.append(f"({', '.join(order)}) IN ({', '.join([marks] * orders)})")
    return f"SELECT {shown} FROM {table.name} WHERE {' AND '.join(where)}"


@cache
def _insert(name: str, kept: bool) -> str:
    table = TABLES[name]
    columns = [*table.key, *(column.split()[0] for column in table.values)]
    marks = ", ".join("?" * len(columns))
    until = " AND TTL ?" if kept else ""
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) USING TIMESTAMP ?{until}"


@cache
def _delete(name: str) -> str:
    return f"DELETE FROM {name} USING TIMESTAMP ? WHERE {' AND '.join(f'{column} = ?' for column in TABLES[name].key)}"


def _written(change: Change) -> tuple[str, Values]:
    """The statement of a change, and its values."""
    if change.values is None:
        return _delete(change.table), (change.timestamp, *change.key)
    kept = (change.kept_s,) if change.kept_s else ()
    return _insert(change.table, bool(kept)), (*change.key, *change.values, change.timestamp, *kept)
