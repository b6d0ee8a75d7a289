"""Rows of the event log as bytes: packs events into rows, and unpacks them. Pure.

    row     greatest version so far u64 | form u8 | events
    event   head of 41 bytes: logged at ms u48 | graph u8 | state before u8 (255: none) | state u8
            | source u64 | destination u64 | position i64 | updated_at u64; then its data, if any
    form 0  heads, one after the other; no event has data (open row)
         1  EVENTS_PER_ROW heads, by column, deflated; no event has data (closed row)
         2  count u8 | length of each event's data u32 | heads | data (open row)
         3  count u8 | deflated: lengths, then heads, both by column, then data (closed row)

A row is closed, and deflated, when it has EVENTS_PER_ROW events or ROW_BYTES_MAX bytes of events. An event that is not
about an edge has a state that no edge can have (see `core.events`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import add
from typing import Any

import numpy as np

from kith.core.errors import StoreMismatch
from kith.core.events import Event, LogPosition
from kith.engines.embedded.changes import NONE_BEFORE
from kith.engines.embedded.history import StorePositions

EVENTS_PER_ROW = 28  # the open row is written with every commit
ROW_BYTES_MAX = 1_600
"""A row with this many bytes of events is closed: two larger ones would not fit into one page."""
MS_BYTES = 6
VERSION_BYTES = 8
_EVENT = struct.Struct(">BBBQQqQ")
_HEAD_OF = struct.Struct(">HIBBBQQqQ")
"""A whole head: the time of logging, then `_EVENT`."""
_EVENT_BYTES = MS_BYTES + _EVENT.size
_FORM_AT, _BODY_AT, _UPDATED_AT, _LENGTH_BYTES = 8, 9, 33, 4
_CLOSED_HEADS = struct.Struct(f"{_EVENT_BYTES}s" * EVENTS_PER_ROW)
"""Splits the heads of a row of EVENTS_PER_ROW events."""
_PLAIN, _DEFLATED, _PLAIN_DATA, _DEFLATED_DATA = range(4)
_OPEN = (_PLAIN, _PLAIN_DATA)
_NO_EVENTS = bytes([_PLAIN])


def is_open(row: bytes) -> bool:
    """Whether the row is open: more events may join it."""
    return row[_FORM_AT] in _OPEN


def empty_row(version: bytes) -> bytes:
    """An open row that has no events."""
    return version + _NO_EVENTS


def newest_update(events: Sequence[bytes]) -> bytes:
    """The greatest `updated_at` of these events, as bytes."""
    return max([event[_UPDATED_AT:_EVENT_BYTES] for event in events])


def newest_ms(row: bytes) -> int:
    """When the newest event of a row was logged, in ms since the epoch."""
    return int.from_bytes(unpacked(row)[-1][:MS_BYTES], "big")


def version_of(row: bytes) -> int:
    """The greatest version logged up to this row."""
    return int.from_bytes(row[:VERSION_BYTES], "big")


def events_of(first: int, row: bytes, positions: StorePositions) -> list[Event]:
    """The decoded events of a row. `first`: the number of its first event."""
    heads, data = _parts_of(row)
    positions_of_events = positions.of_many(first, len(heads) // _EVENT_BYTES)
    return list(map(_event, positions_of_events, _HEAD_OF.iter_unpack(heads), data or repeat(b"")))


def change_of(event: bytes) -> bytes:
    """The change of a packed event, without its time, as `changes` packs it."""
    return event[MS_BYTES:]


def logged_ms(event: bytes) -> int:
    """When a packed event was logged, in ms since the epoch; 0 for empty bytes."""
    return int.from_bytes(event[:MS_BYTES], "big")


def split_into_rows(events: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Split events into rows; the last row may not be full."""
    start = size = 0
    for end, event in enumerate(events, 1):
        size += len(event)
        if end - start == EVENTS_PER_ROW or size >= ROW_BYTES_MAX:
            yield events[start:end]
            start, size = end, 0
    if start < len(events):
        yield events[start:]


def packed(version: bytes, events: Sequence[bytes]) -> bytes:
    """Pack events into one row. By column, neighbouring bytes are alike, so deflating leaves a third of them."""
    joined = b"".join(events)
    count = len(events)
    is_full = count == EVENTS_PER_ROW or len(joined) >= ROW_BYTES_MAX
    if len(joined) == count * _EVENT_BYTES:
        if not is_full:
            return version + bytes([_PLAIN]) + joined
        return version + bytes([_DEFLATED]) + zlib.compress(_by_column(joined, _EVENT_BYTES), 1)
    lengths = struct.pack(f">{count}I", *(len(event) - _EVENT_BYTES for event in events))
    heads = b"".join([event[:_EVENT_BYTES] for event in events])
    data = b"".join([event[_EVENT_BYTES:] for event in events])
    if not is_full:
        return version + bytes([_PLAIN_DATA, count]) + lengths + heads + data
    columns = _by_column(lengths, _LENGTH_BYTES) + _by_column(heads, _EVENT_BYTES)
    return version + bytes([_DEFLATED_DATA, count]) + zlib.compress(columns + data, 1)


def unpacked(row: bytes) -> list[bytes]:
    """The packed events of a row. StoreMismatch if it is damaged, or has a form of a newer Kith."""
    heads, data = _parts_of(row)
    heads_of_events = list(_CLOSED_HEADS.unpack(heads)) if len(heads) == _CLOSED_HEADS.size else _cut(heads)
    return list(map(add, heads_of_events, data)) if data else heads_of_events


def _parts_of(row: bytes) -> tuple[bytes, list[bytes]]:
    """The heads of a row's events, and the data of each event; an empty list if no event has data.

    StoreMismatch as in `unpacked`.
    """
    try:
        parts = _read_parts(row)
    except (zlib.error, struct.error, IndexError, ValueError):  # ValueError: columns of different lengths
        parts = None
    if parts is None:
        raise StoreMismatch("a row of the event log is damaged; restore a backup")
    return parts


def _cut(heads: bytes) -> list[bytes]:
    return [heads[offset : offset + _EVENT_BYTES] for offset in range(0, len(heads), _EVENT_BYTES)]


def _read_parts(row: bytes) -> tuple[bytes, list[bytes]] | None:
    """See `_parts_of`; None if the row is incomplete."""
    if row[_FORM_AT] > _DEFLATED_DATA:
        raise StoreMismatch("the event log has rows of a newer Kith; upgrade this one")
    form, raw = row[_FORM_AT], row[_BODY_AT:]
    if form == _DEFLATED:
        heads = _by_row(zlib.decompress(raw), EVENTS_PER_ROW)
        return (heads, []) if len(heads) == _CLOSED_HEADS.size else None
    if form == _PLAIN:
        return None if len(raw) % _EVENT_BYTES else (raw, [])
    count, raw = raw[0], raw[1:]
    heads_at, data_at = count * _LENGTH_BYTES, count * (_LENGTH_BYTES + _EVENT_BYTES)
    lengths, heads = raw[:heads_at], raw[heads_at:data_at]
    if form == _DEFLATED_DATA:
        raw = zlib.decompress(raw)
        lengths, heads = _by_row(raw[:heads_at], count), _by_row(raw[heads_at:data_at], count)
    data = []
    for length in struct.unpack(f">{count}I", lengths):
        data.append(raw[data_at : data_at + length])
        data_at += length
    return (heads, data) if data_at == len(raw) else None


def _by_column(rows: bytes, width: int) -> bytes:
    """Transpose rows of `width` bytes: the first bytes of all rows, then the second ones, and so on."""
    return np.frombuffer(rows, np.uint8).reshape(-1, width).T.tobytes()


def _by_row(columns: bytes, count: int) -> bytes:
    """Undo `_by_column` for `count` rows."""
    return np.frombuffer(columns, np.uint8).reshape(-1, count).T.tobytes()


def events_in(row: bytes) -> int:
    """How many events a row has. Reads its head only."""
    form = row[_FORM_AT]
    if form == _PLAIN:
        return (len(row) - _BODY_AT) // _EVENT_BYTES
    return EVENTS_PER_ROW if form == _DEFLATED else row[_BODY_AT]


def _event(log_position: LogPosition, head: tuple[Any, ...], data: bytes) -> Event:
    high, low, graph, before, state, source, destination, position, updated_at = head
    state_before = None if before == NONE_BEFORE else before
    return Event(
        graph, state_before, state, source, destination, position, updated_at, high << 32 | low, log_position, data
    )
