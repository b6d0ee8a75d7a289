"""The filter of checks: the snapshots it starts from, how it follows the log, and when it is discarded."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cast import ALICE, BOB, CAROL, DANA
from checks_world import FOLLOWED_PLACES, FOLLOWS, LIKES, ChecksWorld
from coroutines import Run

from kith.checks import live_filter, snapshots
from kith.checks.live_filter import FILTER_LAG_MAX_S
from kith.checks.snapshots import Snapshot, Snapshots
from kith.checks.worker import FILTER_REBUILD_MS
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, Event
from kith.engines.blobs.archives import FolderArchive
from kith.graph.edge import Edge, State
from kith.graph.questions import Questions


def test_questions_skip_the_store_for_edges_that_the_filter_rules_out(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        await world.maker.make()
        await world.feed()
        questions = Questions()
        first = questions.states([(FOLLOWS, ALICE, CAROL), (FOLLOWS, ALICE, BOB), (LIKES, ALICE, BOB)])
        towards, nodes = questions.towards(FOLLOWS, ALICE, [BOB, CAROL]), questions.nodes([ALICE])
        answers = await world.layers.answer(questions)
        assert answers.states[first] == [None, State.NORMAL, None]
        assert answers.towards[towards] == [State.NORMAL, None]
        assert len(answers.nodes[nodes]) == 1
        assert len(questions) == 6, "the questions are unchanged"

    run(scene())


def test_a_filter_is_discarded_where_the_log_lacks_changes(run: Run, tmp_path: Path) -> None:
    async def scene(load: bool) -> None:
        world = ChecksWorld(tmp_path / str(load), events_max=3)
        await world.follow(BOB)
        await world.maker.make()
        await world.log.release("filter of checks")
        await world.feed()
        if load:
            await world.log.announce(Event(FOLLOWS, None, BULK_LOADED, 7, 0, 0, world.graph.clock.next()))
        else:
            await world.follow(*range(100, 110))
        await world.feed()
        assert world.filter.newest is None
        assert (await world.ask(CAROL))[1] == [("store", 0, 1)]
        world.clock.ms += FILTER_REBUILD_MS
        assert await world.maker.make()
        await world.feed()
        assert (await world.ask(CAROL))[1] == [("filter", 0, 1)]

    run(scene(False))
    run(scene(True))


def test_a_spoilt_snapshot_is_not_used_and_another_is_made(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        assert await world.maker.make()
        assert not await world.maker.make(), "a recent, intact snapshot is enough"
        (name,) = world.snapshots.names()
        file, chosen = world.folder / name, random.Random(5)
        whole = file.read_bytes()
        for place in (0, 33, 40, *(chosen.randrange(len(whole)) for _ in range(FOLLOWED_PLACES))):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            assert Snapshots(FolderArchive(world.folder)).newest() is None
        for length in (0, 20, 100, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert Snapshots(FolderArchive(world.folder)).newest() is None
        await world.feed()
        assert world.filter.newest is None
        world.clock.ms += 40_000
        assert await world.maker.make()
        await world.feed()
        assert await world.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_a_spoilt_snapshot_is_read_once_and_the_previous_one_serves(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        await world.follow(BOB)
        assert await world.maker.make()
        world.clock.ms += FILTER_REBUILD_MS
        assert await world.maker.make()
        newest, before = world.snapshots.names()
        (world.folder / newest).write_bytes(b"spoilt")
        read, load = Counter[str](), Snapshots.load

        def loading(of: Snapshots, name: str) -> Snapshot:
            read[name] += 1
            return load(of, name)

        monkeypatch.setattr(Snapshots, "load", loading)
        for _ in range(5):  # a snapshot may fill the memory, and each process looks for one every 30 s
            await world.feed()
        assert read == {newest: 1, before: 1}
        assert await world.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_a_newer_snapshot_takes_over_without_a_gap_and_forgets_removed_edges(run: Run, world: ChecksWorld) -> None:
    async def scene() -> None:
        await world.follow(BOB, CAROL)
        await world.maker.make()
        await world.feed()
        await world.unfollow(CAROL)
        await world.feed()
        assert (await world.ask(CAROL))[1] == [("store", 0, 1)], "it still says maybe for the removed edge"
        world.clock.ms += FILTER_REBUILD_MS
        assert await world.maker.make()
        await world.follow(DANA)
        await world.filter.reload()
        while await world.filter.step():
            assert world.filter.newest is not None
        assert await world.ask(CAROL, DANA) == ([False, True], [("filter", 0, 1), ("store", 1, 0)])
        world.clock.ms += FILTER_REBUILD_MS
        assert await world.maker.make()
        assert len(world.snapshots.names()) == 2

    run(scene())


def test_a_filter_that_became_too_small_is_rebuilt(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FILTER_GROWTH_MIN", 3)

    async def scene() -> None:
        assert await world.maker.make()
        await world.follow(BOB, CAROL, DANA)
        assert not await world.maker.make()
        await world.follow(100)
        world.clock.ms += 1
        assert await world.maker.make()

    run(scene())


def test_a_filter_continues_while_the_snapshot_store_is_away(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the bucket is away")

    async def scene() -> None:
        await world.follow(BOB)
        await world.maker.make()
        await world.feed()
        monkeypatch.setattr(world.snapshots, "newest", away)
        world.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        running = asyncio.create_task(world.filter.run())
        for _ in range(1_000):
            if (await world.ask(CAROL))[1] == [("filter", 0, 1)]:
                break
            await asyncio.sleep(0.01)
        running.cancel()
        assert (await world.ask(CAROL))[1] == [("filter", 0, 1)]

    run(scene())


def test_a_filter_answers_while_others_write_without_end(
    run: Run, world: ChecksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_filter, "_READ_MAX", 1)

    async def scene() -> None:
        await world.follow(BOB)
        await world.maker.make()
        await world.feed()
        world.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        await world.follow(100, 101)
        assert await world.filter.step(), "it learns where the log ends"
        assert (await world.ask(CAROL))[1] == [("store", 0, 1)]
        await world.follow(102)
        assert await world.filter.step(), "the log has grown"
        assert (await world.ask(CAROL))[1] == [("filter", 0, 1)], "it read to the end that it had learned"

    run(scene())


def test_no_filter_is_made_for_more_edges_than_it_may_hold(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        world = ChecksWorld(tmp_path, edges_max=2)
        await world.follow(BOB, CAROL, DANA)
        assert not await world.maker.make()
        assert world.snapshots.names() == []
        await world.unfollow(DANA)
        stored, scans = world.edges.stored, list[int]()

        def scanning(graph: int) -> AsyncIterator[list[Edge]]:
            scans.append(graph)
            return stored(graph)

        monkeypatch.setattr(world.edges, "stored", scanning)
        for _ in range(5):  # a worker tries every ten minutes, and a scan reads all edges
            world.clock.ms += 600_000
            assert not await world.maker.make()
        assert scans == []
        world.clock.ms += FILTER_REBUILD_MS
        assert await world.maker.make()

    run(scene())
