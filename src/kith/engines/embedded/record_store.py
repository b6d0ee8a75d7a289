"""The RecordStore on LMDB, in the same transactions as the edges.

    database objects    record   key  kind u8 (below 128) | id u64    row  updated_at u64 | data
                        claim    key  128 | key of 16 bytes           row  expires at ms u64 | value
                        its end  key  129 | expires at ms u64 | key   row  empty

Each new claim deletes up to _DELETED_PER_CLAIM expired ones. So the table holds little more than the valid claims, and
needs no job to clean it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat

import lmdb

from kith.core.clock import Hlc
from kith.core.tokens import WriteMark
from kith.engines.embedded.changes import (
    claim_key,
    claim_taken,
    expired_claims,
    newest_records,
    put_claim,
    put_record,
    record_changed,
    record_forgotten,
    record_key,
    record_keys,
    records_forgotten,
)
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.driver_errors import translate, translate_errors
from kith.engines.embedded.environment import Environment, Txn
from kith.engines.embedded.jobs import WriteJob
from kith.engines.embedded.merging import apply_all, graphs_of
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import REFUSED, EdgeWrite
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, Write, newer

_VERSION = struct.Struct(">Q")
_DELETED_PER_CLAIM = 8
_READ_AT_ONCE = 1_000


class PutRecords(WriteJob, frozen=True):
    """The job of `put`. Its answer is a `Put`."""

    records: Sequence[Record]
    edges: Sequence[EdgeWrite]
    only_if: Sequence[AtVersion]
    claim: Claim | None

    def __call__(self, batch: Transaction) -> Put:
        return _put(batch, self.records, self.edges, self.only_if, self.claim)

    def graphs(self) -> Collection[int]:
        return graphs_of(self.edges)


class PutMany(WriteJob, frozen=True):
    """The job of `put_many`. Its answer is a list of `Put`."""

    writes: Sequence[Write]

    def __call__(self, batch: Transaction) -> list[Put]:
        return _put_many(batch, self.writes)


class EmbeddedRecords:
    """See `records.store.RecordStore`. This engine is transactional."""

    transactional = immediate = True

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        self._environment, self._commits = environment, commits

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        return await self._commits.run(PutRecords(records, edges, only_if, claim), len(records) + len(edges))

    async def put_many(self, writes: Sequence[Write]) -> list[Put]:
        return await self._commits.run(PutMany(writes), sum(len(write.records) for write in writes))

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        rows = self._rows(kind, ids)
        version, size = _VERSION.unpack_from, _VERSION.size
        return [
            None if row is None else Record(kind, id_, version(row)[0], row[size:])
            for id_, row in zip(ids, rows, strict=True)
        ]

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        version = _VERSION.unpack_from
        return [0 if row is None else version(row)[0] for row in self._rows(kind, ids)]

    def _rows(self, kind: RecordKind, ids: Sequence[int]) -> list[bytes | None]:
        try:
            with self._environment.lmdb.begin(self._environment.records) as txn:
                return list(map(txn.get, map(record_key, repeat(kind), ids)))
        except lmdb.Error as error:
            raise translate(error, "read") from error

    async def newest(self, kind: RecordKind, below: int, limit: int) -> list[int]:
        try:
            with self._environment.lmdb.begin() as txn:
                return newest_records(txn, self._environment.records, kind, below, limit)
        except lmdb.Error as error:
            raise translate(error, "read") from error

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        try:
            with self._environment.lmdb.begin() as txn:
                return [_claimed(txn, self._environment.records, claim) for claim in claims]
        except lmdb.Error as error:
            raise translate(error, "read") from error

    async def forget(self, kind: RecordKind, ids: Sequence[int], versions: Sequence[int] | None = None) -> None:
        def drop(batch: Transaction) -> None:
            versions_of_ids: Sequence[int | None] = [None] * len(ids) if versions is None else versions
            for id_, version in zip(ids, versions_of_ids, strict=True):
                condition = None if version is None else AtVersion(kind, id_, version)
                if condition is None or _holds(batch.txn, batch.environment.records, condition):
                    batch.apply(record_forgotten(kind, id_))

        await self._commits.run(drop, len(ids))

    async def forget_below(self, kind: RecordKind, below: int, limit: int) -> int:
        def drop(batch: Transaction) -> int:
            keys = record_keys(batch.txn, self._environment.records, kind, below, limit)
            if keys:
                batch.apply(records_forgotten(kind, int.from_bytes(keys[-1][1:], "big") + 1))
            return len(keys)

        return await self._commits.run(drop, limit)


def _put(
    batch: Transaction,
    records: Sequence[Record],
    edges: Sequence[EdgeWrite],
    only_if: Sequence[AtVersion],
    claim: Claim | None,
) -> Put:
    """One call of `put`, inside a transaction."""
    txn, db = batch.txn, batch.environment.records
    newest = max((record.updated_at for record in records), default=0)
    claimed = None if claim is None else _claimed(txn, db, claim)
    if claimed is not None or not all(_holds(txn, db, condition) for condition in only_if):
        return Put(False, [], WriteMark(batch.log_position(), newest), claimed)
    changes = apply_all(batch, edges[:1]) if edges else []
    if changes and changes[0].outcome in REFUSED:
        return Put(False, changes, WriteMark(batch.log_position(), newest))
    changes += apply_all(batch, edges[1:])
    if claim is not None:
        _forget_expired(batch, claim.now_ms, _DELETED_PER_CLAIM)
        _take(batch, claim)
    _store(batch, records)
    return Put(True, changes, WriteMark(batch.log_position(), newest))


def _put_many(batch: Transaction, writes: Sequence[Write]) -> list[Put]:
    """One call of `put_many`, inside a transaction."""
    txn, db, claim_values = batch.txn, batch.environment.records, list[bytes | None]()
    claims = [write.claim for write in writes if write.claim is not None]
    if claims:
        _forget_expired(batch, max(claim.now_ms for claim in claims), _DELETED_PER_CLAIM * len(claims))
    for records, claim in writes:
        claimed = None if claim is None else _claimed(txn, db, claim)
        claim_values.append(claimed)
        if claimed is None:
            if claim is not None:
                _take(batch, claim)
            _store(batch, records)
    newest = max((record.updated_at for write in writes for record in write.records), default=0)
    mark = WriteMark(batch.log_position(), newest)
    return [Put(claimed is None, [], mark, claimed) for claimed in claim_values]


def _store(batch: Transaction, records: Sequence[Record]) -> None:
    """Store each record that is newer than the stored one."""
    txn, db = batch.txn, batch.environment.records
    for record in records:
        stored = _get(txn, db, record.kind, record.id)
        if newer(stored, record) is not stored:
            put_record(txn, db, record)
            batch.append(record_changed(record))


def _get(txn: Txn, db: lmdb._Database, kind: RecordKind, id_: int) -> Record | None:
    row = txn.get(record_key(kind, id_), None, db)
    return None if row is None else _read(kind, id_, row)


def _read(kind: RecordKind, id_: int, row: bytes) -> Record:
    return Record(kind, id_, Hlc(_VERSION.unpack_from(row)[0]), row[_VERSION.size :])


def _holds(txn: Txn, db: lmdb._Database, condition: AtVersion) -> bool:
    stored = _get(txn, db, condition.kind, condition.id)
    return (0 if stored is None else stored.updated_at) == condition.version


def _claimed(txn: Txn, db: lmdb._Database, claim: Claim) -> bytes | None:
    """The value of an earlier claim of the same key that has not expired."""
    row = txn.get(claim_key(claim.key), None, db)
    if row is None or _VERSION.unpack_from(row)[0] <= claim.now_ms:
        return None
    return row[_VERSION.size :]


def _take(batch: Transaction, claim: Claim) -> None:
    """Store a claim."""
    until_ms = claim.now_ms + claim.keep_ms
    put_claim(batch.txn, batch.environment.records, claim.key, until_ms, claim.value)
    batch.append(claim_taken(claim.key, until_ms, claim.value))


def _forget_expired(batch: Transaction, now_ms: int, limit: int) -> None:
    """Delete some expired claims. The log does not hold this: each standby deletes its own."""
    for key in expired_claims(batch.txn, batch.environment.records, now_ms, limit):
        batch.put("objects", key, None)


def every_record(environment: Environment, kind: RecordKind) -> Iterator[Record]:
    """All records of a kind, ascending by id, read 1,000 at a time. Those written meanwhile may be included or not."""
    start = record_key(kind, 0)
    while True:
        rows: list[tuple[bytes, bytes]] = []
        with translate_errors("read", environment.folder), environment.lmdb.begin(environment.records) as txn:
            cursor = txn.cursor()
            has_row = cursor.set_range(start)
            while has_row and cursor.key()[0] == kind and len(rows) < _READ_AT_ONCE:
                rows.append((cursor.key(), cursor.value()))
                has_row = cursor.next()
        for key, row in rows:
            id_ = int.from_bytes(key[1:], "big")
            yield Record(kind, id_, Hlc(*_VERSION.unpack_from(row)), row[_VERSION.size :])
        if len(rows) < _READ_AT_ONCE:
            return
        start = rows[-1][0] + b"\0"
