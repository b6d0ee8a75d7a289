"""A lease of the log, by which a follower keeps the events that it has not read: taken, renewed, released.

Followers read on without a lease too. So a lease that cannot be taken is logged and stops nothing; a follower learns
from `Batch.lost`, or from a Conflict, that events were forgotten before it read them.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from kith.core.errors import KithError
from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LogStore

RENEWED_MS = 60_000
"""How often a lease is renewed, and moves on with its holder."""
_log = structlog.get_logger("kith.log")


class Keeping:
    """One lease, in the hands of this process."""

    def __init__(self, log: LogStore, name: str, now_ms: Callable[[], int]) -> None:
        self._log, self._name, self._now_ms = log, name, now_ms
        self._due_ms, self._lost = 0, NOWHERE

    async def keep(self, at: LogPosition) -> None:
        """Keep what follows `at`; nothing is done where the lease was renewed within RENEWED_MS.

        `at`: a place from which the holder resumes even if it is killed now. NOWHERE: it has none yet.
        """
        if not self.is_due(at):
            return
        self._due_ms, self._lost = self._now_ms() + RENEWED_MS, NOWHERE
        try:
            kept = await self._log.lease(self._name, at)
        except KithError as error:
            _log.warning("the log is not kept", lease=self._name, error=error.message)
            return
        if not kept:
            self._lost = at
            _log.warning("the log was forgotten before it was read", lease=self._name)

    def is_due(self, at: LogPosition) -> bool:
        """Whether `keep` would do something."""
        is_fresh = 0 < self._due_ms - self._now_ms() <= RENEWED_MS and self._lost in (NOWHERE, at)
        return at != NOWHERE and not is_fresh

    async def release(self) -> None:
        """Keep nothing more."""
        try:
            await self._log.release(self._name)
        except KithError as error:
            _log.warning("a lease of the log is left to end by itself", lease=self._name, error=error.message)
