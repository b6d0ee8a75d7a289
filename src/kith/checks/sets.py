"""The port behind cached sets: whom a source leads to in a graph, in memory that all processes share.

A set is complete or not there; nothing is ever added to one. Who looks for one that is not there may get a lease, with
which they alone may bring it. A set is dropped when the log tells a change of its source, and a lease with it: so what
was read before a change is never brought after it. Sets belong to a generation; whoever can no longer say what changed
begins another, and all before are as if not there. Implemented by `engines/redis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from kith.core.events import LogPosition

SetKey: TypeAlias = tuple[int, int]
"""Graph and source."""
LEASE_MS = 2_000
"""How long one who has a lease may take to bring a set; then another gets one."""


class SetsStanding(NamedTuple):
    """Up to which place in the log the sets of a generation are kept up to date."""

    generation: bytes
    at: LogPosition


class Members(NamedTuple):
    """The set is there: for each id that was asked for, whether it is in it."""

    there: list[bool]


class FillLease(NamedTuple):
    """The set is not there, and whoever asked may bring it."""

    name: bytes


class Wait(NamedTuple):
    """The set is not there: another brings it, or it is none to be kept. Ask the store; ask again after so long."""

    ms: int


Looked: TypeAlias = Members | FillLease | Wait


class CachedSets(Protocol):
    """Errors: StoreFull, StoreUnavailable. Whatever is kept may be lost at any moment; never a part of a set."""

    async def look(self, generation: bytes, asked: Sequence[tuple[SetKey, Sequence[int]]]) -> list[Looked]:
        """For each set, which of some ids are in it; all at once."""
        ...

    async def bring(self, generation: bytes, key: SetKey, lease: bytes, ids: Sequence[int] | None, ttl_ms: int) -> bool:
        """Keep a set for `ttl_ms`; None: it is none to be kept. False: the lease is over, and nothing is kept."""
        ...

    async def drop(self, generation: bytes, keys: Sequence[SetKey]) -> None:
        """Forget these sets, and leases of them; nothing where there is none."""
        ...

    async def last(self) -> SetsStanding | None:
        """Up to where sets were kept up to date last; None if nobody did, or that was lost."""
        ...

    async def standing(self) -> SetsStanding | None:
        """The same, if somebody keeps them up to date now."""
        ...

    async def now_ms(self) -> int:
        """The clock by which `stand` ends."""
        ...

    async def stand(self, instead_of: bytes | None, standing: SetsStanding, until_ms: int) -> bool:
        """Note how far sets are kept up to date, and that somebody does until `until_ms`, by `now_ms`; 0: nobody does.

        False, and nothing is noted, unless the generation of `last` is `instead_of`.
        """
        ...
