"""The consumer that pushes new posts into the timelines of followers, and drops timelines that became wrong.

Only users who read lately have a timeline. So a push to all followers of an author reaches the active ones and costs
nothing for the others, whose timeline is built when they next read. Every event may be handled twice: a post that is
pushed twice is shown once, and a dropped timeline is rebuilt.

Limit: fan-out never removes an id from a timeline or inserts one in the middle. Every other change of a home drops the
timeline (see `Fanout.handle`). Home reads outboxes until fan-out has built it again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from kith.core.clock import wall_ms
from kith.core.errors import StoreFull
from kith.core.events import BULK_LOADED, NORMAL, TIMELINE_REQUESTED, Event
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.graph.edge import State
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.graph.shapes import Chunk, Ids
from kith.home.fanout.deliveries import WITHHELD_MAX, Chunks, Deliveries
from kith.home.fanout.plan import FanoutPlan, Thresholds, plan_fanout
from kith.home.fanout.rates import POSTS_LOOKED_AT, ByRates, pushes_to_all, rate_of, worth_pushing, worth_rebuilding
from kith.home.fanout.state import Delivery, FanoutState
from kith.home.skeleton.sources import Sources
from kith.home.timelines import RATE_MAX, TIMELINE_IDS_MAX, TimelineStore
from kith.leases.holding import Leases

NAME = "fanout"
_BUILD_TRIES = 3
"""Tries to build a timeline whose user's follows change meanwhile. After that, the next read of home asks again."""
_REBUILDS_PER_POST_MAX = 10
"""Timelines rebuilt while one post is pushed, some milliseconds each. Later posts rebuild the others."""


class Fanout:
    """The consumer of the event log that writes timelines. Several may run, each with a share of the partitions."""

    name = NAME

    def __init__(
        self,
        sources: Sources,
        timelines: TimelineStore,
        state: FanoutState,
        leases: Leases,
        *,
        graphs: Graphs,
        policy: Thresholds | ByRates,
        now_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = time.monotonic,
        chunks: Chunks | None = None,
    ) -> None:
        self._sources, self._timelines, self._policy, self._now_ms = sources, timelines, policy, now_ms
        self._state, self._chunks = state, chunks or Chunks()
        self._chunk_size = self._chunks.size_first
        self._deliveries = Deliveries(state, leases, now_s)
        self._checkpoint_s = 0.0  # when the current delivery last saved one
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Apply the events to the timelines.

        - A new post is pushed, or begun as a delivery, or withheld: see `plan` and `rates`.
        - A follow or an unfollow drops the follower's timeline. So does a follow that moves within the list of
          followers, since a delivery in progress may skip it.
        - A deleted post changes nothing: its id stays, and the rules keep the post out of home.
        - A post archived with its author's account drops the author's timeline; the rules keep the post out of other
          homes.
        - A post restored with its author's account drops the timelines of the author and of all current followers. A
          later follow drops its own follower's timeline.
        - A reader's request (TIMELINE_REQUESTED) builds their timeline if they have none or it needs a rebuild.
        - A bulk load drops all timelines.
        """
        withheld: dict[int, int] = {}
        returned: set[int] = set()
        outdated: set[int] = set()  # dropped in one call, unless a timeline is built in between
        for event in events:
            if event.state == BULK_LOADED:
                await self.rebuild()
            elif event.state == TIMELINE_REQUESTED:
                await self._drop(outdated)
                await self._build_if_needed(NodeId(event.source))
            elif event.graph == self._follows and NORMAL in (event.before, event.state):
                outdated.add(event.source)
            elif event.graph == self._authored and event.ended:
                if event.state == State.ARCHIVED:
                    outdated.add(event.source)
            elif event.graph == self._authored and event.began:
                if event.before is None:
                    await self._publish(event.source, event.destination, withheld)
                else:
                    returned.add(event.source)
        await self._drop(outdated)
        for author in returned:
            await self._drop_with_followers(author)
        if withheld:
            await self._state.withhold(withheld)

    async def work_backlog(self) -> bool:
        """Push the first delivery to its next chunk of followers; true if more work remains.

        If it fails, the delivery moves behind the others and the error is raised.
        """
        delivery = await self._deliveries.first()
        if delivery is None:
            return False
        started = time.perf_counter()
        if delivery.after is None:
            self._checkpoint_s = started
        reading = self._sources.followers_chunk(delivery.author, delivery.after, self._chunk_size)
        try:
            chunk, ours = await gather(self._state.immediate, reading, self._deliveries.hold())
            if not ours:
                return self._deliveries.has_more
            advanced = await self._push_chunk(delivery, chunk, started)
        except Exception:
            await self._deliveries.requeue(delivery)
            raise
        if advanced is None:
            await self._deliveries.end()
            return self._deliveries.has_more
        now_s = time.perf_counter()
        saved = now_s - self._checkpoint_s >= self._chunks.checkpoint_s
        await self._deliveries.advance(advanced, saved=saved)
        if saved:
            self._checkpoint_s = now_s
        return True

    async def claim(self) -> None:
        """Drop the timelines if they belong to another store, since nobody knows which posts they lack."""
        if await self._timelines.name() != (await self._state.snapshot()).name:
            await self._timelines.rename()
            await self.rebuild()

    async def rebuild(self) -> None:
        """Drop every timeline, since each may lack posts, and all deliveries."""
        await self._timelines.clear()
        await self._state.reset(await self._timelines.name())
        await self._deliveries.drop()

    async def close(self) -> None:
        """Release the lease of the current delivery, so that another worker can resume it."""
        await self._deliveries.close()

    async def _drop(self, outdated: set[int]) -> None:
        """Drop these timelines, and empty the set."""
        if outdated:
            await self._timelines.drop(np.fromiter(outdated, np.int64))
            outdated.clear()

    async def _drop_with_followers(self, author: int) -> None:
        """Drop the timelines of an author and of all current followers."""
        await self._timelines.drop(np.array([author], np.int64))
        after: bytes | None = None
        while True:
            chunk = await self._sources.followers_chunk(author, after, self._chunks.size_first)
            await self._timelines.drop(chunk.ids)
            after = chunk.after
            if after is None:
                break

    async def _push_chunk(self, delivery: Delivery, chunk: Chunk, started: float) -> Delivery | None:
        """Push a delivery to a chunk of followers; returns the delivery after it, or None after the last chunk.

        `started`: when reading the chunk began. A follow made during the delivery needs no push: it drops the
        follower's timeline, which is then built with the post in it.
        """
        withheld: dict[int, int] = {}
        pushed_to = await self._recipients(delivery.author, chunk.ids, withheld)
        if withheld:
            await self._state.withhold(withheld)
        await self._timelines.push(delivery.post, pushed_to)
        self._chunk_size = self._chunks.next_size(self._chunk_size, time.perf_counter() - started)
        return None if chunk.after is None else delivery._replace(after=chunk.after)

    async def _publish(self, author: int, post: int, withheld: dict[int, int]) -> None:
        """Push a post to the timelines of the author and the followers, or begin a delivery.

        If a timeline is left out, adds the author and their rate to `withheld`.
        """
        followers = np.empty(0, np.int64)
        count = await self._sources.follower_count(author)
        plan = self._plan(count)
        if plan is FanoutPlan.PULL and not await self._may_withhold(author, withheld):
            plan = FanoutPlan.HYBRID
        if plan is FanoutPlan.PUSH:
            followers = await self._recipients(author, await self._sources.followers(author), withheld)
        elif plan is FanoutPlan.PULL:
            withheld[author] = RATE_MAX
        else:
            while not await self._deliveries.begin(Delivery(post, author)):
                await self.work_backlog()
        await self._timelines.push(post, np.append(followers, np.int64(author)))

    def _plan(self, followers: int) -> FanoutPlan:
        """The plan for an author with so many followers. By rates: HYBRID if they are more than one chunk."""
        if isinstance(self._policy, Thresholds):
            return plan_fanout(followers, self._policy)
        return FanoutPlan.PUSH if followers <= self._chunks.size_first else FanoutPlan.HYBRID

    async def _recipients(self, author: int, followers: Ids, withheld: dict[int, int]) -> Ids:
        """The followers who get the author's post pushed. The timelines of the others note that they lack posts.

        If a timeline is left out, adds the author and their rate to `withheld`.
        """
        policy = self._policy
        if isinstance(policy, Thresholds):
            return followers
        rate = rate_of(await self._sources.newest(author, POSTS_LOOKED_AT), self._now_ms())
        if pushes_to_all(rate, policy):
            return followers
        habits = await self._timelines.habits(followers)
        # Another worker may be building a missing timeline, and may have read this author's outbox before this post.
        pushed = worth_pushing(rate, habits.reads, policy) | (habits.reads < 0)
        left_out = followers[~pushed]
        if len(left_out):
            if not await self._may_withhold(author, withheld):
                return followers
            await self._timelines.withhold(rate, left_out)
            withheld[author] = max(rate, withheld.get(author, 0))
        for user in followers[worth_rebuilding(rate, habits, policy)][:_REBUILDS_PER_POST_MAX].tolist():
            await self._build(NodeId(user))
        return followers[pushed]

    async def _may_withhold(self, author: int, withheld: dict[int, int]) -> bool:
        """Whether the author is among the withheld authors, or there is room for one more."""
        known = (await self._state.snapshot()).withheld
        return len(known.authors) + len(withheld) < WITHHELD_MAX or author in withheld or known.rate_of(author) > 0

    async def _build_if_needed(self, user: NodeId) -> None:
        """Build a user's timeline unless they have a good one. If the store is full, their home reads outboxes."""
        timeline = await self._timelines.read(user)
        if timeline is None or timeline.needs_rebuild:
            with contextlib.suppress(StoreFull):
                await self._build(user)

    async def _build(self, user: NodeId) -> None:
        """Build the user's timeline from the outboxes. If the user's follows change meanwhile, try again."""
        for _ in range(_BUILD_TRIES):
            epoch = await self._timelines.begin(user)
            marks = await self._sources.outboxes((await self._sources.authors(user)).tolist(), TIMELINE_IDS_MAX)
            if await self._timelines.put(user, np.array([mark.id for mark in marks], np.int64), epoch):
                break
