"""Leases of the event log keep the events after their positions, within bounds. Holders learn if a lease is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from engines import Engine
from store_types import Logged

from kith.core.errors import Overloaded
from kith.core.events import NOWHERE, LogPosition
from kith.log.store import LEASES_MAX

PORT = "logs"
HOUR_MS = 3_600_000
FEW = 60
"""The number of events that the log keeps without leases."""


@pytest.fixture
def short(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> Iterator[Logged]:
    """A log that keeps few events, or more where a lease requires it."""
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as opened:
        run(opened.edges.declare(["follows"]))
        yield opened


async def written(logged: Logged, count: int, first: int = 0) -> LogPosition:
    """Write `count` events and wait until all can be read. Returns the mark of the last one."""
    mark, everything = NOWHERE, NOWHERE
    for start in range(first, first + count, 20):
        for change in await logged.edges.apply(
            writes_of(*(edge_of(1 + n % 7, 100 + n) for n in range(start, start + 20)))
        ):
            mark, everything = change.log_position, logged.log.joined(everything, change.log_position)
    assert await logged.log.reached(everything)
    return mark


async def read_since(logged: Logged, position: LogPosition) -> list[int]:
    """The numbers of all events after `position`; checks that none was lost."""
    destinations: list[int] = []
    while True:
        batch = await logged.log.read(position, 100)
        assert not batch.lost
        destinations += [event.destination - 100 for event in batch.events]
        position = batch.next
        if len(batch.events) < 100:
            return sorted(destinations)


def test_events_after_a_lease_are_kept_until_it_is_released(short: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(short, 20)
        start = await short.log.end()
        assert await short.log.lease("backup", start)
        await written(short, 600, first=20)
        assert await read_since(short, start) == list(range(20, 620))
        await short.log.release("backup")
        await written(short, 400, first=620)
        assert (await short.log.read(start, 1)).lost
        assert not await short.log.leases()

    run(scene())


def test_a_lease_that_moves_forward_keeps_only_events_after_its_new_position(short: Logged, run: Run) -> None:
    async def scene() -> None:
        start = await short.log.end()
        assert await short.log.lease("standby", start)
        await written(short, 300)
        later = await short.log.end()
        assert await short.log.lease("standby", later)
        await written(short, 600, first=300)
        assert (await short.log.read(start, 1)).lost
        assert await read_since(short, later) == list(range(300, 900))
        (lease,) = await short.log.leases()
        assert (lease.name, lease.at, lease.lost) == ("standby", later, False)

    run(scene())


def test_of_two_leases_the_earlier_one_decides_what_is_kept(short: Logged, run: Run) -> None:
    async def scene() -> None:
        log_end = await short.log.end()
        assert await short.log.lease("behind", log_end)
        await written(short, 200)
        assert await short.log.lease("ahead", await short.log.end())
        await written(short, 400, first=200)
        assert await read_since(short, log_end) == list(range(600))

    run(scene())


def test_a_lease_that_is_not_renewed_ends_and_its_holder_learns_it(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        start = await short.log.end()
        assert await short.log.lease("away", start)
        await written(short, 300)
        clock.ms += HOUR_MS - 1
        assert await short.log.lease("away", start), "it was renewed in time"
        clock.ms += HOUR_MS - 1
        await written(short, 100, first=300)
        assert await read_since(short, start) == list(range(400))
        clock.ms += 1
        await written(short, 600, first=400)
        (lease,) = await short.log.leases()
        assert (lease.lost, lease.until_ms) == (True, clock.ms)
        assert not await short.log.lease("away", start)
        assert not await short.log.leases(), "a lost lease keeps no events"
        batch = await short.log.read(start, 10)
        assert batch.lost

    run(scene())


def test_an_ended_lease_can_be_renewed_while_its_events_are_there(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        start = await short.log.end()
        assert await short.log.lease("away", start)
        await written(short, 20)
        clock.ms += 2 * HOUR_MS
        assert [lease.lost for lease in await short.log.leases()] == [True]
        assert await short.log.lease("away", start)
        await written(short, 600, first=20)
        assert await read_since(short, start) == list(range(620))

    run(scene())


def test_events_kept_by_leases_are_bounded_and_a_holder_too_far_behind_learns_it(
    engine: Engine, tmp_path: Path, run: Run
) -> None:
    async def scene(logged: Logged) -> None:
        await logged.edges.declare(["follows"])
        start = await logged.log.end()
        assert await logged.log.lease("slow", start)
        await written(logged, 200)
        assert await read_since(logged, start) == list(range(200))
        await written(logged, 3_000, first=200)
        assert (await logged.log.read(start, 10)).lost
        assert (await logged.log.behind(start)).lost
        assert [lease.lost for lease in await logged.log.leases()] == [True]
        assert not await logged.log.lease("slow", start)
        first = await logged.log.read(start, 10_000)
        assert len(first.events) < 2_500

    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, leased_little=True) as logged:
        run(scene(logged))


def test_a_position_that_is_forgotten_or_of_another_log_cannot_be_leased(short: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(short, 600)
        assert not await short.log.lease("late", NOWHERE)
        assert not await short.log.leases()

    run(scene())


def test_the_number_of_leases_is_bounded_and_lost_ones_make_room(short: Logged, clock: FakeClock, run: Run) -> None:
    async def scene() -> None:
        start = await short.log.end()
        for number in range(LEASES_MAX):
            assert await short.log.lease(f"reader-{number}", start)
        with pytest.raises(Overloaded):
            await short.log.lease("one-more", start)
        assert await short.log.lease("reader-7", start), "a held lease can be renewed"
        clock.ms += HOUR_MS
        assert await short.log.lease("one-more", start)
        assert [lease.name for lease in await short.log.leases()] == ["one-more"]

    run(scene())


def test_a_lease_survives_a_restart(engine: Engine, tmp_path: Path, clock: FakeClock, run: Run) -> None:
    if not engine.keeps:
        pytest.skip("this engine keeps nothing")
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as logged:
        run(logged.edges.declare(["follows"]))
        start = run(logged.log.end())
        assert run(logged.log.lease("backup", start))
    with engine.logs(tmp_path / "data", events_max=FEW, now_ms=clock) as logged:
        run(written(logged, 400))
        assert run(read_since(logged, start)) == list(range(400))
