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
        self._requests: dict[Key, list[tuple[_Waiter, int]]] = {}
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
        if not self._requests:
            loop.call_soon(self._begin)
        for index, key in enumerate(keys):
            self._requests.setdefault(key, []).append((waiter, index))
        return await waiter.answer

    def _begin(self) -> None:
        """Start reading all rows that were requested in this turn."""
        requests, self._requests = self._requests, {}
        for query in _statements(requests):
            reading = asyncio.get_running_loop().create_task(self._read(query, requests))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read(self, query: _RowQuery, requests: Mapping[Key, Sequence[tuple[_Waiter, int]]]) -> None:
        try:
            rows = await self._session.rows(*query.statement())
        except Exception as error:
            for key in query.keys:
                for waiter, _ in requests[key]:
                    waiter.fail(error)
            return
        width = 1 + len(query.table.order)
        rows_by_key: dict[Values, list[Values]] = defaultdict(list)
        for row in rows:
            rows_by_key[query.place + row[:width]].append(row[width:])
        for key in query.keys:
            rows_of_key = rows_by_key.get(key.key, [])
            for waiter, index in requests[key]:
                waiter.take(index, rows_of_key)


class _Waiter:
    """A call that waits for the rows of its keys; it may have been cancelled."""

    __slots__ = ("_missing", "_rows", "answer")

    def __init__(self, answer: asyncio.Future[list[list[Values]]], count: int) -> None:
        self.answer, self._missing = answer, count
        self._rows: list[list[Values]] = [[]] * count

    def take(self, index: int, rows: list[Values]) -> None:
        """Take the rows of the key at `index`; complete the call with the last key."""
        self._rows[index] = rows
        self._missing -= 1
        if not self._missing and not self.answer.done():
            self.answer.set_result(self._rows)

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
    keys_by_place: dict[tuple[str, Values], dict[Any, list[Key]]] = defaultdict(lambda: defaultdict(list))
    for key in keys:
        place_width = len(TABLES_BY_NAME[key.table].place)
        keys_by_place[key.table, key.key[: place_width - 1]][key.key[place_width - 1]].append(key)
    for (name, place), by_last in keys_by_place.items():
        table = TABLES_BY_NAME[name]
        for lasts, orders, keys_of_statement in _row_groups(by_last, len(table.place)):
            yield _RowQuery(table, place, lasts, orders, keys_of_statement)


_QueryRows = tuple[list[Any], list[Values], list[Key]]


def _row_groups(by_last: dict[Any, list[Key]], place_width: int) -> Iterator[_QueryRows]:
    """Group partitions for one statement each: the same rows are wanted of all, or the product stays small.

    `by_last`: the wanted keys by the last column of their partition key. `place_width`: the columns of that key.
    """
    partitions_by_orders: dict[tuple[Values, ...], list[tuple[Any, list[Key]]]] = defaultdict(list)
    for last, keys_of_last in by_last.items():
        for start in range(0, len(keys_of_last), _ORDERS_MAX):
            chunk = keys_of_last[start : start + _ORDERS_MAX]
            partitions_by_orders[tuple([key.key[place_width:] for key in chunk])].append((last, chunk))
    lasts: list[Any] = []
    orders: dict[Values, None] = {}
    keys: list[Key] = []
    for wanted_orders, partitions in partitions_by_orders.items():
        for last, chunk in partitions:
            all_orders = orders | dict.fromkeys(wanted_orders)
            fits = (
                len(all_orders) == len(orders) == len(wanted_orders)
                or (len(lasts) + 1) * len(all_orders) <= _PRODUCT_MAX
            )
            if lasts and (not fits or len(lasts) == PLACES_MAX or last in lasts):
                yield lasts, list(orders), keys
                lasts, orders, keys = [], {}, []
                all_orders = dict.fromkeys(wanted_orders)
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
    *prefix, last = (column.split()[0] for column in table.place)
    order = [column.split()[0] for column in table.order]
    selected = ", ".join([last, *order, *(column.split()[0] for column in table.values)])
    conditions = [f"{column} = ?" for column in prefix]
    conditions.append(f"{last} = ?" if places == 1 else f"{last} IN ({', '.join('?' * places)})")
    if order:
        marks = f"({', '.join('?' * len(order))})"
        conditions.append(f"({', '.join(order)}) IN ({', '.join([marks] * orders)})")
    return f"SELECT {selected} FROM {table.name} WHERE {' AND '.join(conditions)}"
