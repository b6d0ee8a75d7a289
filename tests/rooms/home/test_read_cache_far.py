"""What a process caches across a network, where a row is written before the log reports it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from home_scene import HomeScene, alices_home
from store_wrappers import RemoteStore

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, Event, LogPosition
from kith.graph.graphs import FOLLOWS, MUTES
from kith.log.store import Batch
from kith.records import read_cache, upcoming_expiries
from kith.records.cache_tables import CachedResults, CachedValues
from kith.records.read_cache import ReadCache

home = pytest.fixture(alices_home)


class _Log(RemoteStore):
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
    """A read cache over the home's stores, as if these were far away, with one table of mutes."""

    def __init__(self, home: HomeScene) -> None:
        self.log, self.seconds = _Log(home.log), 1_000.0
        store: Any = RemoteStore(home.graph.store, random.Random(2))
        self.read_cache = ReadCache(store, self.log, home.clock, lambda: self.seconds)  # type: ignore[arg-type]
        self.mutes: CachedValues[str] = self.read_cache.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def cache_values(self, *ids: int) -> None:
        await self.read_cache.refresh()
        self.mutes.keep(self.read_cache.generation, dict.fromkeys(ids, "kept"))
        assert set(self.mutes.now) >= set(ids)


@pytest.fixture
def far(home: HomeScene) -> Far:
    if not home.graph.store.logs_every_change:
        pytest.skip("this engine's log does not tell all")
    return Far(home)


def test_a_refresh_finds_all_changes_that_were_answered_before_it_whoever_wrote(
    run: Run, home: HomeScene, far: Far
) -> None:
    async def check() -> None:
        await far.cache_values(ALICE, BOB, CAROL)
        await home.graph.people.follow(ALICE, DANA)
        await far.read_cache.refresh()
        assert set(far.mutes.now) == {ALICE, BOB, CAROL}
        await home.graph.people.mute(ALICE, BOB)
        await far.read_cache.refresh()
        assert set(far.mutes.now) == {CAROL}

    run(check())


def test_of_values_read_during_changes_only_untouched_ones_are_cached(run: Run, home: HomeScene, far: Far) -> None:
    async def check() -> None:
        await far.read_cache.refresh()
        generation = far.read_cache.generation
        await home.graph.people.mute(ALICE, BOB)
        await far.read_cache.refresh()
        far.mutes.keep(generation, {ALICE: "as it was", BOB: "as it was", CAROL: "as it is"})
        assert far.mutes.now == {CAROL: "as it is"}
        far.mutes.keep(far.read_cache.generation, {ALICE: "as it is"})
        assert set(far.mutes.now) == {ALICE, CAROL}
        generation = far.read_cache.generation
        far.mutes.all_changed()
        far.read_cache.next_generation += 1
        far.mutes.all_changed()
        far.mutes.keep(generation, {DANA: "read before all was forgotten"})
        assert not far.mutes.now

    run(check())


def test_refreshes_that_come_during_another_share_the_next(run: Run, far: Far) -> None:
    async def check() -> None:
        await far.read_cache.refresh()
        far.log.asked = 0
        await asyncio.gather(*(far.read_cache.refresh() for _ in range(20)))
        assert far.log.asked <= 2

    run(check())


def test_an_edge_is_invalidated_from_its_expiry_on(run: Run, home: HomeScene, far: Far) -> None:
    ends = home.clock.ms + 30_000
    number = home.graph.graphs.number(FOLLOWS)
    follows: CachedValues[str] = far.read_cache.of_edges((number,), 100)

    async def note() -> None:
        await far.read_cache.refresh()
        follows.keep(far.read_cache.generation, dict.fromkeys((ALICE, BOB, CAROL), "kept"))

    async def check(*gone: int) -> None:
        await note()
        home.clock.ms = ends - 1
        await far.read_cache.refresh()
        assert set(follows.now) == {ALICE, BOB, CAROL}
        home.clock.ms = ends
        await far.read_cache.refresh()
        assert far.read_cache.generation
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
    monkeypatch.setattr(upcoming_expiries, "_ENDS_MAX", 2)
    began = home.clock.ms

    async def check() -> None:
        for at, user in enumerate((BOB, CAROL, DANA), 1):
            await home.graph.people.follow(ALICE, user, began + 1_000 * at)
        await far.cache_values(BOB)
        for at in range(1, 4):
            home.clock.ms = began + 1_000 * at
            await far.read_cache.refresh()
            assert far.read_cache.generation or not far.mutes.now
        await home.graph.people.follow(CAROL, DANA)  # a write removes expired edges
        await far.cache_values(BOB)

    run(check())


@pytest.mark.parametrize("how", ["is_away", "hangs"])
def test_while_the_log_is_away_nothing_is_cached_and_it_is_not_asked_each_time(
    run: Run, home: HomeScene, far: Far, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_cache, "_REFRESH_MAX_S", 0.01)

    async def check() -> None:
        await far.cache_values(ALICE, CAROL)
        setattr(far.log, how, True)
        far.log.asked = 0
        for _ in range(3):
            await far.read_cache.refresh()
        assert (far.read_cache.generation, far.mutes.now, far.log.asked) == (0, {}, 1)
        await home.graph.people.mute(ALICE, BOB)
        setattr(far.log, how, False)
        far.seconds += read_cache._UNAVAILABLE_S
        await far.read_cache.refresh()
        assert set(far.mutes.now) == {CAROL}, "it continued where it was"

    run(check())


def test_a_value_made_during_a_refresh_is_dropped_if_the_refresh_finds_changes_of_it(
    run: Run, home: HomeScene, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutes = home.graph.graphs.number(MUTES)
    made: CachedResults[str] = far.read_cache.cached_results(100)
    changes = far.read_cache.changes(graphs=(mutes,))
    read_endings, tried = far.read_cache._expiries.read, list[str]()

    async def read_slowly() -> None:  # the log is read, and the generation has not advanced yet
        made.keep(generation, BOB, "of before", (changes, {BOB}))
        tried.append("of before")
        await read_endings()

    async def check() -> None:
        made.keep(far.read_cache.generation, BOB, "of now", (changes, {BOB}))
        assert made.get(BOB) == "of now"
        await home.graph.people.mute(ALICE, BOB)
        await home.log.announce(Event(0, None, BULK_LOADED, 0, 0, 0, Hlc(0)))  # reloads expiries, which takes a call
        monkeypatch.setattr(far.read_cache._expiries, "read", read_slowly)
        await far.read_cache.refresh()
        assert tried
        assert made.get(BOB) is None

    run(far.read_cache.refresh())
    generation = far.read_cache.generation
    run(check())


def test_a_value_made_of_several_parts_holds_until_one_of_them_changes(run: Run, home: HomeScene, far: Far) -> None:
    follows, mutes = (home.graph.graphs.number(name) for name in (FOLLOWS, MUTES))
    made: CachedResults[str] = far.read_cache.cached_results(100)
    of_follows, of_mutes = far.read_cache.changes(graphs=(follows,)), far.read_cache.changes(graphs=(mutes,))
    parts = (of_follows, {ALICE}), (of_mutes, {ALICE})

    async def make() -> None:
        await far.read_cache.refresh()
        made.keep(far.read_cache.generation, ALICE, "made", *parts)
        assert made.get(ALICE)

    async def check() -> None:
        await make()
        await home.graph.people.mute(CAROL, BOB)
        await far.read_cache.refresh()
        assert made.get(ALICE), "a change of others"
        await home.graph.people.mute(ALICE, BOB)
        await far.read_cache.refresh()
        assert not made.get(ALICE)
        await far.read_cache.refresh()
        generation = far.read_cache.generation
        await home.graph.people.unfollow(ALICE, DANA)
        await far.read_cache.refresh()
        made.keep(generation, ALICE, "read before it was told", *parts)
        assert not made.get(ALICE)
        await make()
        await home.graph.people.follow(DANA, ALICE, home.clock.ms + 30_000)
        await make()
        home.clock.ms += 30_000
        await far.read_cache.refresh()
        assert not made.get(ALICE), "an edge expired"

    run(check())
