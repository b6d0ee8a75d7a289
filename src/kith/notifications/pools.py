"""The workers of the tiers. Each pool has processes of its own, so a tier with much work does not delay another."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from kith.core.errors import Unavailable
from kith.log.stop_signal import StopSignal
from kith.log.store import Bell, LogStore
from kith.notifications.coordinator import Coordinator
from kith.notifications.tiers import Tier

POOLS: Mapping[str, tuple[Tier, ...]] = {
    "mentions-online": (Tier.ONLINE,),
    "mentions-day": (Tier.DAY, Tier.ALL),
    "mentions-month": (Tier.MONTH,),
}
"""The tiers of each worker, by its name. ALL, for accounts below the threshold, has few chunks and is never skipped."""
IDLE_S = 1.0
"""Longest pause between two checks for walks, in case the bell does not ring for a new one."""
GAP_S = 0.05
"""Shortest pause: any write rings the bell, and a check for walks is a statement or two."""
RETRY_S = 2.0
"""Pause after an error."""
_log = structlog.get_logger("kith.notifications")


class PoolWorker:
    """Works the walks of a pool until stopped. `coordinator`: of the tiers of this pool."""

    def __init__(self, name: str, coordinator: Coordinator, log: LogStore) -> None:
        self.name, self._coordinator, self._log = name, coordinator, log
        self._stopping = StopSignal()

    def stop(self) -> None:
        """Stop after the current chunks."""
        self._stopping.set()

    async def run(self) -> None:
        """Work the walks there are, and wait for more. After an error (a store away, a bug), retry after RETRY_S."""
        with self._log.bell() as bell:
            while not self._stopping.is_set:
                try:
                    if not await self._coordinator.work():
                        await self._rest(bell)
                except Unavailable as error:
                    _log.warning("mentions wait for the store", worker=self.name, error=error.message)
                    await self._stopping.pause(RETRY_S)
                except Exception:
                    _log.exception("mentions are sent later", worker=self.name)
                    await self._stopping.pause(RETRY_S)

    async def _rest(self, bell: Bell) -> None:
        """Wait until something is written, which may be a walk."""
        await self._stopping.run_until_set(bell.rung(IDLE_S))
        await self._stopping.pause(GAP_S)
