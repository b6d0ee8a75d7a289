"""The port behind cached sets: whom a source leads to in a graph, in memory that all processes share.

A set is complete or not there; nothing is ever added to one. A reader that misses a set may get a lease, which lets it
alone fill the set. A change of the source drops its set, and the lease with it: so what was read before a change is
never stored after it. Sets belong to a generation; a keeper that cannot tell what changed begins another one, and older
sets count as not there. Implemented by `engines/redis`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from kith.core.events import LogPosition

SetKey: TypeAlias = tuple[int, int]
"""Graph and source."""
LEASE_MS = 2_000
"""How long the holder of a lease may take to fill a set; then another gets a lease."""


class SetsProgress(NamedTuple):
    """Up to which place in the log the sets of a generation are kept up to date."""

    generation: bytes
    at: LogPosition


class Members(NamedTuple):
    """The set is there: for each id that was asked for, whether it is in it."""

    there: list[bool]


class FillLease(NamedTuple):
    """The set is not there, and the reader that asked may fill it."""

    name: bytes


class Wait(NamedTuple):
    """The set is not there: another reader fills it, or it is too large to keep. Ask the store, and look again after
    this time."""

    ms: int


Looked: TypeAlias = Members | FillLease | Wait


class CachedSets(Protocol):
    """Errors: StoreFull, StoreUnavailable. Whatever is kept may be lost at any moment; never a part of a set."""

    async def look(self, generation: bytes, asked: Sequence[tuple[SetKey, Sequence[int]]]) -> list[Looked]:
        """For each set, which of some ids are in it; all at once."""
        ...

    async def fill(
        self, generation: bytes, key: SetKey, lease: bytes, ids: Collection[int] | None, ttl_ms: int
    ) -> bool:
        """Store a set for `ttl_ms`; None: it is too large to keep. False: the lease is over, and nothing is stored."""
        ...

    async def drop(self, generation: bytes, keys: Sequence[SetKey]) -> None:
        """Forget these sets, and leases of them; nothing where there is none."""
        ...

    def keys(self, generation: bytes) -> AsyncIterator[list[SetKey]]:
        """Which sets of a generation there may be, some at a time, one perhaps twice. Those that come or go meanwhile
        may be left out."""
        ...

    async def members(self, generation: bytes, keys: Sequence[SetKey]) -> list[frozenset[int] | None]:
        """All ids in each of these sets; None where it is not there. To be answered by it, `look`."""
        ...

    async def last_progress(self) -> SetsProgress | None:
        """The place up to which sets were last kept up to date; None if they never were, or it was lost."""
        ...

    async def progress(self) -> SetsProgress | None:
        """The same, if a process keeps them up to date now."""
        ...

    async def now_ms(self) -> int:
        """The clock of `note_progress`."""
        ...

    async def note_progress(self, instead_of: bytes | None, progress: SetsProgress, until_ms: int) -> bool:
        """Note how far sets are kept up to date, and that this process does it until `until_ms` of `now_ms`; 0: it
        stops.

        False, and nothing is noted, unless the generation of `last` is `instead_of`.
        """
        ...
