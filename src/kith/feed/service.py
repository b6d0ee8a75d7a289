"""A page of home: skeleton, ranking, hard rules, page. Ranked or newest first, as the reader likes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Mark, Window
from kith.feed.rank import light
from kith.feed.rank.features import FEATURES, VERSION
from kith.feed.rank.page import Candidate, Mix, choose
from kith.feed.ranker import Ranker, Ranking
from kith.feed.rules import HomeRules
from kith.feed.served import Nowhere, Served, ServedLog
from kith.feed.skeleton import Freshness, Skeletons, degrade, mark_of
from kith.feed.slate import SLATE_MAX, Slate
from kith.objects.posts import Post

_ROUNDS_MAX = 10
_CHOICE = 50
"""The best of a slate that a page is chosen of (article 001); all of it where these do not fill the page."""


class HomePage(NamedTuple):
    """Posts newest first. `end`: where the next page begins, None at the end; `degraded`: what was not available."""

    posts: list[Post]
    end: Mark | None
    degraded: list[str]


class Placed(NamedTuple):
    """A post's score, from 0 to 1, and the reason for it in a word."""

    score: float
    reason: str


class RankedPage(NamedTuple):
    """Posts best first, why each is there (empty where ranking is down), and what is left for the next page."""

    posts: list[Post]
    placed: dict[int, Placed]
    rest: Slate | None
    degraded: list[str]


class Why(NamedTuple):
    """What decides a post's place: per feature its value, its weight, and what it adds; and what keeps the post out."""

    placed: Placed
    parts: list[tuple[str, float, float, float]]
    damping: float
    excluded_by: list[str]


class FeedService:
    """Reads home feeds in an API process."""

    def __init__(
        self,
        skeletons: Skeletons,
        ranker: Ranker,
        rules: HomeRules,
        *,
        served: ServedLog | None = None,
        mix: Mix | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._skeletons, self._ranker, self._rules = skeletons, ranker, rules
        self._served, self._mix, self._now_ms = served or Nowhere(), mix or Mix(), now_ms

    async def latest(self, reader: NodeId, window: Window, *, seen: int = 0, refresh: bool = False) -> HomePage:
        """Posts of those whom `reader` follows and their own, newest first.

        `seen`: a log sequence number that must be reflected (read-your-writes); `refresh`: past the timeline.
        """
        fresh = await self._skeletons.freshness(seen, refresh=refresh)
        found: list[Post] = []
        place: Mark | None = window.after
        end: Mark | None = None
        for _ in range(_ROUNDS_MAX):
            skeleton = await self._skeletons.below(reader, place, 2 * window.limit, fresh)
            for start in range(0, len(skeleton.ids), 2 * window.limit):
                found += await self._rules.allowed(reader, skeleton.ids[start : start + 2 * window.limit].tolist())
                if len(found) > window.limit:
                    posts = found[: window.limit]
                    return HomePage(posts, mark_of(posts[-1].id), fresh.degraded)
            place = end = skeleton.floor
            if place is None:
                break
        return HomePage(found, end, fresh.degraded)

    async def ranked(
        self,
        reader: NodeId,
        limit: int,
        slate: Slate | None = None,
        *,
        request: str = "",
        seen: int = 0,
        refresh: bool = False,
    ) -> RankedPage:
        """The posts of `latest` that the reader has not seen, best first; beyond SLATE_MAX of them older ones.

        `slate`: what an earlier page left. `request`: the name of this request in the log of what was served.
        """
        fresh = await self._skeletons.freshness(seen, refresh=refresh)
        deal = _Deal(slate.ids, slate.floor, None) if slate else await self._deal(reader, None, fresh)
        page = _Page([], [], {}, [])
        for _ in range(_ROUNDS_MAX):
            if not deal.ids and deal.floor is not None:
                deal = await self._deal(reader, deal.floor, fresh)
            picked, deal = await self._pick(reader, deal, page.taken, limit - len(page.posts), fresh)
            if not picked:
                break
            posts = await self._rules.allowed(reader, [pick.candidate.id for pick in picked])
            page.add(posts, picked)
            if len(page.posts) >= limit:
                break
        if page.rows:
            self._serve(reader, page, request)
        rest = Slate(deal.ids, deal.floor) if deal.ids or deal.floor is not None else None
        return RankedPage(page.posts, page.placed, rest, fresh.degraded)

    async def why(self, reader: NodeId, post: Post) -> Why:
        """What decides the place of a post that `reader` may see in their ranked home, as of now."""
        ids = np.array([post.id], np.int64)
        ranking = await self._ranker.score(reader, ids)
        damping = await self._ranker.damping(reader, ranking.facts.authors)
        values, added = ranking.rows[0].tolist(), light.contributions(ranking.rows)[0].tolist()
        parts = [(name, values[at], light.WEIGHTS[name], added[at]) for at, name in enumerate(FEATURES)]
        excluded = await self._rules.excluded_by(reader, post)
        if await self._ranker.has_seen(reader, post.id):
            excluded.append("seen")
        return Why(Placed(float(ranking.scores[0]), ranking.reasons(reader)[0]), parts, float(damping[0]), excluded)

    async def _deal(self, reader: NodeId, after: Mark | None, fresh: Freshness) -> _Deal:
        """The next candidates, ranked; as they came where ranking is down."""
        ids, floor = await self._skeletons.below(reader, after, SLATE_MAX, fresh)
        if len(ids) > SLATE_MAX:
            ids, floor = ids[:SLATE_MAX], mark_of(int(ids[SLATE_MAX - 1]))
        try:
            ranking = await self._ranker.order(reader, ids)
            return _Deal(ranking.facts.ids.tolist(), floor, ranking)
        except Exception:
            degrade(fresh, "ranking")
            return _Deal(ids.tolist(), floor, None)

    async def _pick(
        self, reader: NodeId, deal: _Deal, taken: list[Candidate], want: int, fresh: Freshness
    ) -> tuple[list[_Pick], _Deal]:
        """What comes onto the page next, and what is left."""
        size = min(_CHOICE, len(deal.ids))
        picks = await self._picks(reader, deal, size, fresh)
        places = choose([pick.candidate for pick in picks], taken, want, self._mix, self._now_ms())
        if len(places) < want and size < len(deal.ids):
            size = len(deal.ids)
            picks = await self._picks(reader, deal, size, fresh)
            places = choose([pick.candidate for pick in picks], taken, want, self._mix, self._now_ms())
        picked = [picks[at] for at in places]
        stay = {pick.candidate.id for pick in picks}.difference(pick.candidate.id for pick in picked)
        left = [id_ for id_ in deal.ids[:size] if id_ in stay] + deal.ids[size:]
        return picked, _Deal(left, deal.floor, None)

    async def _picks(self, reader: NodeId, deal: _Deal, size: int, fresh: Freshness) -> list[_Pick]:
        """The best `size` of a deal; where ranking is down each counts as of an author of its own."""
        try:
            ranking = deal.ranking or await self._ranker.score(reader, np.array(deal.ids[:size], np.int64))
            return _picks(ranking.take(slice(size)), reader)
        except Exception:
            degrade(fresh, "ranking")
            return [_Pick(Candidate(id_, id_, 0, made_at_ms(id_)), None, b"") for id_ in deal.ids[:size]]

    def _serve(self, reader: NodeId, page: _Page, request: str) -> None:
        """Note what is shown, for training."""
        ids, scores = list(page.placed), [placed.score for placed in page.placed.values()]
        rows = b"".join(page.rows)
        self._served.add(Served(request, reader, self._now_ms(), light.MODEL, VERSION, ids, scores, rows))


class _Deal(NamedTuple):
    """Candidates best first, where older ones begin, and what is known of them if that was just found out."""

    ids: list[int]
    floor: Mark | None
    ranking: Ranking | None


class _Pick(NamedTuple):
    """A candidate with its place, and the features it was ranked by."""

    candidate: Candidate
    placed: Placed | None
    row: bytes


class _Page(NamedTuple):
    """A page in the making."""

    posts: list[Post]
    taken: list[Candidate]
    placed: dict[int, Placed]
    rows: list[bytes]

    def add(self, posts: Sequence[Post], picked: Sequence[_Pick]) -> None:
        """Show the posts, which are some of those picked."""
        self.posts.extend(posts)
        allowed = {post.id for post in posts}
        for candidate, placed, row in picked:
            if candidate.id in allowed:
                self.taken.append(candidate)
                if placed is not None:
                    self.placed[candidate.id] = placed
                    self.rows.append(row)


def _picks(ranking: Ranking, reader: NodeId) -> list[_Pick]:
    facts = ranking.facts
    columns = (facts.ids, facts.authors, facts.types, facts.made_ms)
    candidates = map(Candidate, *(column.tolist() for column in columns))
    placed = map(Placed, ranking.scores.tolist(), ranking.reasons(reader))
    return list(map(_Pick, candidates, placed, map(bytes, ranking.rows)))
