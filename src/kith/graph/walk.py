"""Pages of a filtered list that look as if the hidden entries did not exist.

A page says that there is more only if another shown entry follows, and its cursors are positions of shown entries. So
nothing reveals how many entries are hidden, or when they were added. Limit: a page checks at most `entries_max`
entries. A page that needs more is short, says that there is more, and the next page continues from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import numpy as np

from kith.core.ids import ID_MAX
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import POSITION_MIN
from kith.graph.shapes import Ids, Listing
from kith.graph.store import Edges

ShownCheck: TypeAlias = Callable[[Sequence[Mark]], Awaitable[Sequence[bool]]]
"""Answers for each of these entries whether it is shown."""
LIST_END = Mark(POSITION_MIN, 0)
"""The place before the oldest possible entry: the whole list is newer, and nothing is older."""
READ_MAX = 20_000
"""How many ids of a list one call reads."""
_CHUNK = 512
"""How many entries a walk reads at a time, by default."""


async def walk(
    store: Edges,
    listing: Listing,
    window: Window,
    shown: ShownCheck,
    *,
    entries_max: int,
    first: int | None = None,
    begun: Page | None = None,
) -> Page:
    """A page of the entries of `listing` for which `shown` is true.

    `entries_max`: stop after checking this many. `first`: how many to read first, if few will be hidden. `begun`: the
    first entries, if they were already read (`first_step`). The side that the window comes from is not read; it is
    assumed to have more.
    """
    backward = window.before is not None
    found: list[Mark] = []
    place = window.before if backward else window.after
    size, seen, more = first or _CHUNK, 0, True
    while more and len(found) <= window.limit and seen < entries_max:
        if seen:
            await asyncio.sleep(0)  # let other requests run
        step = window._replace(limit=size)
        step = step._replace(before=place) if backward else step._replace(after=place)
        chunk, begun = begun or await store.page(listing, step), None
        marks = chunk.items[::-1] if backward else chunk.items
        found += [mark for mark, keep in zip(marks, await shown(marks), strict=True) if keep]
        more = bool(marks) and (chunk.more_before if backward else chunk.more_after)
        seen, place = seen + len(marks), marks[-1] if marks else place
        size = max(size, min(2 * size, _CHUNK))
    if len(found) > window.limit:
        found, more = found[: window.limit], True
        place = found[-1]
    return (_newer if backward else _older)(found, place, more, window)


def first_step(window: Window) -> Window:
    """The part of a list that a walk reads first."""
    return window._replace(limit=_CHUNK)


async def read_whole_list(store: Edges, listing: Listing) -> Ids:
    """All ids of a list, in any order, read READ_MAX per call. For lists whose length is limited elsewhere."""
    ids, after = await store.chunk(listing, None, READ_MAX)
    found = [ids]
    while after is not None:
        await asyncio.sleep(0)  # let other requests run
        ids, after = await store.chunk(listing, after, READ_MAX)
        found.append(ids)
    return np.concatenate(found) if len(found) > 1 else ids


def past(mark: Mark, step: int) -> Mark:
    """The place directly beside `mark`, newer (`step` 1) or older (-1): a page from there includes `mark`."""
    if 0 <= mark.id + step <= ID_MAX:
        return Mark(mark.position, mark.id + step)
    return Mark(mark.position + step, 0 if step > 0 else ID_MAX)


def _older(found: list[Mark], end: Mark | None, more: bool, window: Window) -> Page:
    """The page of a walk from `window.after` to the older `end`."""
    if end is None:
        return Page([], False, False)
    start = found[0] if found else window.after and past(window.after, -1)
    return Page(found, more, window.after is not None, (start or end, end))


def _newer(found: list[Mark], end: Mark | None, more: bool, window: Window) -> Page:
    """The page of a walk from `window.before` to the newer `end`."""
    if end is None or window.before is None:
        return Page([], False, False)
    start = found[0] if found else past(window.before, 1)
    return Page(found[::-1], window.before > LIST_END, more, (end, start))
