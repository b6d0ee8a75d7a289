"""A celebrity's mention: who is told in which tier, each once, whoever stops, comes twice or yields."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from desk import Desk
from distant import Distant, Stopped, Stopping
from reference_activity import ReferenceActivity
from reference_inbox import ReferenceInboxes
from reference_leases import ReferenceLeases, own_leases
from services import Services

from kith.core.clock import hlc_of
from kith.core.errors import Overloaded
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.leases.holding import Leases
from kith.notifications import coordinator, walks
from kith.notifications.activity import Users
from kith.notifications.backpressure import FLAG_MS
from kith.notifications.coordinator import Coordinator
from kith.notifications.outcomes import Outcomes, TierOutcome
from kith.notifications.preferences import Preferences
from kith.notifications.router import COUNT_KEPT_MS, Router, route
from kith.notifications.spread import Spread, coordinator_over
from kith.notifications.tiers import DAY_MS, MONTH_MS, Tier
from kith.notifications.walks import Ended, Walk, Walks

FOLLOWERS = range(100, 160)
ONLINE, LATELY, MONTH, AWAY = range(100, 103), range(103, 115), range(115, 140), range(140, 160)
UNWILLING = {101, 110, 120}
CHUNK = 7
HOUR_MS = 3_600_000
TIERS = (Tier.ONLINE, Tier.DAY, Tier.MONTH)
TOLD = {*ONLINE, *LATELY, *MONTH} - UNWILLING


class Stage:
    """Alice and her followers, and what outlives a process."""

    def __init__(self, services: Services, threshold: int = 10) -> None:
        self.services, self.clock, self.threshold = services, services.clock, threshold
        self.inboxes, self.activity = ReferenceInboxes(), ReferenceActivity()
        self.ended: list[Ended] = []
        self.rung: list[tuple[int, bool]] = []
        self.leases = ReferenceLeases(self.clock)
        self.notice = (self.clock.ms - EPOCH_MS) << TIME_SHIFT
        self.wrap: Any = lambda store: store

    @classmethod
    async def set_up(cls, **more: int) -> Stage:
        clock = FakeClock()
        stage = cls(await Services.in_memory(clock=clock), **more)
        number, version = stage.services.graph.graphs.number(FOLLOWS), hlc_of(clock.ms)
        edges = [Edge(number, NodeId(one), ALICE, State.NORMAL, clock.ms + one, version) for one in FOLLOWERS]
        await stage.services.edges.apply([EdgeWrite(edge) for edge in edges])
        now = clock.ms
        await stage.activity.set_online("api", np.array(ONLINE, np.int64), now + HOUR_MS)
        await stage.activity.seen(np.array(LATELY, np.int64), now - HOUR_MS)
        await stage.activity.seen(np.array(MONTH, np.int64), now - DAY_MS - HOUR_MS)
        await stage.activity.seen(np.array(AWAY, np.int64), now - MONTH_MS - HOUR_MS)
        return stage

    def worker(self, **more: Any) -> Coordinator:
        """A process."""

        async def wanted(notice: int, account: int, users: Users) -> Any:
            assert (notice, account) == (self.notice, ALICE)
            return np.array([user not in UNWILLING for user in users.tolist()], np.bool_)

        async def count(account: int) -> int:
            return len(FOLLOWERS)

        graph = self.services.graph
        there = type(graph)(self.wrap(graph.store), graph.graphs, graph.clock)
        return Coordinator(
            there,
            self.wrap(self.inboxes),
            self.wrap(self.activity),
            Router(count, self.threshold, self.clock),
            wanted,
            Leases(self.leases),
            self.clock,
            self.end,
            self.ring,
            **{"chunk_ids": CHUNK, **more},
        )

    async def end(self, ended: Ended) -> None:
        self.ended.append(ended)

    async def ring(self, notice: int, users: Users, *, devices: bool) -> None:
        assert {(user, notice) for user in users.tolist()} <= set(self.inboxes.rows), "rows come first"
        self.rung += [(user, devices) for user in users.tolist()]

    def told(self) -> set[int]:
        """Who has a row of the notice."""
        assert {notice for _, notice in self.inboxes.rows} <= {self.notice}
        return {user for user, _ in self.inboxes.rows}


async def drained(worker: Coordinator) -> None:
    for _ in range(200):
        if not await worker.work():
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("followers", "tiers"), [(0, (Tier.ALL,)), (999_999, (Tier.ALL,)), (1_000_000, TIERS), (2 * 10**8, TIERS)]
)
def test_the_tiers_begin_at_the_threshold(followers: int, tiers: tuple[Tier, ...]) -> None:
    assert route(followers, 1_000_000) == tiers


def test_the_number_of_followers_is_looked_up_once_in_five_minutes(run: Run) -> None:
    counts, clock = iter([5, 50]), FakeClock()

    async def count(account: int) -> int:
        return next(counts)

    router = Router(count, 10, clock)
    assert run(router.route(ALICE)) == run(router.route(ALICE)) == (Tier.ALL,)
    clock.ms += COUNT_KEPT_MS
    assert run(router.route(ALICE)) == TIERS


def test_each_tier_tells_its_own_once_and_the_rest_is_told_nothing(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        expected = set[int]()
        await stage.worker().begin(stage.notice, ALICE)
        for tier, more in zip(TIERS, (ONLINE, LATELY, MONTH), strict=True):
            expected |= {*more} - UNWILLING
            await drained(stage.worker(tiers=[tier]))
            assert stage.told() == expected
        assert [ended.walk.tier for ended in stage.ended] == list(TIERS)
        assert [ended.walk.told for ended in stage.ended] == [2, 11, 24]
        assert [ended.walk.suppressed for ended in stage.ended] == [1, 2, 3]
        assert all(ended.left == 0 and ended.walk.done == ended.walk.chunks for ended in stage.ended)
        assert [ended.walk.probes for ended in stage.ended] == [True, False, False]

    run(main())


@pytest.mark.parametrize("a_chunk", [2, 100])
def test_who_is_online_is_told_alike_whether_they_are_looked_up_or_all_followers_are_walked(
    run: Run, monkeypatch: pytest.MonkeyPatch, a_chunk: int
) -> None:
    async def main() -> None:
        for cost, probes in ((1, True), (100, False)):
            monkeypatch.setattr(coordinator, "PROBE_COST", cost)
            monkeypatch.setattr(coordinator, "PROBES_A_CHUNK", a_chunk)
            stage = await Stage.set_up()
            strangers = np.array([*ONLINE, *range(1_000, 1_020)], np.int64)
            await stage.activity.set_online("api", strangers, stage.clock.ms + HOUR_MS)
            worker = stage.worker(tiers=[Tier.ONLINE])
            await worker.begin(stage.notice, ALICE)
            await drained(worker)
            assert stage.told() == {*ONLINE} - UNWILLING
            assert [(ended.walk.probes, ended.walk.suppressed) for ended in stage.ended] == [(probes, 1)]

    run(main())


def test_below_the_threshold_all_followers_who_want_it_are_told(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up(threshold=1_000)
        worker = stage.worker()
        await worker.begin(stage.notice, ALICE)
        await drained(worker)
        assert stage.told() == {*FOLLOWERS} - UNWILLING

    run(main())


def test_a_process_that_stops_at_any_call_leaves_what_the_next_one_finishes_exactly(run: Run) -> None:
    async def main() -> None:
        for stops in itertools.count(1):
            stage = await Stage.set_up()
            left = [stops]
            stage.wrap = lambda store, left=left: Stopping(store, left)
            worker = stage.worker()
            try:
                await worker.begin(stage.notice, ALICE)
                await drained(worker)
            except Stopped:
                stage.wrap = lambda store: store
                worker = stage.worker()
                await worker.begin(stage.notice, ALICE)  # the event comes again
                await drained(worker)
            assert stage.told() == TOLD, f"stopped at step {stops}"
            assert {user for user, _ in stage.rung} == TOLD, f"stopped at step {stops}"
            assert {user for user, devices in stage.rung if devices} == {*ONLINE, *LATELY} - UNWILLING
            if left[0] > 0:
                assert stops > 100
                return

    run(main())


def test_a_mention_of_long_ago_that_is_told_again_after_a_restore_rings_nowhere(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        stage.notice -= DAY_MS << TIME_SHIFT
        worker = stage.worker()
        await worker.begin_again(stage.notice, ALICE)
        await drained(worker)
        assert (stage.told(), stage.rung) == ({*FOLLOWERS} - UNWILLING, [])

    run(main())


def test_a_mention_that_comes_three_times_to_workers_who_race_tells_each_once(run: Run) -> None:
    async def main() -> None:
        for seed in range(5):
            stage = await Stage.set_up()
            chance = random.Random(seed)
            stage.wrap = lambda store, chance=chance: Distant(store, chance)
            workers = [stage.worker() for _ in range(3)]
            await asyncio.gather(*(worker.begin(stage.notice, ALICE) for worker in workers))
            await asyncio.gather(*(drained(worker) for worker in workers))
            assert stage.told() == TOLD
            assert sorted(ended.walk.tier for ended in stage.ended) == list(TIERS), "one of them ended each"

    run(main())


def test_a_worker_that_was_overtaken_puts_no_walk_back_that_went_on_or_ended(run: Run) -> None:
    async def scene() -> None:
        stage = await Stage.set_up()
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


def test_who_leaves_or_comes_between_two_tiers_is_told(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        nobody = np.empty(0, np.int64)
        await stage.activity.set_online("api", nobody, stage.clock.ms + HOUR_MS)
        await stage.worker().begin(stage.notice, ALICE)
        await drained(stage.worker(tiers=[Tier.ONLINE]))
        assert stage.told() == set()
        await stage.activity.set_online("api", np.array([155, 112], np.int64), stage.clock.ms + HOUR_MS)
        await drained(stage.worker(tiers=[Tier.DAY]))
        assert stage.told() == {*LATELY, 155} - UNWILLING

    run(main())


def test_under_pressure_the_last_tier_yields_and_the_others_do_not(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        worker = stage.worker(tasks_max=5)
        await worker.begin(stage.notice, ALICE)
        await drained(worker)
        assert stage.told() == {*ONLINE, *LATELY} - UNWILLING
        chunks = -(-len(FOLLOWERS) // CHUNK)
        assert [ended.left for ended in stage.ended] == [0, 0, chunks]
        stage.notice += 1
        del worker  # who raised the flag is gone; it stands, and falls by itself
        stage.inboxes.rows.clear()
        await stage.worker().begin(stage.notice, ALICE)
        await drained(stage.worker())
        assert stage.told() == {*ONLINE, *LATELY} - UNWILLING
        stage.clock.ms += FLAG_MS
        stage.notice += 1
        stage.inboxes.rows.clear()
        await stage.worker().begin(stage.notice, ALICE)
        await drained(stage.worker())
        assert stage.told() == TOLD

    run(main())


def test_too_many_mentions_at_once_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        monkeypatch.setattr(walks, "WALKS_MAX", 2)
        worker = stage.worker()
        for more in range(2):
            await worker.begin(stage.notice + more, ALICE)
        await worker.begin(stage.notice, ALICE)
        with pytest.raises(Overloaded):
            await worker.begin(stage.notice + 2, ALICE)

    run(main())


class Counts:
    """A store that counts what is asked of it."""

    def __init__(self, store: Any, calls: list[str]) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        self._calls.append(name)
        return getattr(self._store, name)


def test_a_last_tier_that_is_full_changes_nothing_for_the_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody works the last tier. Each of the other tiers tells its own, with the same calls as where there is room."""

    async def calls_of(walks_max: int) -> tuple[list[list[str]], list[Ended]]:
        stage = await Stage.set_up()
        monkeypatch.setattr(walks, "WALKS_MAX", walks_max)
        made, first, full = list[list[str]](), stage.notice, list[Ended]()
        for more in range(5):
            stage.notice = first + more
            await stage.worker(tiers=()).begin(stage.notice, ALICE)
            for tier, told in ((Tier.ONLINE, ONLINE), (Tier.DAY, {*ONLINE, *LATELY})):
                calls = list[str]()
                stage.wrap = lambda store, calls=calls: Counts(store, calls)
                await drained(stage.worker(tiers=[tier]))
                stage.wrap = lambda store: store
                made.append(calls)
                assert stage.told() == {*told} - UNWILLING
            stage.inboxes.rows.clear()
            full = [ended for ended in stage.ended if ended.left]
        return made, full

    async def main() -> None:
        roomy, none_left = await calls_of(100)
        crowded, left = await calls_of(2)
        assert crowded == roomy
        assert not none_left
        assert [ended.walk.tier for ended in left] == [Tier.MONTH] * 3, "they are counted as left to pull"

    run(main())


def test_workers_of_a_tier_divide_its_mentions(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        calls, chance = list[str](), random.Random(3)
        await stage.worker().begin(stage.notice, ALICE)
        stage.wrap = lambda store: Counts(Distant(store, chance), calls)
        await asyncio.gather(*(drained(stage.worker()) for _ in range(3)))
        assert stage.told() == TOLD
        chunks = -(-len(FOLLOWERS) // CHUNK)
        assert (calls.count("chunk"), calls.count("contains")) == (chunks * 2, 1), "none was read twice"

    run(main())


def test_a_mention_of_few_waits_for_no_mention_of_millions(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        await stage.worker(chunk_ids=1).begin(stage.notice, ALICE)
        large, stage.notice, stage.threshold = stage.notice, stage.notice + 1, 1_000
        await stage.worker(chunk_ids=20).begin(stage.notice, ALICE)
        small = stage.worker(chunk_ids=20, tiers=[Tier.DAY, Tier.ALL])
        assert await small.work()
        assert {notice for _, notice in stage.inboxes.rows} == {stage.notice} != {large}

    run(main())


def test_a_mention_that_fails_again_and_again_is_dead_and_holds_up_no_other(run: Run) -> None:
    async def main() -> None:
        stage = await Stage.set_up()
        failing, working = stage.worker(tiers=[Tier.DAY]), stage.worker(tiers=[Tier.DAY])

        async def fails(notice: int, account: int, users: Users) -> Any:
            if notice == stage.notice:
                raise ValueError("a bug")
            return np.ones(len(users), np.bool_)

        failing._wanted = fails
        for more in range(2):
            await working.begin(stage.notice + more, ALICE)
        await drained(failing)
        assert {user for user, notice in stage.inboxes.rows if notice > stage.notice} == {*ONLINE, *LATELY}
        dead, told = sorted(stage.ended, key=lambda ended: ended.walk.notice)
        assert (dead.dead, told.dead) == (-(-len(FOLLOWERS) // CHUNK), 0)

    run(main())


# --- with everything that stands around it ---------------------------------------------------------------


def test_followers_who_asked_are_told_of_a_mention_and_read_it(run: Run, desk: Desk) -> None:
    """Bob follows Alice and wants to hear of her mentions; Carol follows her and said nothing. Dana mentions her."""

    async def main() -> None:
        services, everything = desk.services, Preferences(mentions="followed")
        for follower in (BOB, CAROL):
            await desk.people.follow(follower, ALICE)
        await desk.preferences.put(BOB, everything)
        await desk.preferences.put(DANA, everything)
        await desk.people.follow(DANA, ALICE)

        async def end(ended: Ended) -> None:
            ends.append(ended)

        ends = list[Ended]()
        worker = coordinator_over(
            services.graph, desk.whole.records, desk.inbox, ReferenceActivity(), own_leases(), services.clock, end,
            celebrity_followers_min=1_000_000, tiers=(),
        )  # fmt: skip
        spread = Spread(worker)
        start = await desk.whole.log.end()
        at_ms = services.clock.ms
        assert await desk.outside.accept("an event", DANA, ALICE, None, at_ms)
        desk.whole.settle()
        batch = await desk.whole.log.read(start, 100)
        for _ in range(3):
            await spread.handle(batch.events)
        assert await spread.work_backlog() is False
        (notice,) = {ended.walk.notice for ended in ends}
        outcomes = await Outcomes(desk.whole.records, services.graph.clock).of([notice, notice + 1])
        assert [ended.walk.told for ended in ends] == [1, 0, 0]
        assert outcomes == [[TierOutcome(Tier.ALL, 1, 2)], []], "a repetition takes nothing back"
        assert ("mention", DANA) in await desk.told(ALICE)
        assert await desk.told(BOB) == [("mention", DANA)]
        assert await desk.told(CAROL) == []
        assert ("mention", DANA) not in await desk.told(DANA), "who did it is told nothing"

    run(main())
