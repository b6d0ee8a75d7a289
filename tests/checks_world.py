"""The layers of checks over a store in memory. A test steps each layer by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from cast import ALICE, FakeClock
from reference_edges import ReferenceEdges
from reference_leases import ReferenceLeases
from reference_logs import ReferenceLog
from reference_sets import ReferenceSets

from kith.checks.layers import LayeredEdges, TrackedSets
from kith.checks.live_filter import LiveFilter
from kith.checks.snapshots import Snapshots
from kith.checks.worker import SetInvalidator, SnapshotMaker
from kith.core.clock import HybridClock
from kith.core.ids import NodeId
from kith.engines.blobs.archives import FolderArchive
from kith.graph.edge import EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.leases.holding import Leases

FOLLOWS, BLOCKS, LIKES = 1, 2, 3
FOLLOWED_PLACES = 20


class ChecksWorld:
    """A store with its log, and the layers of checks over it. A test steps each layer by hand."""

    def __init__(self, folder: Path, events_max: int = 10**9, edges_max: int = 10_000) -> None:
        self.clock, self.edges, self.folder = FakeClock(), ReferenceEdges(), folder
        self.edges.events.now_ms = self.clock
        self.log = ReferenceLog(self.edges, events_max)
        self.graph = Graph(self.edges, Graphs({"follows": FOLLOWS, "blocks": BLOCKS, "likes": LIKES}), HybridClock())
        self.sets, self.leases = ReferenceSets(self.clock), ReferenceLeases(self.clock)
        self.invalidator = SetInvalidator(self.sets, self.log, Leases(self.leases, self.now_s), [FOLLOWS], self.now_s)
        self.snapshots, covered = Snapshots(FolderArchive(folder)), {"follows": FOLLOWS, "blocks": BLOCKS}
        self.maker = SnapshotMaker(
            self.snapshots, self.edges, self.log, covered, edges_max=edges_max, now_ms=self.clock
        )
        self.filter = LiveFilter(self.snapshots, self.log, covered, self.now_s)
        self.tracked = TrackedSets(self.sets, [FOLLOWS], self.now_s)
        self.layers = LayeredEdges(self.edges, self.log, self.filter, self.tracked, self)
        self.answered_by: list[tuple[str, int, int]] = []

    def now_s(self) -> float:
        return self.clock.ms / 1_000

    def checked(self, layer: str, present: int, absent: int) -> None:
        self.answered_by.append((layer, present, absent))

    async def follow(self, *whom: int, expires_ms: int = 0) -> Any:
        """Have Alice follow users; returns the log position of the last follow."""
        made = [self.graph.edge_now(FOLLOWS, ALICE, NodeId(one), State.NORMAL) for one in whom]
        edges = [msgspec.structs.replace(edge, expires_ms=expires_ms) for edge in made]
        changes = await self.edges.apply([EdgeWrite(edge, supersede=True) for edge in edges])
        return changes[-1].log_position

    async def unfollow(self, whom: int) -> Any:
        (change,) = await self.edges.apply([self.graph.remove_write(FOLLOWS, ALICE, NodeId(whom))])
        return change.log_position

    async def keep(self) -> None:
        while await self.invalidator.step():
            pass
        await self.tracked.refresh()

    async def feed(self) -> None:
        await self.filter.reload()
        while await self.filter.step():
            pass

    async def ask(self, *whom: int, graph: int = FOLLOWS) -> tuple[list[bool], list[tuple[str, int, int]]]:
        """Whether Alice has edges to these users, and which layers answered."""
        self.answered_by = []
        found = await self.layers.exists_many(graph, [(ALICE, one) for one in whom])
        await self.layers.wait_for_fills()
        return found, self.answered_by
