"""Deals ranked posts, page by page: candidates are ranked once, and each page chosen of what is left.

Where ranking is down it deals them newest first, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark
from kith.feed.rank.page import Candidate, Mix, choose
from kith.feed.ranker import Ranker, Ranking
from kith.feed.skeleton import Freshness, Skeletons, degrade, mark_of
from kith.feed.slate import SLATE_MAX

CHOICE = 50
"""The best of a deal that a page is chosen of (article 001); all of it where these do not fill the page."""


class Placed(NamedTuple):
    """A post's score, from 0 to 1, and the reason for it in a word."""

    score: float
    reason: str


class Pick(NamedTuple):
    """A post for a page, and the features that placed it there; None where ranking is down."""

    candidate: Candidate
    placed: Placed | None
    row: bytes


class Deal(NamedTuple):
    """Candidates best first, where older ones begin, and what is known of them where they were just ranked."""

    ids: list[int]
    floor: Mark | None
    ranking: Ranking | None = None


class Dealer:
    """Makes deals, and picks from them."""

    def __init__(self, skeletons: Skeletons, ranker: Ranker, mix: Mix, now_ms: Callable[[], int]) -> None:
        self._skeletons, self._ranker, self._mix, self._now_ms = skeletons, ranker, mix, now_ms

    async def deal(self, reader: NodeId, after: Mark | None, fresh: Freshness) -> Deal:
        """The next candidates beyond `after`, ranked."""
        ids, floor = await self._skeletons.below(reader, after, SLATE_MAX, fresh)
        if len(ids) > SLATE_MAX:
            ids, floor = ids[:SLATE_MAX], mark_of(int(ids[SLATE_MAX - 1]))
        try:
            ranking = await self._ranker.order(reader, ids)
            return Deal(ranking.facts.ids.tolist(), floor, ranking)
        except Exception:
            degrade(fresh, "ranking")
            return Deal(ids.tolist(), floor)

    async def pick(
        self, reader: NodeId, deal: Deal, taken: list[Candidate], want: int, fresh: Freshness
    ) -> tuple[list[Pick], Deal]:
        """At most `want` posts that go well with those `taken` for the page, and what is left."""
        size = min(CHOICE, len(deal.ids))
        candidates, ranking = await self._look(reader, deal, size, fresh)
        places = choose(candidates, taken, want, self._mix, self._now_ms())
        if len(places) < want and size < len(deal.ids):
            size = len(deal.ids)
            candidates, ranking = await self._look(reader, deal, size, fresh)
            places = choose(candidates, taken, want, self._mix, self._now_ms())
        picked = [candidates[at] for at in places]
        stay = {candidate.id for candidate in candidates}.difference(candidate.id for candidate in picked)
        left = [id_ for id_ in deal.ids[:size] if id_ in stay] + deal.ids[size:]
        return _picks(picked, places, ranking, reader), Deal(left, deal.floor)

    async def _look(
        self, reader: NodeId, deal: Deal, size: int, fresh: Freshness
    ) -> tuple[list[Candidate], Ranking | None]:
        """What is known of the best `size`; without ranking each counts as of an author of its own."""
        try:
            ranking = deal.ranking or await self._ranker.score(reader, np.array(deal.ids[:size], np.int64))
            ranking = ranking.take(slice(size))
        except Exception:
            degrade(fresh, "ranking")
            return [Candidate(id_, id_, 0, made_at_ms(id_)) for id_ in deal.ids[:size]], None
        facts = ranking.facts
        columns = (facts.ids, facts.authors, facts.types, facts.made_ms)
        return list(map(Candidate, *(column.tolist() for column in columns))), ranking


def _picks(picked: list[Candidate], places: list[int], ranking: Ranking | None, reader: NodeId) -> list[Pick]:
    if ranking is None:
        return [Pick(candidate, None, b"") for candidate in picked]
    there = ranking.take(np.array(places, np.int64))
    placed = map(Placed, there.scores.tolist(), there.reasons(reader))
    return list(map(Pick, picked, placed, map(bytes, there.rows)))
