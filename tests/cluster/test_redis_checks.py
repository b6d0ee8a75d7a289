"""Cached sets in a real Redis Cluster: checks while it is emptied, away and back, and concurrent queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL
from cluster_engines import NODES, prefix_of
from coroutines import Run
from redis.asyncio.cluster import ClusterNode
from reference_edges import ReferenceEdges
from reference_leases import ReferenceLeases
from reference_logs import ReferenceLog

from kith.checks.layers import LayeredEdges, TrackedSets
from kith.checks.live_filter import LiveFilter
from kith.checks.sets import FillLease, Members
from kith.checks.snapshots import Snapshots
from kith.checks.worker import SetInvalidator
from kith.core.clock import HybridClock, wall_ms
from kith.core.errors import StoreUnavailable
from kith.core.ids import NodeId
from kith.engines.blobs.archives import FolderArchive
from kith.engines.redis.connecting import connect
from kith.engines.redis.set_store import RedisSets
from kith.graph.edge import EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.leases.holding import Leases

FOLLOWS, PRIMARIES = 1, 3


class Counted:
    """Records which layer answered each check."""

    def __init__(self) -> None:
        self.by: list[str] = []

    def checked(self, layer: str, present: int, absent: int) -> None:
        self.by.append(layer)


def test_answers_are_right_while_redis_is_emptied_and_away(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        cluster, away = connect(NODES), connect("127.0.0.1:1")
        prefix, edges, counted = prefix_of(tmp_path), ReferenceEdges(), Counted()
        log, graph = ReferenceLog(edges), Graph(edges, Graphs({"follows": FOLLOWS}), HybridClock())
        sets = RedisSets(cluster, prefix=prefix)
        # a frozen clock, so that a busy machine does not matter
        invalidator = SetInvalidator(sets, log, Leases(ReferenceLeases(wall_ms)), [FOLLOWS], lambda: 0.0)
        tracked = TrackedSets(sets, [FOLLOWS], lambda: 0.0)
        filtered = LiveFilter(Snapshots(FolderArchive(tmp_path)), log, {"follows": FOLLOWS})
        layers = LayeredEdges(edges, log, filtered, tracked, counted)

        async def ask() -> tuple[list[bool], list[str]]:
            counted.by = []
            exists = await layers.exists_many(FOLLOWS, [(ALICE, BOB), (ALICE, CAROL)])
            await layers.wait_for_fills()
            return exists, counted.by

        async def keep() -> None:
            while await invalidator.step():
                pass
            last = await sets.last_progress()
            assert last is not None
            assert await sets.note_progress(last.generation, last, wall_ms() + 3_600_000)
            await tracked.refresh()

        async def answered_by(layer: str, exists: list[bool]) -> None:
            """Check until this layer answers: on a busy machine, Redis may be given up for a moment."""
            until_s = time.monotonic() + 60
            while time.monotonic() < until_s and await ask() != (exists, [layer]):
                layers._waiting.clear()
                await tracked.refresh()
            assert await ask() == (exists, [layer])

        await edges.apply([EdgeWrite(graph.edge_now(FOLLOWS, ALICE, BOB, State.NORMAL))])
        await keep()
        await answered_by("cache", [True, False])
        await edges.apply([graph.remove_write(FOLLOWS, NodeId(ALICE), NodeId(BOB))])
        async for key in cluster.scan_iter(match=f"{prefix}:*"):
            await cluster.delete(key)
        assert (await ask())[0] == [False, False]
        await keep()
        await answered_by("cache", [False, False])
        tracked.sets = RedisSets(away, prefix=prefix)
        assert await ask() == ([False, False], ["store"])
        tracked.sets = sets
        await edges.apply([EdgeWrite(graph.edge_now(FOLLOWS, ALICE, CAROL, State.NORMAL))])
        await keep()
        await answered_by("cache", [False, True])
        await cluster.aclose()
        await away.aclose()

    run(scene())


def test_concurrent_queries_of_a_node_are_one_request_and_each_gets_its_own_answer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_counts: list[int] = []

    async def scene() -> None:
        cluster, prefix, generation = connect(NODES), prefix_of(tmp_path), bytes(8)
        send = cluster.links.send

        def counted(node: ClusterNode, commands: Sequence[Any]) -> bool:
            command_counts.append(len(commands))
            return send(node, commands)

        sets = RedisSets(cluster, prefix=prefix)
        for source in range(20):
            (lease,) = await sets.lookup(generation, [((FOLLOWS, source), [BOB])])
            assert isinstance(lease, FillLease)
            assert await sets.fill(generation, (FOLLOWS, source), lease.name, [BOB + source], 60_000)
        spoilt = 20
        await cluster.execute_command("RPUSH", f"{prefix}:set:{generation.hex()}:{FOLLOWS}:{spoilt}", "no set")
        monkeypatch.setattr(cluster.links, "send", counted)
        lookups = (sets.lookup(generation, [((FOLLOWS, source), [BOB, BOB + source])]) for source in range(21))
        *answers, failed = await asyncio.gather(*lookups, return_exceptions=True)
        assert answers == [[Members([source == 0, True])] for source in range(20)]
        assert isinstance(failed, StoreUnavailable)
        assert sum(command_counts) == 21
        assert len(command_counts) <= PRIMARIES
        await cluster.aclose()

    run(scene())
