"""Deals ranked posts, page by page: candidates are ranked once, and each page chosen of what is left.

Where ranking is down it deals them newest first, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark
from kith.home.rank.page import Candidate, Mix, choose
from kith.home.ranker import Ranker, Ranking
from kith.home.skeleton import Freshness, Skeletons, degrade, mark_of
from kith.home.slate import SLATE_MAX, best, left

CHOICE = 50
"""The best of a deal that a page is chosen of (article 001); all of it where these do not fill the page."""


class Placed(NamedTuple):
    """A post's score as its reader is told it, from 0 to 1, and the reason for it in a word."""

    score: float
    reason: str


class Pick(NamedTuple):
    """A post for a page, and the features that placed it there; None where ranking is down."""

    candidate: Candidate
    placed: Placed | None
    row: bytes


class Deal(NamedTuple):
    """Candidates as in a Slate, and what is known of those that are no near-duplicates where they were just ranked."""

    ids: list[int]
    floor: Mark | None
    ranking: Ranking | None = None

    def after(self, choice: Choice, shown: Collection[int]) -> Deal:
        """What is left once these of the chosen are on the page."""
        return Deal(left(self.ids[: choice.size], choice.waiting, shown) + self.ids[choice.size :], self.floor)


class Choice(NamedTuple):
    """Posts for a page, and what waits for another, of the first `size` entries of a deal."""

    picks: list[Pick]
    waiting: set[int]
    size: int


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
            ranking, copies = await self._ranker.order(reader, ids)
            if not copies.any():
                return Deal(ranking.facts.ids.tolist(), floor, ranking)
            entries = np.where(copies, ~ranking.facts.ids, ranking.facts.ids)
            return Deal(entries.tolist(), floor, ranking.take(np.flatnonzero(~copies)))
        except Exception:
            degrade(fresh, "ranking")
            return Deal(ids.tolist(), floor)

    async def pick(self, reader: NodeId, deal: Deal, taken: list[Candidate], want: int, fresh: Freshness) -> Choice:
        """At most `want` posts that go well with those `taken` for the page."""
        for size in (best(deal.ids, CHOICE), len(deal.ids)):
            candidates, ranking = await self._look(reader, deal, size, fresh)
            more = size < len(deal.ids)
            places = choose(candidates, taken, want, self._mix, self._now_ms(), more=more)
            if len(places) >= want or not more:
                break
        picked = [candidates[at] for at in places]
        waiting = {candidate.id for candidate in candidates}.difference(candidate.id for candidate in picked)
        return Choice(_picks(picked, places, ranking, reader), waiting, size)

    async def _look(
        self, reader: NodeId, deal: Deal, size: int, fresh: Freshness
    ) -> tuple[list[Candidate], Ranking | None]:
        """What is known of the posts of the first `size`; without ranking each counts as of an author of its own."""
        ids = [id_ for id_ in deal.ids[:size] if id_ >= 0]
        try:
            ranking = deal.ranking or await self._ranker.score(reader, np.array(ids, np.int64))
            ranking = ranking.take(slice(len(ids)))
        except Exception:
            degrade(fresh, "ranking")
            return [Candidate(id_, id_, 0, made_at_ms(id_)) for id_ in ids], None
        facts = ranking.facts
        columns = (facts.ids, facts.authors, facts.types, facts.made_ms)
        return list(map(Candidate, *(column.tolist() for column in columns))), ranking


def _picks(picked: list[Candidate], places: list[int], ranking: Ranking | None, reader: NodeId) -> list[Pick]:
    if ranking is None:
        return [Pick(candidate, None, b"") for candidate in picked]
    there = ranking.take(np.array(places, np.int64))
    placed = map(Placed, there.told.tolist(), there.reasons(reader))
    return list(map(Pick, picked, placed, map(bytes, there.rows)))
