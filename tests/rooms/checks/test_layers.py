"""Which layer of checks answers, and when a layer is skipped; `property/test_checks_model.py` tests histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from checks_world import BLOCKS, FOLLOWS, LIKES, ChecksWorld
from coroutines import Run
from structlog.testing import capture_logs

from kith.checks import layers, live_filter, worker
from kith.checks.layers import STALE_S, RequestPositionLog
from kith.checks.live_filter import FILTER_LAG_MAX_S
from kith.core.ids import NodeId
from kith.graph.edge import EdgeWrite, State


def test_each_layer_answers_what_the_one_before_it_cannot(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        assert await world.ask(BOB, CAROL) == ([True, False], [("store", 1, 1)])
        await world.keep()
        assert await world.ask(BOB, CAROL) == ([True, False], [("store", 1, 1)]), "this request filled the set"
        assert await world.ask(BOB, CAROL) == ([True, False], [("cache", 1, 1)])
        await world.maker.make()
        await world.feed()
        assert await world.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("cache", 1, 0)])
        assert await world.ask(CAROL) == ([False], [("filter", 0, 1)])
        assert await world.ask(BOB, graph=LIKES) == ([False], [("store", 0, 1)]), "a graph that no layer has"

    run(scene())


def test_a_block_is_never_answered_by_the_cache(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        block = world.graph.edge_now(BLOCKS, ALICE, BOB, State.NORMAL)
        await world.edges.apply([EdgeWrite(block)])
        await world.maker.make()
        await world.feed()
        await world.keep()
        for _ in range(2):
            assert await world.ask(BOB, CAROL, graph=BLOCKS) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_layers_that_are_out_of_date_do_not_answer(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        await world.maker.make()
        await world.feed()
        await world.keep()
        await world.ask(BOB)
        await world.unfollow(BOB)
        await world.follow(CAROL)
        world.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        await world.tracked.refresh()  # the cache answers, but no process invalidates its sets
        assert await world.ask(BOB, CAROL) == ([False, True], [("store", 1, 1)])
        world.clock.ms += int(STALE_S * 1_000)
        assert await world.ask(BOB, CAROL) == ([False, True], [("store", 1, 1)])

    run(scene())


def test_layers_do_not_answer_before_they_read_the_log_to_its_end(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (live_filter, worker):
        monkeypatch.setattr(module, "_READ_MAX", 2)

    async def scene() -> None:
        await world.follow(BOB)
        await world.maker.make()
        await world.feed()
        await world.keep()
        await world.ask(BOB)
        others = [world.graph.edge_now(FOLLOWS, CAROL, NodeId(one), State.NORMAL) for one in range(100, 103)]
        await world.edges.apply([EdgeWrite(edge) for edge in others])
        await world.follow(DANA)
        await world.unfollow(BOB)
        world.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        assert await world.filter.step()
        assert await world.invalidator.step()
        await world.tracked.refresh()
        assert (await world.ask(BOB, DANA)) == ([False, True], [("store", 1, 1)])

    run(scene())


def test_a_process_without_news_of_the_cache_does_not_use_it(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        await world.keep()
        await world.ask(BOB)
        world.sets._kept_until_ms += 60_000  # as other processes learn
        assert (await world.ask(BOB))[1] == [("cache", 1, 0)]
        world.clock.ms += int((STALE_S - FILTER_LAG_MAX_S) * 1_000)
        assert (await world.ask(BOB))[1] == [("store", 1, 0)]

    run(scene())


def test_a_cache_that_does_not_answer_is_logged(run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_PAUSE_S", 0.0)
    monkeypatch.setattr(world.sets, "progress", asyncio.Event().wait)

    async def scene() -> None:
        with capture_logs() as logged:
            asking = asyncio.create_task(world.tracked.run())
            while not logged:  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(0)
            asking.cancel()
        assert logged[0]["error"]

    run(scene())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_reader_with_several_tokens_bypasses_layers_behind_any_of_them(
    run: Run, world: ChecksWorld, order: tuple[int, int]
) -> None:
    async def scene() -> None:
        old = await world.follow(DANA)
        await world.maker.make()
        await world.feed()
        await world.keep()
        await world.ask(BOB)
        new = await world.follow(BOB)

        async def with_tokens() -> tuple[list[bool], Any]:
            log = RequestPositionLog(world.log)
            for at in order:
                assert await log.reached((old, new)[at])
            return await world.ask(BOB)

        assert (await asyncio.create_task(with_tokens()))[0] == [True]

    run(scene())


@pytest.mark.parametrize("change", [ChecksWorld.follow, ChecksWorld.unfollow], ids=["new", "gone"])
def test_a_reader_with_a_token_bypasses_layers_behind_it(
    run: Run, world: ChecksWorld, change: Callable[[ChecksWorld, int], Any]
) -> None:
    async def scene() -> None:
        await world.follow(BOB if change is ChecksWorld.unfollow else DANA)
        await world.maker.make()
        await world.feed()
        await world.keep()
        await world.ask(BOB)
        before, _ = await world.ask(BOB)
        mark = await change(world, BOB)
        assert (await world.ask(BOB))[0] == before, "a reader without a token gets a slightly older answer"

        async def with_token() -> tuple[list[bool], Any]:
            await RequestPositionLog(world.log).reached(mark)
            return await world.ask(BOB)

        after = [not there for there in before]
        (found, by) = await asyncio.create_task(with_token())
        assert (found, [layer for layer, _, _ in by]) == (after, ["store"])
        await world.feed()
        await world.keep()
        assert (await asyncio.create_task(with_token()))[0] == after
        assert (await world.ask(BOB))[0] == after

    run(scene())
