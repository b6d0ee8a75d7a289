"""The RecordStore on Cassandra: a `put` sends commands to the owners of its rows, one owner after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from kith.core.events import NOWHERE, LogPosition
from kith.core.gathering import gather
from kith.core.tokens import WriteMark
from kith.engines.cassandra.commands import AnyCommand, Owners
from kith.engines.cassandra.edge_commands import WriteEdges
from kith.engines.cassandra.edge_store import CassandraEdges
from kith.engines.cassandra.row_commands import (
    INDEXED,
    Conditional,
    ForgetRecords,
    ReleaseClaim,
    TakeClaim,
    TakeClaims,
    WriteRecords,
    claim_row,
    claimed,
    period_of,
    read_record,
    record_row,
)
from kith.engines.cassandra.rows import CassandraRows
from kith.graph.edge import REFUSED, EdgeChange, EdgeWrite, Outcome
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, Write

DELETED_PER_COMMAND = 1_000
_ITEMS_MAX, _ITEMS_BYTES_MAX = 200, 1 << 18
"""Claims or records, and their bytes, in one command of `put_many`; a command has COMMAND_BYTES_MAX at most."""
T = TypeVar("T")
A = TypeVar("A")
_PERIODS = "SELECT period, partition FROM record_periods WHERE kind = ? AND period >= ? AND period <= ?"
_IDS = "SELECT id FROM record_ids WHERE kind = ? AND partition = ? AND period = ? AND id < ? LIMIT ?"


class CassandraRecords:
    """See `records.store.RecordStore`; this engine is not transactional."""

    transactional = immediate = False

    def __init__(self, rows: CassandraRows, owners: Owners, edges: CassandraEdges) -> None:
        self._rows, self._owners, self._edges = rows, owners, edges
        self._first_periods: dict[RecordKind, int] = {}  # the first period in which `forget_below` last found records

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        return await _PutCall(self, self._owners, self._edges, records, only_if, claim).put(edges)

    async def put_many(self, writes: Sequence[Write]) -> list[Put]:
        """Send each owner all its claims, then all its records, in few commands: one costs as much as several rows."""
        claims = {index: write.claim for index, write in enumerate(writes) if write.claim is not None}
        of_claim, of_record = self._owners.partitions.of_claim, self._owners.partitions.of_record
        claim_answers = await self._at_owners(
            [(of_claim(claim.key), (index, claim), len(claim.value)) for index, claim in claims.items()],
            lambda items: TakeClaims([claim for _, claim in items]),
            list[bytes | None],
        )
        claim_values = {
            index: value for items, values, _ in claim_answers for (index, _), value in zip(items, values, strict=True)
        }
        records = [
            (index, record)
            for index, write in enumerate(writes)
            if claim_values.get(index) is None
            for record in write.records
        ]
        record_answers = await self._at_owners(
            [(of_record(record.kind, record.id), (index, record), len(record.data)) for index, record in records],
            lambda items: WriteRecords([Conditional(record, None) for _, record in items]),
            int,
        )
        positions = dict.fromkeys(range(len(writes)), NOWHERE)
        positions_reached = [(index, position) for items, _, position in claim_answers for index, _ in items]
        positions_reached += [(index, position) for items, _, position in record_answers for index, _ in items]
        for index, position in positions_reached:
            positions[index] = self._owners.joined(positions[index], position)
        newest = [max((record.updated_at for record in write.records), default=0) for write in writes]
        return [
            Put(
                claim_values.get(index) is None, [], WriteMark(positions[index], newest[index]), claim_values.get(index)
            )
            for index in range(len(writes))
        ]

    async def _at_owners(
        self, items: Iterable[tuple[int, T, int]], command: Callable[[list[T]], AnyCommand], kind: type[A]
    ) -> list[tuple[list[T], A, LogPosition]]:
        """Send items (owner, item, bytes) to their owners, in order, many per command.

        Returns, per command, its items, the answer and the log position.
        """
        parts: dict[int, list[list[T]]] = defaultdict(list)
        bytes_left: dict[int, int] = defaultdict(int)
        for owner, item, size in items:
            if not parts[owner] or bytes_left[owner] < size or len(parts[owner][-1]) == _ITEMS_MAX:
                parts[owner].append([])
                bytes_left[owner] = _ITEMS_BYTES_MAX
            parts[owner][-1].append(item)
            bytes_left[owner] -= size
        requests = [(owner, chunk) for owner, chunks in parts.items() for chunk in chunks]
        answers = await self._owners.ask_many([(owner, command(chunk)) for owner, chunk in requests], kind)
        return [(chunk, answer, position) for (_, chunk), (answer, position) in zip(requests, answers, strict=True)]

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        rows = await self._rows.get([record_row(kind, id_) for id_ in ids])
        return [None if row is None else read_record(kind, id_, row) for id_, row in zip(ids, rows, strict=True)]

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        rows = await self._rows.get([record_row(kind, id_) for id_ in ids])
        return [0 if row is None else row[0] for row in rows]

    async def newest(self, kind: RecordKind, below: int, limit: int) -> list[int]:
        return []

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        rows = await self._rows.get([claim_row(claim.key) for claim in claims])
        return [claimed(row, claim.now_ms) for row, claim in zip(rows, claims, strict=True)]

    async def versions_match(self, conditions: Sequence[AtVersion]) -> bool:
        """Whether all stored records have these versions."""
        rows = await self._rows.get([record_row(condition.kind, condition.id) for condition in conditions])
        versions = (0 if row is None else row[0] for row in rows)
        return all(version == condition.version for version, condition in zip(versions, conditions, strict=True))

    async def forget(self, kind: RecordKind, ids: Sequence[int], versions: Sequence[int] | None = None) -> None:
        await self._forget(kind, ids, None, None if versions is None else dict(zip(ids, versions, strict=True)))

    async def forget_below(self, kind: RecordKind, below: int, limit: int) -> int:
        if kind not in INDEXED:
            raise ValueError(f"records of kind {kind.name} are not found by their ids; see INDEXED in row_commands.py")
        first_period = self._first_periods.pop(kind, 0)  # without one, scan all periods, more each year
        periods: dict[int, list[int]] = defaultdict(list)
        for period, partition in await self._rows.session.rows(_PERIODS, int(kind), first_period, period_of(below)):
            periods[period].append(partition)
        ids: list[int] = []
        for period in sorted(periods):
            reads = (
                self._rows.session.rows(_IDS, int(kind), partition, period, below, limit)
                for partition in periods[period]
            )
            ids_of_period = sorted(id_ for rows in await gather(False, *reads) for (id_,) in rows)
            if ids_of_period:
                self._first_periods.setdefault(kind, period)
            ids += ids_of_period[: limit - len(ids)]
            if len(ids) == limit:
                break
        await self._forget(kind, ids, ids[-1] + 1 if ids else None)
        return len(ids)

    async def _forget(
        self, kind: RecordKind, ids: Sequence[int], below: int | None, versions: Mapping[int, int] | None = None
    ) -> None:
        ids_by_owner: dict[int, list[int]] = defaultdict(list)
        for id_ in dict.fromkeys(ids):
            ids_by_owner[self._owners.partitions.of_record(kind, id_)].append(id_)
        parts = [
            (owner, ids_of_owner[start : start + DELETED_PER_COMMAND])
            for owner, ids_of_owner in ids_by_owner.items()
            for start in range(0, len(ids_of_owner), DELETED_PER_COMMAND)
        ]
        commands = [
            (owner, ForgetRecords(kind, part, below, None if versions is None else [versions[id_] for id_ in part]))
            for owner, part in parts
        ]
        await self._owners.ask_many(commands, type(None))


class _PutCall:
    """One call of `put`, in the steps that `RecordStore` lays down."""

    def __init__(
        self,
        store: CassandraRecords,
        owners: Owners,
        edges: CassandraEdges,
        records: Sequence[Record],
        only_if: Sequence[AtVersion],
        claim: Claim | None,
    ) -> None:
        self._store, self._owners, self._edges = store, owners, edges
        self._records, self._claim = records, claim
        self._versions = {condition[:2]: condition.version for condition in only_if}
        self._other_conditions = [
            condition for condition in only_if if condition[:2] not in {(record.kind, record.id) for record in records}
        ]
        self._newest = max((record.updated_at for record in records), default=0)
        self._reached = NOWHERE

    async def put(self, edges: Sequence[EdgeWrite]) -> Put:
        if self._other_conditions and not await self._store.versions_match(self._other_conditions):
            await self._reach_conditions(self._other_conditions)
            return self._answer(stored=False)
        if self._claim is not None:
            owner = self._owners.partitions.of_claim(self._claim.key)
            claim_value, position = await self._owners.ask(owner, TakeClaim(self._claim), bytes | None)  # type: ignore[arg-type]
            self._reach(position)
            if claim_value is not None:
                return self._answer(stored=False)._replace(claimed=claim_value)
        written_count = await self._write()
        if written_count < len(self._records):
            if written_count == 0:
                await self._release()
            return self._answer(stored=False)
        changes = await self._merge(edges)
        put = self._answer(stored=True)._replace(changes=changes)
        if put.refusal is not None:
            await self._release()
            return put._replace(stored=False)
        return put._replace(mark=WriteMark(self._reached, self._newest))

    async def _reach_conditions(self, conditions: Sequence[AtVersion]) -> None:
        """Reach a log position that covers the changes by which these conditions do not hold."""
        owners = {self._owners.partitions.of_record(condition.kind, condition.id) for condition in conditions}
        for _, position in await self._owners.ask_many([(owner, WriteRecords([])) for owner in owners], int):
            self._reach(position)

    async def _write(self) -> int:
        """Write records in order, with adjacent records of one owner in one command; returns how many were written."""
        written_count = 0
        for owner, chunk in self._by_owner():
            chunk_written, position = await self._owners.ask(owner, WriteRecords(chunk), int)
            self._reach(position)
            written_count += chunk_written
            if chunk_written < len(chunk):
                break
        return written_count

    def _by_owner(self) -> Iterable[tuple[int, list[Conditional]]]:
        parts: list[tuple[int, list[Conditional]]] = []
        for record in self._records:
            owner = self._owners.partitions.of_record(record.kind, record.id)
            if not parts or parts[-1][0] != owner:
                parts.append((owner, []))
            parts[-1][1].append(Conditional(record, self._versions.get((record.kind, record.id))))
        return parts

    async def _merge(self, edges: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge the first edge; merge the others unless the first is REFUSED."""
        if not edges:
            return []
        of_node = self._owners.partitions.of_node
        owner = of_node(edges[0].edge.source)
        if all(of_node(write.edge.source) == owner for write in edges):
            answer, position = await self._owners.ask(
                owner, WriteEdges(list(edges), first_decides=True), list[EdgeChange | None]
            )
            self._reach(position)
            return [_at_position(change, self._reached) for change in answer]
        if may_be_refused(edges[0]):
            changes = await self._edges.apply(edges[:1])
            if changes[0].outcome not in REFUSED:
                changes += await self._edges.apply(edges[1:])
        else:
            changes = await self._edges.apply(edges)
        for change in changes:
            self._reach(change.log_position)
        return changes

    async def _release(self) -> None:
        if self._claim is not None:
            owner = self._owners.partitions.of_claim(self._claim.key)
            await self._owners.ask(owner, ReleaseClaim(self._claim), type(None))

    def _reach(self, position: LogPosition) -> None:
        self._reached = self._owners.joined(self._reached, position)

    def _answer(self, *, stored: bool) -> Put:
        return Put(stored, [], WriteMark(self._reached, self._newest))


def may_be_refused(write: EdgeWrite) -> bool:
    """Whether a write has a condition that can refuse it (`edge.REFUSED`)."""
    return write.if_active or write.if_public or bool(write.unless) or write.limit is not None


def _at_position(change: EdgeChange | None, position: LogPosition) -> EdgeChange:
    if change is None:
        return EdgeChange(Outcome.UNCHANGED, None, None)
    return msgspec.structs.replace(change, log_position=position) if change.outcome is Outcome.APPLIED else change
