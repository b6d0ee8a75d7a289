"""Edges that will expire soon: they change at that time, before any event in the log says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from kith.core.events import Event, ends_ms
from kith.graph.shapes import ExpiringEdge
from kith.graph.store import Edges

_ENDS_MAX, _AHEAD_MS = 5_000, 120_000
"""The limits of the known expiries: how many edges, and how many ms ahead."""


class UpcomingExpiries:
    """The edges that expire before `known_ms`. 0: `read` must be called first."""

    def __init__(self, store: Edges, now_ms: Callable[[], int]) -> None:
        self._store, self._now_ms = store, now_ms
        self._heap: list[ExpiringEdge] = []
        self.known_ms = 0

    async def read(self) -> None:
        """Load the edges that expire next."""
        known_ms = self._now_ms() + _AHEAD_MS
        self._heap = await self._store.expiring_by(known_ms, _ENDS_MAX)
        self.known_ms = known_ms if len(self._heap) < _ENDS_MAX else self._heap[-1].ends_ms

    def add(self, event: Event) -> None:
        """Add the edge of an event, if it expires within the known time."""
        if 0 < ends_ms(event) < self.known_ms:
            heapq.heappush(self._heap, ExpiringEdge(ends_ms(event), event.graph, event.source, event.destination))

    def expired(self, now_ms: int) -> Iterator[ExpiringEdge]:
        """Edges that have expired by now, each once."""
        while self._heap and self._heap[0].ends_ms <= now_ms:
            yield heapq.heappop(self._heap)
