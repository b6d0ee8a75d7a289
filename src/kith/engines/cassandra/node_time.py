"""The time of Cassandra's nodes, for leases, and for writes of which the later one wins: so an instance with a wrong
clock does no harm, nor does a node, where there are three.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from kith.engines.cassandra.connecting import Session

MEASURED_S = 60.0
"""How often the nodes are asked; in between, a monotonic clock is used."""
NODES_ASKED = 5
"""The driver goes round the nodes: of three all are asked, and one whose own clock is wrong is outvoted."""


class NodeTime:
    """In microseconds, each greater than those before. `clock_s`: a monotonic clock."""

    def __init__(self, session: Session, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock_s = session, clock_s
        self._measured_s: float | None = None
        self._ahead_us = self._last_us = 0

    async def now_us(self) -> int:
        """The time now, less how long the nodes take to answer."""
        if self._measured_s is None or self._clock_s() - self._measured_s > MEASURED_S:
            self._ahead_us = await self._measured()
            self._measured_s = self._clock_s()
        self._last_us = max(self._last_us + 1, int(self._clock_s() * 1e6) + self._ahead_us)
        return self._last_us

    async def _measured(self) -> int:
        """How far most nodes are ahead of the clock here."""
        ahead_us: dict[str, int] = {}
        for _ in range(NODES_ASKED):
            node, node_ms = await self._session.node_time()
            ahead = node_ms * 1_000 - int(self._clock_s() * 1e6)
            ahead_us[node] = max(ahead, ahead_us.get(node, ahead))  # of the answer that took least
        return statistics.median_low(ahead_us.values())
