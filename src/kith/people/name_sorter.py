"""Lists of people sorted by name: all of them, or those with a name that begins with a typed prefix.

Names are read at each call, so a changed name counts at once. Limit: of a longer list only the newest SORTED_MAX people
are sorted, and the answer says so (`partial`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from kith.core.errors import BadRequest
from kith.core.paging import Mark, Page
from kith.people.names import fold_name, searchable_names
from kith.people.profiles import Profile, Profiles
from kith.people.search import VisibleOnly

SORTED_MAX = 10_000
"""People of a list that are sorted, the newest."""
PREFIX_CHARS_MAX = 100
_READ_AT_ONCE = 1_000
_SORTS_LAST = "\U0010ffff"
"""Sorts behind every name."""


class NamePosition(NamedTuple):
    """A place in a list by name. The person `id` may have left the list since."""

    name: str
    id: int


class NamedPage(NamedTuple):
    """A page of a list by name. `end`: the place after which the next page begins; None at the end of the list.

    `partial`: the list has more than SORTED_MAX people, and only the newest of them were sorted.
    """

    page: Page
    end: NamePosition | None
    partial: bool


class NameSorter:
    """Sorts lists by the names in profiles."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def page(
        self, people: Page, prefix: str, after: NamePosition | None, limit: int, visible_only: VisibleOnly
    ) -> NamedPage:
        """A page of a list by name, after the place `after`. `prefix`: only people who match it (`matches`); "": all.

        `people`: the newest SORTED_MAX of the list. They are sorted by folded display name (or username, if there is
        none) in the order of Unicode code points. People without any name come last. The page and its end are as if
        the list had no people whom `visible_only` leaves out: otherwise they would tell that such a name is there.
        """
        placed: list[tuple[NamePosition, Mark]] = []
        for start in range(0, len(people.items), _READ_AT_ONCE):
            marks = people.items[start : start + _READ_AT_ONCE]
            profiles = await self._profiles.get_many([mark.id for mark in marks])
            placed += [
                (_place(mark.id, profile), mark)
                for mark, profile in zip(marks, profiles, strict=True)
                if matches(profile, prefix)
            ]
            await asyncio.sleep(0)  # let other requests run
        remaining = sorted(row for row in placed if after is None or row[0] > after)
        visible_rows: list[tuple[NamePosition, Mark]] = []
        start, size = 0, limit + 1
        while start < len(remaining) and len(visible_rows) <= limit:
            rows = remaining[start : start + size]
            visible_page = await visible_only(Page([mark for _, mark in rows], False, False))
            visible_ids = {mark.id for mark in visible_page.items}
            visible_rows += [row for row in rows if row[1].id in visible_ids]
            start, size = start + size, 2 * size
        page_rows = visible_rows[:limit]
        end = page_rows[-1][0] if len(visible_rows) > limit else None
        return NamedPage(Page([mark for _, mark in page_rows], end is not None, False), end, people.more_after)


def matches(profile: Profile, prefix: str) -> bool:
    """Whether one of the user's names (see `names.searchable_names`) begins with a folded `prefix`; "" matches
    everybody.
    """
    names = searchable_names(profile.username, profile.display_name)
    return not prefix or any(name.startswith(prefix) for _, name in names)


def check_prefix(typed: str) -> str:
    """The folded form of a typed prefix, as `matches` takes it; BadRequest if it is empty or too long."""
    prefix = fold_name(typed)
    if not prefix or len(typed) > PREFIX_CHARS_MAX:
        raise BadRequest(f"q must have 1 to {PREFIX_CHARS_MAX} characters: the beginning of a name")
    return prefix


def _place(user: int, profile: Profile) -> NamePosition:
    return NamePosition(fold_name(profile.display_name) or fold_name(profile.username) or _SORTS_LAST, user)
