"""The repairer's side of a recount: corrects the counts of a list of any length while it is written to. See `recount`.

Each stretch is read here once for all owners, and again for owners that changed it meanwhile. An owner answers only
after its decisions are written, so a read after an answer sees everything that the owner decided before it.
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
"""Entries of a stretch."""
_TRIES_MAX = 20
_NAME_BITS = 63
NewestEntries = Callable[[Listing, Span, int], Awaitable[Sequence[tuple[Mark, int]]]]
"""Reads the newest entries in a span of a list, up to a limit, newest first, as (mark, expires_ms)."""


class Recounter:
    """Corrects the counts of lists."""

    def __init__(self, newest: NewestEntries, owners: Owners, *, stretch: int = STRETCH) -> None:
        self._newest, self._owners, self._stretch = newest, owners, stretch

    async def recount(self, listing: Listing) -> None:
        """Have each owner recount its entries of a list. StoreUnavailable if owners change again and again."""
        for _ in range(_TRIES_MAX):
            if await self._recount(listing):
                return
        raise StoreUnavailable("owners change all the time, so no list can be counted; audit again once they stay")

    async def _recount(self, listing: Listing) -> bool:
        """Run one recount; returns False if an owner lost it (FORGOTTEN)."""
        partitions, name = self._owners.partitions, secrets.randbits(_NAME_BITS)
        owners = [partitions.of_node(listing.node)] if listing.direction is Direction.OUT else range(partitions.count)
        await self._ask((owner, CountStretch(listing, name)) for owner in owners)
        top = HIGHEST
        while top > LOWEST:
            entries = await self._newest(listing, Span(LOWEST, top), self._stretch + 1)
            above = entries[self._stretch][0] if len(entries) > self._stretch else LOWEST
            span, pending = Span(above, top), list(owners)
            while pending:
                counted = self._counted(listing, [entry for entry in entries if entry[0] > above])
                outcomes = await self._ask(
                    (owner, CountStretch(listing, name, span, *counted.get(owner, (0, 0)))) for owner in pending
                )
                if StretchOutcome.FORGOTTEN in outcomes:
                    return False
                changed = StretchOutcome.CHANGED
                pending = [owner for owner, outcome in zip(pending, outcomes, strict=True) if outcome is changed]
                if pending:
                    entries = await self._within(listing, span)
            top = above
        return True

    async def _ask(self, commands: Iterable[tuple[int, CountStretch]]) -> list[StretchOutcome]:
        return [outcome for outcome, _ in await self._owners.ask_many(list(commands), StretchOutcome)]

    async def _within(self, listing: Listing, span: Span) -> list[tuple[Mark, int]]:
        """All entries in a span, even if many were added meanwhile."""
        all_entries: list[tuple[Mark, int]] = []
        while span.top > span.above:
            entries = await self._newest(listing, span, self._stretch)
            all_entries += entries
            if len(entries) < self._stretch:
                break
            position, other_end = entries[-1][0]
            span = span._replace(top=Mark(position, other_end - 1))
        return all_entries

    def _counted(self, listing: Listing, entries: Iterable[tuple[Mark, int]]) -> dict[int, tuple[int, int]]:
        """Per owner: how many of these entries it wrote, and how many of those expire."""
        counted: dict[int, tuple[int, int]] = {}
        for (position, other_end), expires_ms in entries:
            _, source, _ = ListEntry(listing, 0, position, other_end).edge
            owner = self._owners.partitions.of_node(source)
            previous = counted.get(owner, (0, 0))
            counted[owner] = previous[0] + 1, previous[1] + bool(expires_ms)
        return counted
