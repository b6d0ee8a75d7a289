"""Commands that change nodes, notes, records and claims: rows that appear in no list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kith.core.clock import Hlc
from kith.core.events import NODE_CHANGED, RECORD_CHANGED, RECORD_FORGOTTEN, RECORDS_FORGOTTEN, Event
from kith.engines.cassandra.owner_command import OwnerCommand
from kith.engines.cassandra.row_batch import RowBatch
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.schema import SHELF
from kith.graph.edge import State
from kith.graph.shapes import Node
from kith.records.store import Claim, Record, RecordKind, newer

INDEXED = frozenset({RecordKind.NOTICE, RecordKind.MENTION_OUTCOME, RecordKind.MENTION_RING})
"""Kinds whose records are indexed by id, so that those with the lowest ids can be deleted."""
_PERIOD_BITS = 52  # of an id: about 12 days, as the milliseconds of an id begin at bit 22
_CLAIM_SLACK_S = 86_400  # a claim's row is kept this much longer: clocks of clients and of Cassandra differ


class Conditional(NamedTuple):
    """A record to write, if the stored one has this version (0: if none is stored; None: in any case)."""

    record: Record
    version: int | None


class ChangeNode(OwnerCommand, frozen=True, tag="node"):
    """See `graph.store.Nodes.change_node`; answers the node."""

    node: int
    state: State | None = None
    private: bool | None = None
    labels: int | None = None
    only_from: State | None = None
    tell: Event | None = None

    def reads(self, partition: int) -> Iterable[Key]:
        return [Key("nodes", (self.node,))]

    def run(self, batch: RowBatch) -> Node:
        before = batch.node(self.node)
        if self.only_from is not None and before.state != self.only_from:
            return before
        after = Node(
            before.state if self.state is None else self.state,
            before.private if self.private is None else self.private,
            before.labels if self.labels is None else self.labels,
        )
        if after != before:
            batch.put(Key("nodes", (self.node,)), (int(after.state), after.private, after.labels))
            if self.tell is not None:
                batch.events.append(self.tell)
            data = b"" if after == Node() else bytes([after.state, after.private, after.labels])
            batch.events.append(Event(0, None, NODE_CHANGED, self.node, 0, 0, Hlc(0), data=data))
        return after


class PutNote(OwnerCommand, frozen=True, tag="note"):
    """See `graph.store.Notes.put_note`; answers whether the note was written. `only_if` applies if `conditional`."""

    name: str
    note: bytes | None
    conditional: bool = False
    only_if: bytes | None = None

    def reads(self, partition: int) -> Iterable[Key]:
        return [note_row(self.name)]

    def run(self, batch: RowBatch) -> bool:
        key = note_row(self.name)
        stored = batch.get(key)
        if self.conditional and (None if stored is None else stored[0]) != self.only_if:
            return False
        if self.note is not None:
            batch.put(key, (self.note,))
        elif stored is not None:
            batch.delete(key)
        return True


class WriteRecords(OwnerCommand, frozen=True, tag="records"):
    """Write records in order, up to the first whose condition does not hold; answers how many were processed."""

    records: list[Conditional]

    def reads(self, partition: int) -> Iterable[Key]:
        for record, _ in self.records:
            yield record_row(record.kind, record.id)
            if record.kind in INDEXED:
                yield period_row(record.kind, period_of(record.id), partition)

    def run(self, batch: RowBatch) -> int:
        for index, (record, version) in enumerate(self.records):
            values = batch.get(record_row(record.kind, record.id))
            stored = None if values is None else read_record(record.kind, record.id, values)
            if version is not None and (0 if stored is None else stored.updated_at) != version:
                return index
            if newer(stored, record) is not stored:
                _write(batch, record, stored)
        return len(self.records)


class ForgetRecords(OwnerCommand, frozen=True, tag="forget_records"):
    """Delete records for good.

    `below`: these are all records with lower ids, so one event reports them. `versions`: delete only records that still
    have these versions.
    """

    kind: RecordKind
    ids: list[int]
    below: int | None = None
    versions: list[int] | None = None

    def reads(self, partition: int) -> Iterable[Key]:
        return [record_row(self.kind, id_) for id_ in self.ids]

    def run(self, batch: RowBatch) -> None:
        for index, id_ in enumerate(self.ids):
            stored = batch.get(record_row(self.kind, id_))
            if stored is not None and self.versions is not None and stored[0] != self.versions[index]:
                continue
            if self.kind in INDEXED:  # even without a record: then the index row reappeared after its deletion
                batch.delete(id_row(self.kind, batch.partition, id_))
            if stored is None:
                continue
            batch.delete(record_row(self.kind, id_))
            if self.below is None:
                batch.events.append(Event(0, None, RECORD_FORGOTTEN, self.kind, id_, 0, Hlc(0)))
        if self.below is not None and self.ids:
            batch.events.append(Event(0, None, RECORDS_FORGOTTEN, self.kind, self.below, 0, Hlc(0)))


class TakeClaim(OwnerCommand, frozen=True, tag="claim"):
    """Insert a claim, unless its key has one that has not expired; then answers the value of that claim."""

    claim: Claim

    def reads(self, partition: int) -> Iterable[Key]:
        return [claim_row(self.claim.key)]

    def run(self, batch: RowBatch) -> bytes | None:
        return _take(batch, self.claim)


class TakeClaims(OwnerCommand, frozen=True, tag="claims"):
    """`TakeClaim` for several claims, in order; one answer each."""

    claims: list[Claim]

    def reads(self, partition: int) -> Iterable[Key]:
        return [claim_row(claim.key) for claim in self.claims]

    def run(self, batch: RowBatch) -> list[bytes | None]:
        return [_take(batch, claim) for claim in self.claims]


class ReleaseClaim(OwnerCommand, frozen=True, tag="release"):
    """Delete a claim, if it is still this one."""

    claim: Claim

    def reads(self, partition: int) -> Iterable[Key]:
        return [claim_row(self.claim.key)]

    def run(self, batch: RowBatch) -> None:
        if claimed(batch.get(claim_row(self.claim.key)), self.claim.now_ms) == self.claim.value:
            batch.delete(claim_row(self.claim.key))


def note_row(name: str) -> Key:
    """The key of a note's row."""
    return Key("notes", (SHELF, name))


def record_row(kind: int, id_: int) -> Key:
    """The key of a record's row."""
    return Key("records", (int(kind), id_))


def read_record(kind: RecordKind, id_: int, values: Values) -> Record:
    """Decode a record from its row."""
    return Record(kind, id_, Hlc(values[0]), values[1])


def claim_row(key: bytes) -> Key:
    """The key of a claim's row."""
    return Key("claims", (key,))


def claimed(values: Values | None, now_ms: int) -> bytes | None:
    """The value of a claim's row; None if there is no row, or the claim has expired."""
    if values is None or values[0] <= now_ms:
        return None
    value: bytes = values[1]
    return value


def period_of(id_: int) -> int:
    """The period of an id, about 12 days long. The index groups ids by kind, partition and period."""
    return id_ >> _PERIOD_BITS


def id_row(kind: int, partition: int, id_: int) -> Key:
    """The key of a record's row in the index by id."""
    return Key("record_ids", (int(kind), partition, period_of(id_), id_))


def period_row(kind: int, period: int, partition: int) -> Key:
    """The key of the row that says that a period has, or had, records."""
    return Key("record_periods", (int(kind), period, partition))


def _take(batch: RowBatch, claim: Claim) -> bytes | None:
    key, value, now_ms, keep_ms = claim
    held = claimed(batch.get(claim_row(key)), now_ms)
    if held is None:
        batch.put(claim_row(key), (now_ms + keep_ms, value), kept_s=keep_ms // 1_000 + _CLAIM_SLACK_S)
    return held


def _write(batch: RowBatch, record: Record, stored: Record | None) -> None:
    batch.put(record_row(record.kind, record.id), (record.updated_at, record.data))
    if record.kind in INDEXED and stored is None:
        period = period_row(record.kind, period_of(record.id), batch.partition)
        if batch.get(period) is None:
            batch.put(period, ())
        batch.put(id_row(record.kind, batch.partition, record.id), ())
    event = Event(0, None, RECORD_CHANGED, record.kind, record.id, 0, record.updated_at, data=record.data)
    batch.events.append(event)
