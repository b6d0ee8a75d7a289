"""Affinity: how close a reader is to an author, by what the reader did with the author's posts.

Each of the reader's newest likes, comments, saves and shares counts by its kind and fades with a half-life. The sums
are kept per reader for KEPT_MS, or until the reader does or undoes something: then the length or the newest entry of
one of their lists differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import COMMENTED, LIKES, SAVES, SHARES
from kith.graph.shapes import Listing
from kith.graph.store import Edges
from kith.home.facts import PostFacts
from kith.home.rank.features import Floats, Integers
from kith.posts.comments import Comments

WORTH = {LIKES: 1.0, COMMENTED: 3.0, SHARES: 3.0, SAVES: 2.0}
NEWEST_MAX = 100
"""Interactions of each kind that are looked at."""
HALF_LIFE_MS = 30 * 86_400_000
HALF = 3.0
"""The sum of worth at which affinity is one half."""
KEPT_MS = 3_600_000
READERS_MAX = 20_000
_NEWEST = Window(1)


class ListState(NamedTuple):
    """Of some lists the length of each, and the newest entry of each that has any: where nothing changed, the same."""

    lengths: list[int]
    newest: list[list[Mark]]


class Ties(NamedTuple):
    """A reader's affinities: authors ascending, and 0 to 1 for each. Authors who are not in it have 0."""

    authors: Integers
    values: Floats

    def to(self, authors: Integers) -> Floats:
        """The affinity to each of `authors`."""
        return at_keys(self.authors, self.values, authors)


class Affinity:
    """Affinities by reader."""

    def __init__(self, graph: Graph, comments: Comments, facts: PostFacts, now_ms: Callable[[], int]) -> None:
        self._store, self._comments, self._facts, self._now_ms = graph.store, comments, facts, now_ms
        self._commented = graph.graphs.number(COMMENTED)
        self._graphs = [graph.graphs.number(name) for name in WORTH]
        self._kept: dict[int, tuple[ListState, int, Ties]] = {}

    async def of(self, reader: NodeId) -> Ties:
        """All affinities of a reader."""
        listings, now = [Listing(graph, reader, Direction.OUT) for graph in self._graphs], self._now_ms()
        kept, state = self._kept.get(reader), await state_of(self._store, listings)
        if kept is not None and kept[0] == state and 0 <= now - kept[1] < KEPT_MS:
            return kept[2]
        ties = await self._read([listing for listing, count in zip(listings, state.lengths, strict=True) if count], now)
        if len(self._kept) >= READERS_MAX:
            self._kept.clear()
        self._kept[reader] = (state, now, ties)
        return ties

    async def between(self, reader: NodeId, authors: Sequence[int]) -> list[float]:
        """The reader's affinity to each author."""
        return list(map(float, (await self.of(reader)).to(np.array(authors, np.int64))))

    async def _read(self, listings: Sequence[Listing], now: int) -> Ties:
        worth = dict(zip(self._graphs, WORTH.values(), strict=True))
        done: list[tuple[float, int | None]] = []  # what an interaction is worth now, and the post
        for listing in listings:
            marks = (await self._store.page(listing, Window(NEWEST_MAX))).items
            posts: Sequence[int | None] = [mark.id for mark in marks]
            if listing.graph == self._commented:
                posts = await self._comments.posts_of([mark.id for mark in marks])
            faded = (worth[listing.graph] * 0.5 ** (max(now - at, 0) / HALF_LIFE_MS) for at, _ in marks)
            done += zip(faded, posts, strict=True)
        made_by = await self._facts.authors(list({post for _, post in done if post is not None}))
        sums: dict[int, float] = {}
        for value, post in done:
            if post in made_by:
                sums[made_by[post]] = sums.get(made_by[post], 0.0) + value
        totals = np.array([sums[author] for author in sorted(sums)], np.float32)
        return Ties(np.array(sorted(sums), np.int64), totals / (totals + np.float32(HALF)))


async def state_of(store: Edges, listings: Sequence[Listing]) -> ListState:
    """What tells a change of these lists, in one or two lookups a list."""
    lengths = await store.count_many(listings)
    held = [listing for listing, length in zip(listings, lengths, strict=True) if length]
    return ListState(lengths, [(await store.page(listing, _NEWEST)).items for listing in held])


def at_keys(keys: Integers, values: Floats, wanted: Integers) -> Floats:
    """`values` at the places of `keys` (ascending) that equal `wanted`; 0 where there is none."""
    if not len(keys):
        return np.zeros(len(wanted), np.float32)
    places = np.searchsorted(keys, wanted)
    return np.where(keys.take(places, mode="clip") == wanted, values.take(places, mode="clip"), np.float32(0))
