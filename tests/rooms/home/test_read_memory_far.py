"""What a process caches across a network, where a row is written before the log reports it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from distant import Distant
from homes import HomeScene, alices_home

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, Event, LogPosition
from kith.graph.graphs import FOLLOWS, MUTES
from kith.log.store import Batch
from kith.records import endings, memory
from kith.records.memory import ReadMemory
from kith.records.tables import LastMade, Remembered

home = pytest.fixture(alices_home)


class _Log(Distant):
    """A log that counts the reads of its end, and may be away."""

    def __init__(self, log: Any) -> None:
        super().__init__(log, random.Random(1))
        self.asked, self.is_away, self.hangs = 0, False, False

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        if self.is_away:
            raise StoreUnavailable("away")
        await asyncio.sleep(0)
        found: Batch = await self._store.latest(after, limit)
        return found


class Far:
    """A memory over the home's stores, as if these were far away, with one table of mutes."""

    def __init__(self, home: HomeScene) -> None:
        self.log, self.seconds = _Log(home.log), 1_000.0
        store: Any = Distant(home.graph.store, random.Random(2))
        self.memory = ReadMemory(store, self.log, home.clock, lambda: self.seconds)  # type: ignore[arg-type]
        self.mutes: Remembered[str] = self.memory.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def cache_values(self, *ids: int) -> None:
        await self.memory.refresh()
        self.mutes.keep(self.memory.moment, dict.fromkeys(ids, "kept"))
        assert set(self.mutes.now) >= set(ids)


@pytest.fixture
def far(home: HomeScene) -> Far:
    if not home.graph.store.tells_all:
        pytest.skip("this engine's log does not tell all")
    return Far(home)


def test_a_refresh_finds_all_changes_that_were_answered_before_it_whoever_wrote(
    run: Run, home: HomeScene, far: Far
) -> None:
    async def check() -> None:
        await far.cache_values(ALICE, BOB, CAROL)
        await home.graph.people.follow(ALICE, DANA)
        await far.memory.refresh()
        assert set(far.mutes.now) == {ALICE, BOB, CAROL}
        await home.graph.people.mute(ALICE, BOB)
        await far.memory.refresh()
        assert set(far.mutes.now) == {CAROL}

    run(check())


def test_of_values_read_during_changes_only_untouched_ones_are_cached(run: Run, home: HomeScene, far: Far) -> None:
    async def check() -> None:
        await far.memory.refresh()
        moment = far.memory.moment
        await home.graph.people.mute(ALICE, BOB)
        await far.memory.refresh()
        far.mutes.keep(moment, {ALICE: "as it was", BOB: "as it was", CAROL: "as it is"})
        assert far.mutes.now == {CAROL: "as it is"}
        far.mutes.keep(far.memory.moment, {ALICE: "as it is"})
        assert set(far.mutes.now) == {ALICE, CAROL}
        moment = far.memory.moment
        far.mutes.all_changed()
        far.memory.coming += 1
        far.mutes.all_changed()
        far.mutes.keep(moment, {DANA: "read before all was forgotten"})
        assert not far.mutes.now

    run(check())


def test_refreshes_that_come_during_another_share_the_next(run: Run, far: Far) -> None:
    async def check() -> None:
        await far.memory.refresh()
        far.log.asked = 0
        await asyncio.gather(*(far.memory.refresh() for _ in range(20)))
        assert far.log.asked <= 2

    run(check())


def test_an_edge_is_invalidated_from_its_expiry_on(run: Run, home: HomeScene, far: Far) -> None:
    ends = home.clock.ms + 30_000
    number = home.graph.graphs.number(FOLLOWS)
    follows: Remembered[str] = far.memory.of_edges((number,), 100)

    async def note() -> None:
        await far.memory.refresh()
        follows.keep(far.memory.moment, dict.fromkeys((ALICE, BOB, CAROL), "kept"))

    async def check(*gone: int) -> None:
        await note()
        home.clock.ms = ends - 1
        await far.memory.refresh()
        assert set(follows.now) == {ALICE, BOB, CAROL}
        home.clock.ms = ends
        await far.memory.refresh()
        assert far.memory.moment
        assert set(follows.now) == {ALICE, BOB, CAROL} - set(gone)

    run(home.graph.people.follow(ALICE, BOB, ends))  # logged before the first refresh
    run(check(ALICE, BOB))
    ends += 30_000
    run(note())
    run(home.graph.people.follow(ALICE, CAROL, ends))  # logged after it
    run(check(ALICE, CAROL))


def test_expiries_beyond_those_read_at_once_are_read_in_time(
    run: Run, home: HomeScene, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "_ENDS_MAX", 2)
    began = home.clock.ms

    async def check() -> None:
        for at, user in enumerate((BOB, CAROL, DANA), 1):
            await home.graph.people.follow(ALICE, user, began + 1_000 * at)
        await far.cache_values(BOB)
        for at in range(1, 4):
            home.clock.ms = began + 1_000 * at
            await far.memory.refresh()
            assert far.memory.moment or not far.mutes.now
        await home.graph.people.follow(CAROL, DANA)  # a write removes expired edges
        await far.cache_values(BOB)

    run(check())


@pytest.mark.parametrize("how", ["is_away", "hangs"])
def test_while_the_log_is_away_nothing_is_cached_and_it_is_not_asked_each_time(
    run: Run, home: HomeScene, far: Far, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_REFRESH_MAX_S", 0.01)

    async def check() -> None:
        await far.cache_values(ALICE, CAROL)
        setattr(far.log, how, True)
        far.log.asked = 0
        for _ in range(3):
            await far.memory.refresh()
        assert (far.memory.moment, far.mutes.now, far.log.asked) == (0, {}, 1)
        await home.graph.people.mute(ALICE, BOB)
        setattr(far.log, how, False)
        far.seconds += memory._UNAVAILABLE_S
        await far.memory.refresh()
        assert set(far.mutes.now) == {CAROL}, "it continued where it was"

    run(check())


def test_a_value_made_during_a_refresh_is_dropped_if_the_refresh_finds_changes_of_it(
    run: Run, home: HomeScene, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutes = home.graph.graphs.number(MUTES)
    made: LastMade[str] = far.memory.last_made(100)
    changes = far.memory.changes(graphs=(mutes,))
    read_endings, tried = far.memory._endings.read, list[str]()

    async def read_slowly() -> None:  # the log is read, and the moment has not advanced yet
        made.keep(moment, BOB, "of before", (changes, {BOB}))
        tried.append("of before")
        await read_endings()

    async def check() -> None:
        made.keep(far.memory.moment, BOB, "of now", (changes, {BOB}))
        assert made.get(BOB) == "of now"
        await home.graph.people.mute(ALICE, BOB)
        await home.log.announce(Event(0, None, BULK_LOADED, 0, 0, 0, Hlc(0)))  # reloads expiries, which takes a call
        monkeypatch.setattr(far.memory._endings, "read", read_slowly)
        await far.memory.refresh()
        assert tried
        assert made.get(BOB) is None

    run(far.memory.refresh())
    moment = far.memory.moment
    run(check())


def test_a_value_made_of_several_parts_holds_until_one_of_them_changes(run: Run, home: HomeScene, far: Far) -> None:
    follows, mutes = (home.graph.graphs.number(name) for name in (FOLLOWS, MUTES))
    made: LastMade[str] = far.memory.last_made(100)
    of_follows, of_mutes = far.memory.changes(graphs=(follows,)), far.memory.changes(graphs=(mutes,))
    parts = (of_follows, {ALICE}), (of_mutes, {ALICE})

    async def make() -> None:
        await far.memory.refresh()
        made.keep(far.memory.moment, ALICE, "made", *parts)
        assert made.get(ALICE)

    async def check() -> None:
        await make()
        await home.graph.people.mute(CAROL, BOB)
        await far.memory.refresh()
        assert made.get(ALICE), "a change of others"
        await home.graph.people.mute(ALICE, BOB)
        await far.memory.refresh()
        assert not made.get(ALICE)
        await far.memory.refresh()
        moment = far.memory.moment
        await home.graph.people.unfollow(ALICE, DANA)
        await far.memory.refresh()
        made.keep(moment, ALICE, "read before it was told", *parts)
        assert not made.get(ALICE)
        await make()
        await home.graph.people.follow(DANA, ALICE, home.clock.ms + 30_000)
        await make()
        home.clock.ms += 30_000
        await far.memory.refresh()
        assert not made.get(ALICE), "an edge expired"

    run(check())
