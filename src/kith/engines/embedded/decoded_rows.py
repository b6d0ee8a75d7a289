"""A cache of decoded rows of the event log: the consumers of a process read the same rows soon after each other."""

from __future__ import annotations

from kith.core.events import Event
from kith.engines.embedded.event_rows import ROW_BYTES_MAX, events_of
from kith.engines.embedded.history import History, StorePositions

ROWS_MAX = 256
"""Rows that a process caches, at most; with the data of their events some 2 MB."""


class DecodedRows:
    """The rows that were decoded last. A row whose bytes have changed, such as the open one, is decoded again."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[bytes, History, list[Event]]] = {}

    def events_of(self, first: int, row: bytes, positions: StorePositions) -> list[Event]:
        """See `event_rows.events_of`. The caller must not change the list."""
        cached = self._rows.get(first)
        if cached is not None and cached[0] == row and cached[1] is positions.history:
            return cached[2]
        events = events_of(first, row, positions)
        if len(row) <= 2 * ROW_BYTES_MAX:
            self._rows.pop(first, None)
            self._rows[first] = row, positions.history, events
            if len(self._rows) > ROWS_MAX:
                del self._rows[next(iter(self._rows))]
        return events
