"""Segments: stretches of the log as bytes, to replay in another store. Rebuilds, increments of backups and standbys use
them.

    segment    "kith-log" | SHA-256 of what follows | version u8 | MessagePack of a Segment

A segment holds rows of the log as they are stored, so making one decodes nothing. It begins with the last event that
the target store should have; by this event the target checks that both stores share a history. A segment carries the
store's identity (graphs, secrets, server keys, history), so tokens and cursors of one store are valid in the other. So
keep segments as safe as a backup.

Limits: edges of a bulk load are not in the log, so the log is whole only after the load. The log also deletes its
oldest events. A segment is refused (`Conflict`) for a target that ends before the part that the log still has whole.
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
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import LOG_WHOLE_AFTER, Environment, put_note
from kith.engines.embedded.event_log import LogWriter
from kith.engines.embedded.history import HISTORY
from kith.engines.embedded.retention import Retention
from kith.engines.embedded.sorted_changes import apply_events

_MAGIC, _DIGEST_BYTES, _VERSION = b"kith-log", 32, 1
_BODY_AT = len(_MAGIC) + _DIGEST_BYTES
_JOURNALED_EVENTS_MAX = 5_000
"""A commit of more events than this has no journal entry; the whole store is synced instead, as in a long rebuild."""
_CLOCKS_APART_MS = 3_600_000
"""A standby forgets a claim this long (ms) after it expired, since its clock may be ahead of the primary's."""
_IDENTITY_NOTES = ("secret/", "server-key/", LOG_WHOLE_AFTER, HISTORY)
"""Key prefixes of the notes that make a store's identity. The log does not hold these notes."""


class Segment(msgspec.Struct, frozen=True):
    """Events of a log, with the identity of its store.

    `after`: the number of the last event that the target should have. `rows`: stored rows, each with the number of its
    first event. `end`: the last event of the log when the segment was made; if the rows end before it, the next segment
    continues. `graphs`, `notes`: the store's identity.
    """

    after: int
    end: int
    rows: Sequence[tuple[int, bytes]]
    graphs: dict[str, int]
    notes: dict[str, bytes]


def last_event(store: Environment) -> int:
    """The number of the newest event of a log; 0 if there is none."""
    with translate_errors("read", store.folder), store.lmdb.begin() as txn:
        return event_log.bounds(txn, store.log)[1]


def event_at(store: Environment, number: int) -> bytes:
    """An event with the time at which it was logged, as stored; empty if the log does not have it."""
    with translate_errors("read", store.folder), store.lmdb.begin() as txn:
        for event in event_log.read_logged(txn, store.log, number - 1, 1):
            if event.sequence == number:
                return event.logged_ms + event.change
    return b""


def latest_ms(store: Environment, until: int) -> int:
    """The latest time (ms since the epoch) at which any event up to event `until` was logged; 0 if there is none.

    That is the time of the last event, unless a clock was set back. Takes 1 us an event.
    """
    latest = bytes(8)
    with translate_errors("read", store.folder), store.lmdb.begin() as txn:
        first, _ = event_log.bounds(txn, store.log)
        for event in event_log.read_logged(txn, store.log, first - 1, max(0, until + 1 - first)):
            latest = max(latest, event.logged_ms)
    return event_rows.logged_ms(latest)


def next_segment(source: Environment, after: int, bytes_max: int) -> Segment:
    """The segment that follows event `after`, with about `bytes_max` of rows. Conflict if the log lacks some of it."""
    with translate_errors("read", source.folder), source.lmdb.begin() as txn:
        first, last = event_log.bounds(txn, source.log)
        rows = list(event_log.read_rows(txn, source.log, max(after, first), bytes_max))
    graphs, notes = identity(source)  # read after the rows, so that it has every graph that they name
    needed = max(first - 1, int(notes.get(LOG_WHOLE_AFTER, b"0")))
    if after < needed or 0 < after < first:  # event `after` must be there, to be compared with the target's
        raise Conflict(
            f"the log holds every change after event {needed} only (before it are a bulk import, an older version "
            "of Kith, or events that were forgotten), and the store to rebuild ends at event "
            f"{after}; restore a backup made after that event, and go on from it"
        )
    return Segment(after, last, rows, graphs, notes)


def identity(store: Environment) -> tuple[dict[str, int], dict[str, bytes]]:
    """The identity of a store: its graphs, and the notes of `_IDENTITY_NOTES`."""
    graphs = store.graph_numbers()
    return graphs, {prefix + suffix: note for prefix in _IDENTITY_NOTES for suffix, note in store.notes(prefix).items()}


def numbered(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """The events of a segment after `after`, each with its number, in the form of `event_at`."""
    for first, row in segment.rows:
        for number, event in enumerate(event_rows.unpacked(row), first):
            if number > segment.after:
                yield number, event


def newest(segment: Segment) -> tuple[int, bytes]:
    """The number and the last event of a segment; `after` and empty bytes if it has no rows."""
    if not segment.rows:
        return segment.after, b""
    first, row = segment.rows[-1]
    events = event_rows.unpacked(row)
    return first + len(events) - 1, events[-1]


def replay(
    target: Environment,
    segment: Segment,
    until: int | None = None,
    retention: Retention | None = None,
    beside: Mapping[str, bytes | None] = MappingProxyType({}),
) -> int:
    """Replay the events of a segment that a store lacks, in one commit. Returns the number of the store's last event.

    `until`: the last event to replay; None: all. `retention`: set by a standby: deletes old events of the log, and
    expired claims, too; None keeps all. `beside`: notes to write, or to remove (None), in the same commit.
    Errors: Conflict if events between the store and the segment are missing, or if the store has other events;
    StoreFull, StoreUnavailable.
    """
    last = last_event(target)
    if last < segment.after:
        raise Conflict(f"events {last + 1} to {segment.after} are missing before this part of the log; do those first")
    _check_history(target, segment, last)
    _take_identity(target, segment)
    with translate_errors("rebuild", target.folder), target.commit() as write:
        writer, events_done = LogWriter(write.txn, target.log), list[bytes]()
        last = writer.last
        for first, row in segment.rows:
            events = event_rows.unpacked(row)
            end_index = len(events) if until is None else min(len(events), until + 1 - first)
            new_events = events[max(0, last + 1 - first) : max(0, end_index)]
            events_done += new_events
            if new_events and (end_index < len(events) or not writer.append_row(first, row)):
                for event in new_events:
                    writer.append_logged(event)
        apply_events(write.txn, list(map(event_rows.change_of, events_done)), target.rows, target.graph_db)
        writer.flush()
        last, write.count = writer.last, len(events_done)
        for key, note in beside.items():
            put_note(write.txn, target.notes_db, key, note)
        expired_claim_rows = _expired(write.txn, target, len(events_done)) if retention is not None else []
        for row in expired_claim_rows:
            write.txn.delete(row, db=target.records)
        if len(events_done) <= _JOURNALED_EVENTS_MAX:
            changes = [redo.shipped(event) for event in events_done]
            changes += [redo.row("meta", key.encode(), note) for key, note in beside.items()]
            changes += [redo.row("objects", row, None) for row in expired_claim_rows]
            write.changes = redo.encode(0, changes) if changes else b""
        if events_done and retention is not None:
            retention.forget(write.txn, last, wall_ms(), writer.closed)
    if last >= segment.end:  # before that, the store lacks events that tokens of this history may stand for
        _put_notes(target, segment, HISTORY)
        target.positions.use_history(target.history())
    return last


def _expired(txn: lmdb.Transaction[bytes], target: Environment, events: int) -> list[bytes]:
    """The rows of expired claims to delete in a commit of so many events, because a primary does not log that it
    deletes claims. An hour of tolerance: this clock may be ahead of the primary's.
    """
    return expired_claims(txn, target.records, wall_ms() - _CLOCKS_APART_MS, 2 * events)


def pack(segment: Segment) -> bytes:
    """A segment as bytes."""
    body = bytes([_VERSION]) + msgspec.msgpack.encode(segment)
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(raw: bytes, name: str) -> Segment:
    """The segment that `pack` made. `name`: where it was read from, for the error. StoreMismatch if it is damaged."""
    body = memoryview(raw)[_BODY_AT:]
    if not raw.startswith(_MAGIC) or not body:
        raise StoreMismatch(f"{name} is no part of a log, or the beginning of one only; make it again")
    if hashlib.sha256(body).digest() != raw[len(_MAGIC) : _BODY_AT]:
        raise StoreMismatch(f"{name} is damaged: its bytes are not those that were written; make it again")
    if body[0] > _VERSION:
        raise StoreMismatch(f"{name} was written by a newer Kith; upgrade this one first")
    return msgspec.msgpack.decode(body[1:], type=Segment)


def _check_history(target: Environment, segment: Segment, last: int) -> None:
    """Conflict if the store and the segment differ in the last event that both have."""
    if last > segment.end:
        raise Conflict(_other_events(target))
    for first, row in segment.rows:
        if first > last:
            break
        logged = event_rows.unpacked(row)
        shared = min(last, first + len(logged) - 1)
        with translate_errors("read", target.folder), target.lmdb.begin() as txn:
            (own,) = event_log.read_logged(txn, target.log, shared - 1, 1)
        if own.sequence != shared or own.logged_ms + own.change != logged[shared - first]:
            raise Conflict(_other_events(target))


def _other_events(target: Environment) -> str:
    return f"{target.folder} has events of its own, so it cannot become what that log says; use a new folder"


def _take_identity(target: Environment, segment: Segment) -> None:
    """Give the store the identity of the other one, but for its history."""
    names = sorted(segment.graphs, key=segment.graphs.__getitem__)
    if target.graph_numbers() != segment.graphs and target.declare(names) != segment.graphs:
        raise Conflict(f"{target.folder} has other graphs than the store of that log; use a new folder")
    for prefix in _IDENTITY_NOTES:
        if prefix != HISTORY:
            _put_notes(target, segment, prefix)


def _put_notes(target: Environment, segment: Segment, prefix: str) -> None:
    """Make the store's notes with this key prefix the same as the segment's: write, replace and remove."""
    notes = {key.removeprefix(prefix): note for key, note in segment.notes.items() if key.startswith(prefix)}
    stored = target.notes(prefix)
    for suffix in notes.keys() | stored.keys():
        if notes.get(suffix) != stored.get(suffix):
            target.put_note(prefix + suffix, notes.get(suffix))
