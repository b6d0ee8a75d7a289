"""A mention of an account with very many followers, all of whom asked for it: from the notice to the last row.

The account has KITH_BENCH_FOLLOWERS followers (default 2 million; the budget is for 10 million). 5% were here within 30
days; of these a tenth has a stream open and three tenths were here today. One worker does all three tiers.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.figures import Data, Figure, imported
from kith.commands.transfer.formats import EdgeFileWriter
from kith.core.clock import wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.notifications.activity import LOOKUP_USERS_MAX, Users
from kith.notifications.coordinator import Coordinator, OnEnd
from kith.notifications.recent import RecentMentions
from kith.notifications.rings import Rings
from kith.notifications.router import Router
from kith.notifications.tiers import DAY_MS, Tier
from kith.notifications.walks import EndedWalk
from kith.run.opening import wiring
from kith.run.opening.stores import OpenStores

FOLLOWERS = int(os.environ.get("KITH_BENCH_FOLLOWERS", "2_000_000"))
_DANA = 1
_ACTIVE, _ONLINE, _TODAY = 0.05, 0.1, 0.3
_ROWS = 1_000_000


class Crowd(NamedTuple):
    """Active followers by when they were last here; ids ascending."""

    online: Users
    today: Users
    month: Users


class _TierTimes(NamedTuple):
    """When each tier was done, in seconds from the start, and how many new rows it wrote."""

    first_s: float
    ends_s: dict[Tier, float]
    rows: dict[Tier, int]
    memory_mb: float


def mention(folder: Path) -> list[Figure]:
    """Time of each tier of one mention, and the memory that the process takes for it beyond what it had before."""
    settings = imported(folder, graph_of(folder))
    crowd = crowd_of()

    async def main() -> _TierTimes:
        async with wiring.open_stores(settings, "bench") as stores:
            return await _tell(stores, crowd)

    told = asyncio.run(main())
    expected = len(np.unique(np.concatenate(crowd)))
    if sum(told.rows.values()) != expected:
        raise RuntimeError(f"{sum(told.rows.values()):,} rows for {expected:,} followers who are here")
    says = f"{FOLLOWERS:,} followers, {expected:,} of them active, {len(crowd.online):,} online; one worker"
    return [
        Figure("mention-first", told.first_s, "s", "< 1", data=says),
        Figure("mention-p0", told.ends_s[Tier.ONLINE], "s, all of P0", "p95 < 5 at 10 M", data=says),
        Figure("mention-p1", told.ends_s[Tier.DAY], "s, all of P1", "< 60 at 10 M", data=says),
        Figure("mention-p2", told.ends_s[Tier.MONTH], "s, all of P2", "", data=says),
        Figure("mention-memory", told.memory_mb, "MB more at the most", "<= 64", data=says),
    ]


def graph_of(folder: Path) -> Data:
    """A file of edges: all users follow Dana, in an order unrelated to their ids."""
    file = folder / "dana.tsv"
    followers = np.random.default_rng(3).permutation(np.arange(2, FOLLOWERS + 2, dtype=np.int64))
    with EdgeFileWriter(file) as writer:
        for at in range(0, len(followers), _ROWS):
            part = followers[at : at + _ROWS]
            rows = np.column_stack([part, np.full(len(part), _DANA), np.arange(at, at + len(part))])
            writer.write(rows)
    return Data(file, f"{FOLLOWERS:,} followers of one account")


def crowd_of() -> Crowd:
    """Choose which followers are active."""
    chance = np.random.default_rng(4)
    active = 2 + chance.choice(FOLLOWERS, int(FOLLOWERS * _ACTIVE), replace=False)
    online, today, month = np.split(active, [int(len(active) * _ONLINE), int(len(active) * (_ONLINE + _TODAY))])
    return Crowd(np.sort(online), np.sort(today), np.sort(month))


async def seen(stores: OpenStores, crowd: Crowd) -> None:
    """Store when each of the crowd was last seen, and who has a stream open."""
    now_ms = wall_ms()
    await stores.activity.set_online("bench", crowd.online, now_ms + DAY_MS)
    for users, at_ms in ((crowd.today, now_ms - DAY_MS // 2), (crowd.month, now_ms - 9 * DAY_MS)):
        for at in range(0, len(users), LOOKUP_USERS_MAX):
            await stores.activity.seen(users[at : at + LOOKUP_USERS_MAX], at_ms)


async def _tell(stores: OpenStores, crowd: Crowd) -> _TierTimes:
    now_ms = wall_ms()
    await seen(stores, crowd)
    ended: dict[Tier, float] = {}
    rows: dict[Tier, int] = {}

    async def end(one: EndedWalk) -> None:
        ended[one.walk.tier], rows[one.walk.tier] = time.perf_counter() - started, one.walk.told

    coordinator = coordinator_of(stores, end)
    notice = (now_ms - EPOCH_MS) << TIME_SHIFT
    before, started = _memory_mb(), time.perf_counter()
    await coordinator.begin(notice, _DANA)
    more = await coordinator.work()
    first_s = time.perf_counter() - started
    most = _memory_mb()
    while more:
        more = await coordinator.work()
        most = max(most, _memory_mb())
    return _TierTimes(first_s, ended, rows, most - before)


def coordinator_of(stores: OpenStores, on_end: OnEnd, tiers: Sequence[Tier] = tuple(Tier)) -> Coordinator:
    """A coordinator for which every follower wants mentions."""

    async def count(account: int) -> int:
        return FOLLOWERS

    async def everybody(notice: int, account: int, users: Users) -> NDArray[np.bool_]:
        return np.ones(len(users), np.bool_)

    router = Router(count, 1_000, wall_ms)
    return Coordinator(
        stores.graph, stores.inboxes, stores.activity, router, everybody, stores.leases, wall_ms, on_end,
        Rings(stores.records, stores.graph.clock).ring, RecentMentions(stores.records, stores.graph, 1_000).keep,
        tiers=tiers,
    )  # fmt: skip


def _memory_mb() -> float:
    """Private memory of the process in MB, without mapped files."""
    with Path("/proc/self/statm").open() as statm:
        _, resident, shared, *_ = map(int, statm.read().split())
    return (resident - shared) * resource.getpagesize() / 2**20
