"""The filter of checks: the snapshots it starts from, how it follows the log, and when it is discarded."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from layered import FOLLOWED_PLACES, FOLLOWS, LIKES, Layered

from kith.checks import live_filter, snapshots
from kith.checks.live_filter import FILTER_LAG_MAX_S
from kith.checks.snapshots import Snapshot, Snapshots
from kith.checks.worker import FILTER_REBUILD_MS
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, Event
from kith.engines.blobs.archives import FolderArchive
from kith.graph.edge import Edge, State
from kith.graph.questions import Questions


def test_questions_skip_the_store_for_edges_that_the_filter_rules_out(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        questions = Questions()
        first = questions.states([(FOLLOWS, ALICE, CAROL), (FOLLOWS, ALICE, BOB), (LIKES, ALICE, BOB)])
        towards, nodes = questions.towards(FOLLOWS, ALICE, [BOB, CAROL]), questions.nodes([ALICE])
        answers = await layered.layers.answer(questions)
        assert answers.states[first] == [None, State.NORMAL, None]
        assert answers.towards[towards] == [State.NORMAL, None]
        assert len(answers.nodes[nodes]) == 1
        assert len(questions) == 6, "the questions are unchanged"

    run(scene())


def test_a_filter_is_discarded_where_the_log_lacks_changes(run: Run, tmp_path: Path) -> None:
    async def scene(load: bool) -> None:
        layered = Layered(tmp_path / str(load), events_max=3)
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.log.release("filter of checks")
        await layered.feed()
        if load:
            await layered.log.announce(Event(FOLLOWS, None, BULK_LOADED, 7, 0, 0, layered.graph.clock.next()))
        else:
            await layered.follow(*range(100, 110))
        await layered.feed()
        assert layered.filter.newest is None
        assert (await layered.ask(CAROL))[1] == [("store", 0, 1)]
        layered.clock.ms += FILTER_REBUILD_MS
        assert await layered.maker.make()
        await layered.feed()
        assert (await layered.ask(CAROL))[1] == [("filter", 0, 1)]

    run(scene(False))
    run(scene(True))


def test_a_spoilt_snapshot_is_not_used_and_another_is_made(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        assert await layered.maker.make()
        assert not await layered.maker.make(), "a recent, intact snapshot is enough"
        (name,) = layered.snapshots.names()
        file, chosen = layered.folder / name, random.Random(5)
        whole = file.read_bytes()
        for place in (0, 33, 40, *(chosen.randrange(len(whole)) for _ in range(FOLLOWED_PLACES))):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            assert Snapshots(FolderArchive(layered.folder)).newest() is None
        for length in (0, 20, 100, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert Snapshots(FolderArchive(layered.folder)).newest() is None
        await layered.feed()
        assert layered.filter.newest is None
        layered.clock.ms += 40_000
        assert await layered.maker.make()
        await layered.feed()
        assert await layered.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_a_spoilt_snapshot_is_read_once_and_the_previous_one_serves(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        assert await layered.maker.make()
        layered.clock.ms += FILTER_REBUILD_MS
        assert await layered.maker.make()
        newest, before = layered.snapshots.names()
        (layered.folder / newest).write_bytes(b"spoilt")
        read, load = Counter[str](), Snapshots.load

        def loading(of: Snapshots, name: str) -> Snapshot:
            read[name] += 1
            return load(of, name)

        monkeypatch.setattr(Snapshots, "load", loading)
        for _ in range(5):  # a snapshot may fill the memory, and each process looks for one every 30 s
            await layered.feed()
        assert read == {newest: 1, before: 1}
        assert await layered.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_a_newer_snapshot_takes_over_without_a_gap_and_forgets_removed_edges(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB, CAROL)
        await layered.maker.make()
        await layered.feed()
        await layered.unfollow(CAROL)
        await layered.feed()
        assert (await layered.ask(CAROL))[1] == [("store", 0, 1)], "it still says maybe for the removed edge"
        layered.clock.ms += FILTER_REBUILD_MS
        assert await layered.maker.make()
        await layered.follow(DANA)
        await layered.filter.reload()
        while await layered.filter.step():
            assert layered.filter.newest is not None
        assert await layered.ask(CAROL, DANA) == ([False, True], [("filter", 0, 1), ("store", 1, 0)])
        layered.clock.ms += FILTER_REBUILD_MS
        assert await layered.maker.make()
        assert len(layered.snapshots.names()) == 2

    run(scene())


def test_a_filter_that_became_too_small_is_rebuilt(run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FILTER_GROWTH_MIN", 3)

    async def scene() -> None:
        assert await layered.maker.make()
        await layered.follow(BOB, CAROL, DANA)
        assert not await layered.maker.make()
        await layered.follow(100)
        layered.clock.ms += 1
        assert await layered.maker.make()

    run(scene())


def test_a_filter_continues_while_the_snapshot_store_is_away(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the bucket is away")

    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        monkeypatch.setattr(layered.snapshots, "newest", away)
        layered.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        running = asyncio.create_task(layered.filter.run())
        for _ in range(1_000):
            if (await layered.ask(CAROL))[1] == [("filter", 0, 1)]:
                break
            await asyncio.sleep(0.01)
        running.cancel()
        assert (await layered.ask(CAROL))[1] == [("filter", 0, 1)]

    run(scene())


def test_a_filter_answers_while_others_write_without_end(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_filter, "_READ_MAX", 1)

    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        layered.clock.ms += int(FILTER_LAG_MAX_S * 1_000)
        await layered.follow(100, 101)
        assert await layered.filter.step(), "it learns where the log ends"
        assert (await layered.ask(CAROL))[1] == [("store", 0, 1)]
        await layered.follow(102)
        assert await layered.filter.step(), "the log has grown"
        assert (await layered.ask(CAROL))[1] == [("filter", 0, 1)], "it read to the end that it had learned"

    run(scene())


def test_no_filter_is_made_for_more_edges_than_it_may_hold(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        layered = Layered(tmp_path, edges_max=2)
        await layered.follow(BOB, CAROL, DANA)
        assert not await layered.maker.make()
        assert layered.snapshots.names() == []
        await layered.unfollow(DANA)
        stored, scans = layered.edges.stored, list[int]()

        def scanning(graph: int) -> AsyncIterator[list[Edge]]:
            scans.append(graph)
            return stored(graph)

        monkeypatch.setattr(layered.edges, "stored", scanning)
        for _ in range(5):  # a worker tries every ten minutes, and a scan reads all edges
            layered.clock.ms += 600_000
            assert not await layered.maker.make()
        assert scans == []
        layered.clock.ms += FILTER_REBUILD_MS
        assert await layered.maker.make()

    run(scene())
