"""The strip of stories above a feed: which authors have stories for a reader, and in which order.

There is one entry per author: the reader's own first, then those with unseen stories, then the rest. In each group the
authors closest to the reader come first, of equally close ones those with the newest story. If a reader follows many
authors, only those whose list of stories is not empty are read (docs/decisions/0007). Limits: the FOLLOWED_MAX newest
follows, of these the AUTHORS_MAX closest authors, and the newest STORIES_MAX stories of each; the answer says if there
is more.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kith.core.gathering import gather
from kith.core.ids import EPOCH_MS, NodeId
from kith.core.paging import Mark, Page, Window, cut
from kith.graph.edge import POSITION_MAX, Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS, MUTES
from kith.graph.shapes import Listing
from kith.stories.stories import Stories

Closeness: TypeAlias = Callable[[NodeId], Coroutine[Any, Any, Mapping[int, float]]]
"""Takes a reader; returns the closeness of authors: 0 or more, greater is closer. A missing author counts as 0."""
FOLLOWED_MAX = 20_000
"""The reader's newest follows that are looked at."""
AUTHORS_MAX = 500
"""Authors whose stories are read for a strip."""
STORIES_MAX = 50
"""Stories of an author that are counted."""
STORIES_SCANNED_MAX = 500
"""An author's newest stories that are looked at to find those that the reader may see."""
AUTHORS_PER_BATCH = 16
"""Authors that are read before other requests may run, on an engine in this process. That takes a few ms; the longest
strip takes a few hundred.
"""
REMOTE_AUTHORS_PER_BATCH = 100
"""Authors that are read in one call of an engine across a network."""
_UNSEEN = 1 << 62
_SECONDS_MAX = (1 << 31) - 1
_CLOSENESS_MAX = 1e38  # fits into a 32-bit float


class StripEntry(NamedTuple):
    """The stories of one author that the reader may see. `more`: there may be older ones beyond STORIES_MAX."""

    author: int
    stories: int
    unseen: int
    latest_at: int  # ms since the epoch
    more: bool


class StripPage(NamedTuple):
    """Entries in order, and their page. `partial`: there may be more authors with stories than were looked at."""

    entries: list[StripEntry]
    page: Page
    partial: bool


class Strip:
    """Builds the strips of readers."""

    def __init__(self, graph: Graph, stories: Stories, closeness: Closeness) -> None:
        self._graph, self._stories, self._closeness = graph, stories, closeness
        self._immediate = graph.store.immediate
        self._batch = AUTHORS_PER_BATCH if self._immediate else REMOTE_AUTHORS_PER_BATCH
        self._follows, self._mutes = graph.graphs.number(FOLLOWS), graph.graphs.number(MUTES)

    async def page(self, viewer: NodeId, window: Window) -> StripPage:
        """A page of the strip of `viewer`.

        An author whose place changes between two pages may appear twice or not at all. A new first page corrects that.
        """
        close, partial = await self._authors(viewer)
        authors = list(close)
        entries: dict[int, StripEntry] = {}
        for start in range(0, len(authors), self._batch):
            entries |= {
                entry.author: entry for entry in await self._entries(viewer, authors[start : start + self._batch])
            }
            await asyncio.sleep(0)  # let other requests run
        marks = sorted(
            (_place(entry, viewer, close[author]) for author, entry in entries.items()),
            reverse=True,
        )
        page = cut(marks, window)
        return StripPage([entries[mark.id] for mark in page.items], page, partial)

    async def _authors(self, viewer: NodeId) -> tuple[dict[int, float], bool]:
        """The authors to read, with their closeness; and whether there are more."""
        (authors, more), close = await gather(self._immediate, self._candidates(viewer), self._closeness(viewer))
        closeness = {author: close.get(author, 0.0) for author in authors if author != viewer}
        nearest = sorted(closeness, key=closeness.__getitem__, reverse=True)[:AUTHORS_MAX]
        own = {int(viewer): 0.0} if viewer in authors else {}
        return own | {author: closeness[author] for author in nearest}, more or len(closeness) > len(nearest)

    async def _candidates(self, viewer: NodeId) -> tuple[list[int], bool]:
        """The viewer and the authors whom they follow; and whether they follow more than FOLLOWED_MAX.

        If these are many, only those whose list of stories is not empty.
        """
        followed = await self._graph.store.ids(Listing(self._follows, viewer, Direction.OUT), FOLLOWED_MAX + 1)
        authors = np.append(followed[:FOLLOWED_MAX], np.int64(viewer))
        worth = authors.tolist() if len(authors) <= self._batch else await self._stories.with_stories(authors)
        return worth, len(followed) > FOLLOWED_MAX

    async def _entries(self, viewer: NodeId, authors: Sequence[int]) -> list[StripEntry]:
        """An entry for each of `authors` with a story that `viewer` may see."""
        ids, mutes = np.array(authors, np.int64), Listing(self._mutes, viewer, Direction.OUT)
        newest, muted = await gather(
            self._immediate,
            self._stories.newest(authors, STORIES_SCANNED_MAX),
            self._graph.store.contains(mutes, ids),
        )
        muted_authors = set(ids[muted].tolist())
        entries: dict[int, StripEntry] = {}
        for story, is_seen in await self._stories.shown(viewer, [mark.id for mark in newest]):
            if story.author in muted_authors:
                continue
            entry = entries.get(story.author, StripEntry(story.author, 0, 0, 0, False))
            if entry.stories == STORIES_MAX:
                entries[story.author] = entry._replace(more=True)
                continue
            latest = max(entry.latest_at, story.created_at)
            entries[story.author] = StripEntry(
                entry.author, entry.stories + 1, entry.unseen + (not is_seen), latest, False
            )
        return list(entries.values())


def _place(entry: StripEntry, viewer: NodeId, close: float) -> Mark:
    """The place of an entry in the strip; greater comes first.

    Its position is the bit "unseen", then 62 bits: the closeness as a 32-bit float, whose bits sort like its value, and
    the time of the newest story in seconds.
    """
    if entry.author == viewer:
        return Mark(POSITION_MAX, entry.author)
    (bits,) = struct.unpack(">I", struct.pack(">f", min(max(0.0, close), _CLOSENESS_MAX)))
    seconds = min(max(0, (entry.latest_at - EPOCH_MS) // 1000), _SECONDS_MAX)
    return Mark(_UNSEEN * bool(entry.unseen) | bits << 31 | seconds, entry.author)
