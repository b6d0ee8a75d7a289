"""Has the owners of a list's entries count them anew, however many, while they go on to decide. `recount` says how.

Each stretch is read here, once for all owners, and again for those that changed it meanwhile. An owner answers after
what it decided is written, so what is read after an answer has all that it decided before.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from kith.core.errors import StoreUnavailable
from kith.core.paging import Mark
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.edge_commands import CountStretch, ListEntry
from kith.engines.cassandra.parts import HIGHEST, LOWEST, Span
from kith.engines.cassandra.recount import StretchOutcome
from kith.graph.edge import Direction
from kith.graph.shapes import Listing

STRETCH = 5_000
"""Entries read at once."""
_TRIES_MAX = 20
_NAME_BITS = 63
NewestEntries = Callable[[Listing, Span, int], Awaitable[Sequence[tuple[Mark, int]]]]
"""Reads the newest entries in a span of a list, at most so many, newest first: marks, expires_ms."""


class Recounter:
    """Corrects counts."""

    def __init__(self, newest: NewestEntries, owners: Owners, *, stretch: int = STRETCH) -> None:
        self._newest, self._owners, self._stretch = newest, owners, stretch

    async def recount(self, listing: Listing) -> None:
        """Have each owner of entries of a list count them anew. StoreUnavailable where owners change all the time."""
        for _ in range(_TRIES_MAX):
            if await self._recount(listing):
                return
        raise StoreUnavailable("owners change all the time, so no list can be counted; audit again once they stay")

    async def _recount(self, listing: Listing) -> bool:
        """Whether no owner forgot of it."""
        partitions, name = self._owners.partitions, secrets.randbits(_NAME_BITS)
        ours = [partitions.of_node(listing.node)] if listing.direction is Direction.OUT else range(partitions.count)
        await self._ask((owner, CountStretch(listing, name)) for owner in ours)
        top = HIGHEST
        while top > LOWEST:
            entries = await self._newest(listing, Span(LOWEST, top), self._stretch + 1)
            above = entries[self._stretch][0] if len(entries) > self._stretch else LOWEST
            span, asked = Span(above, top), list(ours)
            while asked:
                counted = self._counted(listing, [entry for entry in entries if entry[0] > above])
                outcomes = await self._ask(
                    (owner, CountStretch(listing, name, span, *counted.get(owner, (0, 0)))) for owner in asked
                )
                if StretchOutcome.FORGOTTEN in outcomes:
                    return False
                changed = StretchOutcome.CHANGED
                asked = [owner for owner, outcome in zip(asked, outcomes, strict=True) if outcome is changed]
                if asked:
                    entries = await self._within(listing, span)
            top = above
        return True

    async def _ask(self, asked: Iterable[tuple[int, CountStretch]]) -> list[StretchOutcome]:
        return [outcome for outcome, _ in await self._owners.many(list(asked), StretchOutcome)]

    async def _within(self, listing: Listing, span: Span) -> list[tuple[Mark, int]]:
        """All entries in a span, however many came meanwhile."""
        found: list[tuple[Mark, int]] = []
        while span.top > span.above:
            some = await self._newest(listing, span, self._stretch)
            found += some
            if len(some) < self._stretch:
                break
            position, other = some[-1][0]
            span = span._replace(top=Mark(position, other - 1))
        return found

    def _counted(self, listing: Listing, entries: Iterable[tuple[Mark, int]]) -> dict[int, tuple[int, int]]:
        """By owner, how many of these entries are its own, and how many of them expire."""
        counted: dict[int, tuple[int, int]] = {}
        for (position, other), expires_ms in entries:
            _, source, _ = ListEntry(listing, 0, position, other).edge
            owner = self._owners.partitions.of_node(source)
            before = counted.get(owner, (0, 0))
            counted[owner] = before[0] + 1, before[1] + bool(expires_ms)
        return counted
