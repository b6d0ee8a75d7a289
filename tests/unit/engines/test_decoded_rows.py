"""The cache of decoded log rows: a row is decoded again only if it changed."""

from __future__ import annotations

import struct

from kith.engines.embedded.decoded_rows import ROWS_MAX, DecodedRows
from kith.engines.embedded.event_rows import ROW_BYTES_MAX
from kith.engines.embedded.history import History, Restore, StorePositions

POSITIONS = StorePositions(History())


def row(*sources: int, data: bytes = b"") -> bytes:
    """An open row with one event of each source."""
    heads = [struct.pack(">HIBBBQQqQ", 0, 9, 1, 255, 0, source, 2, 0, 3) for source in sources]
    lengths = struct.pack(f">{len(heads)}I", *[len(data)] * len(heads))
    return bytes(8) + bytes([2, len(heads)]) + lengths + b"".join(heads) + data * len(heads)


def test_a_row_is_decoded_once() -> None:
    rows = DecodedRows()
    events = rows.events_of(1, row(4, 5, data=b"ab"), POSITIONS)
    assert [(event.source, event.data) for event in events] == [(4, b"ab"), (5, b"ab")]
    assert rows.events_of(1, row(4, 5, data=b"ab"), POSITIONS) is events


def test_a_row_that_grew_is_decoded_again() -> None:
    rows = DecodedRows()
    rows.events_of(1, row(4), POSITIONS)
    assert [event.source for event in rows.events_of(1, row(4, 5), POSITIONS)] == [4, 5]


def test_a_row_of_another_history_is_decoded_again() -> None:
    rows, restored = DecodedRows(), StorePositions(History((Restore(7, 0),)))
    (first,), (later,) = (rows.events_of(1, row(4), positions) for positions in (POSITIONS, restored))
    assert (first.log_position, later.log_position) == (POSITIONS.of(1), restored.of(1))


def test_the_cache_is_bounded_and_holds_no_large_rows() -> None:
    rows = DecodedRows()
    first = rows.events_of(0, row(4), POSITIONS)
    large = rows.events_of(1, row(4, data=bytes(2 * ROW_BYTES_MAX)), POSITIONS)
    assert rows.events_of(1, row(4, data=bytes(2 * ROW_BYTES_MAX)), POSITIONS) is not large
    for number in range(2, ROWS_MAX + 1):
        rows.events_of(number, row(4), POSITIONS)
    assert rows.events_of(0, row(4), POSITIONS) is first
    rows.events_of(ROWS_MAX + 1, row(4), POSITIONS)
    assert rows.events_of(0, row(4), POSITIONS) is not first
