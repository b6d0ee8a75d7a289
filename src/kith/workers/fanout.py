"""Fan-out: brings new posts into the timelines of followers, and keeps timelines true to the graph.

A timeline exists for those who read lately, so pushing to all of an author's followers reaches the active ones and
costs nothing for the others: they get theirs from the outboxes when they come. Whatever else changes a home feed (a
follow, an unfollow, a loaded graph) drops the timeline, and the next read builds it anew. All of it may be repeated.

Two policies say who is pushed to: the author's followers (`feed.plan`), or the rates of each pair (`feed.rates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kith.core.clock import wall_ms
from kith.core.events import BULK_LOADED, TIMELINE_WANTED, Event
from kith.core.ids import NodeId
from kith.feed.plan import Plan, Thresholds, plan_fanout
from kith.feed.rates import POSTS_LOOKED_AT, ByRates, pushed_to_all, rate_of, worth_making_anew, worth_pushing
from kith.feed.sources import Sources
from kith.feed.withheld import AUTHORS_MAX
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.timeline.store import RATE_MAX, TIMELINE_IDS_MAX, Ids, TimelineStore

NAME = "fanout"
_EVERYONE = 2**62
_ANEW_A_POST = 10
"""Timelines made anew for one post's sake, some milliseconds each; other readers have theirs with a later one."""


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
    ) -> None:
        self._sources, self._timelines, self._policy, self._now_ms = sources, timelines, policy, now_ms
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Push posts, drop timelines that changed otherwise, build those that are wanted."""
        withheld: dict[int, int] = {}
        for event in events:
            if event.state == BULK_LOADED:
                await self.lost()
            elif event.state == TIMELINE_WANTED:
                if not self._timelines.has(np.array([event.source], np.int64))[0]:
                    await self._build(NodeId(event.source))
            elif event.graph == self._follows and (event.began or event.ended):
                self._timelines.drop(event.source)
            elif event.graph == self._authored and event.began:
                await self._push(event, withheld)
        if withheld:
            await self._sources.note_withheld(withheld)

    async def lost(self) -> None:
        """Every timeline may miss something: drop them all."""
        self._timelines.evict(_EVERYONE)

    async def _push(self, event: Event, withheld: dict[int, int]) -> None:
        """Bring a post to the author's and the followers' timelines; the post is the edge's destination.

        `withheld` gets the author and the rate where somebody's timeline is left out.
        """
        if isinstance(self._policy, ByRates):
            followers = await self._by_rates(self._policy, event, withheld)
        elif plan_fanout(await self._sources.follower_count(event.source), self._policy) is Plan.PULL:
            followers, withheld[event.source] = np.empty(0, np.int64), RATE_MAX
        else:
            followers = await self._sources.followers(event.source)
        self._timelines.push(event.destination, np.append(followers, np.int64(event.source)))

    async def _by_rates(self, policy: ByRates, event: Event, withheld: dict[int, int]) -> Ids:
        """The followers to whom a post is pushed, by their rates. The others' timelines know that they lack it."""
        author = event.source
        followers = await self._sources.followers(author)
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
