"""Fan-out: brings new posts into the timelines of followers, and keeps timelines true to the graph.

A timeline exists for those who read lately, so pushing to all of an author's followers reaches the active ones and
costs nothing for the others: they get theirs from the outboxes when they come. Whatever else changes a home feed (a
follow, an unfollow, a loaded graph) drops the timeline, and the next read builds it anew. All of it may be repeated.

A post of one whom many follow is a delivery: it is pushed a chunk at a time between other events, and how far it came
is noted. Until it is done, homes look up its author's outbox (`feed.deliveries`).

Two policies say who is pushed to: the author's followers (`feed.plan`), or the rates of each pair (`feed.rates`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kith.core.clock import wall_ms
from kith.core.errors import StoreFull
from kith.core.events import BULK_LOADED, TIMELINE_WANTED, Event
from kith.core.ids import NodeId
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.home.fanout.deliveries import UNDER_WAY_MAX, Chunks, Delivery
from kith.home.fanout.plan import Plan, Thresholds, plan_fanout
from kith.home.fanout.rates import POSTS_LOOKED_AT, ByRates, pushed_to_all, rate_of, worth_making_anew, worth_pushing
from kith.home.fanout.withheld import AUTHORS_MAX
from kith.home.sources import Sources
from kith.home.timelines import RATE_MAX, TIMELINE_IDS_MAX, Ids, TimelineStore

NAME = "fanout"
_EVERYONE = 2**62
_ANEW_A_POST = 10
"""Timelines made anew for one post's sake, some milliseconds each; other readers have theirs with a later one."""


class Going(NamedTuple):
    """A delivery, the followers whom it has not come to (ascending), and when (`perf_counter`) it was last noted."""

    delivery: Delivery
    followers: Ids
    noted_s: float


_NOBODY = Going(Delivery(-1, -1), np.empty(0, np.int64), 0.0)


class Fanout:
    """The consumer that writes timelines. There is one of it a data folder: timelines have one writer."""

    name = NAME

    def __init__(
        self,
        sources: Sources,
        timelines: TimelineStore,
        *,
        graphs: Graphs,
        policy: Thresholds | ByRates,
        now_ms: Callable[[], int] = wall_ms,
        chunks: Chunks | None = None,
    ) -> None:
        self._sources, self._timelines, self._policy, self._now_ms = sources, timelines, policy, now_ms
        self._chunks = chunks or Chunks()
        self._size = self._chunks.first
        self._going = _NOBODY
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Push posts, drop timelines that changed otherwise, build those that are wanted."""
        withheld: dict[int, int] = {}
        back: set[int] = set()
        for event in events:
            if event.state == BULK_LOADED:
                await self.lost()
            elif event.state == TIMELINE_WANTED:
                timeline = self._timelines.read(event.source)
                if timeline is None or timeline.poor:
                    with contextlib.suppress(StoreFull):  # who has no timeline reads outboxes; others' posts go on
                        await self._build(NodeId(event.source))
            elif event.graph == self._follows and (event.began or event.ended):
                self._timelines.drop(event.source)
            elif event.graph == self._authored and event.began:
                if event.before is None:
                    await self._publish(event.source, event.destination, withheld)
                else:  # it came back with its author, whose followers' follows come back after it
                    back.add(event.source)
        for author in back:  # who follows already did so since the author is back
            users = np.append(await self._sources.followers(author), np.int64(author))
            for user in users[self._timelines.habits(users).reads >= 0].tolist():
                self._timelines.drop(user)
        if withheld:
            await self._sources.note_withheld(withheld)

    async def work_backlog(self) -> bool:
        """Push the oldest delivery to its next followers; whether there is more to deliver. What fails goes last."""
        under_way = await self._sources.deliveries()
        if not under_way:
            return False
        first, *others = under_way
        try:
            self._going = await self._push_on(first)
        except Exception:
            if others:
                await self._sources.note_deliveries([*others, first])
            raise
        if not len(self._going.followers):
            self._going = _NOBODY
            await self._sources.note_deliveries(others)
            return bool(others)
        now_s = time.perf_counter()
        if now_s - self._going.noted_s >= self._chunks.noted_s:
            await self._sources.note_deliveries([self._going.delivery, *others])
            self._going = self._going._replace(noted_s=now_s)
        return True

    async def _push_on(self, delivery: Delivery) -> Going:
        """Push a delivery to a chunk of those whom it has not come to; where it is then."""
        going = self._going if self._going.delivery.post == delivery.post else await self._taken_up(delivery)
        started = time.perf_counter()
        chunk, left = going.followers[: self._size], going.followers[self._size :]
        withheld: dict[int, int] = {}
        self._timelines.push(delivery.post, await self._pushed_to(delivery.author, chunk, withheld))
        if withheld:
            await self._sources.note_withheld(withheld)
        self._size = self._chunks.after(self._size, time.perf_counter() - started)
        return Going(delivery._replace(after=int(chunk[-1])) if len(chunk) else delivery, left, going.noted_s)

    async def _taken_up(self, delivery: Delivery) -> Going:
        """A delivery with those whom it has not come to, by their ids, which do not change as places in a list may.

        Who follows since it began has a timeline made since.
        """
        followers = np.sort(await self._sources.followers(delivery.author))
        left = followers[np.searchsorted(followers, delivery.after, side="right") :]
        return Going(delivery, left, time.perf_counter())

    async def claim(self) -> None:
        """Drop timelines that are not this store's, or were another's meanwhile: nobody knows what they miss."""
        name = self._timelines.name()
        if name != await self._sources.timelines_name():
            await self.lost()
            await self._sources.note_timelines(self._timelines.rename())

    async def lost(self) -> None:
        """Every timeline may miss something: drop them all."""
        self._timelines.evict(_EVERYONE)
        await self._sources.note_deliveries([])
        self._going = _NOBODY

    async def _publish(self, author: int, post: int, withheld: dict[int, int]) -> None:
        """Bring a post to the author's and the followers' timelines, or begin to.

        `withheld` gets the author and the rate where somebody's timeline is left out.
        """
        followers = np.empty(0, np.int64)
        count = await self._sources.follower_count(author)
        plan = self._plan(count)
        if plan is Plan.PUSH:
            followers = await self._pushed_to(author, await self._sources.followers(author), withheld)
        elif plan is Plan.PULL:
            withheld[author] = RATE_MAX
        else:
            while not await self._begin(Delivery(post, author)):
                await self.work_backlog()
        self._timelines.push(post, np.append(followers, np.int64(author)))

    def _plan(self, followers: int) -> Plan:
        """The plan for an author with so many followers; by rates, each of whom is decided on by itself."""
        if isinstance(self._policy, Thresholds):
            return plan_fanout(followers, self._policy)
        return Plan.PUSH if followers <= self._chunks.first else Plan.HYBRID

    async def _begin(self, delivery: Delivery) -> bool:
        """Note a delivery; False where too many are under way."""
        others = [other for other in await self._sources.deliveries() if other.post != delivery.post]
        if len(others) >= UNDER_WAY_MAX:
            return False
        await self._sources.note_deliveries([*others, delivery])
        return True

    async def _pushed_to(self, author: int, followers: Ids, withheld: dict[int, int]) -> Ids:
        """Those of the followers to whom the author's post is pushed. The others' timelines know that they lack it."""
        policy = self._policy
        if isinstance(policy, Thresholds):
            return followers
        rate = rate_of(await self._sources.newest(author, POSTS_LOOKED_AT), self._now_ms())
        if pushed_to_all(rate, policy):
            return followers
        habits = self._timelines.habits(followers)
        pushed = worth_pushing(rate, habits.reads, policy)
        left_out = followers[~pushed & (habits.reads >= 0)]
        if len(left_out):
            if not await self._may_withhold(author, withheld):
                return followers
            self._timelines.withhold(rate, left_out)
            withheld[author] = max(rate, withheld.get(author, 0))
        for user in followers[worth_making_anew(rate, habits, policy)][:_ANEW_A_POST].tolist():
            await self._build(NodeId(user))
        return followers[pushed]

    async def _may_withhold(self, author: int, withheld: dict[int, int]) -> bool:
        """Whether there is room to note that an author does not push to all."""
        known = await self._sources.withheld()
        return len(known.authors) + len(withheld) < AUTHORS_MAX or author in withheld or known.rate_of(author) > 0

    async def _build(self, user: NodeId) -> None:
        """Give the user a timeline, of what the outboxes hold now."""
        marks = await self._sources.outboxes((await self._sources.authors(user)).tolist(), TIMELINE_IDS_MAX)
        self._timelines.put(user, np.array([mark.id for mark in marks], np.int64))
