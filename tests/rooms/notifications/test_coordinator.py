"""A celebrity's mention: which tier notifies whom, each once, whichever worker stops, repeats or yields."""

from __future__ import annotations

import asyncio
import itertools
import random

import msgspec
import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from celebrity_scene import (
    FOLLOWERS,
    HOUR_MS,
    NOTIFIED,
    ONLINE,
    THIS_MONTH,
    TIERS,
    TODAY,
    UNWILLING,
    CelebrityScene,
    drain,
)
from coroutines import Run
from notification_world import NotificationWorld
from reference_activity import ReferenceActivity
from reference_leases import own_leases
from store_wrappers import DyingStore, ProcessDied, RemoteStore

from kith.core.ids import TIME_SHIFT
from kith.notifications import coordinator
from kith.notifications.mention_consumer import MentionConsumer, coordinator_over
from kith.notifications.outcomes import Outcomes, TierOutcome
from kith.notifications.preferences import Preferences
from kith.notifications.router import COUNT_CACHED_MS, Router, route
from kith.notifications.tiers import DAY_MS, Tier
from kith.notifications.walks import EndedWalk, Walk, Walks


@pytest.mark.parametrize(
    ("followers", "tiers"), [(0, (Tier.ALL,)), (999_999, (Tier.ALL,)), (1_000_000, TIERS), (2 * 10**8, TIERS)]
)
def test_tiers_are_used_from_the_threshold_on(followers: int, tiers: tuple[Tier, ...]) -> None:
    assert route(followers, 1_000_000) == tiers


def test_the_number_of_followers_is_cached_for_five_minutes(run: Run) -> None:
    counts, clock = iter([5, 50]), FakeClock()

    async def count(account: int) -> int:
        return next(counts)

    router = Router(count, 10, clock)
    assert run(router.route(ALICE)) == run(router.route(ALICE)) == (Tier.ALL,)
    clock.ms += COUNT_CACHED_MS
    assert run(router.route(ALICE)) == TIERS


def test_each_tier_notifies_its_own_followers_once_and_nobody_else(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        expected = set[int]()
        await stage.worker().begin(stage.notice, ALICE)
        for tier, more in zip(TIERS, (ONLINE, TODAY, THIS_MONTH), strict=True):
            expected |= {*more} - UNWILLING
            await drain(stage.worker(tiers=[tier]))
            assert stage.notified() == expected
        assert [ended.walk.tier for ended in stage.ended] == list(TIERS)
        assert [ended.walk.told for ended in stage.ended] == [2, 11, 24]
        assert [ended.walk.suppressed for ended in stage.ended] == [1, 2, 3]
        assert all(ended.left == 0 and ended.walk.done == ended.walk.chunks for ended in stage.ended)
        assert [ended.walk.probes for ended in stage.ended] == [True, False, False]

    run(main())


@pytest.mark.parametrize("a_chunk", [2, 100])
def test_online_followers_are_notified_alike_by_lookups_and_by_a_walk_over_all(
    run: Run, monkeypatch: pytest.MonkeyPatch, a_chunk: int
) -> None:
    async def main() -> None:
        for cost, probes in ((1, True), (100, False)):
            monkeypatch.setattr(coordinator, "PROBE_COST", cost)
            monkeypatch.setattr(coordinator, "PROBES_A_CHUNK", a_chunk)
            stage = await CelebrityScene.set_up()
            strangers = np.array([*ONLINE, *range(1_000, 1_020)], np.int64)
            await stage.activity.set_online("api", strangers, stage.clock.ms + HOUR_MS)
            worker = stage.worker(tiers=[Tier.ONLINE])
            await worker.begin(stage.notice, ALICE)
            await drain(worker)
            assert stage.notified() == {*ONLINE} - UNWILLING
            assert [(ended.walk.probes, ended.walk.suppressed) for ended in stage.ended] == [(probes, 1)]

    run(main())


def test_below_the_threshold_all_followers_who_want_it_are_notified(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up(threshold=1_000)
        worker = stage.worker()
        await worker.begin(stage.notice, ALICE)
        await drain(worker)
        assert stage.notified() == {*FOLLOWERS} - UNWILLING

    run(main())


def test_the_next_process_finishes_exactly_what_one_that_stops_at_any_call_left(run: Run) -> None:
    async def main() -> None:
        for stops in itertools.count(1):
            stage = await CelebrityScene.set_up()
            left = [stops]
            stage.wrap = lambda store, left=left: DyingStore(store, left)
            worker = stage.worker()
            try:
                await worker.begin(stage.notice, ALICE)
                await drain(worker)
            except ProcessDied:
                stage.wrap = lambda store: store
                worker = stage.worker()
                await worker.begin(stage.notice, ALICE)  # the event comes again
                await drain(worker)
            assert stage.notified() == NOTIFIED, f"stopped at step {stops}"
            assert {user for user, _ in stage.rung} == NOTIFIED, f"stopped at step {stops}"
            assert {user for user, devices in stage.rung if devices} == {*ONLINE, *TODAY} - UNWILLING
            if left[0] > 0:
                assert stops > 100
                return

    run(main())


def test_an_old_mention_that_is_replayed_after_a_restore_rings_nowhere(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        stage.notice -= DAY_MS << TIME_SHIFT
        worker = stage.worker()
        await worker.begin_untiered(stage.notice, ALICE)
        await drain(worker)
        assert (stage.notified(), stage.rung) == ({*FOLLOWERS} - UNWILLING, [])

    run(main())


def test_a_mention_that_comes_three_times_to_racing_workers_notifies_each_once(run: Run) -> None:
    async def main() -> None:
        for seed in range(5):
            stage = await CelebrityScene.set_up()
            chance = random.Random(seed)
            stage.wrap = lambda store, chance=chance: RemoteStore(store, chance)
            workers = [stage.worker() for _ in range(3)]
            await asyncio.gather(*(worker.begin(stage.notice, ALICE) for worker in workers))
            await asyncio.gather(*(drain(worker) for worker in workers))
            assert stage.notified() == NOTIFIED
            assert sorted(ended.walk.tier for ended in stage.ended) == list(TIERS), "each tier was ended by one of them"

    run(main())


def test_a_worker_that_was_overtaken_does_not_undo_a_step_or_end_of_a_walk(run: Run) -> None:
    async def scene() -> None:
        stage = await CelebrityScene.set_up()
        kept, walk = Walks(stage.services.edges), Walk(stage.notice, ALICE, Tier.DAY, 3)
        assert await kept.begin([walk]) == []
        further = msgspec.structs.replace(walk, done=1, told=7)
        assert await kept.step(walk, further)
        assert not await kept.step(walk, msgspec.structs.replace(walk, done=1, told=6))
        assert await kept.current(walk) == further
        assert await kept.step(further, None)
        assert not await kept.step(further, msgspec.structs.replace(further, done=2))
        assert await kept.current(walk) is None

    run(scene())


def test_a_follower_who_leaves_or_comes_between_two_tiers_is_notified(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        nobody = np.empty(0, np.int64)
        await stage.activity.set_online("api", nobody, stage.clock.ms + HOUR_MS)
        await stage.worker().begin(stage.notice, ALICE)
        await drain(stage.worker(tiers=[Tier.ONLINE]))
        assert stage.notified() == set()
        await stage.activity.set_online("api", np.array([155, 112], np.int64), stage.clock.ms + HOUR_MS)
        await drain(stage.worker(tiers=[Tier.DAY]))
        assert stage.notified() == {*TODAY, 155} - UNWILLING

    run(main())


def test_followers_who_want_mentions_are_notified_and_read_them(run: Run, world: NotificationWorld) -> None:
    """Bob follows Alice and wants her mentions; Carol follows her and set no preference. Dana mentions her."""

    async def main() -> None:
        services, everything = world.services, Preferences(mentions="followed")
        for follower in (BOB, CAROL):
            await world.people.follow(follower, ALICE)
        await world.preferences.put(BOB, everything)
        await world.preferences.put(DANA, everything)
        await world.people.follow(DANA, ALICE)

        async def end(ended: EndedWalk) -> None:
            ends.append(ended)

        ends = list[EndedWalk]()
        worker = coordinator_over(
            services.graph, world.whole.records, world.inbox, ReferenceActivity(), own_leases(), services.clock, end,
            celebrity_followers_min=1_000_000, tiers=(),
        )  # fmt: skip
        spread = MentionConsumer(worker)
        start = await world.whole.log.end()
        at_ms = services.clock.ms
        assert await world.external_mentions.accept("an event", DANA, ALICE, None, at_ms)
        world.whole.settle()
        batch = await world.whole.log.read(start, 100)
        for process in (spread, spread, MentionConsumer(worker), MentionConsumer(worker)):
            await process.handle(batch.events)
        assert await spread.work_backlog() is False
        (notice,) = {ended.walk.notice for ended in ends}
        outcomes = await Outcomes(world.whole.records, services.graph.clock).of([notice, notice + 1])
        assert [ended.walk.told for ended in ends] == [1, 0, 0]
        assert outcomes == [[TierOutcome(Tier.ALL, 1, 2)], []], "a repetition changes no outcome"
        assert ("mention", DANA) in await world.types_and_actors(ALICE)
        assert await world.types_and_actors(BOB) == [("mention", DANA)]
        assert await world.types_and_actors(CAROL) == []
        assert ("mention", DANA) not in await world.types_and_actors(DANA), "the actor is not notified"

    run(main())


def test_a_first_follower_is_notified_though_the_account_had_none_a_moment_ago(
    run: Run, world: NotificationWorld
) -> None:
    """The number of followers is looked up once in five minutes, and it was 0."""

    async def main() -> None:
        services = world.services

        async def end(_: EndedWalk) -> None: ...

        worker = coordinator_over(
            services.graph, world.whole.records, world.inbox, ReferenceActivity(), own_leases(), services.clock, end,
            celebrity_followers_min=1_000_000, tiers=(),
        )  # fmt: skip
        spread, at = MentionConsumer(worker), await world.whole.log.end()
        await world.preferences.put(CAROL, Preferences(mentions="followed"))
        for number in range(2):
            assert await world.external_mentions.accept(f"event {number}", DANA, ALICE, None, services.clock.ms)
            world.whole.settle()
            batch = await world.whole.log.read(at, 100)
            await spread.handle(batch.events)
            at = batch.next
            await world.people.follow(CAROL, ALICE)
            services.clock.ms += 60_000
        assert await world.types_and_actors(CAROL) == [("mention", DANA)]

    run(main())


def test_a_mention_is_found_though_only_one_process_saw_the_account_become_a_celebrity(
    run: Run, world: NotificationWorld
) -> None:
    """Two followers make a celebrity. Intake counted one a minute ago; the worker that notifies them counts two."""

    async def main() -> None:
        services = world.services

        async def end(_: EndedWalk) -> None: ...

        await world.people.follow(BOB, ALICE)
        assert await world.external_mentions.accept("before", DANA, ALICE, None, services.clock.ms)
        await world.people.follow(CAROL, ALICE)
        await world.preferences.put(CAROL, Preferences(mentions="followed"))
        services.clock.ms += 60_000
        at = await world.whole.log.end()
        assert await world.external_mentions.accept("an event", DANA, ALICE, None, services.clock.ms)
        world.whole.settle()
        worker = coordinator_over(
            services.graph, world.whole.records, world.inbox, ReferenceActivity(), own_leases(), services.clock, end,
            celebrity_followers_min=2, tiers=TIERS,
        )  # fmt: skip
        await MentionConsumer(worker).handle((await world.whole.log.read(at, 100)).events)
        await drain(worker)
        assert await world.types_and_actors(CAROL) == [("mention", DANA)], "no tier notifies her, as she was never here"

    run(main())
