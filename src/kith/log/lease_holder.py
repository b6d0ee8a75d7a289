"""Holds a lease of the log, which keeps the events that a follower has not read yet.

A follower reads on without a lease too, so a lease that cannot be taken is only logged. If events were deleted before
they were read, the follower learns it from `Batch.lost` or from a Conflict.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from kith.core.errors import KithError
from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LogStore

LEASE_RENEWAL_MS = 60_000
"""How often a lease is renewed and moved to its holder's position, in ms."""
_log = structlog.get_logger("kith.log")


class LogLeaseHolder:
    """One lease, held by this process."""

    def __init__(self, log: LogStore, name: str, now_ms: Callable[[], int]) -> None:
        self._log, self._name, self._now_ms = log, name, now_ms
        self._due_ms, self._lost_position = 0, NOWHERE

    async def keep(self, position: LogPosition) -> None:
        """Keep the events after a position. Does nothing if the lease was renewed within LEASE_RENEWAL_MS.

        `position`: one from which the holder could resume if it were killed now. NOWHERE: there is none yet.
        """
        if not self.is_due(position):
            return
        self._due_ms, self._lost_position = self._now_ms() + LEASE_RENEWAL_MS, NOWHERE
        try:
            is_kept = await self._log.lease(self._name, position)
        except KithError as error:
            _log.warning("a lease of the log could not be renewed", lease=self._name, error=error.message)
            return
        if not is_kept:
            self._lost_position = position
            _log.warning("events were deleted before they were read", lease=self._name)

    def is_due(self, position: LogPosition) -> bool:
        """Whether `keep` would renew the lease."""
        is_fresh = 0 < self._due_ms - self._now_ms() <= LEASE_RENEWAL_MS and self._lost_position in (NOWHERE, position)
        return position != NOWHERE and not is_fresh

    async def release(self) -> None:
        """Release the lease."""
        try:
            await self._log.release(self._name)
        except KithError as error:
            _log.warning("a lease of the log could not be released; it expires", lease=self._name, error=error.message)
