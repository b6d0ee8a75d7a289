"""Ranks candidates for a reader: facts, affinities and wishes gathered in batches, decided by `rank/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FEWER, VIEWS
from kith.graph.store import Listing
from kith.home.affinity import Affinity, at_keys
from kith.home.facts import PostFacts
from kith.home.rank import light
from kith.home.rank.features import Facts, Floats, Integers, features

SEEN_MAX = 1_000
"""The newest posts a reader saw, known at once; of readers who saw more, candidates are looked up one by one."""
Flags = NDArray[np.bool_]
FEWER_MAX = 200
"""The newest wishes to see fewer of an author that are honoured."""
FEWER_HALF_LIFE_MS = 30 * 86_400_000
FEWER_FACTOR = 0.1
"""What is left of an author's scores right after "see fewer"."""
LIMITED_FACTOR = 0.1
"""What is left of the score of a post that the app's moderation limits."""


class Ranking(NamedTuple):
    """Posts with their features and scores, row by row. `scores` give the order, `told` is what the reader is shown."""

    facts: Facts
    rows: Floats
    scores: Floats
    told: Floats

    def take(self, which: Integers | slice) -> Ranking:
        """The rows at these places."""
        return Ranking(self.facts.take(which), self.rows[which], self.scores[which], self.told[which])

    def reasons(self, reader: NodeId) -> list[str]:
        """Why each post stands where it does, in a word."""
        own = (self.facts.authors == reader).tolist()
        return [light.OWN if mine else reason for mine, reason in zip(own, light.reasons(self.rows), strict=True)]


class Ranker:
    """The light pass over the candidates of a reader."""

    def __init__(self, graph: Graph, facts: PostFacts, affinity: Affinity, now_ms: Callable[[], int]) -> None:
        self.facts = facts
        self._store, self._affinity, self._now_ms = graph.store, affinity, now_ms
        self._views, self._fewer = graph.graphs.number(VIEWS), graph.graphs.number(FEWER)

    async def score(self, reader: NodeId, ids: Integers) -> Ranking:
        """Those of `ids` that are posts, in their order, with their scores."""
        facts = await self.facts.of(ids)
        ties = await self._affinity.of(reader)
        rows = features(facts, ties.to(facts.authors), self._now_ms())
        told = light.score(rows, await self.damping(reader, facts))
        return Ranking(facts, rows, told * _limits(facts.limited & (facts.authors != reader)), told)

    async def order(self, reader: NodeId, ids: Integers) -> tuple[Ranking, Flags]:
        """Those of `ids` (newest first) that the reader has not seen, best first.

        Near-duplicates come right behind the best of them; with each: is it a near-duplicate of one before?
        """
        ranking = await self.score(reader, await self._unseen(reader, ids))
        order = np.argsort(-ranking.scores, kind="stable")
        fingerprints = ranking.facts.fingerprints[order]
        kinds, firsts = np.unique(fingerprints, return_index=True)
        if len(kinds) == len(order):
            return ranking.take(order), np.zeros(len(order), np.bool_)
        best = firsts[np.searchsorted(kinds, fingerprints)]  # of each, where the best of its kind stands
        together = best.argsort(kind="stable")
        return ranking.take(order[together]), best[together] != together

    async def _unseen(self, reader: NodeId, ids: Integers) -> Integers:
        views = Listing(self._views, reader, Direction.OUT)
        seen = await self._store.ids(views, newest=SEEN_MAX)
        if len(seen):
            ids = ids[~np.isin(ids, seen)]
        if len(seen) == SEEN_MAX:
            ids = ids[~await self._store.contains(views, ids)]
        return ids

    async def has_seen(self, reader: NodeId, post: int) -> bool:
        """Whether the reader has seen a post."""
        return (await self._store.exists_many(self._views, [(reader, post)]))[0]

    async def damping(self, reader: NodeId, facts: Facts) -> Floats:
        """The factor on each post's score that the reader is told of: less than 1 for a time after "see fewer", and
        where the app limits a post of their own. That it limits others' is for the order alone (decision 10).
        """
        limits = _limits(facts.limited & (facts.authors == reader))
        page = await self._store.page(Listing(self._fewer, reader, Direction.OUT), Window(FEWER_MAX))
        if not page.items:
            return limits
        wishes = sorted((mark.id, mark.position) for mark in page.items)
        said = np.array([author for author, _ in wishes], np.int64)
        age = self._now_ms() - np.array([at for _, at in wishes], np.float64)
        less = (1 - FEWER_FACTOR) * np.exp2(-np.maximum(age, 0) / FEWER_HALF_LIFE_MS)
        return limits * (1 - at_keys(said, less.astype(np.float32), facts.authors))


def _limits(limited: Flags) -> Floats:
    """The factor on each post's score for being limited."""
    return np.where(limited, np.float32(LIMITED_FACTOR), np.float32(1))
