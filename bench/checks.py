"""CPU time of a check by the layer that answers it, without HTTP, and the filter's share of false positives.

The cache is the Redis Cluster that KITH_TEST_REDIS names (`cluster/redis.sh up`); without one its figure is left out.
`cluster-check` measures the store of a cluster, and all layers over HTTP.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np

from bench.figures import SECONDS, Figure
from kith.checks.filter import Filter, bits_an_edge, hashes_of
from kith.checks.layers import LayeredEdges, TrackedSets
from kith.checks.live_filter import LiveFilter
from kith.checks.sets import SetsProgress
from kith.checks.snapshots import FALSE_POSITIVES, Snapshots
from kith.checks.worker import SnapshotMaker
from kith.core.clock import wall_ms
from kith.core.ids import NodeId
from kith.engines.blobs.archives import open_archive
from kith.engines.redis.connecting import connect
from kith.engines.redis.set_store import RedisSets
from kith.graph.edge import EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores

_EDGES, _SOURCES, _FOLLOWED, _AT_ONCE = 1_000_000, 200, 200, 16
_IDS = 1 << 50


def checks(folder: Path) -> list[Figure]:
    """The filter alone, and each layer behind `exists_many`, in CPU time of this process."""
    return [*_filter(), *asyncio.run(_layers(folder))]


def _filter() -> list[Figure]:
    chance = np.random.default_rng(17)
    sources, destinations = chance.integers(1, _IDS, (2, _EDGES))
    held = Filter.sized(_EDGES, FALSE_POSITIVES)
    held.add_many(hashes_of(1, sources, destinations))
    asked = hashes_of(1, sources, -destinations)
    wrong = held.may_have_many(asked).mean()
    many_us = _least_us(lambda: held.may_have_many(asked[:1_000]), 1_000)
    says = f"{_EDGES:,} edges, {bits_an_edge(FALSE_POSITIVES):.1f} bits each, {len(held.blocks) / 1e6:.1f} MB"
    formula = f"{held.false_positives:.2%} by the formula"
    return [
        Figure("checks-false-positives", 100 * float(wrong), "%", formula, data=says),
        Figure("checks-filter-of-many", many_us, "us CPU a check", "", data=f"1,000 at once; {says}"),
    ]


def _least_us(do: Callable[[], object], checks_: int) -> float:
    """CPU time of a check in us, the least of many tries."""
    took, until_s = list[float](), time.perf_counter() + SECONDS / 4
    while time.perf_counter() < until_s:
        started = time.process_time()
        do()
        took.append(time.process_time() - started)
    return min(took) / checks_ * 1e6


async def _layers(folder: Path) -> list[Figure]:
    settings = Settings(data=str(folder / "checks"), durability="relaxed")
    nodes = os.environ.get("KITH_TEST_REDIS", "")
    cluster = connect(nodes or "127.0.0.1:1")
    async with wiring.open_stores(settings, "bench") as stores:
        graph = stores.graph.graphs.number(FOLLOWS)
        chosen = random.Random(18)
        pairs = [(source, chosen.randrange(1, _IDS)) for source in range(1, _SOURCES + 1) for _ in range(_FOLLOWED)]
        edges = [stores.graph.edge_now(graph, NodeId(who), NodeId(whom), State.NORMAL) for who, whom in pairs]
        for at in range(0, len(edges), 5_000):
            await stores.store.apply([EdgeWrite(edge) for edge in edges[at : at + 5_000]])
        filtered = await _filtered(folder, stores, graph)
        sets = RedisSets(cluster, prefix=f"bench-{secrets.token_hex(6)}")
        tracked = TrackedSets(sets, [graph] if nodes else [])
        layers = LayeredEdges(stores.store, stores.log, filtered, tracked, stores.metrics)
        absent = [(who, -whom) for who, whom in chosen.sample(pairs, 2_000)]
        there = chosen.sample(pairs, 2_000)
        figures = [await _figure("filter", layers, graph, absent, filtered.step)]
        if nodes:

            async def learn() -> None:
                last = await sets.last_progress()
                at = SetsProgress(b"of-bench", await stores.log.end())
                await sets.note_progress(last and last.generation, at, await sets.now_ms() + 60_000)
                await tracked.refresh()

            await learn()
            await layers.exists_many(graph, [(source, 1) for source in range(1, _SOURCES + 1)])
            await _ask_all(layers, graph, there)
            await layers.wait_for_fills()
            figures.append(await _figure("cache", layers, graph, there, learn))
    await cluster.aclose()
    return figures


async def _filtered(folder: Path, stores: OpenStores, graph: int) -> LiveFilter:
    snapshots, graphs = Snapshots(open_archive(str(folder / "snapshots"))), {FOLLOWS: graph}
    maker = SnapshotMaker(snapshots, stores.store, stores.log, graphs, edges_max=_EDGES, now_ms=wall_ms)
    await maker.make()
    filtered = LiveFilter(snapshots, stores.log, graphs)
    await filtered.reload()
    while await filtered.step():
        pass
    return filtered


async def _figure(
    layer: str,
    layers: LayeredEdges,
    graph: int,
    pairs: Sequence[tuple[int, int]],
    refresh: Callable[[], Awaitable[object]],
) -> Figure:
    """CPU time of a check by one layer, the least of many rounds, and the share of checks that it answered."""
    counts = dict.fromkeys(("filter", "cache", "store"), 0)

    class Counting:
        def checked(self, name: str, present: int, absent: int) -> None:
            counts[name] += present + absent

    layers._observer = Counting()
    took, until_s = list[float](), time.perf_counter() + SECONDS / 2
    while time.perf_counter() < until_s:
        await refresh()
        started = time.process_time()
        await _ask_all(layers, graph, pairs)
        took.append((time.process_time() - started) / len(pairs))
    share = counts[layer] / max(1, sum(counts.values()))
    says = f"one a call, {_AT_ONCE} at once, {share:.1%} answered by it"
    return Figure(f"checks-{layer}", min(took) * 1e6, "us CPU a check", "", data=says)


async def _ask_all(layers: LayeredEdges, graph: int, pairs: Sequence[tuple[int, int]]) -> None:
    async def ask(some: Sequence[tuple[int, int]]) -> None:
        for pair in some:
            await layers.exists_many(graph, [pair])

    await asyncio.gather(*(ask(pairs[at::_AT_ONCE]) for at in range(_AT_ONCE)))
