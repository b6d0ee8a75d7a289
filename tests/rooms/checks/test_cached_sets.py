"""Which sets are cached for checks, which process maintains them, and what makes them restart from empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cast import BOB, CAROL
from coroutines import Run
from layered import FOLLOWS, Layered

from kith.checks import layers
from kith.checks.worker import NAME, SetInvalidator, lag
from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.graph.edge import EdgeWrite, State
from kith.leases.holding import Leases


def test_sets_with_expiring_edges_or_too_many_edges_are_not_cached(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SET_IDS_MAX", 3)

    async def scene() -> None:
        await layered.keep()
        await layered.follow(BOB, expires_ms=layered.clock.ms + 500)
        await layered.keep()
        assert await layered.ask(BOB) == ([True], [("store", 1, 0)])
        assert await layered.ask(BOB) == ([True], [("store", 1, 0)])
        layered.clock.ms += 500
        assert (await layered.ask(BOB))[0] == [False]
        await layered.follow(*range(100, 104))
        layered.clock.ms += int(2_000 * layers.SET_TTL_S)
        await layered.keep()
        for _ in range(2):
            assert await layered.ask(100) == ([True], [("store", 1, 0)])
        assert {kept for kept, _ in layered.sets.sets.values()} == {None}

    run(scene())


def test_a_set_read_before_a_change_is_not_stored_after_it(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        await layered.keep()
        read = layered.edges.get_many

        async def slowly(*asked: Any) -> Any:
            found = await read(*asked)
            await layered.unfollow(BOB)
            await layered.keep()
            return found

        layered.edges.get_many = slowly  # type: ignore[method-assign]
        await layered.ask(BOB)
        layered.edges.get_many = read  # type: ignore[method-assign]
        assert (await layered.ask(BOB))[0] == [False]
        assert await layered.ask(BOB) == ([False], [("cache", 0, 1)])

    run(scene())


def test_sets_restart_empty_where_changes_are_unknown(run: Run, tmp_path: Path) -> None:
    async def scene(lose: Callable[[Layered], Any]) -> None:
        layered = Layered(tmp_path, events_max=3)
        await layered.follow(BOB)
        await layered.keep()
        await layered.ask(BOB)
        await layered.unfollow(BOB)
        await lose(layered)
        layered.invalidator._progress = None  # another process maintains the sets now
        await layered.keep()
        assert await layered.ask(BOB) == ([False], [("store", 0, 1)])
        assert await layered.ask(BOB) == ([False], [("cache", 0, 1)])

    async def forget_events(layered: Layered) -> None:
        others = [layered.graph.edge_now(FOLLOWS, BOB, NodeId(one), State.NORMAL) for one in range(100, 110)]
        await layered.edges.apply([EdgeWrite(edge) for edge in others])

    async def load(layered: Layered) -> None:
        await layered.log.announce(Event(FOLLOWS, None, BULK_LOADED, 7, 0, 0, layered.graph.clock.next()))

    async def empty(layered: Layered) -> None:
        layered.sets.empty()

    for lose in (forget_events, load, empty):
        run(scene(lose))


def test_one_process_maintains_sets_and_its_successor_resumes(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        leases = Leases(layered.leases, layered.now_s)
        running = asyncio.create_task(layered.invalidator.run())
        for _ in range(1_000):
            if layered.sets._last is not None:
                break
            await asyncio.sleep(0)
        async with leases.hold(NAME) as held:
            assert held is None, "one process at a time"
        layered.invalidator.stop()
        await running
        first = await layered.sets.last_progress()
        await layered.follow(BOB, CAROL)
        behind = await lag(layered.sets, layered.log, layered.clock.ms)
        assert behind is not None
        assert behind.events == 2
        other = SetInvalidator(layered.sets, layered.log, leases, [FOLLOWS], layered.now_s)
        while await other.step():
            pass
        last = await layered.sets.last_progress()
        assert first is not None
        assert last is not None
        assert last.generation == first.generation
        assert last.at == await layered.log.end()

    run(scene())
