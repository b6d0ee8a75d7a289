"""The FanoutState on LMDB: small rows in the database `meta`.

    fanout/name                           the name of the timelines, decimal
    fanout/deliveries/<post>              author, failures: 2 i64; then the checkpoint
    fanout/withheld/<author>              rate: i64
    fanout/version/deliveries, withheld   how often rows of this kind changed, decimal

A process refreshes its snapshot after any commit. It reloads the rows of a kind only if their version has changed.
Progress and failures come from the log (see `log_store`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import lmdb
import numpy as np

from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.driver_errors import translate
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.transaction import Transaction
from kith.home.fanout.state import FAILURES_MAX, Delivery, FanoutSnapshot, Withheld

NAME_NOTE = "fanout/name"
DELIVERIES = "deliveries"
_WITHHELD = "withheld"
_DELIVERY, _RATE = struct.Struct("<2q"), struct.Struct("<q")
T = TypeVar("T")


def rows_of(kind: str) -> str:
    """The key prefix of the notes that hold the rows of a kind."""
    return f"fanout/{kind}/"


class EmbeddedFanoutState:
    """See `home.fanout.state.FanoutState`. `group`: the consumer group whose progress and failures a snapshot has."""

    immediate = True
    _snapshot: FanoutSnapshot

    def __init__(self, environment: Environment, commits: CommitQueue, group: str) -> None:
        self._environment, self._commits, self._group = environment, commits, group
        self._log = EmbeddedLog(environment, commits)
        self._deliveries = _Cached(DELIVERIES, _read_deliveries)
        self._withheld = _Cached(_WITHHELD, _read_withheld)
        self._read_at: int | None = None  # the commit after which `_snapshot` was read

    async def snapshot(self) -> FanoutSnapshot:
        commit = self._environment.last_commit()  # before reading, so that a commit meanwhile refreshes the next one
        if self._read_at != commit:
            self._snapshot, self._read_at = await self._read(), commit
        return self._snapshot

    async def _read(self) -> FanoutSnapshot:
        progress = await self._log.progress(self._group)  # first: old progress only adds events to look at
        try:
            with self._environment.lmdb.begin(self._environment.notes_db) as txn:
                name = txn.get(NAME_NOTE.encode(), None)
                deliveries, withheld = self._deliveries.read(txn), self._withheld.read(txn)
        except lmdb.Error as error:
            raise translate(error, "read") from error
        failures = [failure.event for failure in await self._log.failures(self._group, FAILURES_MAX + 1)]
        return FanoutSnapshot(progress, None if name is None else int(name), deliveries, withheld, failures)

    async def withhold(self, rates: Mapping[int, int]) -> None:
        def raise_rates(batch: Transaction) -> None:
            stored_rows = {author: _row(batch, _WITHHELD, author) for author in rates}
            higher = {author: _RATE.pack(rate) for author, rate in rates.items() if rate > _rate(stored_rows[author])}
            _put(batch, _WITHHELD, higher)

        await self._commits.run(raise_rates)

    async def deliver(self, delivery: Delivery) -> None:
        row = _DELIVERY.pack(delivery.author, delivery.failures) + (delivery.after or b"")
        await self._commits.run(lambda batch: _put(batch, DELIVERIES, {delivery.post: row}))

    async def end_delivery(self, post: int) -> None:
        await self._commits.run(lambda batch: _put(batch, DELIVERIES, {post: None}))

    async def reset(self, name: int) -> None:
        def replace_name(batch: Transaction) -> None:
            cursor = batch.txn.cursor(batch.environment.notes_db)
            _put(batch, DELIVERIES, dict.fromkeys(_rows(cursor, DELIVERIES)))
            batch.put_note(NAME_NOTE, str(name).encode())

        await self._commits.run(replace_name)


class _Cached(Generic[T]):
    """The decoded rows of a kind, reloaded when their version changes."""

    def __init__(self, kind: str, decode: Callable[[dict[int, bytes]], T]) -> None:
        self._kind, self._read, self._version_key = kind, decode, _version_key(kind).encode()
        self._version: bytes | None = None
        self._value = decode({})

    def read(self, txn: lmdb.Transaction[bytes]) -> T:
        """The rows as `txn` sees them; its default database must be `meta`."""
        version = txn.get(self._version_key, None)
        if version != self._version:
            self._value, self._version = self._read(_rows(txn.cursor(), self._kind)), version
        return self._value


def _version_key(kind: str) -> str:
    return f"fanout/version/{kind}"


def _rows(cursor: lmdb.Cursor[bytes], kind: str) -> dict[int, bytes]:
    """The rows of a kind by their ids, ascending."""
    prefix = rows_of(kind).encode()
    rows: dict[int, bytes] = {}
    has_row = cursor.set_range(prefix)
    while has_row and cursor.key().startswith(prefix):
        rows[int(cursor.key()[len(prefix) :])] = cursor.value()
        has_row = cursor.next()
    return rows


def _row_key(kind: str, id_: int) -> str:
    return f"{rows_of(kind)}{id_:020}"


def _row(batch: Transaction, kind: str, id_: int) -> bytes | None:
    return batch.txn.get(_row_key(kind, id_).encode(), None, batch.environment.notes_db)


def _put(batch: Transaction, kind: str, rows: Mapping[int, bytes | None]) -> None:
    """Put rows of a kind, or remove them (None)."""
    changed = {id_: row for id_, row in rows.items() if row != _row(batch, kind, id_)}
    for id_, row in changed.items():
        batch.put_note(_row_key(kind, id_), row)
    if changed:
        version = int(batch.txn.get(_version_key(kind).encode(), b"0", batch.environment.notes_db))
        batch.put_note(_version_key(kind), str(version + 1).encode())


def _read_deliveries(rows: dict[int, bytes]) -> list[Delivery]:
    def read(post: int, row: bytes) -> Delivery:
        author, failures = _DELIVERY.unpack_from(row)
        return Delivery(post, author, row[_DELIVERY.size :] or None, failures)

    return sorted((read(*row) for row in rows.items()), key=lambda delivery: (delivery.failures, delivery.post))


def _read_withheld(rows: dict[int, bytes]) -> Withheld:
    authors = np.fromiter(rows, np.int64, len(rows))
    return Withheld(authors, np.fromiter(map(_rate, rows.values()), np.int64, len(rows)))


def _rate(row: bytes | None) -> int:
    return 0 if row is None else int(_RATE.unpack(row)[0])
