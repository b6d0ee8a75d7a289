"""Candidates for a page: facts, features and scores in columns, one row a post."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId
from kith.home.rank import light
from kith.home.rank.features import Facts, Floats, Integers


class Placed(NamedTuple):
    """A post's score as shown to the reader, from 0 to 1, and its reason in a word."""

    score: float
    reason: str


class Candidates(NamedTuple):
    """Posts with their facts, features and scores.

    `scores` decide the order. `shown_scores` are shown to the reader: they do not reveal which posts of other authors
    moderation limits.
    """

    facts: Facts
    features: Floats  # a row a post, columns FEATURES
    scores: Floats
    shown_scores: Floats

    @classmethod
    def unranked(cls, ids: Integers) -> Candidates:
        """Posts when ranking is unavailable: without features, each as if by an author of its own."""
        zeros = np.zeros(len(ids), np.float32)
        facts = Facts(ids, ids, ids, zeros, zeros.astype(np.int8), zeros.astype(np.bool_))
        return cls(facts, np.empty((len(ids), 0), np.float32), zeros, zeros)

    @property
    def are_ranked(self) -> bool:
        """Whether the posts have features and scores."""
        return bool(self.features.shape[1])

    def take(self, which: Integers) -> Candidates:
        """The rows at these places."""
        facts, features, scores, shown = self  # for rows, `take` needs an eighth of the time of indexing
        return Candidates(facts.take(which), features.take(which, axis=0), scores[which], shown[which])

    def only(self, ids: Collection[int]) -> Candidates:
        """The rows of these posts."""
        places = [at for at, id_ in enumerate(self.facts.ids.tolist()) if id_ in ids]
        return self if len(places) == len(self.facts.ids) else self.take(np.array(places, np.int64))

    def reasons(self, reader: NodeId, pinned: Container[int]) -> list[str]:
        """The reason of each post, in a word. `pinned`: posts that boards brought."""
        rows = zip(self.facts.ids.tolist(), self.facts.authors.tolist(), light.reasons(self.features), strict=True)
        return [
            light.OWN if author == reader else light.PINNED if id_ in pinned else reason for id_, author, reason in rows
        ]

    def placed(self, reader: NodeId, pinned: Container[int]) -> dict[int, Placed]:
        """Score and reason by post; empty if nothing was ranked."""
        if not self.are_ranked:
            return {}
        placed = map(Placed, self.shown_scores.tolist(), self.reasons(reader, pinned))
        return dict(zip(self.facts.ids.tolist(), placed, strict=True))


class RankedCandidates(NamedTuple):
    """Candidates in ranked order. `places`: their indexes, best first."""

    candidates: Candidates
    places: Integers

    def best(self, count: int) -> Candidates:
        """The best `count` candidates."""
        return self.candidates.take(self.places[:count])
