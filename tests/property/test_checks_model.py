"""Checks through the layers agree with the store, whatever state the layers are in, and however late the log is.

Random histories: edges are added, removed and added again, in any order and repeatedly. Meanwhile the worker, the
process of the filter and the fillers of sets stop anywhere, snapshots are damaged, and the cache is emptied or down.
A caller with the token of a write sees that write. A caller without a token sees the state of at most STALE_S ago, even
if nothing happened since.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import FakeClock
from coroutines import run_coroutine
from reference_edges import ReferenceEdges
from reference_leases import ReferenceLeases
from reference_logs import HostileLog, Partitions, ReferenceLog
from reference_sets import ReferenceSets
from scrambled_edges import ScrambledEdges

from kith.checks.layers import STALE_S, LayeredEdges, RequestPositionLog, TrackedSets
from kith.checks.live_filter import LiveFilter
from kith.checks.snapshots import Snapshots
from kith.checks.worker import FILTER_REBUILD_MS, SetInvalidator, SnapshotMaker
from kith.core.clock import HybridClock
from kith.core.errors import KithError
from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.engines.blobs.archives import FolderArchive
from kith.graph.edge import EdgeWrite, Outcome, State, as_of
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.graph.questions import Questions
from kith.leases.holding import Leases

GRAPHS = {"follows": 1, "blocks": 2, "likes": 3}
COVERED, CACHED = {"follows": 1, "blocks": 2}, [1]
SOURCES, DESTINATIONS = range(1, 5), range(11, 17)
STEPS = 200


class Answered:
    """Counts which layers answered; a `CheckObserver`."""

    def __init__(self) -> None:
        self.by: dict[str, int] = {}

    def checked(self, layer: str, present: int, absent: int) -> None:
        self.by[layer] = self.by.get(layer, 0) + present + absent


class World:
    """A store, its log, and the layers of one process."""

    def __init__(self, folder: Path, seed: int, hostile: bool) -> None:
        self.chance, self.clock = random.Random(seed), FakeClock()
        edges: ReferenceEdges = ScrambledEdges(seed, events=Partitions(3, self.chance)) if hostile else ReferenceEdges()
        edges.events.now_ms = self.clock
        log: Any = HostileLog(edges, self.chance, 60) if isinstance(edges, ScrambledEdges) else ReferenceLog(edges)
        self.edges, self.log, self.seen = edges, log, RequestPositionLog(log)
        self.graph = Graph(edges, Graphs(GRAPHS), HybridClock(self.clock))
        self.files, self.sets, self.answered = FolderArchive(folder), ReferenceSets(self.clock), Answered()
        leases = Leases(ReferenceLeases(self.clock))
        self.invalidator = SetInvalidator(self.sets, log, leases, CACHED, self.now_s)
        snapshots = Snapshots(self.files)
        self.maker = SnapshotMaker(snapshots, edges, log, COVERED, edges_max=1_000, now_ms=self.clock)
        self.begin()

    def now_s(self) -> float:
        return self.clock.ms / 1_000

    def begin(self) -> None:
        """Restart the process."""
        self.filter = LiveFilter(Snapshots(self.files), self.log, COVERED, self.now_s)
        self.tracked = TrackedSets(self.sets, CACHED, self.now_s)
        self.layers = LayeredEdges(self.edges, self.log, self.filter, self.tracked, self.answered)

    def edge(self) -> tuple[int, int, int]:
        """A random edge of a few, so that most are written again."""
        return self.chance.choice((1, 1, 2, 3)), self.chance.choice(SOURCES), self.chance.choice(DESTINATIONS)

    async def write(self) -> None:
        """Change an edge. A caller with the token must see the change."""
        graph, source, destination = key = self.edge()
        self.clock.ms += 1
        state = self.chance.choice((State.NORMAL, State.NORMAL, State.REMOVED, State.ARCHIVED))
        write = self.graph.add_write if state is State.NORMAL else self.graph.remove_write
        asked = write(graph, NodeId(source), NodeId(destination))
        if state is State.ARCHIVED:
            asked = EdgeWrite(self.graph.edge_now(graph, NodeId(source), NodeId(destination), state), supersede=True)
        elif state is State.NORMAL and self.chance.random() < 0.2:
            ending = msgspec.structs.replace(asked.edge, expires_ms=self.clock.ms + self.chance.choice((2_000, 40_000)))
            asked = EdgeWrite(ending, supersede=True)
        (change,) = await self.edges.apply([asked])
        if change.outcome is Outcome.APPLIED:
            await self.check(key, change.log_position)

    def holds(self, key: tuple[int, int, int]) -> bool:
        row = self.edges.rows.get(key)
        return row is not None and as_of(row, self.clock.ms).state is State.NORMAL

    async def check(self, key: tuple[int, int, int], mark: LogPosition = NOWHERE) -> None:
        """Check an edge, with a token if there is one. The answer must be the store's."""
        graph, source, destination = key

        async def ask() -> None:
            if mark != NOWHERE and not await self.seen.reached(mark):
                return  # the log no longer holds this position
            before = self.holds(key)
            asked = Questions()
            asked.nodes([source])
            asked.states([key])
            (found,) = await self.layers.exists_many(graph, [(source, destination)])
            (state,) = (await self.layers.answer(asked)).states
            assert found is before is (state is State.NORMAL), (key, mark)

        await asyncio.get_running_loop().create_task(ask(), context=contextvars.Context())

    async def step(self) -> None:
        """Do one random step."""
        do = self.chance.choice([
            self.write, self.write, self.write, self.look, self.invalidator.step, self.filter.step, self.filter.reload,
            self.tracked.refresh, self.make, self.fill, self.disturb, self.catch_up, self.check_when_settled,
        ])  # fmt: skip
        try:
            await do()
        except KithError:
            self.tracked.mark_unknown()

    async def look(self) -> None:
        """Let a reader without a token check some edges."""
        graph, source, _ = self.edge()
        await self.layers.exists_many(graph, [(source, other) for other in DESTINATIONS])

    async def check_when_settled(self) -> None:
        """Catch up and fill the sets of all sources. Then all answers must be the store's."""
        await self.catch_up()
        await self.check_all()
        await self.fill()
        await self.check_all()

    async def fill(self) -> None:
        await self.layers.wait_for_fills()

    async def make(self) -> None:
        self.clock.ms += self.chance.choice((0, 0, 0, 0, FILTER_REBUILD_MS))
        await self.maker.make()

    async def catch_up(self) -> None:
        """Make every write readable, and let the process read it."""
        self.clock.ms += 31_000
        await self.filter.reload()
        for _ in range(100):
            if isinstance(self.edges, ScrambledEdges):
                self.edges.settle()  # logs edges that expired, too
            busy = any([await self.invalidator.step(), await self.filter.step()])
            if not busy and await self.log.end() == self.edges.events.end:
                break
        await self.tracked.refresh()

    async def disturb(self) -> None:
        """Empty the cache, take it down or up; damage the newest snapshot; restart the process; or let time pass."""
        match self.chance.randrange(6):
            case 0:
                self.sets.empty()
            case 1 | 2:
                self.sets.away = not self.sets.away and self.chance.random() < 0.5
            case 3:
                self.begin()
            case 4:
                for name in Snapshots(self.files).names()[:1]:
                    whole = bytearray().join(self.files.read(name))
                    whole[self.chance.randrange(len(whole))] ^= 1 << self.chance.randrange(8)
                    self.files.put(name, [bytes(whole)])
            case _:
                self.clock.ms += self.chance.choice((500, 2_500, 2_500, 2_500, 700_000))

    async def check_all(self) -> None:
        for graph in GRAPHS.values():
            for source in SOURCES:
                for destination in DESTINATIONS:
                    await self.check((graph, source, destination))


@pytest.mark.parametrize("hostile", [False, True], ids=["one partition", "three partitions, late"])
@pytest.mark.parametrize("seed", range(4))
def test_layers_agree_with_the_store(tmp_path: Path, seed: int, hostile: bool) -> None:
    async def history() -> None:
        world = World(tmp_path, seed, hostile)
        await world.edges.declare(GRAPHS)
        for step in range(STEPS):
            await world.step()
            if step % 50 == 49:
                await world.fill()
                world.clock.ms += int(STALE_S * 1_000)
                await world.check_all()
        world.sets.away = False
        await world.check_when_settled()
        assert {"filter", "cache", "store"} <= world.answered.by.keys(), "a layer never answered"

    run_coroutine(history())
