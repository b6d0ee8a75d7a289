"""Waiting, yielding and dividing the work when many followers must be notified of mentions at once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB
from celebrity_scene import CHUNK, FOLLOWERS, NOTIFIED, ONLINE, TODAY, UNWILLING, CelebrityScene, drain
from coroutines import Run
from store_wrappers import RemoteStore

from kith.core.clock import Hlc
from kith.core.errors import Overloaded
from kith.core.events import RECORD_CHANGED, Event
from kith.notifications import walks
from kith.notifications.activity import Users
from kith.notifications.backpressure import FLAG_MS
from kith.notifications.mention_consumer import MentionConsumer
from kith.notifications.notice import Notice, notice_record
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk
from kith.records.store import RecordKind


def test_under_pressure_the_last_tier_yields_and_the_others_do_not(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        worker = stage.worker(tasks_max=5)
        await worker.begin(stage.notice, ALICE)
        await drain(worker)
        assert stage.notified() == {*ONLINE, *TODAY} - UNWILLING
        chunks = -(-len(FOLLOWERS) // CHUNK)
        assert [ended.left for ended in stage.ended] == [0, 0, chunks]
        stage.notice += 1
        del worker  # the worker that raised the flag is gone; the flag stands, and expires
        stage.inboxes.rows.clear()
        await stage.worker().begin(stage.notice, ALICE)
        await drain(stage.worker())
        assert stage.notified() == {*ONLINE, *TODAY} - UNWILLING
        stage.clock.ms += FLAG_MS
        stage.notice += 1
        stage.inboxes.rows.clear()
        await stage.worker().begin(stage.notice, ALICE)
        await drain(stage.worker())
        assert stage.notified() == NOTIFIED

    run(main())


def test_too_many_mentions_at_once_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        monkeypatch.setattr(walks, "WALKS_MAX", 2)
        worker = stage.worker()
        for more in range(2):
            await worker.begin(stage.notice + more, ALICE)
        await worker.begin(stage.notice, ALICE)
        with pytest.raises(Overloaded):
            await worker.begin(stage.notice + 2, ALICE)
        await worker.begin_untiered(stage.notice, ALICE)
        with pytest.raises(Overloaded):  # half of the room is for new mentions
            await worker.begin_untiered(stage.notice + 1, ALICE)

    run(main())


def test_a_mention_that_waits_for_room_does_not_restart_others_of_its_batch(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the mentions before it would take the room that they left, at each retry, and ring again."""

    def told(notice: int) -> Event:
        data = notice_record(Notice(notice, "mention", BOB, ALICE, 0), Hlc(1)).data
        return Event(0, None, RECORD_CHANGED, RecordKind.NOTICE, notice, 0, Hlc(1), data=data)

    async def main() -> None:
        stage = await CelebrityScene.set_up(threshold=1_000)
        monkeypatch.setattr(walks, "WALKS_MAX", 2)
        await stage.worker(chunk_ids=1).begin(stage.notice - 1, ALICE)  # is long under way
        worker = stage.worker()
        spread, events = MentionConsumer(worker), [told(stage.notice), told(stage.notice + 1)]
        with pytest.raises(Overloaded):
            await spread.handle(events)
        while not stage.ended:
            assert await worker.work()
        assert stage.notified() == {*FOLLOWERS} - UNWILLING
        await spread.handle(events)
        assert {walk.notice for walk in await worker._walks.of(Tier)} == {stage.notice - 1, stage.notice + 1}

    run(main())


class Counts:
    """A store that records the names of its calls."""

    def __init__(self, store: Any, calls: list[str]) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        self._calls.append(name)
        return getattr(self._store, name)


def test_a_last_tier_that_is_full_changes_nothing_for_the_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody works the last tier. The other tiers notify their followers with the same calls as where there is room."""

    async def calls_of(walks_max: int) -> tuple[list[list[str]], list[EndedWalk]]:
        stage = await CelebrityScene.set_up()
        monkeypatch.setattr(walks, "WALKS_MAX", walks_max)
        made, first, full = list[list[str]](), stage.notice, list[EndedWalk]()
        for more in range(5):
            stage.notice = first + more
            await stage.worker(tiers=()).begin(stage.notice, ALICE)
            for tier, told in ((Tier.ONLINE, ONLINE), (Tier.DAY, {*ONLINE, *TODAY})):
                calls = list[str]()
                stage.wrap = lambda store, calls=calls: Counts(store, calls)
                await drain(stage.worker(tiers=[tier]))
                stage.wrap = lambda store: store
                made.append(calls)
                assert stage.notified() == {*told} - UNWILLING
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
        stage = await CelebrityScene.set_up()
        calls, chance = list[str](), random.Random(3)
        await stage.worker().begin(stage.notice, ALICE)
        stage.wrap = lambda store: Counts(RemoteStore(store, chance), calls)
        await asyncio.gather(*(drain(stage.worker()) for _ in range(3)))
        assert stage.notified() == NOTIFIED
        chunks = -(-len(FOLLOWERS) // CHUNK)
        assert (calls.count("chunk"), calls.count("contains")) == (chunks * 2, 1), "none was read twice"

    run(main())


def test_a_mention_for_few_does_not_wait_for_one_for_millions(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        await stage.worker(chunk_ids=1).begin(stage.notice, ALICE)
        large, stage.notice, stage.threshold = stage.notice, stage.notice + 1, 1_000
        await stage.worker(chunk_ids=20).begin(stage.notice, ALICE)
        small = stage.worker(chunk_ids=20, tiers=[Tier.DAY, Tier.ALL])
        assert await small.work()
        assert {notice for _, notice in stage.inboxes.rows} == {stage.notice} != {large}

    run(main())


def test_a_mention_that_keeps_failing_becomes_dead_and_blocks_no_other(run: Run) -> None:
    async def main() -> None:
        stage = await CelebrityScene.set_up()
        failing, working = stage.worker(tiers=[Tier.DAY]), stage.worker(tiers=[Tier.DAY])

        async def fails(notice: int, account: int, users: Users) -> Any:
            if notice == stage.notice:
                raise ValueError("a bug")
            return np.ones(len(users), np.bool_)

        failing._want_mention = fails
        for more in range(2):
            await working.begin(stage.notice + more, ALICE)
        await drain(failing)
        assert {user for user, notice in stage.inboxes.rows if notice > stage.notice} == {*ONLINE, *TODAY}
        assert len(stage.ended) == 1, "one failure does not make it dead"
        for _ in range(5 * 60):
            stage.clock.ms += 1_000
            await drain(failing)
        dead, told = sorted(stage.ended, key=lambda ended: ended.walk.notice)
        assert (dead.dead, told.dead) == (-(-len(FOLLOWERS) // CHUNK), 0)

    run(main())
