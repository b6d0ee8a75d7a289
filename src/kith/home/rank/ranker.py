"""Scores candidates for a reader. Reads facts, affinities and "see fewer" wishes in batches, then calls `light`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import FEWER, VIEWS
from kith.graph.questions import Questions
from kith.graph.shapes import Ids, Listing
from kith.home.rank import light
from kith.home.rank.affinity import Affinities, Affinity, Interactions, ListState, at_keys
from kith.home.rank.candidates import Candidates
from kith.home.rank.facts import PostFacts
from kith.home.rank.features import Facts, Flags, Floats, Integers, features
from kith.records.cache_tables import CachedValues
from kith.records.read_cache import ReadCache

SEEN_MAX = 1_000
"""Newest seen posts of a reader that are read at once. If a reader saw more, each candidate is looked up too."""
FEWER_MAX = 200
"""Newest "see fewer" wishes of a reader that count."""
FEWER_HALF_LIFE_MS = 30 * 86_400_000
FEWER_FACTOR = 0.1
"""The factor on an author's scores right after "see fewer"."""
LIMITED_FACTOR = 0.1
"""The factor on the score of a post that the app's moderation limits."""

READERS_MAX = 10_000
"""Readers whose lists are cached, 1 KB each."""
_NEWEST, _WISHES = Window(1), Window(FEWER_MAX)
_NOTHING = np.empty(0, np.int64)


class OwnLists(NamedTuple):
    """`state`: of the reader's lists of seen posts and "see fewer" wishes. `fewer`: the newest of these wishes."""

    state: ListState
    fewer: list[Mark]

    @property
    def newest_view_ms(self) -> int:
        """When the newest seen post was first seen; 0: none was."""
        newest = self.state.newest[0]
        return newest[0].position if newest else 0


class ReaderFacts(NamedTuple):
    """A reader's facts for ranking. `seen`: the newest posts they saw. `affinities`: computed, or the interactions from
    which they will be.
    """

    id: NodeId
    own: OwnLists
    seen: Ids
    affinities: Affinities | Interactions


class Ranker:
    """Runs the light pass over a reader's candidates."""

    def __init__(
        self, graph: Graph, facts: PostFacts, affinity: Affinity, read_cache: ReadCache, now_ms: Callable[[], int]
    ) -> None:
        self._store, self._facts, self._affinity, self._now_ms = graph.store, facts, affinity, now_ms
        self._immediate = graph.store.immediate
        self._views, self._fewer = graph.graphs.number(VIEWS), graph.graphs.number(FEWER)
        self._read_cache = read_cache
        self._own: CachedValues[OwnLists] = read_cache.of_edges((self._views, self._fewer), READERS_MAX)

    async def own(self, reader: NodeId) -> OwnLists:
        """The state of the reader's own lists, cached."""
        return await self._own.get(reader, lambda: self._read_own(reader))

    async def _read_own(self, reader: NodeId) -> OwnLists:
        return (await self._read(reader, _NEWEST))[0]

    async def _read(self, reader: NodeId, views_window: Window) -> tuple[OwnLists, list[Mark]]:
        """The reader's own lists, and the newest seen posts within `views_window`."""
        views, fewer = Listing(self._views, reader, Direction.OUT), Listing(self._fewer, reader, Direction.OUT)
        questions = Questions()
        counts = questions.counts([views, fewer])
        newest, wishes = questions.page(views, views_window), questions.page(fewer, _WISHES)
        answers = await self._store.answer(questions)
        saw, newest_wishes = answers.pages[newest].items, answers.pages[wishes].items
        return OwnLists(ListState(answers.counts[counts], [saw[:1], newest_wishes[:1]]), newest_wishes), saw

    async def reader_facts(self, reader: NodeId) -> ReaderFacts:
        """Read everything that ranking needs of a reader."""
        views = Listing(self._views, reader, Direction.OUT)
        if self._immediate:
            own, affinities = await self.own(reader), await self._affinity.load(reader)
            seen = await self._store.ids(views, newest=SEEN_MAX) if own.state.lengths[0] else _NOTHING
            if len(seen) and seen[0] != own.state.newest[0][0].id:  # a post was seen in between
                own, seen = await self._read_all(reader)
        else:
            (own, seen), affinities = await gather(False, self._read_all(reader), self._affinity.load(reader))
        return ReaderFacts(reader, own, seen, affinities)

    async def _read_all(self, reader: NodeId) -> tuple[OwnLists, Ids]:
        """The reader's own lists, and the newest SEEN_MAX seen posts, in one call."""
        generation = self._read_cache.generation
        own, seen = await self._read(reader, Window(SEEN_MAX))
        self._own.keep(generation, {reader: own})
        return own, np.array([mark.id for mark in seen], np.int64)

    async def score(self, reader: ReaderFacts, ids: Integers, pinned: Mapping[int, int]) -> Candidates:
        """Score those of `ids` that are posts, in their order. `pinned`: by post, when it was pinned, in ms."""
        return self._scored(reader, *await self._look_up(reader, ids), pinned)

    async def score_seen_or_unseen(
        self, reader: ReaderFacts, ids: Integers, seen: Flags, pinned: Mapping[int, int], *, showing_seen: bool
    ) -> Candidates:
        """Score the posts that the reader has not seen, or with `showing_seen` those that they have.

        `seen`: which of `ids` the reader saw. A copy of a seen post counts as seen, and is ranked behind it.
        """
        count = np.count_nonzero(seen)
        if count in (0, len(ids)):
            return await self.score(reader, ids if showing_seen == (count > 0) else ids[:0], pinned)
        facts, affinities = await self._look_up(reader, ids)
        seen_posts = seen if len(facts.ids) == len(ids) else _is_in(facts.ids, ids[seen])  # some were deleted meanwhile
        known = _is_in(facts.copy_keys, facts.copy_keys[seen_posts])
        found = self._scored(reader, facts.take(np.flatnonzero(known == showing_seen)), affinities, pinned)
        if not showing_seen:
            return found
        return found._replace(scores=np.where(seen_posts[known], found.scores, found.scores - 2))  # no score is above 1

    async def _look_up(self, reader: ReaderFacts, ids: Integers) -> tuple[Facts, Affinities]:
        """Facts of those of `ids` that are posts, in their order, and the reader's affinities."""
        affinities = reader.affinities
        if not isinstance(affinities, Interactions):
            return await self._facts.of(ids), affinities
        facts, made_by = await self._facts.with_authors(ids, list(affinities.worth))
        return facts, self._affinity.of_interactions(affinities, made_by)

    def _scored(
        self, reader: ReaderFacts, facts: Facts, affinities: Affinities, pinned: Mapping[int, int]
    ) -> Candidates:
        dates = _dates(facts, pinned) if pinned else None
        rows = features(facts, affinities.to(facts.authors), self._now_ms(), dates)
        if not facts.limited.any():
            shown = light.score(rows, self.damping(reader, facts) if reader.own.fewer else None)
            return Candidates(facts, rows, shown, shown)
        shown = light.score(rows, self.damping(reader, facts))
        return Candidates(facts, rows, shown * _limits(facts.limited & (facts.authors != reader.id)), shown)

    async def seen(self, reader: ReaderFacts, ids: Integers) -> Flags:
        """Which of the posts the reader has seen."""
        if not len(reader.seen):
            return np.zeros(len(ids), np.bool_)
        seen = _is_in(ids, reader.seen)
        if len(reader.seen) == SEEN_MAX:
            seen[~seen] = await self._store.contains(Listing(self._views, reader.id, Direction.OUT), ids[~seen])
        return seen

    async def seen_until(self, reader: ReaderFacts, ids: Integers, until_ms: int) -> Flags:
        """Which of the posts the reader first saw until then."""
        views = await self._store.get_many(self._views, [(reader.id, post) for post in ids.tolist()])
        held = [view is not None and view.state == State.NORMAL and view.position <= until_ms for view in views]
        return np.array(held, np.bool_)

    async def has_seen(self, reader: NodeId, post: int) -> bool:
        """Whether the reader has seen a post."""
        return (await self._store.exists_many(self._views, [(reader, post)]))[0]

    def damping(self, reader: ReaderFacts, facts: Facts) -> Floats:
        """The factor on each post's score that the reader is shown: below 1 for a time after "see fewer", and on their
        own posts that moderation limits. Limits on posts of others change only the order (decision 10).
        """
        limits = _limits(facts.limited & (facts.authors == reader.id))
        if not reader.own.fewer:
            return limits
        wishes = sorted((mark.id, mark.position) for mark in reader.own.fewer)
        authors = np.array([author for author, _ in wishes], np.int64)
        age = self._now_ms() - np.array([at for _, at in wishes], np.float64)
        reduction = (1 - FEWER_FACTOR) * np.exp2(-np.maximum(age, 0) / FEWER_HALF_LIFE_MS)
        return limits * (1 - at_keys(authors, reduction.astype(np.float32), facts.authors))


def _is_in(values: Integers, members: Integers) -> Flags:
    """Which of `values` are in `members`. For so few, np.isin takes three times as long."""
    if not len(members):
        return np.zeros(len(values), np.bool_)
    known = np.sort(members)
    found: Flags = known.take(known.searchsorted(values), mode="clip") == values
    return found


def _dates(facts: Facts, pinned: Mapping[int, int]) -> Integers:
    """For each post, when it came to home: its pin, or its creation."""
    return np.array(list(map(pinned.get, facts.ids.tolist(), facts.made_ms.tolist())), np.int64)


def _limits(limited: Flags) -> Floats:
    """The factor on each post's score, by whether it is limited."""
    return np.where(limited, np.float32(LIMITED_FACTOR), np.float32(1))
