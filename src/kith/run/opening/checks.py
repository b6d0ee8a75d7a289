"""The layers in front of checks (`kith.checks`), where `checks_snapshots` says where snapshots of the filter lie."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from kith.checks.following import FollowedFilter
from kith.checks.keeper import SetKeeper, SnapshotMaker, lag
from kith.checks.layers import LayeredEdges, SeenLog, StandingSets
from kith.checks.sets import CachedSets
from kith.checks.snapshots import Snapshots
from kith.core.clock import wall_ms
from kith.core.stopping import stop
from kith.engines.blobs.archives import open_archive
from kith.graph.graphs import BLOCKS, FOLLOWS
from kith.run.config import Settings
from kith.run.opening.stores import LayerUpkeep, Opened

FILTERED = (FOLLOWS, BLOCKS)
CACHED = (FOLLOWS,)
"""Not blocks: after a master of Redis fails over, a set may be older than it should until its time is over."""

_MEASURED_S = 5.0


@contextlib.asynccontextmanager
async def layered(settings: Settings, parts: Opened, sets: CachedSets) -> AsyncIterator[Opened]:
    """The stores of an API process, with layers in front of its checks. Each layer answers once it is loaded."""
    if not settings.checks_snapshots:
        yield parts
        return
    numbers = parts.graph.graphs.number
    filtered = FollowedFilter(_snapshots(settings), parts.log, _numbered(parts))
    standing = StandingSets(sets, [numbers(name) for name in CACHED])
    layers = LayeredEdges(parts.store, parts.log, filtered, standing, parts.metrics)
    beside = [asyncio.create_task(one) for one in (filtered.run(), standing.run(), _told(filtered, parts))]
    try:
        yield parts._replace(checked=layers, log=SeenLog(parts.log))
    finally:
        await stop(*beside)
        await layers.settled()


async def _told(filtered: FollowedFilter, parts: Opened) -> None:
    """Tell the metrics how large the filter is."""
    while True:
        if (newest := filtered.newest) is not None:
            parts.metrics.filtering(newest.edges, len(newest.blocks), newest.false_positives)
        await asyncio.sleep(_MEASURED_S)


def keeping(settings: Settings, parts: Opened, sets: CachedSets) -> LayerUpkeep | None:
    """What keeps the layers up to date; None where there are none."""
    if not settings.checks_snapshots:
        return None
    cached = [parts.graph.graphs.number(name) for name in CACHED]
    maker = SnapshotMaker(
        _snapshots(settings), parts.store, parts.log, _numbered(parts),
        edges_max=settings.checks_edges_max, now_ms=wall_ms,
    )  # fmt: skip
    keeper = SetKeeper(sets, parts.log, parts.leases, cached)
    return LayerUpkeep(sets, keeper, maker, lambda: lag(sets, parts.log, wall_ms()))


def _snapshots(settings: Settings) -> Snapshots:
    return Snapshots(open_archive(settings.checks_snapshots))


def _numbered(parts: Opened) -> Mapping[str, int]:
    return {name: parts.graph.graphs.number(name) for name in FILTERED}
