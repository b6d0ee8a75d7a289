"""Which sets are cached for checks, which process maintains them, and what makes them restart from empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cast import BOB, CAROL
from checks_world import FOLLOWS, ChecksWorld
from coroutines import Run

from kith.checks import layers
from kith.checks.worker import NAME, SetInvalidator, lag
from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.graph.edge import EdgeWrite, State
from kith.leases.holding import Leases


def test_sets_with_expiring_edges_or_too_many_edges_are_not_cached(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SET_IDS_MAX", 3)

    async def scene() -> None:
        await world.keep()
        await world.follow(BOB, expires_ms=world.clock.ms + 500)
        await world.keep()
        assert await world.ask(BOB) == ([True], [("store", 1, 0)])
        assert await world.ask(BOB) == ([True], [("store", 1, 0)])
        world.clock.ms += 500
        assert (await world.ask(BOB))[0] == [False]
        await world.follow(*range(100, 104))
        world.clock.ms += int(2_000 * layers.SET_TTL_S)
        await world.keep()
        for _ in range(2):
            assert await world.ask(100) == ([True], [("store", 1, 0)])
        assert {kept for kept, _ in world.sets.sets.values()} == {None}

    run(scene())


def test_a_set_read_before_a_change_is_not_stored_after_it(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        await world.keep()
        read = world.edges.get_many

        async def slowly(*asked: Any) -> Any:
            found = await read(*asked)
            await world.unfollow(BOB)
            await world.keep()
            return found

        world.edges.get_many = slowly  # type: ignore[method-assign]
        await world.ask(BOB)
        world.edges.get_many = read  # type: ignore[method-assign]
        assert (await world.ask(BOB))[0] == [False]
        assert await world.ask(BOB) == ([False], [("cache", 0, 1)])

    run(scene())


def test_sets_restart_empty_where_changes_are_unknown(run: Run, tmp_path: Path) -> None:
    async def scene(lose: Callable[[ChecksWorld], Any]) -> None:
        world = ChecksWorld(tmp_path, events_max=3)
        await world.follow(BOB)
        await world.keep()
        await world.ask(BOB)
        await world.unfollow(BOB)
        await lose(world)
        world.invalidator._progress = None  # another process maintains the sets now
        await world.keep()
        assert await world.ask(BOB) == ([False], [("store", 0, 1)])
        assert await world.ask(BOB) == ([False], [("cache", 0, 1)])

    async def forget_events(world: ChecksWorld) -> None:
        others = [world.graph.edge_now(FOLLOWS, BOB, NodeId(one), State.NORMAL) for one in range(100, 110)]
        await world.edges.apply([EdgeWrite(edge) for edge in others])

    async def load(world: ChecksWorld) -> None:
        await world.log.announce(Event(FOLLOWS, None, BULK_LOADED, 7, 0, 0, world.graph.clock.next()))

    async def empty(world: ChecksWorld) -> None:
        world.sets.empty()

    for lose in (forget_events, load, empty):
        run(scene(lose))


def test_one_process_maintains_sets_and_its_successor_resumes(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        leases = Leases(world.leases, world.now_s)
        running = asyncio.create_task(world.invalidator.run())
        for _ in range(1_000):
            if world.sets._last is not None:
                break
            await asyncio.sleep(0)
        async with leases.hold(NAME) as held:
            assert held is None, "one process at a time"
        world.invalidator.stop()
        await running
        first = await world.sets.last_progress()
        await world.follow(BOB, CAROL)
        behind = await lag(world.sets, world.log, world.clock.ms)
        assert behind is not None
        assert behind.events == 2
        other = SetInvalidator(world.sets, world.log, leases, [FOLLOWS], world.now_s)
        while await other.step():
            pass
        last = await world.sets.last_progress()
        assert first is not None
        assert last is not None
        assert last.generation == first.generation
        assert last.at == await world.log.end()

    run(scene())
