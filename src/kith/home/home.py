"""A page of home, ranked or newest first. Each goes one way: skeleton (ids) -> rank -> hard rules -> page.

The steps know nothing of each other: this module hands what one answers to the next. When the rules drop so much that
the page is not full, more is chosen of what is left, in _ROUNDS_MAX rounds at most; after these a page may be short.
From the second round on the rules come first, for many posts at once, and in `latest` for twice as many each time. So
only a page that loses a few thousand posts to them is short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kith.core.errors import PostNotFound
from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.core.together import together
from kith.home.orders import READERS_MAX, CachedOrders, basis_of
from kith.home.rank import light
from kith.home.rank.candidates import Placed, RankedCandidates
from kith.home.rank.features import FEATURES, NO_FACTS, VERSION, Facts
from kith.home.rank.mixing import Mix, choose
from kith.home.rank.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.served import NullServedLog, Served, ServedLog
from kith.home.skeleton.pinned import PinnedPosts
from kith.home.skeleton.skeleton import Skeletons
from kith.home.slate import NO_COPIES, SLATE_MAX, Copies, PageChoice, PageSoFar, Scroll, Slate
from kith.home.visit import Visit
from kith.posts.post import Post
from kith.posts.posts import Prefetch, no_prefetch

CANDIDATES_PER_PAGE = 50
"""The best of a slate that a page is chosen of (article 001); all of it where these do not fill the page."""
_ROUNDS_MAX = 10
_ALL_SEEN_MAX = 2
"""After this many slates in a row with nothing unseen, what was seen before is shown: nobody waits for more."""
_CHECKED = 10
"""How many of the last posts are checked together to see if one is for the reader; mostly the first is."""
_SPARED = 5
"""How many more ids than the page has posts are checked first; usually the rules drop fewer."""
Rest = TypeVar("Rest", Mark, Slate)


class HomePage(NamedTuple, Generic[Rest]):
    """Posts, newest first or best first.

    `rest`: what the next page begins with, None if there is none: the place in `latest`, the slate in `ranked`.
    `degraded`: what was not available. `placed`: why each post stands where it does; empty where ranking is down.
    `seen`: which of them the reader saw before. `copies`: by post, those that are not shown as they are copies of it.
    `until`: the `Window.until` of the next page of `latest`.
    """

    posts: list[Post]
    rest: Rest | None
    degraded: list[str]
    placed: Mapping[int, Placed] = MappingProxyType({})
    seen: Collection[int] = ()
    copies: Copies = NO_COPIES
    until: int | None = None


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
        pins: PinnedPosts,
        *,
        served: ServedLog | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._skeletons, self._ranker, self._rules, self._mix = skeletons, ranker, rules, Mix()
        self._pins = pins
        self._immediate = rules.immediate
        self._served, self._now_ms = NullServedLog() if served is None else served, now_ms
        self._orders = CachedOrders(skeletons.log.covers, rules.of_posts, rules.memory.room(READERS_MAX))

    async def latest(
        self,
        reader: NodeId,
        window: Window,
        *,
        must_reflect: LogPosition = NOWHERE,
        refresh: bool = False,
        prefetch: Prefetch = no_prefetch,
    ) -> HomePage[Mark]:
        """Posts of those whom `reader` follows and their own, newest first.

        `must_reflect`: the place in the log that the page must reflect (read-your-writes); `refresh`: past the
        timeline. `prefetch`: reads what the posts are shown with; where the rules drop some, it is not asked about
        those in their place. `window.until`: pins before it keep their place in this scroll, whatever was pinned since.
        """
        visit, posts = await self._visit(reader, prefetch, window.until), list[Post]()
        after, size, read_size = window.after, 2 * window.limit, window.limit + _SPARED
        for round_ in range(_ROUNDS_MAX):
            if round_:
                found = await visit.below(after, size)
            else:
                found = await visit.first_below(after, size, must_reflect, refresh=refresh)
            ids: list[int] = found.ids.tolist()
            while ids:
                wanted = max(1, window.limit - len(posts))
                await visit.check(ids[:wanted], spare=ids[wanted:read_size])
                posts += visit.allowed(ids[:read_size])
                ids, read_size = ids[read_size:], size
                size = min(2 * size, SLATE_MAX)
                if len(posts) > window.limit:
                    posts = posts[: window.limit]
                    rest = found.mark_of(posts[-1].id)
                    return HomePage(posts, rest, visit.degraded.parts, until=visit.scroll_until())
            after = found.end
            if after is None:
                break
        return HomePage(posts, after, visit.degraded.parts, until=visit.scroll_until())

    async def ranked(
        self,
        reader: NodeId,
        limit: int,
        slate: Slate | None = None,
        *,
        request: str = "",
        must_reflect: LogPosition = NOWHERE,
        refresh: bool = False,
        prefetch: Prefetch = no_prefetch,
    ) -> HomePage[Slate]:
        """The posts of `latest` that the reader has not seen: the newest SLATE_MAX best first, then older ones. After
        them, in the same way, what the reader saw before; it comes sooner where too much in a row was all seen.

        `slate`: what an earlier page left. `request`: the name of this request in the log of what was served.
        """
        pins_until = slate.scroll.begun_ms + 1 if slate is not None else None
        visit, choice = await self._visit(reader, prefetch, pins_until), None
        if slate is None:
            slate, choice = await self._first(visit, limit, must_reflect, refresh=refresh)
        else:
            await visit.resume(must_reflect, refresh=refresh)
        posts: list[Post] = []
        page, all_seen = PageSoFar(), 0
        # Each round takes from the slate; from the second on the rules are asked first, as they dropped some.
        for round_ in range(_ROUNDS_MAX):
            ranked: RankedCandidates | None = None  # those of the slate, where they were ranked just now
            if not slate.ids:
                if slate.is_last:
                    break
                slate, ranked = await visit.rank_below(*slate.next_stretch(give_up=all_seen == _ALL_SEEN_MAX))
                choice, all_seen = None, 0 if slate.ids or slate.scroll.showing_seen else all_seen + 1
            elif round_:
                slate = await self._shown_of(visit, slate, CANDIDATES_PER_PAGE if round_ == 1 else SLATE_MAX)
            if choice is None:
                taken = Facts.joined([part.facts for part in page.shown])
                choice = await self._choose(visit, slate, ranked, taken, limit - len(posts))
            ids: list[int] = choice.posts.facts.ids.tolist()
            left = slate.after(choice.looked_at, choice.waiting, ids)
            await visit.check(ids, spare=_spare(slate, ids, left))
            allowed = visit.allowed(ids)
            allowed_ids = {post.id for post in allowed}
            posts += allowed
            page.add(slate, choice, allowed_ids, reader, visit.pinned)
            if len(allowed) < len(ids):
                left = slate.after(choice.looked_at, choice.waiting, allowed_ids)
            slate, choice = left, None
            if len(posts) >= limit:
                break
        copies = _allowed_copies(visit, page.copies) if page.copies else NO_COPIES
        rest = await self._rest(visit, slate)
        self._log_served(visit, page, request)
        return HomePage(posts, rest, visit.degraded.parts, page.placed, page.seen_before, copies)

    async def _visit(self, reader: NodeId, prefetch: Prefetch = no_prefetch, pins_until: int | None = None) -> Visit:
        """A request, for which nothing is kept that was changed before it came."""
        visit = Visit(reader, self._skeletons, self._ranker, self._rules, self._pins, prefetch, pins_until)
        await together(self._immediate, visit.begin(), self._skeletons.prepare())
        return visit

    async def _first(
        self, visit: Visit, limit: int, must_reflect: LogPosition, *, refresh: bool
    ) -> tuple[Slate, PageChoice | None]:
        """The slate that a reader's first page begins with, and what is chosen of it: as kept, or ranked now.

        `refresh`: nothing that was kept will do. No choice: it is still to be made. An order reflects what the request
        asked for, and perhaps more, so a reader whose token is newer is ranked again.
        """
        now_ms, reader, told = self._now_ms(), visit.reader, self._orders.told
        if not refresh and self._orders.has(reader, now_ms):
            skeleton, state = await together(self._immediate, visit.newest(must_reflect), visit.own_state())
            if state is None:
                return Slate(skeleton.ids.tolist(), skeleton.end), None
            basis, ids = basis_of(skeleton, state), skeleton.ids
            if kept := self._orders.find(reader, basis, ids, limit, must_reflect=must_reflect, now_ms=now_ms):
                slate, choice = kept
                if choice is not None and (visit.pinned or not choice.placed):  # others may be pinned by now
                    choice = choice._replace(placed=choice.posts.placed(reader, visit.pinned))
                return slate, choice
        else:
            skeleton, _ = await together(self._immediate, visit.newest(must_reflect, refresh=refresh), visit.preload())
        slate, ranked = await visit.rank(skeleton, Scroll(now_ms))
        if ranked is None:
            return slate, None
        choice = await self._choose(visit, slate, ranked, NO_FACTS, limit)
        if not visit.degraded.parts:
            basis = basis_of(skeleton, (await visit.reader_facts()).own.state)
            kept_choice = choice._replace(placed={}) if visit.pinned else choice
            self._orders.keep(reader, basis, told, must_reflect, slate, limit, kept_choice)
        return slate, choice

    async def _choose(
        self, visit: Visit, slate: Slate, ranked: RankedCandidates | None, taken: Facts, want: int
    ) -> PageChoice:
        """At most `want` posts that go well with those `taken` for the page."""
        for ids in (slate.best(CANDIDATES_PER_PAGE), slate.ids):
            found = await visit.score(ids) if ranked is None else ranked.best(len(ids))
            more = len(ids) < len(slate.ids)
            places = choose(found.facts, taken, want, self._mix, self._now_ms(), more=more)
            if len(places) >= want or not more:
                break
        chosen = found.take(np.array(places, np.int64))
        waiting = set(found.facts.ids.tolist()).difference(chosen.facts.ids.tolist())
        return PageChoice(chosen, waiting, len(ids), chosen.placed(visit.reader, visit.pinned))

    async def _shown_of(self, visit: Visit, slate: Slate, count: int) -> Slate:
        """The slate without those of the best `count` posts, copies included, that are not for the reader."""
        ids = Slate(slate.best(count), None, slate.copies).every_id()
        await visit.check((), spare=ids)
        return slate.without(set(ids).difference(post.id for post in visit.allowed(ids)))

    async def _rest(self, visit: Visit, slate: Slate) -> Slate | None:
        """What is left for the next page; None where it is little and nothing of it is for the reader."""
        ids = _last_few(slate)
        if ids is None:
            return slate
        for start in range(0, len(ids), _CHECKED):
            some = ids[start : start + _CHECKED]
            await visit.check((), spare=some)
            if visit.allowed(some):
                return slate
        return None

    def _log_served(self, visit: Visit, page: PageSoFar, request: str) -> None:
        """Log what was ranked as served."""
        if placed := page.placed:
            rows = b"".join(part.features.tobytes() for part in page.shown if part.are_ranked)
            scores = [place.score for place in placed.values()]
            self._served.add(
                Served(request, visit.reader, self._now_ms(), light.MODEL, VERSION, list(placed), scores, rows)
            )

    async def why(self, reader: NodeId, post: Post) -> Why:
        """What decides the place of a post that `reader` may see in their ranked home, as of now. PostNotFound."""
        visit = await self._visit(reader)
        facts = await self._ranker.reader_facts(reader)
        await visit.read_pinned()
        found = await self._ranker.score(facts, np.array([post.id], np.int64), visit.pinned)
        if not len(found.facts.ids):
            raise PostNotFound("this post was deleted just now", id=str(post.id))
        damping = self._ranker.damping(facts, found.facts)
        values, added = found.features[0].tolist(), light.contributions(found.features)[0].tolist()
        parts = [(name, values[at], light.WEIGHTS[name], added[at]) for at, name in enumerate(FEATURES)]
        excluded = await self._rules.excluded_by(reader, post, visit.pinned)
        if await self._ranker.has_seen(reader, post.id):
            excluded.append("seen")
        copy_of = None if excluded else await self._copy_of(reader, post.id)
        if copy_of is not None:
            excluded.append("copy")
        return Why(
            Placed(float(found.shown_scores[0]), found.reasons(reader, visit.pinned)[0]),
            parts,
            float(damping[0]),
            excluded,
            copy_of,
        )

    async def _copy_of(self, reader: NodeId, post: int) -> int | None:
        """The post that is shown in place of `post`, one of the newest SLATE_MAX, which is a copy of it."""
        visit, now_ms = await self._visit(reader), self._now_ms()
        newest = await visit.newest(NOWHERE)
        for showing_seen in (False, True):
            slate, _ = await visit.rank(newest, Scroll(now_ms, showing_seen=showing_seen))
            for best, copies in slate.copies.items():
                if post in copies:
                    first = await self._rules.allowed(reader, await self._rules.read([best, *copies]), visit.pinned)
                    return first[0].id if first and first[0].id != post else None
        return None


def _spare(slate: Slate, ids: Sequence[int], left: Slate) -> list[int]:
    """What a page of `ids` may have to know of posts beyond it: their copies, and whether a post is `left` after it."""
    copies = [copy for id_ in ids for copy in slate.copies.get(id_, ())] if slate.copies else []
    return copies + (_last_few(left) or [])[:_CHECKED]


def _last_few(slate: Slate) -> list[int] | None:
    """All posts of the last slate, where it is short; None: there are others."""
    if not slate.is_last or len(slate.ids) > CANDIDATES_PER_PAGE:
        return None
    ids = slate.every_id()
    return ids if len(ids) <= CANDIDATES_PER_PAGE else None


def _allowed_copies(visit: Visit, copies: Copies) -> dict[int, Sequence[int]]:
    """Those of the copies, all looked at, that would be at the reader's home, by the post that they are copies of."""
    left = {id_: [post.id for post in visit.allowed(alike)] for id_, alike in copies.items()}
    return {id_: alike for id_, alike in left.items() if alike}
