"""Stretches of the log as bytes, to be done again elsewhere: by a rebuild, from a backup's increments, in a standby.

    segment    "kith-log" | SHA-256 of what follows | version u8 | MessagePack of a Segment

A segment holds rows of the log as they are stored, so making one unpacks nothing. It begins with the last event that
the other store should have, by which the two see that they share a history. It carries the store's identity (graphs,
secrets, server keys, history), so that tokens and cursors of one are valid in the other. So keep it as safe as a
backup.

Limits: edges of a bulk load are not in the log, which is whole only after it; and its oldest events are forgotten.
Where the other store ends before that, the segment is refused (`Conflict`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import lmdb
import msgspec

from kith.core.clock import wall_ms
from kith.core.errors import Conflict, StoreMismatch
from kith.engines.embedded import event_log, event_rows, redo
from kith.engines.embedded.changes import expired_claims
from kith.engines.embedded.driver_errors import translated
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Environment, put_note
from kith.engines.embedded.event_log import LogWriter
from kith.engines.embedded.history import HISTORY
from kith.engines.embedded.retention import Retention
from kith.engines.embedded.sorted_changes import do_all

_MAGIC, _DIGEST_BYTES, _VERSION = b"kith-log", 32, 1
_BODY_AT = len(_MAGIC) + _DIGEST_BYTES
_JOURNALED_MAX = 5_000
_CLOCKS_APART_MS = 3_600_000
"""Events in a commit up to which the journal has them; beyond, the whole store is synced, as in a long rebuild."""
_IDENTITY = ("secret/", "server-key/", LOG_WHOLE_AFTER, HISTORY)
"""Prefixes of the notes that make a store's identity; its log does not hold them."""


class Segment(msgspec.Struct, frozen=True):
    """Events of a log, and whose log it is. `after`: the number of the last event that the other store should have.

    `rows`: as they are stored, each under the number of its first event. `end`: the last event of the log when the
    segment was made; what the rows do not reach is left for the next one.
    """

    after: int
    end: int
    rows: Sequence[tuple[int, bytes]]
    graphs: dict[str, int]
    notes: dict[str, bytes]


def last_event(store: Environment) -> int:
    """The number of the newest event of a log; 0 where there is none."""
    with translated("read", store.folder), store.lmdb.begin() as txn:
        return event_log.bounds(txn, store.log)[1]


def event_at(store: Environment, number: int) -> bytes:
    """An event, with when it was logged; empty where the log does not have it."""
    with translated("read", store.folder), store.lmdb.begin() as txn:
        for event in event_log.read_logged(txn, store.log, number - 1, 1):
            if event.sequence == number:
                return event.logged_ms + event.change
    return b""


def latest_ms(store: Environment, until: int) -> int:
    """The latest time at which any event of a log, up to the event `until`, was logged; 0 where it has none.

    It is that of the last one, unless a clock was put back. Takes 1 us an event.
    """
    latest = bytes(8)
    with translated("read", store.folder), store.lmdb.begin() as txn:
        first, _ = event_log.bounds(txn, store.log)
        for event in event_log.read_logged(txn, store.log, first - 1, max(0, until + 1 - first)):
            latest = max(latest, event.logged_ms)
    return event_rows.logged_ms(latest)


def take(source: Environment, after: int, bytes_max: int) -> Segment:
    """What follows an event, about `bytes_max` of it. Conflict if the log does not have all of that any more."""
    with translated("read", source.folder), source.lmdb.begin() as txn:
        first, last = event_log.bounds(txn, source.log)
        rows = list(event_log.read_rows(txn, source.log, max(after, first), bytes_max))
    graphs, notes = identity(source)  # read last, so that no row is of a graph that is not among them
    needed = max(first - 1, int(notes.get(LOG_WHOLE_AFTER, b"0")))
    if after < needed or 0 < after < first:  # the last one that both have is compared
        raise Conflict(
            f"the log holds every change after event {needed} only (before it are a bulk import, an older version "
            "of Kith, or events that were forgotten), and the store to rebuild ends at event "
            f"{after}; restore a backup made after that event, and go on from it"
        )
    return Segment(after, last, rows, graphs, notes)


def identity(store: Environment) -> tuple[dict[str, int], dict[str, bytes]]:
    """What names a store: its graphs, and the notes that its log does not hold."""
    graphs = store.graph_numbers()
    return graphs, {prefix + rest: note for prefix in _IDENTITY for rest, note in store.notes(prefix).items()}


def numbered(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """The events of a segment that follow `after`, each with its number, as `event_at` answers them."""
    for first, row in segment.rows:
        for number, event in enumerate(event_rows.unpacked(row), first):
            if number > segment.after:
                yield number, event


def newest(segment: Segment) -> tuple[int, bytes]:
    """The last event of a segment with its number; `after` and nothing, where it has none."""
    if not segment.rows:
        return segment.after, b""
    first, row = segment.rows[-1]
    found = event_rows.unpacked(row)
    return first + len(found) - 1, found[-1]


def do(
    target: Environment,
    segment: Segment,
    until: int | None = None,
    retention: Retention | None = None,
    beside: Mapping[str, bytes | None] = MappingProxyType({}),
) -> int:
    """Apply the part of a segment that a store lacks, if any. Returns the number of its last event then.

    `until`: the last event that is done, if not all. `retention`: how long its log keeps events, as of a standby, which
    forgets expired claims, too; None: for ever.
    `beside`: notes that are written, or removed (None), in the same commit.
    Errors: Conflict, if events are missing between the two, or the store has others; StoreFull, StoreUnavailable.
    """
    at = last_event(target)
    if at < segment.after:
        raise Conflict(f"events {at + 1} to {segment.after} are missing before this part of the log; do those first")
    _check_history(target, segment, at)
    _name(target, segment)
    with translated("rebuild", target.folder), target.commit() as write:
        writer, done = LogWriter(write.txn, target.log), list[bytes]()
        at = writer.last
        for first, row in segment.rows:
            events = event_rows.unpacked(row)
            wanted = len(events) if until is None else min(len(events), until + 1 - first)
            new = events[max(0, at + 1 - first) : max(0, wanted)]
            done += new
            if new and (wanted < len(events) or not writer.take_over(first, row)):
                for event in new:
                    writer.append_logged(event)
        do_all(write.txn, list(map(event_rows.change_of, done)), target.rows, target.graph_db)
        writer.flush()
        at, write.count = writer.last, len(done)
        for key, note in beside.items():
            put_note(write.txn, target.notes_db, key, note)
        over = _expired(write.txn, target, len(done)) if retention is not None else []
        for row in over:
            write.txn.delete(row, db=target.records)
        if len(done) <= _JOURNALED_MAX:
            changes = [redo.shipped(event) for event in done]
            changes += [redo.row("meta", key.encode(), note) for key, note in beside.items()]
            changes += [redo.row("objects", row, None) for row in over]
            write.changes = redo.encode(0, changes) if changes else b""
        if done and retention is not None:
            retention.forget(write.txn, at, wall_ms(), writer.closed)
    if at >= segment.end:  # until then it lacks what tokens of this history stand for
        _put_notes(target, segment, HISTORY)
        target.positions.go_on(target.history())
    return at


def _expired(txn: lmdb.Transaction[bytes], target: Environment, events: int) -> list[bytes]:
    """Rows of expired claims to delete beside so many events: those of a primary are not in its log. Our clock may be
    ahead of its own.
    """
    return expired_claims(txn, target.records, wall_ms() - _CLOCKS_APART_MS, 2 * events)


def pack(segment: Segment) -> bytes:
    """A segment as bytes."""
    body = bytes([_VERSION]) + msgspec.msgpack.encode(segment)
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(raw: bytes, name: str) -> Segment:
    """What `pack` made. `name`: of what it was read from, for the error. StoreMismatch, if it is not as it was made."""
    body = memoryview(raw)[_BODY_AT:]
    if not raw.startswith(_MAGIC) or not body:
        raise StoreMismatch(f"{name} is no part of a log, or the beginning of one only; make it again")
    if hashlib.sha256(body).digest() != raw[len(_MAGIC) : _BODY_AT]:
        raise StoreMismatch(f"{name} is damaged: its bytes are not those that were written; make it again")
    if body[0] > _VERSION:
        raise StoreMismatch(f"{name} was written by a newer Kith; upgrade this one first")
    return msgspec.msgpack.decode(body[1:], type=Segment)


def _check_history(target: Environment, segment: Segment, at: int) -> None:
    """Conflict, if the last event that both have is not the same one."""
    if at > segment.end:
        raise Conflict(_other(target))
    for first, row in segment.rows:
        if first > at:
            break
        logged = event_rows.unpacked(row)
        shared = min(at, first + len(logged) - 1)
        with translated("read", target.folder), target.lmdb.begin() as txn:
            (own,) = event_log.read_logged(txn, target.log, shared - 1, 1)
        if own.sequence != shared or own.logged_ms + own.change != logged[shared - first]:
            raise Conflict(_other(target))


def _other(target: Environment) -> str:
    return f"{target.folder} has events of its own, so it cannot become what that log says; use a new folder"


def _name(target: Environment, segment: Segment) -> None:
    """Give the store the name of the other one."""
    names = sorted(segment.graphs, key=segment.graphs.__getitem__)
    if target.graph_numbers() != segment.graphs and target.declare(names) != segment.graphs:
        raise Conflict(f"{target.folder} has other graphs than the store of that log; use a new folder")
    for prefix in _IDENTITY:
        if prefix != HISTORY:
            _put_notes(target, segment, prefix)


def _put_notes(target: Environment, segment: Segment, prefix: str) -> None:
    """Make the notes whose keys begin so those of the segment, and no others."""
    notes = {key.removeprefix(prefix): note for key, note in segment.notes.items() if key.startswith(prefix)}
    found = target.notes(prefix)
    for rest in notes.keys() | found.keys():
        if notes.get(rest) != found.get(rest):
            target.put_note(prefix + rest, notes.get(rest))
