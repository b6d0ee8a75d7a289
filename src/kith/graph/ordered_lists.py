"""Long lists in the order of their ids, a window of WINDOW_IDS ids at a time.

Stores keep lists by position. So the first request for a part by id reads the whole list once, in bounded calls, and
caches the next WINDOW_IDS ids in order. Requests within WINDOW_CACHED_MS use this window. Edges added meanwhile are
read from the newest end of the list; removed ones are detected by their rows. Only an edge that returns at an older
position (restored or imported, by more than LATE_WRITE_MS) may be missing, for at most WINDOW_CACHED_MS.

Limit: WINDOWS_MAX windows, 512 KB each. One list is read at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.paging import Mark, Page, Window
from kith.graph.shapes import Ids, Listing
from kith.graph.store import Edges
from kith.graph.walk import LIST_END, READ_MAX

WINDOW_IDS = 65_536
WINDOWS_MAX = 32
WINDOW_CACHED_MS = 2_000
ADDED_MAX = 10_000
"""A window is reloaded once more edges than this were added to its list."""
LATE_WRITE_MS, LATE_WRITES_MAX = 2_000, 500
"""A slow commit may add an edge up to LATE_WRITE_MS below the newest position. Its place is searched among the
LATE_WRITES_MAX newest entries.
"""


class OrderedIds(NamedTuple):
    """All members beyond a place, in order, up to the id `reached`. None: to the end."""

    ids: Ids
    reached: int | None


class _CachedWindow(NamedTuple):
    """The next ids of a list beyond `start` (None: from the first), in order. `is_last`: there are no more."""

    start: int | None
    ids: Ids
    is_last: bool
    recent: Mark  # of the list when it was read; later additions lie above it
    read_ms: int


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class OrderedLists:
    """Parts of lists by id, over a store. Shared by all requests of a process."""

    def __init__(self, store: Edges, now_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._store, self._now_ms = store, now_ms
        self._windows: dict[tuple[Listing, bool], _CachedWindow] = {}
        self._reading = asyncio.Lock()

    async def part(self, listing: Listing, beyond: int | None, limit: int, *, down: bool) -> OrderedIds:
        """About `limit` ids that come after `beyond` (None: the first ones). `down`: greatest first; else least
        first.
        """
        kept = await self._window(listing, beyond, down)
        since = await self._added_since(listing, kept)
        if since.more_before:  # a window that is read now includes all additions so far
            if self._windows.get((listing, down)) is kept:
                del self._windows[listing, down]
            kept = await self._window(listing, beyond, down)
            since = await self._added_since(listing, kept)
        ids = after(kept.ids, beyond, down)
        reached = None if kept.is_last else int(kept.ids[-1])
        if len(ids) > limit:
            ids, reached = ids[:limit], int(ids[limit - 1])
        added = after(sorted_ids(np.array([mark.id for mark in since.items], np.int64), down), beyond, down)
        ids = sorted_ids(np.concatenate([ids, up_to(added, reached, down)]), down)
        return OrderedIds(ids[await self._store.contains(listing, ids)], reached)

    async def _window(self, listing: Listing, beyond: int | None, down: bool) -> _CachedWindow:
        """A window that starts at or before `beyond`, and has ids beyond it if the list has."""
        key = (listing, down)
        async with self._reading:
            kept = self._windows.get(key)
            if kept is None or self._now_ms() - kept.read_ms >= WINDOW_CACHED_MS or not _covers(kept, beyond, down):
                self._windows.pop(key, None)
                while len(self._windows) >= WINDOWS_MAX:
                    del self._windows[next(iter(self._windows))]
                kept = self._windows[key] = await self._read(listing, beyond, down)
            return kept

    async def _read(self, listing: Listing, beyond: int | None, down: bool) -> _CachedWindow:
        """Read a whole list, and keep the next WINDOW_IDS ids."""
        read_ms = self._now_ms()
        recent = _below_recent((await self._store.page(listing, Window(LATE_WRITES_MAX))).items)
        best, waiting, count, dropped = np.empty(0, np.int64), list[Ids](), 0, False
        place: bytes | None = None
        while True:
            ids, place = await self._store.chunk(listing, place, READ_MAX)
            if beyond is not None:
                ids = ids[ids < beyond] if down else ids[ids > beyond]
            if dropped:  # ids beyond a full window are not part of it
                ids = ids[ids > best[-1]] if down else ids[ids < best[-1]]
            waiting.append(ids)
            count += len(ids)
            if place is None or count > WINDOW_IDS:
                best = sorted_ids(np.concatenate([best, *waiting]), down)
                dropped = dropped or len(best) > WINDOW_IDS
                best, waiting, count = best[:WINDOW_IDS], [], 0
            if place is None:
                return _CachedWindow(beyond, best, not dropped, recent, read_ms)
            await asyncio.sleep(0)  # let other requests run

    async def _added_since(self, listing: Listing, kept: _CachedWindow) -> Page:
        """The edges added since the list was read, and recent ones before: at most ADDED_MAX."""
        return await self._store.page(listing, Window(ADDED_MAX, before=kept.recent))


def _below_recent(newest: Sequence[Mark]) -> Mark:
    """The place below which nothing is added late. `newest`: the first page of a list."""
    if not newest:
        return LIST_END
    late = Mark(max(LIST_END.position, newest[0].position - LATE_WRITE_MS), LIST_END.id)
    return max(late, newest[-1]) if len(newest) == LATE_WRITES_MAX else late


def sorted_ids(ids: Ids, down: bool) -> Ids:
    """The distinct ids, greatest first if `down`, else least first. `np.unique` takes up to ten times as long."""
    ascending = np.sort(ids)
    first = np.ones(len(ascending), np.bool_)  # of its equals
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    distinct: Ids = ascending[first]
    return distinct[::-1] if down else distinct


def after(ids: Ids, beyond: int | None, down: bool) -> Ids:
    """The ids, given in order, that come after `beyond`; None: all of them."""
    return ids if beyond is None else ids[_end_of(ids, beyond, down) :]


def up_to(ids: Ids, reached: int | None, down: bool) -> Ids:
    """The ids, given in order, up to and including `reached`; None: all of them."""
    return ids if reached is None else ids[: _end_of(ids, reached, down)]


def _end_of(ids: Ids, place: int, down: bool) -> int:
    """How many of the ids, given in order, come before `place` or equal it."""
    if down:
        return len(ids) - int(np.searchsorted(ids[::-1], place, side="left"))
    return int(np.searchsorted(ids, place, side="right"))


def _covers(kept: _CachedWindow, beyond: int | None, down: bool) -> bool:
    if beyond is None:
        return kept.start is None
    if kept.start is not None and (beyond > kept.start if down else beyond < kept.start):
        return False
    return kept.is_last or bool(beyond > kept.ids[-1] if down else beyond < kept.ids[-1])
