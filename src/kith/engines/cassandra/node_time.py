"""The time of Cassandra's nodes, for leases and for last-write-wins timestamps.

So an instance with a wrong clock does no harm. Neither does one node with a wrong clock, where there are three.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from kith.engines.cassandra.connecting import Session

MEASURE_EVERY_S = 60.0
"""How often the nodes' time is measured; in between, a monotonic clock advances it."""
TIME_QUERIES = 5
"""Queries of a measurement. The driver rotates through the nodes: of three, all are queried and one wrong clock is
outvoted."""


class NodeTime:
    """A clock in microseconds; each value is greater than the one before. `clock_s`: a monotonic clock."""

    def __init__(self, session: Session, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock_s = session, clock_s
        self._measured_s: float | None = None
        self._ahead_us = self._last_us = 0

    async def now_us(self) -> int:
        """The nodes' time, behind by as long as they took to answer."""
        if self._measured_s is None or self._clock_s() - self._measured_s > MEASURE_EVERY_S:
            self._ahead_us = await self._measure()
            self._measured_s = self._clock_s()
        self._last_us = max(self._last_us + 1, int(self._clock_s() * 1e6) + self._ahead_us)
        return self._last_us

    async def _measure(self) -> int:
        """The median lead of the nodes over `clock_s`, in microseconds."""
        ahead_us: dict[str, int] = {}
        for _ in range(TIME_QUERIES):
            node, node_ms = await self._session.node_time()
            lead = node_ms * 1_000 - int(self._clock_s() * 1e6)
            ahead_us[node] = max(lead, ahead_us.get(node, lead))  # of the node's fastest answer
        return statistics.median_low(ahead_us.values())
