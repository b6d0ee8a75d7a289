"""Whether this machine's clock may date writes: versions of edges and ids of posts come from it.

The next write detects a jump, by comparison with a monotonic clock. Drift is detected by a comparison with the clocks
of Cassandra's nodes, every COMPARE_EVERY_S. While the clock is wrong, an API process refuses writes and still serves
reads. Worker processes exit, so that workers on other machines take over, and none starts here. Once the clock is right
again, the API process is replaced: it may have issued versions and ids that lie in the future, and its next ones would
follow them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from kith.core.clock import wall_ms
from kith.core.errors import StoreMismatch, StoreUnavailable

JUMP_MS = 2_000
"""A clock that departs this far from a monotonic clock is not trusted until it was compared with the nodes'."""
COMPARE_EVERY_S = 30.0
"""How often the clock is compared with the nodes'."""
_POLL_S = 0.5
_log = structlog.get_logger("kith.cluster")


class ClockWatch:
    """Compares this machine's clock with the nodes'. The clock must be right when this object is created.

    `compare`: raises StoreMismatch if the clock is wrong, StoreUnavailable if no node answers; see `Metadata`.
    `replace`: called once, when this process must end. `reads_on`: this process is useful without writing, so it stays.
    """

    def __init__(
        self,
        compare: Callable[[], Awaitable[None]],
        replace: Callable[[], None],
        *,
        reads_on: bool,
        now_ms: Callable[[], int] = wall_ms,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compare, self._replace, self._reads_on = compare, replace, reads_on
        self._now_ms, self._clock_s = now_ms, clock_s
        self._ahead_ms = self._lead_ms()  # lead over the monotonic clock when the clock was last right
        self._doubted_ms: int | None = None  # the same lead, when `check` last refused a write
        self._due_s = clock_s() + COMPARE_EVERY_S
        self._over = False
        self.wrong = ""
        """Why writes are refused; "" while the clock is not known to be wrong."""

    def check(self) -> None:
        """Raise StoreUnavailable if this clock may not date a write."""
        if self.wrong:
            raise StoreUnavailable(self.wrong)
        if self._has_jumped():
            self._doubted_ms = self._lead_ms()
            raise StoreUnavailable(
                "this machine's clock was set just now; it is compared with that of Cassandra's nodes"
            )

    async def run(self) -> None:
        """Watch until this process must end, or the task is cancelled."""
        while not self._over:
            await asyncio.sleep(_POLL_S)
            await self.compare_if_due()

    async def compare_if_due(self) -> None:
        """Compare the clock with the nodes', if that is due or the clock is not trusted."""
        doubtful = self.wrong or self._doubted_ms is not None or self._has_jumped()
        if not doubtful and self._clock_s() < self._due_s:
            return
        ahead_ms = self._lead_ms()
        try:
            await self._compare()
        except StoreMismatch as error:
            if not self.wrong:
                _log.error("writes are refused", why=error.message)
            self.wrong = error.message
            if not self._reads_on:
                self._end()
        except StoreUnavailable:
            return  # retried at the next look
        else:
            if self.wrong or (self._doubted_ms is not None and abs(self._doubted_ms - ahead_ms) > JUMP_MS):
                _log.info("this machine's clock is right again, and this process is replaced")
                self.wrong = "this machine's clock was wrong: this process may have issued future versions; restart it"
                self._end()
            self._ahead_ms, self._doubted_ms = ahead_ms, None
        self._due_s = self._clock_s() + COMPARE_EVERY_S

    def _end(self) -> None:
        self._over = True
        self._replace()

    def _has_jumped(self) -> bool:
        return abs(self._lead_ms() - self._ahead_ms) > JUMP_MS

    def _lead_ms(self) -> int:
        return self._now_ms() - int(self._clock_s() * 1_000)
