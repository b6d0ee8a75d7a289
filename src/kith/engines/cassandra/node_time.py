"""The time of Cassandra's nodes, for writes of which the later one wins: so an instance with a wrong clock does no
harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kith.engines.cassandra.connecting import Session

MEASURED_S = 60.0
"""How often the nodes are asked; in between, a monotonic clock is used."""


class NodeTime:
    """In microseconds, each greater than those before. `clock_s`: a monotonic clock."""

    def __init__(self, session: Session, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock_s = session, clock_s
        self._measured_s: float | None = None
        self._ahead_us = self._last_us = 0

    async def now_us(self) -> int:
        """The time now, less how long the nodes take to answer."""
        now_s = self._clock_s()
        if self._measured_s is None or now_s - self._measured_s > MEASURED_S:
            _, node_ms = await self._session.node_time()
            self._measured_s, self._ahead_us = now_s, node_ms * 1_000 - int(self._clock_s() * 1e6)
        self._last_us = max(self._last_us + 1, int(now_s * 1e6) + self._ahead_us)
        return self._last_us
