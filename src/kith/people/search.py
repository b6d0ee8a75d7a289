"""Search of all people by the beginning of a username, or of a display name from its first, second or third word on.

Limit: a page looks at ENTRIES_SCANNED_MAX entries of each list of the index (see `names`). If many entries must not be
seen, or many names begin alike, that may not fill the page. The page is then short and says that there is more; the
next page continues there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from kith.core.gathering import gather
from kith.core.paging import Mark, Page, Window
from kith.graph.graph import Graph
from kith.graph.graphs import NAMES
from kith.graph.page_merge import merge_pages
from kith.graph.walk import walk
from kith.people.names import KINDS, index_entry, index_range, searchable_names
from kith.people.profiles import Profiles

ENTRIES_SCANNED_MAX = 2_000
"""Entries of each list that a page looks at."""
_FIRST_READ_PAGES = 2
"""The first read of each list is this many times a page."""

VisibleOnly = Callable[[Page], Awaitable[Page]]
"""Returns a page of people without those whom the reader must not see."""


class PeopleSearch:
    """Finds people by their names."""

    def __init__(self, graph: Graph, profiles: Profiles) -> None:
        self._store, self._names, self._profiles = graph.store, graph.graphs.number(NAMES), profiles

    async def page(self, prefix: str, window: Window, visible_only: VisibleOnly) -> Page:
        """People with a name that begins with a folded `prefix`, sorted by the first 9 characters of that name.

        Each person comes once, at the first of their matching names.
        """
        walks = [self._walk(kind, prefix, window, visible_only) for kind in KINDS]
        return merge_pages(await gather(self._store.immediate, *walks), window)

    async def _walk(self, kind: int, prefix: str, window: Window, visible_only: VisibleOnly) -> Page:
        span, size = index_range(kind, prefix), _FIRST_READ_PAGES * window.limit
        window = window._replace(since=span.since, until=span.until)
        are_shown, listing = partial(self._are_shown, prefix, visible_only), span.listing(self._names)
        return await walk(self._store, listing, window, are_shown, entries_max=ENTRIES_SCANNED_MAX, first=size)

    async def _are_shown(self, prefix: str, visible_only: VisibleOnly, marks: Sequence[Mark]) -> list[bool]:
        """For each entry, whether it is the first matching name of a person whom the reader may see."""
        profiles = await self._profiles.get_many([mark.id for mark in marks])
        positions = [
            max(
                (
                    index_entry(kind, name).position
                    for kind, name in searchable_names(profile.username, profile.display_name)
                    if name.startswith(prefix)
                ),
                default=None,
            )
            for profile in profiles
        ]
        candidates = [mark for mark, position in zip(marks, positions, strict=True) if mark.position == position]
        visible_ids = (
            {mark.id for mark in (await visible_only(Page(candidates, False, False))).items} if candidates else set()
        )
        return [
            mark.position == position and mark.id in visible_ids
            for mark, position in zip(marks, positions, strict=True)
        ]
