"""A page of home, ranked or newest first. Each goes one way: skeleton (ids) -> rank -> hard rules -> page.

The steps know nothing of each other: this module hands what one answers to the next. When the rules drop so much that
the page is not full, more is chosen of what is left, in _ROUNDS_MAX rounds at most; after these a page may be short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kith.core.errors import PostNotFound
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.home.degraded import Degraded
from kith.home.orders import KeptOrders, basis_of
from kith.home.rank import light
from kith.home.rank.candidates import Candidates
from kith.home.rank.features import FEATURES, NO_FACTS, VERSION, Facts
from kith.home.rank.page import Mix, choose
from kith.home.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.served import NullServedLog, Served, ServedLog
from kith.home.skeleton import Skeleton, Skeletons, mark_of
from kith.home.slate import NO_COPIES, SLATE_MAX, Choice, Copies, Load, Slate, order
from kith.posts.post import Post

CHOICE = 50
"""The best of a slate that a page is chosen of (article 001); all of it where these do not fill the page."""
_ROUNDS_MAX = 10
_LOOK = 10
"""How many of the last posts are looked at together to see if one is for the reader; mostly the first is."""
_SPARE = 5
"""How many more ids than posts of a page are looked at first: of so few, mostly none is kept from the reader."""
Rest = TypeVar("Rest", Mark, Slate)


class Placed(NamedTuple):
    """A post's score as its reader is told it, from 0 to 1, and the reason for it in a word."""

    score: float
    reason: str


class HomePage(NamedTuple, Generic[Rest]):
    """Posts, newest first or best first.

    `rest`: what the next page begins with, None if there is none: the place in `latest`, the slate in `ranked`.
    `degraded`: what was not available. `placed`: why each post stands where it does; empty where ranking is down.
    `seen`: which of them the reader saw before. `copies`: by post, those that are not shown as they are copies of it.
    """

    posts: list[Post]
    rest: Rest | None
    degraded: list[str]
    placed: Mapping[int, Placed] = MappingProxyType({})
    seen: Collection[int] = ()
    copies: Copies = NO_COPIES


class Why(NamedTuple):
    """What decides a post's place: per feature its value, its weight, and what it adds; and what keeps the post out.

    `copy_of`: the post in its place, where it is left out as a copy.
    """

    placed: Placed
    parts: list[tuple[str, float, float, float]]
    damping: float
    excluded_by: list[str]
    copy_of: int | None = None


class Home:
    """Reads home feeds in an API process."""

    def __init__(
        self,
        skeletons: Skeletons,
        ranker: Ranker,
        rules: HomeRules,
        *,
        served: ServedLog | None = None,
        orders: KeptOrders | None = None,
        mix: Mix | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._skeletons, self._ranker, self._rules, self._mix = skeletons, ranker, rules, mix or Mix()
        self._served, self._now_ms = NullServedLog() if served is None else served, now_ms
        self._orders = KeptOrders() if orders is None else orders

    async def latest(self, reader: NodeId, window: Window, *, seen: int = 0, refresh: bool = False) -> HomePage[Mark]:
        """Posts of those whom `reader` follows and their own, newest first.

        `seen`: a log sequence number that must be reflected (read-your-writes); `refresh`: past the timeline.
        """
        degraded = Degraded()
        use_timeline = await self._skeletons.can_use_timelines(seen, degraded, refresh=refresh)
        posts: list[Post] = []
        after, size, look = window.after, 2 * window.limit, window.limit + _SPARE
        for _ in range(_ROUNDS_MAX):
            found, end = await self._skeletons.below(reader, after, size, degraded, use_timeline=use_timeline)
            ids: list[int] = found.tolist()
            while ids:
                posts += await self._rules.allowed(reader, ids[:look])
                ids, look = ids[look:], size
                if len(posts) > window.limit:
                    posts = posts[: window.limit]
                    return HomePage(posts, mark_of(posts[-1].id), degraded.parts)
            after = end
            if after is None:
                break
        return HomePage(posts, after, degraded.parts)

    async def ranked(
        self,
        reader: NodeId,
        limit: int,
        slate: Slate | None = None,
        *,
        request: str = "",
        seen: int = 0,
        refresh: bool = False,
    ) -> HomePage[Slate]:
        """The posts of `latest` that the reader has not seen: the newest SLATE_MAX best first, then older ones. After
        them, in the same way, what the reader saw before.

        `slate`: what an earlier page left. `request`: the name of this request in the log of what was served.
        """
        degraded = Degraded()
        use_timeline = await self._skeletons.can_use_timelines(seen, degraded, refresh=refresh)
        choice: Choice | None = None
        if slate is None:
            kept_to = None if refresh else seen
            slate, choice = await self._first(reader, limit, degraded, use_timeline=use_timeline, seen=kept_to)
        posts: list[Post] = []
        seen_before: set[int] = set()
        copies: dict[int, Sequence[int]] = {}
        shown: list[Candidates] = []
        for _ in range(_ROUNDS_MAX):
            known: Candidates | None = None  # those of the slate, where they were ranked just now
            if not slate.ids:
                if slate.is_last:
                    break
                load = slate.load if slate.end is not None else slate.load._replace(are_seen=True)
                slate, known = await self._rank_below(reader, slate.end, load, degraded, use_timeline=use_timeline)
                choice = None
            if choice is None:
                taken = Facts.joined([part.facts for part in shown])
                choice = await self._choose(reader, slate, known, taken, limit - len(posts), degraded)
            allowed = await self._rules.allowed(reader, choice.posts.facts.ids.tolist())
            allowed_ids = {post.id for post in allowed}
            posts += allowed
            if slate.load.are_seen:
                seen_before |= allowed_ids
            if slate.copies:
                copies |= {id_: slate.copies[id_] for id_ in allowed_ids & slate.copies.keys()}
            shown.append(choice.posts.only(allowed_ids))
            slate, choice = slate.after(choice.looked_at, choice.waiting, allowed_ids), None
            if len(posts) >= limit:
                break
        if copies:
            copies = await self._allowed_copies(reader, copies)
        rest, placed = await self._rest(reader, slate), self._placed(reader, shown, request)
        return HomePage(posts, rest, degraded.parts, placed, seen_before, copies)

    async def _rank_below(
        self, reader: NodeId, after: Mark | None, load: Load, degraded: Degraded, *, use_timeline: bool
    ) -> tuple[Slate, Candidates | None]:
        """A slate of the posts beyond `after` that are unseen, or whose turn it is as seen, and its candidates.

        Where ranking is down: of all posts, newest first, and no candidates; none of what was seen comes after these.
        """
        skeleton = await self._skeletons.below(reader, after, SLATE_MAX, degraded, use_timeline=use_timeline)
        return await self._rank(reader, skeleton.first(SLATE_MAX), load, degraded)

    async def _first(
        self, reader: NodeId, limit: int, degraded: Degraded, *, use_timeline: bool, seen: int | None
    ) -> tuple[Slate, Choice | None]:
        """The slate that a reader's first page begins with, and what is chosen of it: as kept, or ranked now.

        `seen`: a log sequence number that must be reflected; None: nothing that was kept will do. No choice: it is
        still to be made.
        """
        skeleton = await self._skeletons.below(reader, None, SLATE_MAX, degraded, use_timeline=use_timeline)
        skeleton, now_ms = skeleton.first(SLATE_MAX), self._now_ms()
        try:
            basis = basis_of(skeleton, await self._ranker.own_state(reader))
            kept = None if seen is None else self._orders.find(reader, basis, limit, seen=seen, now_ms=now_ms)
            if kept is not None:
                return kept
            sequence = self._skeletons.log_end()
        except Exception:
            degraded.failed("ranking")
            return Slate(skeleton.ids.tolist(), skeleton.end), None
        slate, known = await self._rank(reader, skeleton, Load(now_ms), degraded)
        if known is None:
            return slate, None
        choice = await self._choose(reader, slate, known, NO_FACTS, limit, degraded)
        if not degraded.parts:
            self._orders.keep(reader, basis, sequence, slate, limit, choice)
        return slate, choice

    async def _rank(
        self, reader: NodeId, skeleton: Skeleton, load: Load, degraded: Degraded
    ) -> tuple[Slate, Candidates | None]:
        """As `_rank_below`, of the posts of a skeleton."""
        ids, end = skeleton
        try:
            if load.are_seen:
                wanted = await self._ranker.seen(reader, ids, load.begun_ms)
            else:
                wanted = await self._ranker.unseen(reader, ids)
                load = load._replace(seen_left=load.seen_left or len(wanted) < len(ids))
            return order(await self._ranker.score(reader, wanted), end, load)
        except Exception:
            degraded.failed("ranking")
            return (Slate([], None) if load.are_seen else Slate(ids.tolist(), end)), None

    async def _allowed_copies(self, reader: NodeId, copies: Copies) -> dict[int, Sequence[int]]:
        """Those of the copies that would be at the reader's home, by the post that they are copies of."""
        allowed = await self._rules.allowed(reader, [copy for alike in copies.values() for copy in alike])
        ids = {post.id for post in allowed}
        left = {id_: [copy for copy in alike if copy in ids] for id_, alike in copies.items()}
        return {id_: alike for id_, alike in left.items() if alike}

    async def _choose(
        self, reader: NodeId, slate: Slate, known: Candidates | None, taken: Facts, want: int, degraded: Degraded
    ) -> Choice:
        """At most `want` posts that go well with those `taken` for the page."""
        for ids in (slate.best(CHOICE), slate.ids):
            found = await self._score(reader, ids, degraded) if known is None else known.take(slice(len(ids)))
            more = len(ids) < len(slate.ids)
            places = choose(found.facts, taken, want, self._mix, self._now_ms(), more=more)
            if len(places) >= want or not more:
                break
        chosen = found.take(np.array(places, np.int64))
        waiting = set(found.facts.ids.tolist()).difference(chosen.facts.ids.tolist())
        return Choice(chosen, waiting, len(ids))

    async def _score(self, reader: NodeId, ids: Sequence[int], degraded: Degraded) -> Candidates:
        """Those of the posts that are there, in their order."""
        wanted = np.array(ids, np.int64)
        try:
            return await self._ranker.score(reader, wanted)
        except Exception:
            degraded.failed("ranking")
            return Candidates.unranked(wanted)

    async def _rest(self, reader: NodeId, slate: Slate) -> Slate | None:
        """What is left for the next page; None where it is little and nothing of it is for the reader."""
        ids = slate.every_id()
        if not slate.is_last or len(ids) > CHOICE:
            return slate
        for start in range(0, len(ids), _LOOK):
            if await self._rules.allowed(reader, ids[start : start + _LOOK]):
                return slate
        return None

    def _placed(self, reader: NodeId, shown: Sequence[Candidates], request: str) -> dict[int, Placed]:
        """Why each post of a page stands where it does. What was ranked is logged as served."""
        ranked = [part for part in shown if part.are_ranked]
        placed: dict[int, Placed] = {}
        for part in ranked:
            told = map(Placed, part.told.tolist(), part.reasons(reader))
            placed.update(zip(part.facts.ids.tolist(), told, strict=True))
        if placed:
            rows = b"".join(part.features.tobytes() for part in ranked)
            scores = [place.score for place in placed.values()]
            self._served.add(Served(request, reader, self._now_ms(), light.MODEL, VERSION, list(placed), scores, rows))
        return placed

    async def why(self, reader: NodeId, post: Post) -> Why:
        """What decides the place of a post that `reader` may see in their ranked home, as of now. PostNotFound."""
        found = await self._ranker.score(reader, np.array([post.id], np.int64))
        if not len(found.facts.ids):
            raise PostNotFound("this post was deleted just now", id=str(post.id))
        damping = await self._ranker.damping(reader, found.facts)
        values, added = found.features[0].tolist(), light.contributions(found.features)[0].tolist()
        parts = [(name, values[at], light.WEIGHTS[name], added[at]) for at, name in enumerate(FEATURES)]
        excluded = await self._rules.excluded_by(reader, post)
        if await self._ranker.has_seen(reader, post.id):
            excluded.append("seen")
        copy_of = None if excluded else await self._copy_of(reader, post.id)
        if copy_of is not None:
            excluded.append("copy")
        return Why(Placed(float(found.told[0]), found.reasons(reader)[0]), parts, float(damping[0]), excluded, copy_of)

    async def _copy_of(self, reader: NodeId, post: int) -> int | None:
        """The post that is shown in place of `post`, one of the newest SLATE_MAX, which is a copy of it."""
        degraded = Degraded()
        use_timeline = await self._skeletons.can_use_timelines(0, degraded, refresh=False)
        begun = Load(self._now_ms())
        slate, _ = await self._rank_below(reader, None, begun, degraded, use_timeline=use_timeline)
        for best, copies in slate.copies.items():
            if post in copies:
                first = await self._rules.allowed(reader, [best, *copies])
                return first[0].id if first and first[0].id != post else None
        return None
