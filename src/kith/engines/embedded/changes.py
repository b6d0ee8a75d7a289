"""The changes of a store as events: packs each kind of event, and applies it (`apply`).

A write applies its event once. A replay of the journal or the log applies it again, with the same result, because an
event holds the state after the change. So every acknowledged change is in the log.

    an edge             the whole edge; its row and its entries in both lists follow from it
                        data: expires_ms u64, or nothing
    RECORD_CHANGED      source: kind · destination: id · updated_at: version · data: the record's
    RECORD_FORGOTTEN    source: kind · destination: id
    RECORDS_FORGOTTEN   source: kind · destination: all records of this kind with a smaller id
    EDGE_FORGOTTEN      graph, source, destination
    NODE_CHANGED        source: node · data: its row, empty if it has only default values
    CLAIM_TAKEN         source: expires at, in ms · data: key of 16 bytes | value
    NOTE_CHANGED        data: length of the key u16 | key | note; state before 0: the note is removed

The log does not hold what can be computed again or matters only for a moment: timelines, computed suggestions, quotas,
served pages, checkpoints and failures of consumer groups. Events of other kinds change nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import islice, takewhile
from typing import TypeAlias

import lmdb

from kith.core.clock import Hlc
from kith.core.events import (
    CLAIM_TAKEN,
    EDGE_FORGOTTEN,
    NODE_CHANGED,
    NOTE_CHANGED,
    RECORD_CHANGED,
    RECORD_FORGOTTEN,
    RECORDS_FORGOTTEN,
    Event,
)
from kith.core.ids import NodeId
from kith.engines.embedded.edge_rows import forget_edge, write_edge
from kith.engines.embedded.keys import node_key, node_row
from kith.graph.edge import Edge, State
from kith.graph.shapes import Node
from kith.records.store import Record, RecordKind

_HEAD = struct.Struct(">BBBQQqQ")
_RECORD_KEY = struct.Struct(">BQ")
_VERSION = struct.Struct(">Q")
_TIME = struct.Struct(">Q")
_KEY_LENGTH = struct.Struct(">H")
NONE_BEFORE = 255
Databases: TypeAlias = "Mapping[str, lmdb._Database]"
GraphDatabase: TypeAlias = "Callable[[int], lmdb._Database]"

CLAIM_BYTES = 16
_CLAIM, CLAIM_END = 128, 129  # 130, 131: see `expiries`
_END_KEY = struct.Struct(">BQ16s")

record_key = _RECORD_KEY.pack
"""(kind, id) -> the key of a record in the database `objects`."""


def claim_key(key: bytes) -> bytes:
    """The key of a claim in the database `objects`."""
    return bytes([_CLAIM]) + key


def claim_end_key(until_ms: int, key: bytes) -> bytes:
    """The key in the database `objects` that lists a claim by the time at which it expires."""
    return _END_KEY.pack(CLAIM_END, until_ms, key)


def read_claim_end(row_key: bytes) -> tuple[int, bytes] | None:
    """The arguments of `claim_end_key`, from its key; None for any other key."""
    if row_key[0] != CLAIM_END:
        return None
    _, until_ms, key = _END_KEY.unpack(row_key)
    return until_ms, key


def edge_changed(state_before: State | None, edge: Edge) -> bytes:
    """The event of an edge that was written. `state_before`: its state until then; None: it was not there."""
    head = _HEAD.pack(
        edge.graph,
        NONE_BEFORE if state_before is None else state_before,
        edge.state,
        edge.source,
        edge.destination,
        edge.position,
        edge.updated_at,
    )
    return head + _TIME.pack(edge.expires_ms) if edge.expires_ms else head


def edge_forgotten(graph: int, source: int, destination: int) -> bytes:
    """The event of an edge that was deleted without a trace, as if it had never existed."""
    return _HEAD.pack(graph, NONE_BEFORE, EDGE_FORGOTTEN, source, destination, 0, 0)


def record_changed(record: Record) -> bytes:
    """The event of a record that was stored."""
    return _HEAD.pack(0, NONE_BEFORE, RECORD_CHANGED, record.kind, record.id, 0, record.updated_at) + record.data


def record_forgotten(kind: int, id_: int) -> bytes:
    """The event of a record that was deleted."""
    return _HEAD.pack(0, NONE_BEFORE, RECORD_FORGOTTEN, kind, id_, 0, 0)


def records_forgotten(kind: int, below: int) -> bytes:
    """The event for deleting all records of a kind with ids less than `below`."""
    return _HEAD.pack(0, NONE_BEFORE, RECORDS_FORGOTTEN, kind, below, 0, 0)


def node_changed(node: int, node_after: Node) -> bytes:
    """The event of a node's state, privacy and labels, as they are after the change."""
    return _HEAD.pack(0, NONE_BEFORE, NODE_CHANGED, node, 0, 0, 0) + (
        b"" if node_after == Node() else node_row(node_after)
    )


def claim_taken(key: bytes, until_ms: int, value: bytes) -> bytes:
    """The event of a claim that was taken. `key` has 16 bytes."""
    return _HEAD.pack(0, NONE_BEFORE, CLAIM_TAKEN, until_ms, 0, 0, 0) + key + value


def note_changed(key: str, note: bytes | None) -> bytes:
    """The event of a note that was written, or removed (None)."""
    head = _HEAD.pack(0, 0 if note is None else NONE_BEFORE, NOTE_CHANGED, 0, 0, 0, 0)
    name = key.encode()
    return head + _KEY_LENGTH.pack(len(name)) + name + (note or b"")


def announced(event: Event) -> bytes:
    """An event that changes nothing in the store, only announces something to readers of the log."""
    return _HEAD.pack(
        event.graph, NONE_BEFORE, event.state, event.source, event.destination, event.position, event.updated_at
    )


def changed_record(change: bytes, kind: RecordKind) -> Record | None:
    """The record that an event stored, if it is of this kind; None for any other event."""
    _, _, state, source, id_, _, version = _HEAD.unpack_from(change)
    return Record(kind, id_, Hlc(version), change[_HEAD.size :]) if (state, source) == (RECORD_CHANGED, kind) else None


def apply(txn: lmdb.Transaction[bytes], event: bytes, rows: Databases, graph: GraphDatabase) -> None:
    """Apply an event to the store. Idempotent."""
    number, state_before, state, source, destination, position, updated_at = _HEAD.unpack_from(event)
    data = event[_HEAD.size :]
    if state <= State.REMOVED:
        expires_ms = _TIME.unpack_from(data)[0] if data else 0  # a newer Kith may add more data after it
        edge = Edge(number, NodeId(source), NodeId(destination), State(state), position, Hlc(updated_at), expires_ms)
        write_edge(txn, txn.cursor(graph(number)), graph(number), rows, edge)
    elif state == RECORD_CHANGED:
        _put_version(txn, rows["objects"], record_key(source, destination), updated_at, data)  # of any kind
    elif state == RECORD_FORGOTTEN:
        txn.delete(record_key(source, destination), db=rows["objects"])
    elif state == RECORDS_FORGOTTEN:
        for key in record_keys(txn, rows["objects"], source, destination):
            txn.delete(key, db=rows["objects"])
    elif state == EDGE_FORGOTTEN:
        forget_edge(txn, txn.cursor(graph(number)), graph(number), rows, number, source, destination)
    elif state == NODE_CHANGED:
        _set(txn, rows["nodes"], node_key(source), data or None)
    elif state == CLAIM_TAKEN:
        put_claim(txn, rows["objects"], data[:CLAIM_BYTES], source, data[CLAIM_BYTES:])
    elif state == NOTE_CHANGED:
        key_end = _KEY_LENGTH.size + _KEY_LENGTH.unpack_from(data)[0]
        _set(
            txn, rows["meta"], data[_KEY_LENGTH.size : key_end], data[key_end:] if state_before == NONE_BEFORE else None
        )


def put_record(txn: lmdb.Transaction[bytes], db: lmdb._Database, record: Record) -> None:
    """Store a record: the change of `record_changed`."""
    _put_version(txn, db, record_key(record.kind, record.id), record.updated_at, record.data)


def _put_version(txn: lmdb.Transaction[bytes], db: lmdb._Database, key: bytes, version: int, data: bytes) -> None:
    txn.put(key, _VERSION.pack(version) + data, db=db)


def put_claim(txn: lmdb.Transaction[bytes], db: lmdb._Database, key: bytes, until_ms: int, value: bytes) -> None:
    """Store a claim: the change of `claim_taken`."""
    _put_version(txn, db, claim_key(key), until_ms, value)
    txn.put(claim_end_key(until_ms, key), b"", db=db)


def expired_claims(txn: lmdb.Transaction[bytes], db: lmdb._Database, now_ms: int, limit: int) -> list[bytes]:
    """The keys of all rows of expired claims, those first that expired first; `limit` claims at most."""
    cursor, keys = txn.cursor(db), list[bytes]()
    has_row = cursor.set_range(bytes([CLAIM_END]))
    for _ in range(limit):
        end = read_claim_end(cursor.key()) if has_row else None
        if end is None or end[0] > now_ms:
            break
        expired_ms, key = end
        keys.append(cursor.key())
        claim_row = txn.get(claim_key(key), None, db)
        if (
            claim_row is not None and _VERSION.unpack_from(claim_row)[0] == expired_ms
        ):  # otherwise the key was claimed again
            keys.append(claim_key(key))
        has_row = cursor.next()
    return keys


def record_keys(
    txn: lmdb.Transaction[bytes], db: lmdb._Database, kind: int, below: int, limit: int | None = None
) -> list[bytes]:
    """The keys of the records of a kind with ids less than `below`, ascending; the first `limit` of them."""
    cursor = txn.cursor(db)
    if not cursor.set_range(record_key(kind, 0)):
        return []
    keys = takewhile(record_key(kind, below).__gt__, cursor.iternext(values=False))
    return list(islice(keys, limit))


def newest_records(txn: lmdb.Transaction[bytes], db: lmdb._Database, kind: int, below: int, limit: int) -> list[int]:
    """The ids less than `below` of the records of a kind, descending; the first `limit` of them."""
    cursor, lowest_key = txn.cursor(db), record_key(kind, 0)
    is_placed = cursor.prev() if cursor.set_range(record_key(kind, below)) else cursor.last()
    keys = takewhile(lowest_key.__le__, cursor.iterprev(values=False)) if is_placed else ()
    return [int.from_bytes(key[1:], "big") for key in islice(keys, limit)]


def _set(txn: lmdb.Transaction[bytes], db: lmdb._Database, key: bytes, row: bytes | None) -> None:
    if row is None:
        txn.delete(key, db=db)
    else:
        txn.put(key, row, db=db)
