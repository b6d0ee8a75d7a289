"""The order `top` of a thread: most liked comments first, of equally liked ones the newest.

Counting the likes of thousands of comments costs more than the rest of the page. So the counts of a long thread are
cached for LIKES_CACHED_S. Meanwhile a like moves no comment; new comments are still ranked at once, and removed ones
left out. Limit: only the newest RANKED_MAX comments of a thread are ranked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.paging import Mark, Page, Window
from kith.graph.edge import Direction
from kith.graph.shapes import Ids, Listing
from kith.graph.store import EdgeStore

RANKED_MAX = 2_000
"""Comments of a thread that are ranked, the newest."""
UNCACHED_COMMENTS_MAX = 100
"""Up to this many comments in a thread, likes are counted for each page, without a cache."""
LIKES_CACHED_S = 5.0
"""Time for which the counts of a longer thread are cached."""
_THREADS_MAX = 200  # cached threads, 32 KB each


class _CachedLikes(NamedTuple):
    """The likes of comments, by ascending ids. `until_s`: when the cached counts expire."""

    ids: Ids
    likes: Ids
    until_s: float


class TopComments:
    """Ranks threads. `likes`: the number of the graph of likes of comments."""

    def __init__(self, store: EdgeStore, likes: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._store, self._likes, self._now_s = store, (likes, Direction.IN), now_s
        self._cached: dict[Listing, _CachedLikes] = {}

    async def page(self, listings: Sequence[Listing], window: Window) -> Page:
        """A page of the comments in these lists of one thread, as marks of (likes, id)."""
        id_lists = await self._store.ids_many(listings, RANKED_MAX)
        ids = np.unique(id_lists.ids)[-RANKED_MAX:]
        likes = await self._likes_of(listings[0], ids)
        best = np.lexsort((ids, likes))[::-1]
        return _cut(likes[best], ids[best], window)

    async def _likes_of(self, thread: Listing, ids: Ids) -> Ids:
        if len(ids) <= UNCACHED_COMMENTS_MAX:
            return await self._count(ids)
        counted, now_s = self._cached.pop(thread, None), self._now_s()
        if counted is None or counted.until_s <= now_s:
            counted = _CachedLikes(ids, await self._count(ids), now_s + LIKES_CACHED_S)
        elif len(new := np.setdiff1d(ids, counted.ids, assume_unique=True)):
            all_ids, likes = np.append(counted.ids, new), np.append(counted.likes, await self._count(new))
            order = np.argsort(all_ids)
            counted = _CachedLikes(all_ids[order], likes[order], counted.until_s)
        self._cached[thread] = counted
        if len(self._cached) > _THREADS_MAX:
            del self._cached[next(iter(self._cached))]
        return counted.likes[np.searchsorted(counted.ids, ids)]

    async def _count(self, ids: Ids) -> Ids:
        likes: Ids = (await self._store.counts([self._likes], ids))[0]
        return likes


def _cut(likes: Ids, ids: Ids, window: Window) -> Page:
    """The part of a ranked list that `window` asks for. `since` and `until` of the window do not apply."""
    if window.before is not None:
        end = _better_than(window.before, likes, ids)
        start = max(0, end - window.limit)
    else:
        start = 0 if window.after is None else _better_than(window.after._replace(id=window.after.id - 1), likes, ids)
        end = start + window.limit
    items = list(map(Mark, likes[start:end].tolist(), ids[start:end].tolist()))
    return Page(items, end < len(ids), start > 0)


def _better_than(mark: Mark, likes: Ids, ids: Ids) -> int:
    """The number of entries before `mark`."""
    return int(np.count_nonzero((likes > mark.position) | ((likes == mark.position) & (ids > mark.id))))
