"""CachedSets in a dict, for one process. Engines are compared with it. A test can empty it or make it unavailable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence

from kith.checks.sets import LEASE_MS, FillLease, Members, SetKey, SetLookup, SetsProgress, Wait
from kith.core.clock import wall_ms
from kith.core.errors import StoreUnavailable

Ids = frozenset[int] | None


class ReferenceSets:
    """See `checks.sets.CachedSets`."""

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self._now_ms, self._leases = now_ms, 0
        self.sets: dict[tuple[bytes, SetKey], tuple[bytes | Ids, int]] = {}  # lease or members, and when they expire
        self._last: SetsProgress | None = None
        self._kept_until_ms = 0
        self.away = False

    def empty(self) -> None:
        """Lose all sets and the progress."""
        self.sets.clear()
        self._last, self._kept_until_ms = None, 0

    def _asked(self) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.sets = {key: kept for key, kept in self.sets.items() if kept[1] > self._now_ms()}

    async def lookup(self, generation: bytes, asked: Sequence[tuple[SetKey, Sequence[int]]]) -> list[SetLookup]:
        self._asked()
        return [self._looked(generation, key, ids) for key, ids in asked]

    def _looked(self, generation: bytes, key: SetKey, ids: Sequence[int]) -> SetLookup:
        kept = self.sets.get((generation, key))
        if kept is None:
            self._leases += 1
            lease = self._leases.to_bytes(8, "big")
            self.sets[generation, key] = lease, self._now_ms() + LEASE_MS
            return FillLease(lease)
        members, ends_ms = kept
        if members is None or isinstance(members, bytes):
            return Wait(ends_ms - self._now_ms())
        return Members([id_ in members for id_ in ids])

    async def fill(
        self, generation: bytes, key: SetKey, lease: bytes, ids: Collection[int] | None, ttl_ms: int
    ) -> bool:
        self._asked()
        if self.sets.get((generation, key), (None, 0))[0] != lease:
            return False
        self.sets[generation, key] = None if ids is None else frozenset(ids), self._now_ms() + ttl_ms
        return True

    async def drop(self, generation: bytes, keys: Sequence[SetKey]) -> None:
        self._asked()
        for key in keys:
            self.sets.pop((generation, key), None)

    async def keys(self, generation: bytes) -> AsyncIterator[list[SetKey]]:
        self._asked()
        yield [key for of, key in self.sets if of == generation]

    async def members(self, generation: bytes, keys: Sequence[SetKey]) -> list[frozenset[int] | None]:
        self._asked()
        found = [self.sets.get((generation, key), (None, 0))[0] for key in keys]
        return [one if isinstance(one, frozenset) else None for one in found]

    async def last_progress(self) -> SetsProgress | None:
        self._asked()
        return self._last

    async def progress(self) -> SetsProgress | None:
        self._asked()
        return self._last if self._now_ms() < self._kept_until_ms else None

    async def now_ms(self) -> int:
        self._asked()
        return self._now_ms()

    async def note_progress(self, instead_of: bytes | None, progress: SetsProgress, until_ms: int) -> bool:
        self._asked()
        if (None if self._last is None else self._last.generation) != instead_of:
            return False
        self._last, self._kept_until_ms = progress, until_ms
        return True
