"""What every CachedSets must do, as `checks.sets.CachedSets` promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from coroutines import Run
from engines import Engine

from kith.checks.sets import CachedSets, FillLease, Members, SetsProgress, Wait
from kith.core.events import LogPosition
from kith.core.ids import ID_MAX

PORT = "sets"
OLD, NEW = b"old-sets", b"new-sets"
ALICE, BOB = (3, 7), (3, ID_MAX)
IDS = [1, 2**32, 2**32 + 1, 2**53 + 1, ID_MAX]


@pytest.fixture
def sets(engine: Engine, tmp_path: Path) -> Iterator[CachedSets]:
    assert engine.sets
    with engine.sets(tmp_path / "data") as opened:
        yield opened


async def lease_of(sets: CachedSets, key: tuple[int, int] = ALICE) -> bytes:
    (lookup,) = await sets.lookup(OLD, [(key, [1])])
    assert isinstance(lookup, FillLease)
    return lookup.name


async def there(sets: CachedSets, *ids: int, key: tuple[int, int] = ALICE) -> list[bool]:
    (lookup,) = await sets.lookup(OLD, [(key, ids)])
    assert isinstance(lookup, Members)
    return lookup.present


def test_of_several_readers_of_a_missing_set_one_may_fill_it(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        lease = await lease_of(sets)
        (other,) = await sets.lookup(OLD, [(ALICE, [1])])
        assert isinstance(other, Wait)
        assert 0 < other.ms <= 2_000
        assert not await sets.fill(OLD, ALICE, b"no-lease", [1], 60_000)
        assert await sets.fill(OLD, ALICE, lease, [*reversed(IDS)], 60_000)
        assert await there(sets, 0, *IDS, 3, 2**53, 2**32 + 2) == [False, *[True] * len(IDS), False, False, False]
        assert not await sets.fill(OLD, ALICE, lease, [], 60_000), "a lease can be used once"

    run(scene())


def test_sets_are_separate_and_read_together(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        for key, ids in ((ALICE, [1, 2]), (BOB, list[int]())):
            assert await sets.fill(OLD, key, await lease_of(sets, key), ids, 60_000)
        lookup = await sets.lookup(OLD, [(BOB, [1, 2]), (ALICE, [2, 3]), ((4, 7), [1])])
        assert lookup[:2] == [Members([False, False]), Members([True, False])]
        assert isinstance(lookup[2], FillLease)

    run(scene())


def test_a_set_read_before_a_drop_is_not_filled_after_it(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        before = await lease_of(sets)
        await sets.drop(OLD, [ALICE, BOB])
        after = await lease_of(sets)
        assert not await sets.fill(OLD, ALICE, before, [1], 60_000)
        assert await sets.fill(OLD, ALICE, after, [2], 60_000)
        assert await there(sets, 1, 2) == [False, True]
        await sets.drop(OLD, [ALICE])
        await lease_of(sets)

    run(scene())


def test_a_set_marked_as_not_cached_is_not_requested_repeatedly(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        assert await sets.fill(OLD, ALICE, await lease_of(sets), None, 60_000)
        (lookup,) = await sets.lookup(OLD, [(ALICE, [1])])
        assert isinstance(lookup, Wait)
        assert 2_000 < lookup.ms <= 60_000

    run(scene())


def test_sets_of_another_generation_count_as_missing(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        assert await sets.fill(OLD, ALICE, await lease_of(sets), [1], 60_000)
        (lookup,) = await sets.lookup(NEW, [(ALICE, [1])])
        assert isinstance(lookup, FillLease)

    run(scene())


def test_progress_is_noted_only_by_a_writer_that_knows_the_generation(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        assert await sets.last_progress() is None
        first, later = (SetsProgress(OLD, LogPosition(position)) for position in (b"\x00\xff1", b"2"))
        until_ms = await sets.now_ms() + 60_000
        assert await sets.note_progress(None, first, until_ms)
        assert not await sets.note_progress(None, later, until_ms)
        assert not await sets.note_progress(NEW, later, until_ms)
        assert await sets.last_progress() == await sets.progress() == first
        assert await sets.note_progress(OLD, later, 0)
        assert await sets.progress() is None
        assert await sets.last_progress() == later
        assert await sets.note_progress(OLD, SetsProgress(NEW, first.at), until_ms)
        assert not await sets.note_progress(OLD, later, until_ms)
        assert await sets.progress() == SetsProgress(NEW, first.at)

    run(scene())


def test_noted_progress_is_valid_only_until_its_time(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        assert await sets.note_progress(None, SetsProgress(OLD, LogPosition(b"1")), await sets.now_ms() - 1)
        assert await sets.progress() is None
        assert await sets.last_progress() is not None

    run(scene())


def test_all_sets_of_a_generation_can_be_listed(run: Run, sets: CachedSets) -> None:
    async def scene() -> None:
        assert [key async for keys in sets.keys(OLD) for key in keys] == []
        many = [(3, source) for source in range(2_500)]
        for start in range(0, len(many), 500):
            chunk = many[start : start + 500]
            for key, lease in zip(chunk, await sets.lookup(OLD, [(key, [1]) for key in chunk]), strict=True):
                assert isinstance(lease, FillLease)
                if key[1] % 10 == 0:
                    assert await sets.fill(OLD, key, lease.name, IDS if key[1] else [], 60_000)
        await sets.lookup(NEW, [(BOB, [1])])
        listed = [key async for keys in sets.keys(OLD) for key in keys]
        assert sorted(listed) == many
        assert [key async for keys in sets.keys(NEW) for key in keys] == [BOB]
        assert await sets.members(OLD, [(3, 0), (3, 10), (3, 11), BOB]) == [frozenset(), frozenset(IDS), None, None]

    run(scene())
