"""Opens the layers in front of checks (`kith.checks`). The setting `checks_snapshots` turns them on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from kith.checks.layers import LayeredEdges, RequestPositionLog, TrackedSets
from kith.checks.live_filter import LiveFilter
from kith.checks.sets import CachedSets
from kith.checks.snapshots import Snapshots
from kith.checks.worker import SetInvalidator, SnapshotMaker, lag
from kith.core.clock import wall_ms
from kith.core.stopping import stop
from kith.engines.blobs.archives import open_archive
from kith.graph.graphs import BLOCKS, FOLLOWS
from kith.run.config import Settings
from kith.run.opening.stores import LayerUpkeep, OpenStores

FILTERED = (FOLLOWS, BLOCKS)
CACHED = (FOLLOWS,)
"""Graphs with cached sets. Not blocks: after a Redis master fails over, a cached set may be stale until it expires."""

_REPORT_INTERVAL_S = 5.0


@contextlib.asynccontextmanager
async def layered_stores(settings: Settings, stores: OpenStores, sets: CachedSets) -> AsyncIterator[OpenStores]:
    """The stores of an API process, with layers in front of its checks. A layer answers once it is loaded."""
    if not settings.checks_snapshots:
        yield stores
        return
    numbers = stores.graph.graphs.number
    live_filter = LiveFilter(_snapshots(settings), stores.log, _graph_numbers(stores))
    tracked_sets = TrackedSets(sets, [numbers(name) for name in CACHED])
    layers = LayeredEdges(stores.store, stores.log, live_filter, tracked_sets, stores.metrics)
    background = [
        asyncio.create_task(work)
        for work in (live_filter.run(), tracked_sets.run(), _report_filter_size(live_filter, stores))
    ]
    try:
        yield stores._replace(checked=layers, log=RequestPositionLog(stores.log))
    finally:
        await stop(*background)
        await layers.wait_for_fills()


async def _report_filter_size(filtered: LiveFilter, stores: OpenStores) -> None:
    """Report the size of the filter to the metrics."""
    while True:
        if (newest := filtered.newest) is not None:
            stores.metrics.filtering(newest.edges, len(newest.blocks), newest.false_positives)
        await asyncio.sleep(_REPORT_INTERVAL_S)


def keeping(settings: Settings, stores: OpenStores, sets: CachedSets) -> LayerUpkeep | None:
    """The upkeep of the layers; None where there are no layers."""
    if not settings.checks_snapshots:
        return None
    cached = [stores.graph.graphs.number(name) for name in CACHED]
    maker = SnapshotMaker(
        _snapshots(settings), stores.store, stores.log, _graph_numbers(stores),
        edges_max=settings.checks_edges_max, now_ms=wall_ms,
    )  # fmt: skip
    invalidator = SetInvalidator(sets, stores.log, stores.leases, cached)
    return LayerUpkeep(sets, invalidator, maker, lambda: lag(sets, stores.log, wall_ms()))


def _snapshots(settings: Settings) -> Snapshots:
    return Snapshots(open_archive(settings.checks_snapshots))


def _graph_numbers(stores: OpenStores) -> Mapping[str, int]:
    return {name: stores.graph.graphs.number(name) for name in FILTERED}
