"""Fan-out: brings new posts into the timelines of followers, and drops timelines that are no longer true.

Timelines exist for those who read lately, so a push to all of an author's followers reaches the active ones and costs
nothing for the others: they have theirs built when they come. Every event may be handled again: a post that is pushed
twice counts once, and a timeline that was dropped is merely built again.

Limit: nothing is taken out of a timeline or put in between. Whatever changes a home otherwise than by a new post drops
the timeline (see `Fanout.handle`); until fan-out has built another, homes read outboxes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from kith.core.clock import wall_ms
from kith.core.errors import StoreFull
from kith.core.events import BULK_LOADED, NORMAL, TIMELINE_WANTED, Event
from kith.core.ids import NodeId
from kith.core.together import together
from kith.graph.edge import State
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.graph.shapes import Chunk, Ids
from kith.home.fanout.deliveries import WITHHELD_MAX, Chunks, Deliveries
from kith.home.fanout.plan import FanoutPlan, Thresholds, plan_fanout
from kith.home.fanout.rates import POSTS_LOOKED_AT, ByRates, pushed_to_all, rate_of, worth_pushing, worth_rebuilding
from kith.home.fanout.state import Delivery, FanoutState
from kith.home.skeleton.sources import Sources
from kith.home.timelines import RATE_MAX, TIMELINE_IDS_MAX, TimelineStore
from kith.leases.holding import Leases

NAME = "fanout"
_BUILD_TRIES = 3
"""How often a timeline is built that changes meanwhile; then its user asks again."""
_REBUILDS_PER_POST_MAX = 10
"""Timelines rebuilt for one post, some milliseconds each; those of other readers are rebuilt for a later post."""


class Fanout:
    """The consumer of the event log that writes timelines. Several may, each with a share of the log's partitions."""

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
        self._checkpoint_s = 0.0  # when the one that is being made was last noted
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Bring the timelines up to date with the events.

        - A new post is pushed, or begun as a delivery, or withheld: see `plan` and `rates`.
        - A follow or an unfollow drops the follower's timeline; so does a follow that moves in the list of followers,
          where a delivery may miss it.
        - A deleted post changes nothing: its id stays, and the rules keep it out of homes.
        - A post that leaves with its author drops the author's timeline; the rules keep it out of other homes.
        - A post that comes back with its author drops the timelines of the author and of all who follow them by then;
          the timeline of who follows them again later is dropped by that follow.
        - A reader's wish (TIMELINE_WANTED) builds their timeline, if they have none or it needs a rebuild.
        - A bulk load drops all timelines.
        """
        withheld: dict[int, int] = {}
        returned: set[int] = set()
        outdated: set[int] = set()  # dropped in one call, unless a timeline is built in between
        for event in events:
            if event.state == BULK_LOADED:
                await self.lost()
            elif event.state == TIMELINE_WANTED:
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
        """Push the oldest delivery to its next chunk of followers; true if more is to deliver.

        One that fails goes behind the others, and the error is raised.
        """
        delivery = await self._deliveries.first()
        if delivery is None:
            return False
        started = time.perf_counter()
        if delivery.after is None:
            self._checkpoint_s = started
        reading = self._sources.followers_chunk(delivery.author, delivery.after, self._chunk_size)
        try:
            chunk, ours = await together(self._state.immediate, reading, self._deliveries.hold())
            if not ours:
                return self._deliveries.more
            advanced = await self._push_chunk(delivery, chunk, started)
        except Exception:
            await self._deliveries.put_behind(delivery)
            raise
        if advanced is None:
            await self._deliveries.end()
            return self._deliveries.more
        now_s = time.perf_counter()
        saved = now_s - self._checkpoint_s >= self._chunks.checkpoint_s
        await self._deliveries.advance(advanced, saved=saved)
        if saved:
            self._checkpoint_s = now_s
        return True

    async def claim(self) -> None:
        """Drop the timelines unless they are this store's: nobody knows what those of another store miss."""
        if await self._timelines.name() != (await self._state.snapshot()).name:
            await self._timelines.rename()
            await self.lost()

    async def lost(self) -> None:
        """Drop every timeline, as each may miss something, and all deliveries."""
        await self._timelines.clear()
        await self._state.begin_anew(await self._timelines.name())
        await self._deliveries.drop()

    async def close(self) -> None:
        """Leave what is under way to other workers."""
        await self._deliveries.close()

    async def _drop(self, outdated: set[int]) -> None:
        """Drop these timelines, and forget which they were."""
        if outdated:
            await self._timelines.drop(np.fromiter(outdated, np.int64))
            outdated.clear()

    async def _drop_with_followers(self, author: int) -> None:
        """Drop the timelines of an author and of those who follow by now."""
        await self._timelines.drop(np.array([author], np.int64))
        after: bytes | None = None
        while True:
            chunk = await self._sources.followers_chunk(author, after, self._chunks.size_first)
            await self._timelines.drop(chunk.ids)
            after = chunk.after
            if after is None:
                break

    async def _push_chunk(self, delivery: Delivery, chunk: Chunk, started: float) -> Delivery | None:
        """Push a delivery to a chunk of followers; how far it is then; None: all of them have it.

        `started`: when the chunk was begun to be read.

        Followers who came since the delivery began need no push: their timeline was dropped, and is built with the
        post.
        """
        withheld: dict[int, int] = {}
        pushed_to = await self._pushed_to(delivery.author, chunk.ids, withheld)
        if withheld:
            await self._state.withhold(withheld)
        await self._timelines.push(delivery.post, pushed_to)
        self._chunk_size = self._chunks.next_size(self._chunk_size, time.perf_counter() - started)
        return None if chunk.after is None else delivery._replace(after=chunk.after)

    async def _publish(self, author: int, post: int, withheld: dict[int, int]) -> None:
        """Bring a post to the timelines of the author and the followers, or begin to.

        Where a timeline is left out, the author and their rate are added to `withheld`.
        """
        followers = np.empty(0, np.int64)
        count = await self._sources.follower_count(author)
        plan = self._plan(count)
        if plan is FanoutPlan.PULL and not await self._may_withhold(author, withheld):
            plan = FanoutPlan.HYBRID
        if plan is FanoutPlan.PUSH:
            followers = await self._pushed_to(author, await self._sources.followers(author), withheld)
        elif plan is FanoutPlan.PULL:
            withheld[author] = RATE_MAX
        else:
            while not await self._deliveries.begin(Delivery(post, author)):
                await self.work_backlog()
        await self._timelines.push(post, np.append(followers, np.int64(author)))

    def _plan(self, followers: int) -> FanoutPlan:
        """The plan for an author with so many followers; by rates, whether they are more than one chunk."""
        if isinstance(self._policy, Thresholds):
            return plan_fanout(followers, self._policy)
        return FanoutPlan.PUSH if followers <= self._chunks.size_first else FanoutPlan.HYBRID

    async def _pushed_to(self, author: int, followers: Ids, withheld: dict[int, int]) -> Ids:
        """Those of the followers to whom the author's post is pushed; the timelines of the others note what they lack.

        Where one is left out, the author and their rate are added to `withheld`.
        """
        policy = self._policy
        if isinstance(policy, Thresholds):
            return followers
        rate = rate_of(await self._sources.newest(author, POSTS_LOOKED_AT), self._now_ms())
        if pushed_to_all(rate, policy):
            return followers
        habits = await self._timelines.habits(followers)
        # Who has no timeline may be getting one from another worker, which has read this author's outbox already.
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
        """Whether the author is on the list of those who withhold, or there is room for one more."""
        known = (await self._state.snapshot()).withheld
        return len(known.authors) + len(withheld) < WITHHELD_MAX or author in withheld or known.rate_of(author) > 0

    async def _build_if_needed(self, user: NodeId) -> None:
        """Build a user's timeline unless a good one is there. Where there is no room for it their homes do without."""
        timeline = await self._timelines.read(user)
        if timeline is None or timeline.needs_rebuild:
            with contextlib.suppress(StoreFull):
                await self._build(user)

    async def _build(self, user: NodeId) -> None:
        """Give the user a timeline of what the outboxes hold now.

        Where it is given up, as the user's follows changed meanwhile, another try reads what they are now.
        """
        for _ in range(_BUILD_TRIES):
            epoch = await self._timelines.begin(user)
            marks = await self._sources.outboxes((await self._sources.authors(user)).tolist(), TIMELINE_IDS_MAX)
            if await self._timelines.put(user, np.array([mark.id for mark in marks], np.int64), epoch):
                break
