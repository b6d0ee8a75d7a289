"""What a process cached is invalidated when the log reports a change, whoever made it."""

from __future__ import annotations

import asyncio
import weakref

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from home_scene import HomeScene, alices_home

from kith.core.errors import StoreMismatch
from kith.core.events import BULK_LOADED, Event
from kith.core.paging import Window
from kith.graph.graphs import LIKES, MUTES
from kith.log.store import Batch
from kith.records import cache_tables, read_cache
from kith.records.cache_tables import CachedResults, CachedValues, Dependencies
from kith.records.read_cache import ReadCache
from kith.records.store import RecordKind

home = pytest.fixture(alices_home)


@pytest.fixture
def known(run: Run, home: HomeScene) -> ReadCache:
    """A read cache over the embedded engine; other engines promise too little for one."""
    kept = ReadCache(home.graph.store, home.log)
    run(kept.refresh())
    if not kept.generation:
        pytest.skip("this engine's log does not tell all that is so by now")
    return kept


class Value:
    """A cached value; a weak reference shows whether it is still there."""


async def cache_values(known: ReadCache, table: CachedValues[str], *ids: int) -> None:
    await known.refresh()
    table.keep(known.generation, dict.fromkeys(ids, "kept"))
    assert set(table.now) >= set(ids)


def test_cached_edges_records_and_accounts_are_invalidated_by_their_events(
    run: Run, home: HomeScene, known: ReadCache
) -> None:
    number = home.graph.graphs.number
    edges: CachedValues[str] = known.of_edges((number(LIKES), number(MUTES)), 100)
    posts: CachedValues[str] = known.of_records(RecordKind.POST, 100)
    accounts: CachedValues[str] = known.of_nodes(100)
    post = run(home.post(BOB))

    async def check() -> None:
        await cache_values(known, edges, ALICE, BOB, CAROL, post.id)
        await cache_values(known, posts, post.id, post.id + 1)
        await cache_values(known, accounts, ALICE, BOB)
        await home.graph.people.follow(ALICE, CAROL)
        await known.refresh()
        assert len(edges.now) == 4, "the table does not cache this graph"
        await home.graph.people.mute(ALICE, CAROL)
        await known.refresh()
        assert set(edges.now) == {BOB, post.id}
        await home.engagement.add(LIKES, DANA, post.id)
        await known.refresh()
        assert (set(edges.now), len(posts.now), len(accounts.now)) == ({BOB}, 2, 2)
        await home.posts.delete(BOB, post.id)
        await home.graph.store.change_node(BOB, private=True)
        await known.refresh()
        assert (set(edges.now), set(posts.now), set(accounts.now)) == ({BOB}, {post.id + 1}, {ALICE})
        await home.log.announce(Event(number(LIKES), None, BULK_LOADED, 7, 0, 0, home.graph.clock.next()))
        await known.refresh()
        assert [edges.now, posts.now, accounts.now] == [{}, {}, {}]

    run(check())


def test_values_read_while_the_log_reported_a_change_are_not_cached(
    run: Run, home: HomeScene, known: ReadCache
) -> None:
    table: CachedValues[str] = known.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def overtaken() -> str:
        await home.graph.people.mute(ALICE, BOB)
        await known.refresh()  # by another request, which finds nothing to invalidate yet
        return "as it was before"

    assert run(table.get(ALICE, overtaken)) == "as it was before"
    assert not table.now


@pytest.mark.usefixtures("known")
def test_beyond_the_bound_the_oldest_values_are_evicted(run: Run, home: HomeScene) -> None:
    small = ReadCache(home.graph.store, home.log, share=0.04)
    table: CachedValues[str] = small.of_edges((home.graph.graphs.number(MUTES),), 100)
    made: CachedResults[str] = small.cached_results(100)

    async def check() -> None:
        await cache_values(small, table, 1, 2, 3, 4)
        await cache_values(small, table, 5)
        assert set(table.now) == {2, 3, 4, 5}
        for user in range(1, 6):
            made.keep(small.generation, user, "a page")
        assert [made.get(user) for user in range(1, 6)] == [None, *["a page"] * 4]

    run(check())


def test_invalidated_values_are_freed_as_others_come(run: Run, home: HomeScene, known: ReadCache) -> None:
    table: CachedValues[Value] = known.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def check() -> None:
        await known.refresh()
        values = [Value() for _ in range(10)]
        table.keep(known.generation, dict(enumerate(values)))
        alive = [weakref.ref(value) for value in values]
        values.clear()
        table.all_changed()
        assert not table.now
        for freed in (2, 4, 6, 8, 10, 10):
            await known.refresh()
            table.keep(known.next_generation, {100 + freed: Value()})
            assert [one() for one in alive].count(None) == freed

    run(check())


def test_far_behind_the_log_everything_is_invalidated(
    run: Run, home: HomeScene, known: ReadCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: CachedValues[str] = known.of_edges((home.graph.graphs.number(MUTES),), 2)
    monkeypatch.setattr(read_cache, "EVENTS_MAX", 500)

    async def check() -> None:
        await cache_values(known, table, 1, 2)
        await asyncio.gather(*(home.graph.people.follow(ALICE, 1000 + user) for user in range(read_cache.EVENTS_MAX)))
        await known.refresh()
        assert not table.now

    run(check())


def test_cached_values_expire_after_a_time_without_any_change(
    run: Run, home: HomeScene, known: ReadCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutes, now_s = home.graph.graphs.number(MUTES), [1_000.0]
    timed = ReadCache(home.graph.store, home.log, home.clock, lambda: now_s[0])
    table: CachedValues[str] = timed.of_edges((mutes,), 100)
    touched = timed.changed_ids([RecordKind.POST], (mutes,))

    async def check() -> None:
        await cache_values(timed, table, ALICE)
        assert (touched.take(), touched.take()) == (None, set())
        now_s[0] += read_cache.CACHED_S + 1
        await timed.refresh()
        assert not table.now
        assert touched.take() == set(), "it reports only changes"
        await cache_values(timed, table, ALICE)
        now_s[0] += read_cache.CACHED_S + 1
        await home.graph.people.mute(ALICE, BOB)
        await timed.refresh()
        assert not table.now
        assert touched.take() == {ALICE, BOB}

    run(check())


def test_a_value_made_of_many_parts_holds_until_one_of_them_changes(
    run: Run, home: HomeScene, known: ReadCache
) -> None:
    mutes = known.changes(graphs=[home.graph.graphs.number(MUTES)])
    posts, accounts = known.changes([RecordKind.POST]), known.changes(of_nodes=True)
    post = run(home.post(BOB))

    async def made() -> Dependencies:
        await known.refresh()
        basis = Dependencies(known, (mutes, (ALICE,)), (posts, {post.id}), (accounts, {BOB}))
        assert basis.holds()
        return basis

    async def check() -> None:
        basis = await made()
        for another in (home.post(CAROL), home.graph.people.mute(CAROL, BOB), home.graph.people.follow(ALICE, CAROL)):
            await another
            await known.refresh()
            assert basis.holds(), "none of its parts changed"
        for change in (
            home.graph.people.mute(ALICE, CAROL),
            home.posts.delete(BOB, post.id),
            home.graph.store.change_node(BOB, private=True),
        ):
            basis = await made()
            await change
            await known.refresh()
            assert not basis.holds()
            assert not basis.holds(), "it does not become valid again"
        basis = await made()
        await home.log.announce(Event(mutes.now, None, BULK_LOADED, 7, 0, 0, home.graph.clock.next()))
        await known.refresh()
        assert not basis.holds()
        basis, old = await made(), await made()
        for told in (cache_tables.CHANGES_MAX, cache_tables.CHANGES_MAX, 1):
            for _ in range(told):
                mutes.changed(DANA)
            known.generation += 1
            assert basis.holds(), "the check continues where the last one ended"
        assert not old.holds(), "too many changes since"

    run(check())


def test_a_damaged_event_empties_the_cache_and_fails_no_request(
    run: Run, home: HomeScene, known: ReadCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: CachedValues[str] = known.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def damaged(*_: object) -> Batch:
        raise StoreMismatch("a row of the event log is damaged; restore a backup")

    async def check() -> None:
        await cache_values(known, table, ALICE)
        await home.graph.people.mute(ALICE, BOB)
        with monkeypatch.context() as patch:
            patch.setattr(home.log, "read", damaged)
            await known.refresh()
        assert not table.now
        await cache_values(known, table, ALICE)
        await home.graph.people.follow(ALICE, CAROL)
        await known.refresh()
        assert set(table.now) == {ALICE}, "it continued behind the damaged event"

    run(check())


def test_nothing_cached_is_used_while_the_log_lacks_an_expiry(run: Run, home: HomeScene, known: ReadCache) -> None:
    table: CachedValues[str] = known.of_edges((home.graph.graphs.number(MUTES),), 100)

    async def check() -> None:
        ends = home.clock.ms + 60_000
        post = await home.post(DANA)
        await home.graph.people.follow(ALICE, DANA, ends)
        assert (await home.feed.latest(ALICE, Window(5))).posts == [post]
        await cache_values(known, table, ALICE)
        home.clock.ms = ends
        await known.refresh()
        assert not known.generation
        assert not table.now
        assert (await home.feed.latest(ALICE, Window(5))).posts == []

    run(check())
