"""The port behind cached sets: the destinations of a source in a graph, in memory that all processes share.

A set is complete or missing; nothing is ever added to one. A reader that misses a set may get a lease, which allows
only that reader to fill it. A change of the source drops its set and the lease with it, so what was read before a
change is never stored after it. Sets belong to a generation. A worker that cannot tell what changed starts a new one,
and sets of older generations count as missing. Implemented by `engines/redis`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from kith.core.events import LogPosition

SetKey: TypeAlias = tuple[int, int]
"""Graph and source."""
LEASE_MS = 2_000
"""How many ms a lease holder has to fill a set; after that another reader gets a lease."""


class SetsProgress(NamedTuple):
    """The position in the log up to which the sets of a generation are up to date."""

    generation: bytes
    at: LogPosition


class Members(NamedTuple):
    """The set is cached. For each requested id: whether it is a member."""

    present: list[bool]


class FillLease(NamedTuple):
    """The set is missing, and this reader may fill it."""

    name: bytes


class Wait(NamedTuple):
    """The set is missing: another reader is filling it, or it is too large to cache. Query the store, and look again
    after this time.
    """

    ms: int


SetLookup: TypeAlias = Members | FillLease | Wait


class CachedSets(Protocol):
    """Errors: StoreFull, StoreUnavailable. A set may be lost at any moment, but never a part of one."""

    async def lookup(self, generation: bytes, queries: Sequence[tuple[SetKey, Sequence[int]]]) -> list[SetLookup]:
        """For each set, which of some ids are members; one round trip for all."""
        ...

    async def fill(
        self, generation: bytes, key: SetKey, lease: bytes, ids: Collection[int] | None, ttl_ms: int
    ) -> bool:
        """Store a set for `ttl_ms`; None: it is too large to cache. False: the lease has ended, and nothing is
        stored.
        """
        ...

    async def drop(self, generation: bytes, keys: Sequence[SetKey]) -> None:
        """Drop these sets and their leases. Does nothing for missing ones."""
        ...

    def keys(self, generation: bytes) -> AsyncIterator[list[SetKey]]:
        """The keys of sets that may exist in a generation, some at a time, possibly repeated. Sets that come or go
        meanwhile may be left out.
        """
        ...

    async def members(self, generation: bytes, keys: Sequence[SetKey]) -> list[frozenset[int] | None]:
        """All ids in each of these sets; None if the set is missing. For audits; readers use `lookup`."""
        ...

    async def last_progress(self) -> SetsProgress | None:
        """The position up to which sets were last up to date. None if they never were, or it was lost."""
        ...

    async def progress(self) -> SetsProgress | None:
        """The same, if a process keeps the sets up to date now; else None."""
        ...

    async def now_ms(self) -> int:
        """The current time of the clock that `note_progress` uses."""
        ...

    async def note_progress(self, instead_of: bytes | None, progress: SetsProgress, until_ms: int) -> bool:
        """Store the position up to which sets are up to date, and that this process keeps them so until `until_ms` by
        `now_ms`; 0: it stops.

        False, and nothing is stored, unless the generation of the last progress is `instead_of`.
        """
        ...
