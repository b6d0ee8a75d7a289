"""What each layer of checks does where something fails, a scene each; `property/test_checks_model.py` has histories."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from reference_edges import ReferenceEdges
from reference_leases import ReferenceLeases
from reference_logs import ReferenceLog
from reference_sets import ReferenceSets

from kith.checks import following, keeper, layers, snapshots
from kith.checks.following import FRESH_S, FollowedFilter
from kith.checks.keeper import MADE_EVERY_MS, NAME, SetKeeper, SnapshotMaker, lag
from kith.checks.layers import STALE_S, LayeredEdges, SeenLog, StandingSets
from kith.checks.snapshots import Snapshots
from kith.core.clock import HybridClock
from kith.core.errors import StoreUnavailable
from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.engines.blobs.archives import FolderArchive
from kith.graph.edge import EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.graph.questions import Questions
from kith.leases.holding import Leases

FOLLOWS, BLOCKS, LIKES = 1, 2, 3
FOLLOWED_PLACES = 20


class Layered:
    """A store with its log, and layers over it whose parts a test moves by hand."""

    def __init__(self, folder: Path, events_max: int = 10**9, edges_max: int = 10_000) -> None:
        self.clock, self.edges, self.folder = FakeClock(), ReferenceEdges(), folder
        self.edges.events.now_ms = self.clock
        self.log = ReferenceLog(self.edges, events_max)
        self.graph = Graph(self.edges, Graphs({"follows": FOLLOWS, "blocks": BLOCKS, "likes": LIKES}), HybridClock())
        self.sets, self.leases = ReferenceSets(self.clock), ReferenceLeases(self.clock)
        self.keeper = SetKeeper(self.sets, self.log, Leases(self.leases, self.now_s), [FOLLOWS], self.now_s)
        self.snapshots, covered = Snapshots(FolderArchive(folder)), {"follows": FOLLOWS, "blocks": BLOCKS}
        self.maker = SnapshotMaker(
            self.snapshots, self.edges, self.log, covered, edges_max=edges_max, now_ms=self.clock
        )
        self.filter = FollowedFilter(self.snapshots, self.log, covered, self.now_s)
        self.standing = StandingSets(self.sets, [FOLLOWS], self.now_s)
        self.layers = LayeredEdges(self.edges, self.log, self.filter, self.standing, self)
        self.by: list[tuple[str, int, int]] = []

    def now_s(self) -> float:
        return self.clock.ms / 1_000

    def checked(self, layer: str, there: int, absent: int) -> None:
        self.by.append((layer, there, absent))

    async def follow(self, *whom: int, expires_ms: int = 0) -> Any:
        """Alice follows these; the mark of the last."""
        made = [self.graph.now(FOLLOWS, ALICE, NodeId(one), State.NORMAL) for one in whom]
        edges = [msgspec.structs.replace(edge, expires_ms=expires_ms) for edge in made]
        changes = await self.edges.apply([EdgeWrite(edge, supersede=True) for edge in edges])
        return changes[-1].mark

    async def unfollow(self, whom: int) -> Any:
        (change,) = await self.edges.apply([self.graph.dropping(FOLLOWS, ALICE, NodeId(whom))])
        return change.mark

    async def keep(self) -> None:
        while await self.keeper.step():
            pass
        await self.standing.learn()

    async def feed(self) -> None:
        await self.filter.look()
        while await self.filter.step():
            pass

    async def ask(self, *whom: int, graph: int = FOLLOWS) -> tuple[list[bool], list[tuple[str, int, int]]]:
        """Whether Alice has edges to these, and who said so."""
        self.by = []
        found = await self.layers.exists_many(graph, [(ALICE, one) for one in whom])
        await self.layers.settled()
        return found, self.by


@pytest.fixture
def layered(tmp_path: Path) -> Layered:
    return Layered(tmp_path)


def test_each_layer_answers_what_the_one_before_it_cannot(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        assert await layered.ask(BOB, CAROL) == ([True, False], [("store", 1, 1)])
        await layered.keep()
        assert await layered.ask(BOB, CAROL) == ([True, False], [("store", 1, 1)]), "this brought the set"
        assert await layered.ask(BOB, CAROL) == ([True, False], [("cache", 1, 1)])
        await layered.maker.make()
        await layered.feed()
        assert await layered.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("cache", 1, 0)])
        assert await layered.ask(CAROL) == ([False], [("filter", 0, 1)])
        assert await layered.ask(BOB, graph=LIKES) == ([False], [("store", 0, 1)]), "a graph that no layer has"

    run(scene())


def test_a_block_is_never_answered_by_the_cache(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        block = layered.graph.now(BLOCKS, ALICE, BOB, State.NORMAL)
        await layered.edges.apply([EdgeWrite(block)])
        await layered.maker.make()
        await layered.feed()
        await layered.keep()
        for _ in range(2):
            assert await layered.ask(BOB, CAROL, graph=BLOCKS) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_questions_ask_the_store_only_what_the_filter_does_not_know(run: Run, layered: Layered) -> None:
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
        assert len(questions) == 6, "what was asked is as it was"

    run(scene())


def test_nothing_is_answered_by_what_is_no_longer_kept_up_to_date(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        await layered.keep()
        await layered.ask(BOB)
        await layered.unfollow(BOB)
        await layered.follow(CAROL)
        layered.clock.ms += int(FRESH_S * 1_000)
        await layered.standing.learn()  # the cache's memory is there, but nobody drops anything
        assert await layered.ask(BOB, CAROL) == ([False, True], [("store", 1, 1)])
        layered.clock.ms += int(STALE_S * 1_000)
        assert await layered.ask(BOB, CAROL) == ([False, True], [("store", 1, 1)])

    run(scene())


def test_nothing_is_answered_before_all_that_the_log_has_is_read(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (following, keeper):
        monkeypatch.setattr(module, "_READ_MAX", 2)

    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        await layered.keep()
        await layered.ask(BOB)
        others = [layered.graph.now(FOLLOWS, CAROL, NodeId(one), State.NORMAL) for one in range(100, 103)]
        await layered.edges.apply([EdgeWrite(edge) for edge in others])
        await layered.follow(DANA)
        await layered.unfollow(BOB)
        layered.clock.ms += int(FRESH_S * 1_000)
        assert await layered.filter.step()
        assert await layered.keeper.step()
        await layered.standing.learn()
        assert (await layered.ask(BOB, DANA)) == ([False, True], [("store", 1, 1)])

    run(scene())


def test_a_process_that_hears_nothing_of_the_cache_does_not_ask_it(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        await layered.keep()
        await layered.ask(BOB)
        layered.sets._stands_until_ms += 60_000  # as for others, who hear of it
        assert (await layered.ask(BOB))[1] == [("cache", 1, 0)]
        layered.clock.ms += int((STALE_S - FRESH_S) * 1_000)
        assert (await layered.ask(BOB))[1] == [("store", 1, 0)]

    run(scene())


@pytest.mark.parametrize("change", [Layered.follow, Layered.unfollow], ids=["new", "gone"])
def test_whoever_carries_a_token_goes_around_what_is_behind_it(
    run: Run, layered: Layered, change: Callable[[Layered, int], Any]
) -> None:
    async def scene() -> None:
        await layered.follow(BOB if change is Layered.unfollow else DANA)
        await layered.maker.make()
        await layered.feed()
        await layered.keep()
        await layered.ask(BOB)
        before, _ = await layered.ask(BOB)
        mark = await change(layered, BOB)
        assert (await layered.ask(BOB))[0] == before, "who has none is answered as of a moment ago"

        async def with_token() -> tuple[list[bool], Any]:
            await SeenLog(layered.log).reached(mark)
            return await layered.ask(BOB)

        after = [not there for there in before]
        (found, by) = await asyncio.create_task(with_token())
        assert (found, [layer for layer, _, _ in by]) == (after, ["store"])
        await layered.feed()
        await layered.keep()
        assert (await asyncio.create_task(with_token()))[0] == after
        assert (await layered.ask(BOB))[0] == after

    run(scene())


def test_sets_with_edges_that_end_or_too_many_of_them_are_not_kept(
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
        layered.clock.ms += int(2_000 * layers.KEPT_S)
        await layered.keep()
        for _ in range(2):
            assert await layered.ask(100) == ([True], [("store", 1, 0)])
        assert {kept for kept, _ in layered.sets.sets.values()} == {None}

    run(scene())


def test_a_set_that_was_read_before_a_change_is_not_brought_after_it(run: Run, layered: Layered) -> None:
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


def test_sets_begin_anew_where_nobody_can_say_what_changed(run: Run, tmp_path: Path) -> None:
    async def scene(lose: Callable[[Layered], Any]) -> None:
        layered = Layered(tmp_path, events_max=3)
        await layered.follow(BOB)
        await layered.keep()
        await layered.ask(BOB)
        await layered.unfollow(BOB)
        await lose(layered)
        layered.keeper._standing = None  # another process keeps them now
        await layered.keep()
        assert await layered.ask(BOB) == ([False], [("store", 0, 1)])
        assert await layered.ask(BOB) == ([False], [("cache", 0, 1)])

    async def forget_events(layered: Layered) -> None:
        others = [layered.graph.now(FOLLOWS, BOB, NodeId(one), State.NORMAL) for one in range(100, 110)]
        await layered.edges.apply([EdgeWrite(edge) for edge in others])

    async def load(layered: Layered) -> None:
        await layered.log.announce(Event(FOLLOWS, None, BULK_LOADED, 7, 0, 0, layered.graph.clock.next()))

    async def empty(layered: Layered) -> None:
        layered.sets.empty()

    for lose in (forget_events, load, empty):
        run(scene(lose))


def test_a_filter_is_given_up_where_the_log_does_not_tell_all_that_is_new(run: Run, tmp_path: Path) -> None:
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
        layered.clock.ms += MADE_EVERY_MS
        assert await layered.maker.make()
        await layered.feed()
        assert (await layered.ask(CAROL))[1] == [("filter", 0, 1)]

    run(scene(False))
    run(scene(True))


def test_a_spoilt_snapshot_is_not_used_and_another_is_made(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB)
        assert await layered.maker.make()
        assert not await layered.maker.make(), "one that is young and whole is enough"
        (name,) = layered.snapshots.names()
        file, chosen = layered.folder / name, random.Random(5)
        whole = file.read_bytes()
        for place in (0, 33, 40, *(chosen.randrange(len(whole)) for _ in range(FOLLOWED_PLACES))):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            assert layered.snapshots.newest() is None
        for length in (0, 20, 100, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert layered.snapshots.newest() is None
        await layered.feed()
        assert layered.filter.newest is None
        layered.clock.ms += 40_000
        assert await layered.maker.make()
        await layered.feed()
        assert await layered.ask(BOB, CAROL) == ([True, False], [("filter", 0, 1), ("store", 1, 0)])

    run(scene())


def test_a_newer_snapshot_takes_over_without_a_gap_and_lets_go_of_who_left(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        await layered.follow(BOB, CAROL)
        await layered.maker.make()
        await layered.feed()
        await layered.unfollow(CAROL)
        await layered.feed()
        assert (await layered.ask(CAROL))[1] == [("store", 0, 1)], "it says maybe of one who left"
        layered.clock.ms += MADE_EVERY_MS
        assert await layered.maker.make()
        await layered.follow(DANA)
        await layered.filter.look()
        while await layered.filter.step():
            assert layered.filter.newest is not None
        assert await layered.ask(CAROL, DANA) == ([False, True], [("filter", 0, 1), ("store", 1, 0)])
        layered.clock.ms += MADE_EVERY_MS
        assert await layered.maker.make()
        assert len(layered.snapshots.names()) == 2

    run(scene())


def test_a_filter_that_became_too_small_is_made_anew(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LEAST_ROOM", 3)

    async def scene() -> None:
        assert await layered.maker.make()
        await layered.follow(BOB, CAROL, DANA)
        assert not await layered.maker.make()
        await layered.follow(100)
        layered.clock.ms += 1
        assert await layered.maker.make()

    run(scene())


def test_a_filter_goes_on_while_the_place_of_snapshots_is_away(
    run: Run, layered: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the bucket is away")

    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        monkeypatch.setattr(layered.snapshots, "newest", away)
        layered.clock.ms += int(FRESH_S * 1_000)
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
    monkeypatch.setattr(following, "_READ_MAX", 1)

    async def scene() -> None:
        await layered.follow(BOB)
        await layered.maker.make()
        await layered.feed()
        layered.clock.ms += int(FRESH_S * 1_000)
        await layered.follow(100, 101)
        assert await layered.filter.step(), "it asks where the log ends"
        assert (await layered.ask(CAROL))[1] == [("store", 0, 1)]
        await layered.follow(102)
        assert await layered.filter.step(), "the log has gone on"
        assert (await layered.ask(CAROL))[1] == [("filter", 0, 1)], "it read what there was when that was asked"

    run(scene())


def test_more_edges_than_the_filter_may_hold_leave_none(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        layered = Layered(tmp_path, edges_max=2)
        await layered.follow(BOB, CAROL, DANA)
        assert not await layered.maker.make()
        assert layered.snapshots.names() == []
        await layered.unfollow(DANA)
        assert await layered.maker.make()

    run(scene())


def test_one_process_keeps_sets_and_the_next_goes_on_from_there(run: Run, layered: Layered) -> None:
    async def scene() -> None:
        leases = Leases(layered.leases, layered.now_s)
        running = asyncio.create_task(layered.keeper.run())
        for _ in range(1_000):
            if layered.sets._last is not None:
                break
            await asyncio.sleep(0)
        async with leases.hold(NAME) as held:
            assert held is None, "one process at a time"
        layered.keeper.stop()
        await running
        first = await layered.sets.last()
        await layered.follow(BOB, CAROL)
        behind = await lag(layered.sets, layered.log, layered.clock.ms)
        assert behind is not None
        assert behind.events == 2
        other = SetKeeper(layered.sets, layered.log, leases, [FOLLOWS], layered.now_s)
        while await other.step():
            pass
        last = await layered.sets.last()
        assert first is not None
        assert last is not None
        assert last.generation == first.generation
        assert last.at == await layered.log.end()

    run(scene())
