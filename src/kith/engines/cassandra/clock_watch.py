"""Whether this machine's clock may date writes: versions of edges and ids of posts come from it.

A clock that jumps is noticed with the next write, by a monotonic clock; one that drifts when Cassandra's nodes are
asked, every ASKED_S. While it is wrong an API process refuses writes and reads on; workers end, so that others do their
work, and none starts. Once it is right again the API process is replaced: its last version and id may be of a time to
come, and those that it made next would be too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from kith.core.clock import wall_ms
from kith.core.errors import StoreMismatch, StoreUnavailable

JUMP_MS = 2_000
"""A clock that moves further than a monotonic one by this is not trusted until the nodes were asked."""
ASKED_S = 30.0
_LOOKED_S = 0.5
_log = structlog.get_logger("kith.cluster")


class ClockWatch:
    """`compare`: raises StoreMismatch where the clock is wrong, StoreUnavailable where nobody says; see `Metadata`.
    `replace`: called once when this process is to end. `reads_on`: it has something to do without writing.

    The clock is right when this is made.
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
        self._ahead_ms = self._ahead()  # of the monotonic clock, when it was right last
        self._doubted_ms: int | None = None  # the same, when something was dated last that was not trusted
        self._due_s = clock_s() + ASKED_S
        self._over = False
        self.wrong = ""
        """Why writes are refused; "": they are not, as far as is known."""

    def check(self) -> None:
        """StoreUnavailable where this clock may not date a write."""
        if self.wrong:
            raise StoreUnavailable(self.wrong)
        if self._jumped():
            self._doubted_ms = self._ahead()
            raise StoreUnavailable(
                "this machine's clock was set just now; it is compared with that of Cassandra's nodes"
            )

    async def run(self) -> None:
        """Watch until this process is to end, or it is cancelled."""
        while not self._over:
            await asyncio.sleep(_LOOKED_S)
            await self.look()

    async def look(self) -> None:
        """Ask the nodes, if it is time or the clock is not trusted."""
        doubtful = self.wrong or self._doubted_ms is not None or self._jumped()
        if not doubtful and self._clock_s() < self._due_s:
            return
        ahead_ms = self._ahead()
        try:
            await self._compare()
        except StoreMismatch as error:
            if not self.wrong:
                _log.error("writes are refused", why=error.message)
            self.wrong = error.message
            if not self._reads_on:
                self._end()
        except StoreUnavailable:
            return  # asked again in a moment
        else:
            if self.wrong or (self._doubted_ms is not None and abs(self._doubted_ms - ahead_ms) > JUMP_MS):
                _log.info("this machine's clock is right again, and this process is replaced")
                self.wrong = "this machine's clock was wrong, and this process may date what is to come: start it again"
                self._end()
            self._ahead_ms, self._doubted_ms = ahead_ms, None
        self._due_s = self._clock_s() + ASKED_S

    def _end(self) -> None:
        self._over = True
        self._replace()

    def _jumped(self) -> bool:
        return abs(self._ahead() - self._ahead_ms) > JUMP_MS

    def _ahead(self) -> int:
        return self._now_ms() - int(self._clock_s() * 1_000)
