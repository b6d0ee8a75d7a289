"""Affinity: how close a reader is to an author, from the reader's interactions with the author's posts.

Each of the reader's newest likes, comments, saves and shares has a worth by its kind, which decays with a half-life.
The sums are cached per reader for AFFINITY_CACHED_MS, or until the reader adds or removes an interaction: then the
length or the newest entry of one of their lists differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import COMMENTED, LIKES, SAVES, SHARES
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.home.rank.facts import PostFacts
from kith.home.rank.features import Floats, Integers
from kith.posts.comments import Comments
from kith.records.cache_tables import CachedValues, make_room
from kith.records.read_cache import ReadCache

INTERACTION_WORTH = {LIKES: 1.0, COMMENTED: 3.0, SHARES: 3.0, SAVES: 2.0}
NEWEST_MAX = 100
"""Newest interactions of each kind that count."""
HALF_LIFE_MS = 30 * 86_400_000
AFFINITY_HALF_WORTH = 3.0
"""The sum of worth at which affinity is one half."""
AFFINITY_CACHED_MS = 3_600_000
READERS_MAX = 20_000
_NO_POSTS = np.empty(0, np.int64)


class ListState(NamedTuple):
    """The length and the newest entry, if any, of each of some lists. Equal states mean that nothing changed."""

    lengths: list[int]
    newest: list[list[Mark]]


class Interactions(NamedTuple):
    """The worth of a reader's interactions, by post. `state`: of the lists they were read from, at `at_ms`."""

    reader: int
    state: ListState
    at_ms: int
    worth: dict[int, float]


class Affinities(NamedTuple):
    """A reader's affinities, 0 to 1, by author ascending. Other authors have 0."""

    authors: Integers
    values: Floats

    def to(self, authors: Integers) -> Floats:
        """The affinity to each of `authors`."""
        return at_keys(self.authors, self.values, authors)


class Affinity:
    """Affinities by reader."""

    def __init__(
        self, graph: Graph, comments: Comments, facts: PostFacts, read_cache: ReadCache, now_ms: Callable[[], int]
    ) -> None:
        self._store, self._comments, self._facts, self._now_ms = graph.store, comments, facts, now_ms
        self._commented = graph.graphs.number(COMMENTED)
        self._worth = {graph.graphs.number(name): worth for name, worth in INTERACTION_WORTH.items()}
        self._kept: dict[int, tuple[ListState, int, Affinities]] = {}
        self._read_cache, self._readers_max = read_cache, read_cache.room(READERS_MAX)
        self._states: CachedValues[ListState] = read_cache.of_edges(self._worth, READERS_MAX)

    async def of(self, reader: NodeId) -> Affinities:
        """All affinities of a reader. Refreshes the cache first, so it is for a request of its own."""
        if reader in self._kept:
            await self._read_cache.refresh()
        found = await self.load(reader)
        if isinstance(found, Affinities):
            return found
        _, made_by = await self._facts.with_authors(_NO_POSTS, list(found.worth))
        return self.of_interactions(found, made_by)

    async def by_author(self, reader: NodeId) -> dict[int, float]:
        """The reader's affinities as a dictionary by author. Other authors have 0."""
        affinities = await self.of(reader)
        return dict(zip(affinities.authors.tolist(), affinities.values.tolist(), strict=True))

    async def load(self, reader: NodeId) -> Affinities | Interactions:
        """A reader's affinities if they are cached and valid; otherwise the interactions, for `of_interactions`."""
        now, kept = self._now_ms(), self._kept.get(reader)
        is_young = kept is not None and 0 <= now - kept[1] < AFFINITY_CACHED_MS
        if kept is not None and is_young and self._states.now.get(reader) == kept[0]:
            return kept[2]
        state, pages = await self._lists(reader, 1 if is_young else NEWEST_MAX)
        if kept is not None and is_young:
            if kept[0] == state:
                return kept[2]
            state, pages = await self._lists(reader, NEWEST_MAX)
        worth: dict[int, float] = {}
        for (graph, each), page in zip(self._worth.items(), pages, strict=True):
            posts: Sequence[int | None] = [mark.id for mark in page]
            if page and graph == self._commented:
                posts = await self._comments.posts_of([mark.id for mark in page])
            for (at, _), post in zip(page, posts, strict=True):
                if post is not None:
                    worth[post] = worth.get(post, 0.0) + each * 0.5 ** (max(now - at, 0) / HALF_LIFE_MS)
        return Interactions(reader, state, now, worth)

    def of_interactions(self, done: Interactions, made_by: Mapping[int, int]) -> Affinities:
        """Compute and cache affinities from a reader's interactions. `made_by`: the author of each post."""
        sums: dict[int, float] = {}
        for post, value in done.worth.items():
            if post in made_by:
                sums[made_by[post]] = sums.get(made_by[post], 0.0) + value
        authors = sorted(sums)
        totals = np.array([sums[author] for author in authors], np.float32)
        affinities = Affinities(np.array(authors, np.int64), totals / (totals + np.float32(AFFINITY_HALF_WORTH)))
        if len(self._kept) >= self._readers_max:
            make_room(self._kept, 1)
        self._kept[done.reader] = (done.state, done.at_ms, affinities)
        return affinities

    async def _lists(self, reader: NodeId, newest: int) -> tuple[ListState, list[list[Mark]]]:
        """The state of the reader's lists of interactions, and the newest entries of each."""
        generation = self._read_cache.generation
        listings, questions = [Listing(graph, reader, Direction.OUT) for graph in self._worth], Questions()
        counts, window = questions.counts(listings), Window(newest)
        for listing in listings:
            questions.page(listing, window)
        answers = await self._store.answer(questions)
        pages = [page.items for page in answers.pages]
        state = ListState(answers.counts[counts], [page[:1] for page in pages])
        self._states.keep(generation, {reader: state})
        return state, pages


def at_keys(keys: Integers, values: Floats, wanted: Integers) -> Floats:
    """The value of each `wanted` key, 0 for keys that are missing. `keys` ascend."""
    if not len(keys):
        return np.zeros(len(wanted), np.float32)
    places = keys.searchsorted(wanted)
    return np.where(keys.take(places, mode="clip") == wanted, values.take(places, mode="clip"), np.float32(0))
