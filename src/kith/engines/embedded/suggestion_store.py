"""The SuggestionStore on LMDB: one ranking for each user.

    database suggestions    row      key  0 | user u64                    row  expires at ms u64 | data
                            its end  key  1 | expires at ms u64 | user u64   row  empty

Each new row deletes up to _DELETED_PER_ROW expired ones. So the table holds little more than the valid rows, and needs
no job to clean it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial

import lmdb

from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.driver_errors import translate
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.transaction import Transaction
from kith.suggestions.store import RankingRow

_KEY = struct.Struct(">BQ")
_UNTIL = struct.Struct(">Q")
_END_KEY = struct.Struct(">BQQ")
_ROW, _END = 0, 1
_DELETED_PER_ROW = 2


class EmbeddedSuggestions:
    """See `suggestions.store.SuggestionStore`."""

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        self._environment, self._commits = environment, commits

    async def put_many(self, rows: Sequence[RankingRow], now_ms: int) -> None:
        await self._commits.run(partial(_put, rows=rows, now_ms=now_ms), len(rows))

    async def get(self, user: int) -> RankingRow | None:
        try:
            with self._environment.lmdb.begin(self._environment.suggestions) as txn:
                row = txn.get(_KEY.pack(_ROW, user), None)
        except lmdb.Error as error:
            raise translate(error, "read") from error
        return None if row is None else RankingRow(user, _UNTIL.unpack_from(row)[0], row[_UNTIL.size :])


def _put(batch: Transaction, rows: Sequence[RankingRow], now_ms: int) -> None:
    cursor = batch.txn.cursor(batch.environment.suggestions)
    for user, until_ms, data in rows:
        key = _KEY.pack(_ROW, user)
        if cursor.set_key(key):
            (before_ms,) = _UNTIL.unpack_from(cursor.value())
            batch.put("suggestions", _END_KEY.pack(_END, before_ms, user), None)
        batch.put("suggestions", key, _UNTIL.pack(until_ms) + data)
        batch.put("suggestions", _END_KEY.pack(_END, until_ms, user), b"")
        for _ in range(_DELETED_PER_ROW):
            _forget_one(batch, cursor, now_ms)


def _forget_one(batch: Transaction, cursor: lmdb.Cursor[bytes], now_ms: int) -> None:
    """Delete the row that expired first, if one has expired."""
    if not cursor.set_range(bytes([_END])):
        return
    _, until_ms, user = _END_KEY.unpack(cursor.key())
    if until_ms <= now_ms:
        batch.put("suggestions", cursor.key(), None)
        batch.put("suggestions", _KEY.pack(_ROW, user), None)
