"""Leases of the event log: what follows their places is kept, within bounds, and who loses one is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from engines import Engine
from opened import Logged

from kith.core.errors import Overloaded
from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LEASES_MAX

PORT = "logs"
HOUR_MS = 3_600_000
FEW = 60
"""Events that the log keeps of itself."""


@pytest.fixture
def short(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> Iterator[Logged]:
    """A log that keeps few events, and more where they are leased."""
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as opened:
        run(opened.edges.declare(["follows"]))
        yield opened


async def written(logged: Logged, count: int, first: int = 0) -> LogPosition:
    """So many events, all of which can be read then; the mark of the last."""
    mark, everything = NOWHERE, NOWHERE
    for at in range(first, first + count, 20):
        for change in await logged.edges.apply(writes_of(*(edge_of(1 + n % 7, 100 + n) for n in range(at, at + 20)))):
            mark, everything = change.log_position, logged.log.joined(everything, change.log_position)
    assert await logged.log.reached(everything)
    return mark


async def read_since(logged: Logged, at: LogPosition) -> list[int]:
    """The numbers of all events since; none may be lost."""
    found: list[int] = []
    while True:
        batch = await logged.log.read(at, 100)
        assert not batch.lost
        found += [event.destination - 100 for event in batch.events]
        at = batch.next
        if len(batch.events) < 100:
            return sorted(found)


def test_what_follows_a_lease_is_kept_until_it_is_released(short: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(short, 20)
        at = await short.log.end()
        assert await short.log.lease("backup", at)
        await written(short, 600, first=20)
        assert await read_since(short, at) == list(range(20, 620))
        await short.log.release("backup")
        await written(short, 400, first=620)
        assert (await short.log.read(at, 1)).lost
        assert not await short.log.leases()

    run(scene())


def test_a_lease_that_moves_on_keeps_only_what_follows_its_new_place(short: Logged, run: Run) -> None:
    async def scene() -> None:
        start = await short.log.end()
        assert await short.log.lease("standby", start)
        await written(short, 300)
        at = await short.log.end()
        assert await short.log.lease("standby", at)
        await written(short, 600, first=300)
        assert (await short.log.read(start, 1)).lost
        assert await read_since(short, at) == list(range(300, 900))
        (lease,) = await short.log.leases()
        assert (lease.name, lease.at, lease.lost) == ("standby", at, False)

    run(scene())


def test_of_two_leases_the_one_behind_counts(short: Logged, run: Run) -> None:
    async def scene() -> None:
        behind = await short.log.end()
        assert await short.log.lease("behind", behind)
        await written(short, 200)
        assert await short.log.lease("ahead", await short.log.end())
        await written(short, 400, first=200)
        assert await read_since(short, behind) == list(range(600))

    run(scene())


def test_a_lease_that_is_not_renewed_ends_and_its_holder_is_told(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        at = await short.log.end()
        assert await short.log.lease("away", at)
        await written(short, 300)
        clock.ms += HOUR_MS - 1
        assert await short.log.lease("away", at), "renewed in time"
        clock.ms += HOUR_MS - 1
        await written(short, 100, first=300)
        assert await read_since(short, at) == list(range(400))
        clock.ms += 1
        await written(short, 600, first=400)
        (lease,) = await short.log.leases()
        assert (lease.lost, lease.until_ms) == (True, clock.ms)
        assert not await short.log.lease("away", at)
        assert not await short.log.leases(), "it holds nothing any more"
        batch = await short.log.read(at, 10)
        assert batch.lost

    run(scene())


def test_a_lease_that_ended_while_all_is_there_goes_on(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        at = await short.log.end()
        assert await short.log.lease("away", at)
        await written(short, 20)
        clock.ms += 2 * HOUR_MS
        assert [lease.lost for lease in await short.log.leases()] == [True]
        assert await short.log.lease("away", at)
        await written(short, 600, first=20)
        assert await read_since(short, at) == list(range(620))

    run(scene())


def test_what_leases_keep_is_bounded_and_who_is_too_far_behind_is_told(
    engine: Engine, tmp_path: Path, run: Run
) -> None:
    async def scene(logged: Logged) -> None:
        await logged.edges.declare(["follows"])
        at = await logged.log.end()
        assert await logged.log.lease("slow", at)
        await written(logged, 200)
        assert await read_since(logged, at) == list(range(200))
        await written(logged, 3_000, first=200)
        assert (await logged.log.read(at, 10)).lost
        assert (await logged.log.behind(at)).lost
        assert [lease.lost for lease in await logged.log.leases()] == [True]
        assert not await logged.log.lease("slow", at)
        first = await logged.log.read(at, 10_000)
        assert len(first.events) < 2_500

    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, leased_little=True) as logged:
        run(scene(logged))


def test_a_place_that_is_forgotten_or_of_another_log_cannot_be_leased(short: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(short, 600)
        assert not await short.log.lease("late", NOWHERE)
        assert not await short.log.leases()

    run(scene())


def test_there_are_so_many_leases_and_a_lost_one_gives_way(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        at = await short.log.end()
        for number in range(LEASES_MAX):
            assert await short.log.lease(f"reader-{number}", at)
        with pytest.raises(Overloaded):
            await short.log.lease("one-more", at)
        assert await short.log.lease("reader-7", at), "who has one may renew it"
        clock.ms += HOUR_MS
        assert await short.log.lease("one-more", at)
        assert [lease.name for lease in await short.log.leases()] == ["one-more"]

    run(scene())


def test_a_lease_outlives_the_store(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> None:
    if not engine.keeps:
        pytest.skip("this engine keeps nothing")
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as logged:
        run(logged.edges.declare(["follows"]))
        at = run(logged.log.end())
        assert run(logged.log.lease("backup", at))
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as logged:
        run(written(logged, 400))
        assert run(read_since(logged, at)) == list(range(400))
