"""The strip of stories above a feed: which authors have stories for a reader, and in which order.

One entry per author: the reader's own first, then those with unseen stories, then the rest; in each group the authors
closest to the reader first, then those with the newest story. Of all followed authors only those whose list of stories
is not empty are looked at (docs/decisions/0007). Limits: the AUTHORS_MAX closest authors, and the newest STORIES_MAX
stories of each; the answer says where there is more.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from kith.core.ids import EPOCH_MS, NodeId
from kith.core.paging import Mark, Page, Window, cut
from kith.graph.edge import POSITION_MAX, Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS, MUTES
from kith.graph.shapes import Listing
from kith.stories.stories import Stories

Closeness: TypeAlias = Callable[[NodeId, Sequence[int]], Awaitable[Sequence[float]]]
"""Takes (reader, authors); says how close each author is to the reader: 0 or more, greater is closer."""
AUTHORS_MAX = 500
STORIES_MAX = 50
LOOKED_AT_MAX = 500
"""How many of an author's newest stories are looked at to find those that a reader may see."""
PART = 16
"""How many authors are read before other work gets a turn: a few ms, of a few hundred ms for the longest strip."""
_UNSEEN = 1 << 62
_SECONDS_MAX = (1 << 31) - 1
_CLOSENESS_MAX = 1e38  # what a 32-bit float can say


class StripEntry(NamedTuple):
    """The stories of one author that the reader may see. `more`: there may be older ones beyond STORIES_MAX."""

    author: int
    stories: int
    unseen: int
    latest_at: int  # ms since the epoch
    more: bool


class StripPage(NamedTuple):
    """Entries in order, and their page. `partial`: more authors have stories than were looked at."""

    entries: list[StripEntry]
    page: Page
    partial: bool


class Strip:
    """Makes the strips of readers."""

    def __init__(self, graph: Graph, stories: Stories, closeness: Closeness) -> None:
        self._graph, self._stories, self._closeness = graph, stories, closeness
        self._follows, self._mutes = graph.graphs.number(FOLLOWS), graph.graphs.number(MUTES)

    async def page(self, viewer: NodeId, window: Window) -> StripPage:
        """A page of the strip of `viewer`.

        An author whose place changes between two pages may appear twice or not at all; a new first page is right again.
        """
        close, partial = await self._authors(viewer)
        authors, entries = list(close), dict[int, StripEntry]()
        for at in range(0, len(authors), PART):
            entries |= {entry.author: entry for entry in await self._entries(viewer, authors[at : at + PART])}
            await asyncio.sleep(0)  # others get their turn
        marks = sorted(
            (_place(entry, viewer, close[author]) for author, entry in entries.items()),
            reverse=True,
        )
        page = cut(marks, window)
        return StripPage([entries[mark.id] for mark in page.items], page, partial)

    async def _authors(self, viewer: NodeId) -> tuple[dict[int, float], bool]:
        """The authors to look at, with their closeness; and whether there are more."""
        followed = await self._graph.store.ids(Listing(self._follows, viewer, Direction.OUT))
        telling = await self._stories.with_stories(np.append(followed, np.int64(viewer)))
        others = [author for author in telling if author != viewer]
        muted = await self._graph.store.exists_many(self._mutes, [(viewer, author) for author in others])
        others = [author for author, mute in zip(others, muted, strict=True) if not mute]
        close = dict(zip(others, await self._closeness(viewer, others), strict=True)) if others else {}
        nearest = sorted(others, key=close.__getitem__, reverse=True)[:AUTHORS_MAX]
        own = {int(viewer): 0.0} if viewer in telling else {}
        return own | {author: close[author] for author in nearest}, len(others) > len(nearest)

    async def _entries(self, viewer: NodeId, authors: Sequence[int]) -> list[StripEntry]:
        """An entry for each of `authors` with a story that `viewer` may see."""
        newest = [await self._stories.newest(author, LOOKED_AT_MAX) for author in authors]
        ids = [mark.id for marks in newest for mark in marks]
        shown = [story for story in await self._stories.visible(viewer, ids) if story is not None]
        seen = await self._stories.seen(viewer, shown)
        found: dict[int, StripEntry] = {}
        for story, saw in zip(shown, seen, strict=True):
            known = found.get(story.author, StripEntry(story.author, 0, 0, 0, False))
            if known.stories == STORIES_MAX:
                found[story.author] = known._replace(more=True)
                continue
            latest = max(known.latest_at, story.created_at)
            found[story.author] = StripEntry(known.author, known.stories + 1, known.unseen + (not saw), latest, False)
        return list(found.values())


def _place(entry: StripEntry, viewer: NodeId, close: float) -> Mark:
    """The place of an entry in the strip; greater comes first.

    The bit "unseen", then 62 bits: the closeness as a 32-bit float, whose bits sort like its value, and the time of the
    newest story in seconds.
    """
    if entry.author == viewer:
        return Mark(POSITION_MAX, entry.author)
    (bits,) = struct.unpack(">I", struct.pack(">f", min(max(0.0, close), _CLOSENESS_MAX)))
    seconds = min(max(0, (entry.latest_at - EPOCH_MS) // 1000), _SECONDS_MAX)
    return Mark(_UNSEEN * bool(entry.unseen) | bits << 31 | seconds, entry.author)
