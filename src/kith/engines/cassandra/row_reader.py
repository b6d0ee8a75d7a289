"""Reads rows by their keys, and batches the reads of one turn of the event loop.

A statement reads the same rows from up to PLACES_MAX partitions of Cassandra that differ only in the last column of
the partition key. If different rows are wanted of each partition, a statement may also look for a few that nobody
wants, where that costs less than another statement.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.schema import TABLES_BY_NAME, Table

Values = tuple[Any, ...]
PLACES_MAX, _ORDERS_MAX = 32, 128
_PRODUCT_MAX = 64
"""Rows that one statement may look for if different rows are wanted of each partition."""
T = TypeVar("T")


class Key(NamedTuple):
    """The name of a table, and the key of a row in it."""

    table: str
    key: Values


class RowReader:
    """Reads rows, in batches. For one event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked: dict[Key, list[tuple[_Waiter, int]]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        """See `rows.Rows`."""
        return [rows[0] if rows else None for rows in await self.all(keys)]

    async def all(self, keys: Sequence[Key]) -> list[list[Values]]:
        """All rows of each key. Several for `cells`, whose keys are only the beginning of those of `counts`."""
        if not keys:
            return []
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future(), len(keys))
        if not self._asked:
            loop.call_soon(self._begin)
        for at, key in enumerate(keys):
            self._asked.setdefault(key, []).append((waiter, at))
        return await waiter.answer

    def _begin(self) -> None:
        """Start reading all rows that were requested in this turn."""
        asked, self._asked = self._asked, {}
        for wanted in _statements(asked):
            reading = asyncio.get_running_loop().create_task(self._read(wanted, asked))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read(self, wanted: _RowQuery, asked: Mapping[Key, Sequence[tuple[_Waiter, int]]]) -> None:
        try:
            rows = await self._session.rows(*wanted.statement())
        except Exception as error:
            for key in wanted.keys:
                for waiter, _ in asked[key]:
                    waiter.fail(error)
            return
        width = 1 + len(wanted.table.order)
        found: dict[Values, list[Values]] = defaultdict(list)
        for row in rows:
            found[wanted.place + row[:width]].append(row[width:])
        for key in wanted.keys:
            of_key = found.get(key.key, [])
            for waiter, at in asked[key]:
                waiter.take(at, of_key)


class _Waiter:
    """A call that waits for the rows of its keys; it may have been cancelled."""

    __slots__ = ("_found", "_missing", "answer")

    def __init__(self, answer: asyncio.Future[list[list[Values]]], count: int) -> None:
        self.answer, self._missing = answer, count
        self._found: list[list[Values]] = [[]] * count

    def take(self, at: int, rows: list[Values]) -> None:
        """Take the rows of the key at index `at`; complete the call with the last key."""
        self._found[at] = rows
        self._missing -= 1
        if not self._missing and not self.answer.done():
            self.answer.set_result(self._found)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _RowQuery(NamedTuple):
    """What one statement reads: the rows `orders` from each partition that ends in one of `lasts`."""

    table: Table
    place: Values  # the columns of the partition key, but for the last one
    lasts: Sequence[Any]  # of the last column of the partition key
    orders: Sequence[Values]  # of the clustering columns
    keys: Sequence[Key]  # the rows that somebody waits for

    def statement(self) -> tuple[Any, ...]:
        """The statement, and its values."""
        lasts, orders = padded(self.lasts), padded(self.orders if self.table.order else ())
        select = _select(self.table, len(lasts), len(orders))
        return (select, *self.place, *lasts, *(value for order in orders for value in order))


def _statements(keys: Iterable[Key]) -> Iterator[_RowQuery]:
    """Group keys into few statements."""
    wanted: dict[tuple[str, Values], dict[Any, list[Key]]] = defaultdict(lambda: defaultdict(list))
    for key in keys:
        chooses = len(TABLES_BY_NAME[key.table].place)
        wanted[key.table, key.key[: chooses - 1]][key.key[chooses - 1]].append(key)
    for (name, place), by_last in wanted.items():
        table = TABLES_BY_NAME[name]
        for lasts, orders, keys_of_statement in _together(by_last, len(table.place)):
            yield _RowQuery(table, place, lasts, orders, keys_of_statement)


_QueryRows = tuple[list[Any], list[Values], list[Key]]


def _together(by_last: dict[Any, list[Key]], chooses: int) -> Iterator[_QueryRows]:
    """Group partitions for one statement each: the same rows are wanted of all, or the product stays small.

    `by_last`: the wanted keys by the last column of their partition key. `chooses`: the columns of the partition key.
    """
    alike: dict[tuple[Values, ...], list[tuple[Any, list[Key]]]] = defaultdict(list)
    for last, wanted in by_last.items():
        for at in range(0, len(wanted), _ORDERS_MAX):
            chunk = wanted[at : at + _ORDERS_MAX]
            alike[tuple([key.key[chooses:] for key in chunk])].append((last, chunk))
    lasts: list[Any] = []
    orders: dict[Values, None] = {}
    keys: list[Key] = []
    for ends, of in alike.items():
        for last, chunk in of:
            all_orders = orders | dict.fromkeys(ends)
            fits = len(all_orders) == len(orders) == len(ends) or (len(lasts) + 1) * len(all_orders) <= _PRODUCT_MAX
            if lasts and (not fits or len(lasts) == PLACES_MAX or last in lasts):
                yield lasts, list(orders), keys
                lasts, orders, keys = [], {}, []
                all_orders = dict.fromkeys(ends)
            lasts.append(last)
            orders = all_orders
            keys += chunk
    if lasts:
        yield lasts, list(orders), keys


def padded(values: Sequence[T]) -> Sequence[T]:
    """The values, with the last one repeated up to a power of two: so there are few statements to prepare."""
    return [*values, *[values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))] if values else values


@cache
def _select(table: Table, places: int, orders: int) -> str:
    """The statement that reads `orders` rows from each of `places` partitions: their last key columns and values."""
    *chosen, last = (column.split()[0] for column in table.place)
    order = [column.split()[0] for column in table.order]
    shown = ", ".join([last, *order, *(column.split()[0] for column in table.values)])
    where = [f"{column} = ?" for column in chosen]
    where.append(f"{last} = ?" if places == 1 else f"{last} IN ({', '.join('?' * places)})")
    if order:
        marks = f"({', '.join('?' * len(order))})"
        where.append(f"({', '.join(order)}) IN ({', '.join([marks] * orders)})")
    return f"SELECT {shown} FROM {table.name} WHERE {' AND '.join(where)}"
