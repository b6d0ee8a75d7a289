"""Ten mentions at once of an account with very many followers, while the last tier is full.

The account has KITH_BENCH_FOLLOWERS followers (default 2 million), all of whom asked for its mentions; 5% were here
within 30 days, as in `mention`. Each tier has a process of its own; _WAITING mentions wait in the last tier before the
start. Meanwhile users are followed, one after another. Each follow is an ordinary notification, made by a worker as
`kith serve` runs it, and timed from the answer of the request to the inbox row.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.figures import Figure, imported
from bench.mentions import FOLLOWERS, coordinator_of, crowd_of, graph_of, seen
from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.notifications import intake
from kith.notifications.pools import POOLS, PoolWorker
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk, Walk, Walks
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.services import Services, open_services
from kith.run.serving.worker import work

_DANA = 1
_MENTIONS, _WAITING = 10, 100
_FOLLOWED, _FIRST = 3_000_000_001, 3_000_000_002
_POLL_S, _ROW_TIMEOUT_S, _FOLLOW_PAUSE_S = 0.005, 60.0, 0.05


class _StormResult(NamedTuple):
    online_s: list[float]
    ordinary_s: list[float]
    waiting: int  # chunks of the last tier at the end


def mention_storm(folder: Path) -> list[Figure]:
    """Time of the first tier, and of an ordinary notification, during the storm."""
    settings = imported(folder, graph_of(folder))
    crowd = crowd_of()

    async def main() -> _StormResult:
        async with open_services(settings) as services:
            await seen(services.stores, crowd)
            return await _storm(settings, services)

    found = asyncio.run(main())
    if not found.waiting:
        raise RuntimeError("the last tier was not full to the end; let more wait")
    says = f"{_MENTIONS} mentions, {FOLLOWERS:,} followers each, {len(crowd.online):,} online; P2 full to the end"
    p50, p95 = np.percentile(found.online_s, [50, 95]).tolist()
    ordinary_p50, ordinary_p99 = (np.percentile(found.ordinary_s, [50, 99]) * 1_000).tolist()
    return [
        Figure("mention-storm-p0-p50", p50, "s, all of P0 of one", "", data=says),
        Figure("mention-storm-p0-p95", p95, "s, all of P0 of one", "< 8 at 10 M", data=says),
        Figure("mention-storm-ordinary-p50", ordinary_p50, "ms", "", data=says),
        Figure("mention-storm-ordinary-p99", ordinary_p99, "ms", "< 1,000", data=f"{len(found.ordinary_s)} follows"),
    ]


async def _storm(settings: Settings, services: Services) -> _StormResult:
    walks, now_ms = Walks(services.stores.store), wall_ms()
    first = (now_ms - EPOCH_MS) << TIME_SHIFT
    chunks = -(-FOLLOWERS // 100_000)
    await walks.begin([Walk(first + number, _DANA, Tier.MONTH, chunks) for number in range(_WAITING)])
    notices = [first + _WAITING + number for number in range(_MENTIONS)]
    with _workers(settings):
        await _ordinary(services, 1)  # now all workers are up
        started, stormed = time.perf_counter(), asyncio.Event()
        following = asyncio.create_task(_ordinary(services, None, stormed))
        beginning = coordinator_of(services.stores, _ended, tiers=())
        for notice in notices:
            await beginning.begin(notice, _DANA)
        left, online_s = set(notices), list[float]()
        while left:
            await asyncio.sleep(_POLL_S)
            under_way = {walk.notice for walk in await walks.of([Tier.ONLINE])}
            online_s += [time.perf_counter() - started] * len(left - under_way)
            left &= under_way
        stormed.set()
        waiting = sum(walk.waiting for walk in await walks.of([Tier.MONTH]))
        return _StormResult(online_s, await following, waiting)


async def _ordinary(services: Services, number: int | None, until: asyncio.Event | None = None) -> list[float]:
    """Have one user followed again and again, by a new user each time; seconds until each inbox row is there."""
    told_s: list[float] = []
    inboxes, newest = services.stores.inboxes, await services.stores.inboxes.page(_FOLLOWED, limit=1)
    offset = 0 if number is not None else 1
    while (len(told_s) < number) if number is not None else (until is not None and not until.is_set()):
        await services.relations.follow(NodeId(_FIRST + offset + len(told_s)), NodeId(_FOLLOWED))
        started = time.perf_counter()
        while (now := await inboxes.page(_FOLLOWED, limit=1)) == newest:
            if time.perf_counter() - started > _ROW_TIMEOUT_S:
                raise RuntimeError(f"an ordinary notification takes more than {_ROW_TIMEOUT_S:g} s")
            await asyncio.sleep(_POLL_S)
        newest = now
        told_s.append(time.perf_counter() - started)
        await asyncio.sleep(_FOLLOW_PAUSE_S)
    return told_s


async def _ended(ended: EndedWalk) -> None: ...


@contextlib.contextmanager
def _workers(settings: Settings) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=(settings, name), daemon=True) for name in (*POOLS, intake.NAME)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(settings: Settings, name: str) -> None:
    asyncio.run(work([name], settings) if name == intake.NAME else _pool(settings, name))


async def _pool(settings: Settings, name: str) -> None:
    async with wiring.open_stores(settings, "bench", create=False) as stores:
        await PoolWorker(name, coordinator_of(stores, _ended, tiers=POOLS[name]), stores.log).run()
