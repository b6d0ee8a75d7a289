"""A LeaseStore in a dict, by a clock that a test sets. A lease ends when it expires or is released."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from cast import FakeClock

from kith.leases.holding import Leases
from kith.leases.store import Lease

_tokens = count(1)
"""Shared by all stores, so that no two holders in a test have the same token."""


class ReferenceLeases:
    """See `leases.store.LeaseStore`."""

    expires = True

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._held: dict[str, tuple[Lease, float]] = {}  # by name, and when each ends

    async def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        if self._holder(name) is not None:
            return None
        lease = Lease(name, holder, next(_tokens))
        self._held[name] = (lease, self._now_ms() + ttl_s * 1_000)
        return lease

    async def renew(self, lease: Lease, ttl_s: float) -> bool:
        if self._holder(lease.name) != lease:
            return False
        self._held[lease.name] = (lease, self._now_ms() + ttl_s * 1_000)
        return True

    async def release(self, lease: Lease) -> None:
        if self._holder(lease.name) == lease:
            del self._held[lease.name]

    def _holder(self, name: str) -> Lease | None:
        lease, until_ms = self._held.get(name, (None, 0.0))
        return lease if self._now_ms() < until_ms else None


class _OwnLeases(ReferenceLeases):
    """Leases that no other process can take, so they need no renewal."""

    expires = False


def own_leases() -> Leases:
    """Leases of one process, not shared: two such processes may both believe that they hold the same lease."""
    return Leases(_OwnLeases(FakeClock()), lambda: 0.0)
