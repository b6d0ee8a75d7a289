"""A page of home, ranked or newest first. Each goes one way: skeleton (ids) -> rank -> hard rules -> page.

The steps do not know each other: this module hands the result of one to the next. If the rules drop so many posts that
the page is not full, another round fills it from what is left, _ROUNDS_MAX rounds at most. From the second round on the
rules check many posts at once before any are chosen; in `latest` twice as many each time. So a page is short only if
the rules drop some thousands of posts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kith.core.errors import PostNotFound
from kith.core.events import NOWHERE, LogPosition
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
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
from kith.home.slate import NO_COPIES, SLATE_MAX, Copies, PageChoice, PartialPage, Scroll, Slate
from kith.home.visit import Visit
from kith.posts.post import Post
from kith.posts.posts import Prefetch, no_prefetch

CANDIDATES_PER_PAGE = 50
"""A page is chosen from the best so many of a slate (article 001), or from all of it if these do not fill the page."""
_ROUNDS_MAX = 10
_ALL_SEEN_MAX = 2
"""After so many slates in a row without an unseen post, the skipped seen posts are shown instead of searching on."""
_CHECKED = 10
"""Posts checked together to find out whether a next page would be empty; mostly the first one decides."""
_SPARED = 5
"""Extra ids checked in the first round of `latest`; usually the rules drop fewer."""
Rest = TypeVar("Rest", Mark, Slate)


class HomePage(NamedTuple, Generic[Rest]):
    """Posts, newest first or best first.

    `rest`: where the next page begins, a place in `latest` and a slate in `ranked`; None: this is the last page.
    `degraded`: parts that were unavailable. `placed`: score and reason by post; empty if ranking is down. `seen`: posts
    that the reader saw before. `copies`: by post, its copies, which are not shown themselves. `until`: the
    `Window.until` of the next page of `latest`.
    """

    posts: list[Post]
    rest: Rest | None
    degraded: list[str]
    placed: Mapping[int, Placed] = MappingProxyType({})
    seen: Collection[int] = ()
    copies: Copies = NO_COPIES
    until: int | None = None


class Why(NamedTuple):
    """Why a post stands where it does.

    `parts`: name, value, weight and contribution of each feature. `excluded_by`: the rules that keep the post out.
    `copy_of`: the post that is shown in its place, if it is left out as a copy.
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
        self._orders = CachedOrders(skeletons.log.covers, rules.post_changes, rules.read_cache.room(READERS_MAX))

    async def latest(
        self,
        reader: NodeId,
        window: Window,
        *,
        must_reflect: LogPosition = NOWHERE,
        refresh: bool = False,
        prefetch: Prefetch = no_prefetch,
    ) -> HomePage[Mark]:
        """Posts of the accounts that `reader` follows and the reader's own, newest first.

        `must_reflect`: the log position that the page must reflect (read-your-writes). `refresh`: ignore the timeline.
        `prefetch`: loads the data that posts are shown with; it is not called for posts that replace dropped ones.
        `window.until`: boards' pins before it keep their place in this scroll, whatever is pinned later.
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
        """The posts of `latest` that the reader has not seen: the newest SLATE_MAX best first, then older ones.

        Seen posts follow in the same way. They come sooner if too many slates in a row hold only seen posts.
        `slate`: the rest of the page before. `request`: the name of this request in the log of served pages.
        """
        pins_until = slate.scroll.begun_ms + 1 if slate is not None else None
        visit, choice = await self._visit(reader, prefetch, pins_until), None
        if slate is None:
            slate, choice = await self._first(visit, limit, must_reflect, refresh=refresh)
        else:
            await visit.resume(must_reflect, refresh=refresh)
        posts: list[Post] = []
        page, all_seen = PartialPage(), 0
        # Each round takes posts from the slate. From the second on the rules come first, since they dropped some.
        for round_ in range(_ROUNDS_MAX):
            ranked: RankedCandidates | None = None  # the slate's candidates, if they were ranked in this round
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
        """A visit, after the process's caches dropped everything that changed before this request."""
        visit = Visit(reader, self._skeletons, self._ranker, self._rules, self._pins, prefetch, pins_until)
        await gather(self._immediate, visit.begin(), self._skeletons.prepare())
        return visit

    async def _first(
        self, visit: Visit, limit: int, must_reflect: LogPosition, *, refresh: bool
    ) -> tuple[Slate, PageChoice | None]:
        """The slate of a reader's first page and the posts chosen from it, from the cache or ranked now.

        `refresh`: ignore the cache. A choice of None is still to be made. A cached order reflects at least the log
        position of the request that made it, so a reader with a newer token is ranked again.
        """
        now_ms, reader, changes_seen = self._now_ms(), visit.reader, self._orders.changes_seen
        if not refresh and self._orders.has(reader, now_ms):
            skeleton, state = await gather(self._immediate, visit.newest(must_reflect), visit.own_state())
            if state is None:
                return Slate(skeleton.ids.tolist(), skeleton.end), None
            basis, ids = basis_of(skeleton, state), skeleton.ids
            if kept := self._orders.find(reader, basis, ids, limit, must_reflect=must_reflect, now_ms=now_ms):
                slate, choice = kept
                if choice is not None and (visit.pinned or not choice.placed):  # pins may have changed since
                    choice = choice._replace(placed=choice.posts.placed(reader, visit.pinned))
                return slate, choice
        else:
            skeleton, _ = await gather(self._immediate, visit.newest(must_reflect, refresh=refresh), visit.preload())
        slate, ranked = await visit.rank(skeleton, Scroll(now_ms), begins=True)
        if ranked is None:
            return slate, None
        choice = await self._choose(visit, slate, ranked, NO_FACTS, limit)
        if not visit.degraded.parts:
            basis = basis_of(skeleton, (await visit.reader_facts()).own.state)
            kept_choice = choice._replace(placed={}) if visit.pinned else choice
            self._orders.keep(reader, basis, changes_seen, must_reflect, slate, limit, kept_choice)
        return slate, choice

    async def _choose(
        self, visit: Visit, slate: Slate, ranked: RankedCandidates | None, taken: Facts, want: int
    ) -> PageChoice:
        """Choose at most `want` posts that mix well with those already `taken` for the page."""
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
        """The slate without those of its best `count` posts, copies included, that the rules drop."""
        ids = Slate(slate.best(count), None, slate.copies).every_id()
        await visit.check((), spare=ids)
        return slate.without(set(ids).difference(post.id for post in visit.allowed(ids)))

    async def _rest(self, visit: Visit, slate: Slate) -> Slate | None:
        """The slate of the next page; None if few posts are left and the rules drop all of them."""
        ids = _last_few(slate)
        if ids is None:
            return slate
        for start in range(0, len(ids), _CHECKED):
            some = ids[start : start + _CHECKED]
            await visit.check((), spare=some)
            if visit.allowed(some):
                return slate
        return None

    def _log_served(self, visit: Visit, page: PartialPage, request: str) -> None:
        """Log the ranked posts of the page as served."""
        if placed := page.placed:
            rows = b"".join(part.features.tobytes() for part in page.shown if part.are_ranked)
            scores = [place.score for place in placed.values()]
            self._served.add(
                Served(request, visit.reader, self._now_ms(), light.MODEL, VERSION, list(placed), scores, rows)
            )

    async def why(self, reader: NodeId, post: Post) -> Why:
        """Why a post that `reader` may see stands where it does in their ranked home now. PostNotFound if deleted."""
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
        """The post that is shown in place of `post` if `post` is a copy and among the newest SLATE_MAX."""
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
    """Posts to check beside a page of `ids`: their copies, and a few of those `left` for the next page."""
    copies = [copy for id_ in ids for copy in slate.copies.get(id_, ())] if slate.copies else []
    return copies + (_last_few(left) or [])[:_CHECKED]


def _last_few(slate: Slate) -> list[int] | None:
    """All posts of the slate if it is the last one and short; None otherwise."""
    if not slate.is_last or len(slate.ids) > CANDIDATES_PER_PAGE:
        return None
    ids = slate.every_id()
    return ids if len(ids) <= CANDIDATES_PER_PAGE else None


def _allowed_copies(visit: Visit, copies: Copies) -> dict[int, Sequence[int]]:
    """By post, its copies that the rules allow at the reader's home. All of them were checked."""
    left = {id_: [post.id for post in visit.allowed(alike)] for id_, alike in copies.items()}
    return {id_: alike for id_, alike in left.items() if alike}
