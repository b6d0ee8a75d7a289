"""A page of home: skeleton, ranking, hard rules, page. Ranked or newest first, as the reader likes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kith.core.errors import PostNotFound
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.home.dealer import CHOICE, Deal, Dealer, Pick, Placed
from kith.home.rank import light
from kith.home.rank.features import FEATURES, VERSION
from kith.home.rank.page import Mix
from kith.home.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.served import Nowhere, Served, ServedLog
from kith.home.skeleton import Skeletons, mark_of
from kith.home.slate import Slate
from kith.posts.post import Post

_ROUNDS_MAX = 10
_LOOK = 10
"""How many of the last posts are looked at together to see if one is for the reader; mostly the first is."""


class HomePage(NamedTuple):
    """Posts newest first. `end`: where the next page begins, None at the end; `degraded`: what was not available."""

    posts: list[Post]
    end: Mark | None
    degraded: list[str]


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


class Home:
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
        self._dealer = Dealer(skeletons, ranker, mix or Mix(), now_ms)
        self._served, self._now_ms = Nowhere() if served is None else served, now_ms

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
        deal = Deal(slate.ids, slate.floor) if slate else await self._dealer.deal(reader, None, fresh)
        posts: list[Post] = []
        shown: list[Pick] = []
        for _ in range(_ROUNDS_MAX):
            if not deal.ids:
                if deal.floor is None:
                    break
                deal = await self._dealer.deal(reader, deal.floor, fresh)
            taken = [pick.candidate for pick in shown]
            choice = await self._dealer.pick(reader, deal, taken, limit - len(posts), fresh)
            allowed = await self._rules.allowed(reader, [pick.candidate.id for pick in choice.picks])
            posts += allowed
            there = {post.id for post in allowed}
            shown += [pick for pick in choice.picks if pick.candidate.id in there]
            deal = deal.after(choice, there)
            if len(posts) >= limit or (choice.waiting and not choice.picks):
                break
        placed = {pick.candidate.id: pick.placed for pick in shown if pick.placed is not None}
        if placed:
            rows = b"".join(pick.row for pick in shown)
            scores = [place.score for place in placed.values()]
            self._served.add(Served(request, reader, self._now_ms(), light.MODEL, VERSION, list(placed), scores, rows))
        return RankedPage(posts, placed, await self._rest(reader, deal), fresh.degraded)

    async def _rest(self, reader: NodeId, deal: Deal) -> Slate | None:
        """What is left for the next page; None where it is little and nothing of it is for the reader."""
        rest, ids = Slate(deal.ids, deal.floor), [id_ if id_ >= 0 else ~id_ for id_ in deal.ids]
        if deal.floor is not None or len(ids) > CHOICE:
            return rest
        for start in range(0, len(ids), _LOOK):
            if await self._rules.allowed(reader, ids[start : start + _LOOK]):
                return rest
        return None

    async def why(self, reader: NodeId, post: Post) -> Why:
        """What decides the place of a post that `reader` may see in their ranked home, as of now. PostNotFound."""
        ids = np.array([post.id], np.int64)
        ranking = await self._ranker.score(reader, ids)
        if not len(ranking.rows):
            raise PostNotFound("this post was deleted just now", id=str(post.id))
        damping = await self._ranker.damping(reader, ranking.facts)
        values, added = ranking.rows[0].tolist(), light.contributions(ranking.rows)[0].tolist()
        parts = [(name, values[at], light.WEIGHTS[name], added[at]) for at, name in enumerate(FEATURES)]
        excluded = await self._rules.excluded_by(reader, post)
        if await self._ranker.has_seen(reader, post.id):
            excluded.append("seen")
        return Why(Placed(float(ranking.told[0]), ranking.reasons(reader)[0]), parts, float(damping[0]), excluded)
