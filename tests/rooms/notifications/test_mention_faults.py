"""Mentions while things go wrong: repeated events, changed preferences, removed accounts, a router that is away.

Bob and Carol follow Alice and want her mentions; Dana and others make them. Over each engine.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from notification_world import NotificationWorld
from reference_activity import ReferenceActivity
from reference_leases import own_leases
from store_wrappers import DyingStore, ProcessDied

from kith.core.ids import NodeId, made_at_ms
from kith.core.paging import Window
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.node_jobs import NodeOperation
from kith.notifications import coordinator, walks
from kith.notifications.backpressure import FLAG_MS
from kith.notifications.coordinator import Coordinator
from kith.notifications.mention_consumer import MentionConsumer, MentionOptIns
from kith.notifications.notice import NoticeDraft
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import Preferences
from kith.notifications.recent import RecentMentions
from kith.notifications.rings import Rings
from kith.notifications.router import Router
from kith.notifications.tiers import DAY_MS, Tier
from kith.people.removal import account_jobs
from kith.posts.post import PostEdit
from kith.records.store import RecordKind

HOUR_MS = 3_600_000
FOLLOWERS = (BOB, CAROL)
WANTED = Preferences(mentions="followed")


def as_it_is(store: Any) -> Any:
    return store


class MentionScene:
    """A world, and the workers of the tiers, which notify one follower at a time."""

    def __init__(self, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(coordinator, "SLICE_CHUNKS", 1)
        self.world, self.clock, self.activity = world, world.services.clock, ReferenceActivity()
        self.outcomes = Outcomes(world.whole.records, world.services.graph.clock)
        self.worker = self.process()
        self.spread = MentionConsumer(self.worker)

    def process(self, wrap: Callable[[Any], Any] = as_it_is, **more: Any) -> Coordinator:
        """A worker of all tiers that sees each store through `wrap`."""
        world, graph = self.world, self.world.services.graph
        records, there = wrap(world.whole.records), Graph(wrap(graph.store), graph.graphs, graph.clock)

        async def count(account: int) -> int:
            return len(FOLLOWERS)

        return Coordinator(
            there, wrap(world.inbox), wrap(self.activity), Router(count, 1, self.clock), MentionOptIns(records).wanted,
            own_leases(), self.clock, Outcomes(records, graph.clock).note, Rings(records, graph.clock).ring,
            RecentMentions(records, graph, 1).keep, chunk_ids=1, **more,
        )  # fmt: skip

    async def open(self) -> None:
        """The followers follow Alice, ask for her mentions, and were here an hour ago."""
        for follower in FOLLOWERS:
            await self.world.people.follow(follower, ALICE)
            await self.world.preferences.put(follower, WANTED)
        await self.activity.seen(np.array(FOLLOWERS, np.int64), self.clock.ms - HOUR_MS)
        self.world.whole.settle()

    async def route(self, *, times: int = 1, chance: random.Random | None = None) -> None:
        """Let the router handle all notices `times` times, each in another order, with a chunk of work in between."""
        log = self.world.whole.log
        self.world.whole.settle()
        events = list((await log.read(self.world.log_start, 1_000)).events)
        for _ in range(times):
            if chance is not None:
                chance.shuffle(events)
            await self.spread.handle(events)
            await self.worker.work()

    async def drain(self, worker: Coordinator | None = None) -> None:
        for _ in range(100):
            if not await (worker or self.worker).work():
                return
        raise AssertionError("it never ends")

    async def noticed(self, event: str) -> NodeId:
        """A notice of a mention of Alice that her followers have not got yet."""
        (notice,) = await self.world.notices.notify([NoticeDraft("mention", DANA, ALICE, self.clock.ms, event=event)])
        return notice

    def told(self, notice: int | None = None) -> list[NodeId]:
        """The followers who have rows, of this notice or of any."""
        rows = {user for user, told in self.world.rows.rows if notice in (None, told)}
        return [user for user in FOLLOWERS if user in rows]


@pytest.fixture
def scene(run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch) -> MentionScene:
    found = MentionScene(world, monkeypatch)
    run(found.open())
    return found


async def mention(world: NotificationWorld, *actors: NodeId) -> None:
    for actor in actors:
        await world.services.write(actor, text="look", mentions=(ALICE,))


@pytest.mark.parametrize("seed", range(3))
def test_mentions_that_come_three_times_and_out_of_order_notify_once(run: Run, scene: MentionScene, seed: int) -> None:
    actors = [DANA, NodeId(50), NodeId(51)]

    async def scenario() -> None:
        await mention(scene.world, *actors)
        await scene.world.handle(times=3)
        await scene.route(times=3, chance=random.Random(seed))
        await scene.drain()
        await scene.route(times=3, chance=random.Random(seed))
        await scene.drain()
        told = [notice.id for notice in await scene.world.listed(ALICE) if notice.type == "mention"]
        for follower in FOLLOWERS:
            assert sorted(await scene.world.types_and_actors(follower)) == sorted(
                ("mention", actor) for actor in actors
            )
        for outcomes in await scene.outcomes.of(told):
            assert sum(one.told for one in outcomes) == len(FOLLOWERS), "each row was new once"

    run(scenario())


async def began(scene: MentionScene) -> tuple[NodeId, NodeId]:
    """Start a mention until the first of two followers is notified; return that follower and the other."""
    await mention(scene.world, DANA)
    await scene.world.handle()
    await scene.route()
    for _ in range(20):
        if scene.told():
            break
        assert await scene.worker.work()
    (first,) = scene.told()
    (other,) = {*FOLLOWERS} - {first}
    return first, NodeId(other)


def test_a_follower_who_turns_mentions_off_meanwhile_gets_and_sees_no_more(run: Run, scene: MentionScene) -> None:
    async def scenario() -> None:
        first, _ = await began(scene)
        for follower in FOLLOWERS:
            await scene.world.preferences.put(follower, Preferences())
        await scene.drain()
        assert scene.told() == [first]
        assert [await scene.world.types_and_actors(follower) for follower in FOLLOWERS] == [[], []]
        await scene.world.preferences.put(first, WANTED)
        assert await scene.world.types_and_actors(first) == [("mention", DANA)], "preferences are checked at each look"
        await scene.world.people.unfollow(first, ALICE)
        scene.world.whole.settle()
        assert await scene.world.types_and_actors(first) == [], "a mention of a user whom they do not follow is hidden"

    run(scenario())


@pytest.mark.parametrize("gone", [ALICE, DANA], ids=["whom it names", "who made it"])
def test_an_account_that_goes_during_a_walk_takes_the_mention_with_it(
    run: Run, scene: MentionScene, gone: NodeId
) -> None:
    async def scenario() -> None:
        first, other = await began(scene)
        assert await scene.world.types_and_actors(first) == [("mention", DANA)]
        await scene.world.services.edges.change_node(gone, state=State.REMOVED)
        assert await scene.world.types_and_actors(first) == [], "at once, while its edges are still there"
        jobs = account_jobs(scene.world.services.graph, own_leases())
        await jobs.start(NodeOperation.REMOVE, gone)
        await jobs.wait()
        scene.world.whole.settle()
        await scene.drain()
        for user in (first, other, ALICE):
            assert ("mention", DANA) not in await scene.world.types_and_actors(user)

    run(scenario())


async def _blocked(scene: MentionScene) -> None:
    for follower in FOLLOWERS:
        await scene.world.people.block(follower, DANA)


async def _edited(scene: MentionScene) -> None:
    (post,), _ = await scene.world.posts.outbox(DANA, DANA, Window(1))
    await scene.world.posts.edit(DANA, NodeId(post.id), PostEdit(mentions=()))


async def _deleted(scene: MentionScene) -> None:
    (post,), _ = await scene.world.posts.outbox(DANA, DANA, Window(1))
    await scene.world.posts.delete(DANA, NodeId(post.id))


@pytest.mark.parametrize("act", [_blocked, _edited, _deleted])
def test_a_change_that_hides_a_mention_during_a_walk_hides_it_from_followers(
    run: Run, scene: MentionScene, act: Callable[[MentionScene], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        first, other = await began(scene)
        assert await scene.world.types_and_actors(first) == [("mention", DANA)]
        scene.world.whole.settle()
        await act(scene)
        scene.world.whole.settle()
        assert await scene.world.types_and_actors(first) == [], "at once"
        await scene.drain()
        assert [await scene.world.types_and_actors(follower) for follower in (first, other)] == [[], []]
        assert (await scene.world.notifications.unread(other)).number == 0

    run(scenario())


def test_notices_that_waited_an_hour_for_the_router_keep_their_own_time(run: Run, scene: MentionScene) -> None:
    async def scenario() -> None:
        world, began_ms = scene.world, scene.clock.ms
        await mention(world, DANA)
        post = await world.services.write(ALICE)
        await world.services.engagement.add("likes", DANA, NodeId(post.id))
        scene.clock.ms += HOUR_MS
        assert await world.types_and_actors(ALICE) == []
        await world.handle()
        await scene.route()
        await scene.drain()
        waited: Sequence[tuple[NodeId, str]] = [
            (ALICE, "mention"),
            (ALICE, "like"),
            (BOB, "mention"),
            (CAROL, "mention"),
        ]
        for user, kind in waited:
            (notice,) = [one for one in await world.listed(user) if (one.type, one.actor) == (kind, DANA)]
            assert began_ms <= notice.at_ms < began_ms + HOUR_MS <= made_at_ms(notice.id)

    run(scenario())


def test_the_next_worker_finishes_what_one_that_stops_at_any_call_left(run: Run, scene: MentionScene) -> None:
    async def scenario() -> None:
        scene.clock.ms += 2 * DAY_MS  # only the last tier notifies them, so no other makes up for gaps
        for stops in itertools.count(1, 3):
            notice, left = await scene.noticed(f"{stops}"), [stops]
            dying = scene.process(partial(DyingStore, left=left))
            try:
                await dying.begin(notice, ALICE)
                await scene.drain(dying)
            except ProcessDied:
                await scene.worker.begin(notice, ALICE)  # the event comes again
                await scene.drain()
            assert scene.told(notice) == [*FOLLOWERS], f"stopped at step {stops}"
            assert await scene.world.whole.records.get_many(RecordKind.MENTION_RING, [notice]) != [None]
            if left[0] > 0:
                assert stops > 60
                return

    run(scenario())


def test_the_last_tier_yields_while_a_flag_stands_whoever_raised_it(run: Run, scene: MentionScene) -> None:
    async def scenario() -> None:
        await scene.activity.seen(np.array([CAROL], np.int64), scene.clock.ms - HOUR_MS)
        await scene.activity.seen(np.array([BOB], np.int64), scene.clock.ms)
        scene.clock.ms += 2 * DAY_MS  # both belong to the last tier by now
        pressed = scene.process(tasks_max=1)
        yielded = await scene.noticed("too much waits")
        await pressed.begin(yielded, ALICE)
        await scene.drain(pressed)
        del pressed  # the worker that raised the flag is gone; the flag stands
        after = await scene.noticed("little waits")
        await scene.worker.begin(after, ALICE)
        await scene.drain()
        assert (scene.told(yielded), scene.told(after)) == ([], [])
        left = [
            [(one.tier, one.left) for one in tiers if one.left] for tiers in await scene.outcomes.of([yielded, after])
        ]
        assert left == [[(Tier.MONTH, 2)]] * 2, "they are left to pull it when they look"
        scene.clock.ms += FLAG_MS
        later = await scene.noticed("and it falls by itself")
        await scene.worker.begin(later, ALICE)
        await scene.drain()
        assert scene.told(later) == [*FOLLOWERS]

    run(scenario())


def test_a_storm_in_the_last_tier_blocks_no_other_and_hides_nothing(
    run: Run, scene: MentionScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob is online, Carol was here two days ago. Nobody works the last tier. It has room for two of five mentions."""
    monkeypatch.setattr(walks, "WALKS_MAX", 2)
    actors = [NodeId(one) for one in range(50, 55)]

    async def scenario() -> None:
        scene.clock.ms += 2 * DAY_MS
        await scene.activity.set_online("api", np.array([BOB], np.int64), scene.clock.ms + HOUR_MS)
        await mention(scene.world, *actors)
        await scene.world.handle()
        storm = [notice.id for notice in await scene.world.listed(ALICE) if notice.type == "mention"]
        first, last = scene.process(tiers=(Tier.ONLINE, Tier.DAY)), scene.process(tiers=(Tier.MONTH,))
        for notice in storm:
            await first.begin(notice, ALICE)
            await scene.drain(first)
            assert scene.told(notice) == [BOB]
        left = [sum(one.left for one in tiers) for tiers in await scene.outcomes.of(storm)]
        assert left == [0, 0, 2, 2, 2], "chunks of mentions without room are counted as left"
        await scene.drain(last)
        assert [scene.told(notice) for notice in storm] == [[BOB, CAROL]] * 2 + [[BOB]] * 3
        for follower in FOLLOWERS:
            assert sorted(await scene.world.types_and_actors(follower)) == [("mention", actor) for actor in actors]
        assert [scene.told(notice) for notice in storm] == [[*FOLLOWERS]] * 5, "the rows that Carol pulled are stored"

    run(scenario())
