"""Both policies of fan-out over the same weeks on a real graph; authors and readers are drawn by heavy-tailed rates.

The first week fills the outboxes, the second lets both policies learn, the third is measured. Each goes hour by hour:
the posts of the hour are written and fanned out, then its readers read. Writing, rules, ranking and HTTP cost the same
under both policies, and are left out.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bench.figures import Figure, imported, real_graph, with_peer
from kith.commands.transfer.formats import read
from kith.core.clock import hlc_of
from kith.core.events import NORMAL, TIMELINE_REQUESTED, Event
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.engines.embedded.timeline_store import RingTimelines
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Ids
from kith.home.degraded import Degraded
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.fanout.state import FanoutSnapshot
from kith.home.skeleton.skeleton import Skeletons
from kith.home.skeleton.sources import Sources
from kith.log.store import Backlog, Progress
from kith.records.read_cache import ReadCache
from kith.run.config import Settings
from kith.run.opening import wiring

_READERS, _POSTS_A_WEEK, _READS_A_WEEK = 10_000, 20_000, 12_500
_SIGMA = 2.0  # of the logarithm of rates: 1% of all users make about half of the posts, and 1% about half of the reads
_START_MS, _HOUR_MS, _WEEK_H = 1_700_000_000_000, 3_600_000, 168
_PAGE, _WANT = 20, 40
_POLICIES: dict[str, Thresholds | ByRates] = {
    "followers": Thresholds(),
    "rates-100": ByRates(100.0),
    "rates-10": ByRates(10.0),
    "rates-1": ByRates(1.0),
}


class Weeks(NamedTuple):
    """Authors and readers of each hour; and all readers."""

    authors: list[Ids]
    reads: list[Ids]
    readers: Ids


class Cost(NamedTuple):
    """Cost of the measured week. `homes`: the first page of every read, to check that policies agree."""

    pushes: int
    lookups_a_read: float
    fanout_s: float
    reads_s: float
    homes: list[bytes]


class CountedRings(RingTimelines):
    """Rings that count their pushes."""

    pushes = 0

    async def push(self, post: int, users: Ids) -> int:
        """See `RingTimelines.push`."""
        pushed = await super().push(post, users)
        self.pushes += pushed
        return pushed


def fanout_policies(folder: Path) -> list[Figure]:
    """Cost of a week under each policy, beside that of the policy by followers."""
    data = real_graph(folder)
    settings = imported(folder, data)
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    weeks = _weeks(edges[edges[:, 0] != edges[:, 1]])
    costs = {name: asyncio.run(_cost(folder, settings, weeks, name)) for name in _POLICIES}
    base = costs["followers"]
    for name, cost in costs.items():
        differ = sum(one != other for one, other in zip(cost.homes, base.homes, strict=True))
        assert not differ, f"{differ} homes of {name} are not those by followers"
    says = f"{data.says}; {_POSTS_A_WEEK:,} posts, {_READS_A_WEEK:,} reads of {_READERS:,} readers"
    figures = []
    for name, cost in costs.items():
        for (what, unit, value), (_, _, by_followers) in zip(_figures_of(cost), _figures_of(base), strict=True):
            figure = Figure(f"fanout-policies-{name}-{what}", value, unit, "", data=says)
            peer = None if cost is base else by_followers
            figures.append(with_peer(figure, "the same by followers", peer, lower_is_better=True))
    return figures


def _figures_of(cost: Cost) -> list[tuple[str, str, float]]:
    """A cost as (what, unit, value)."""
    return [
        ("pushes", "pushes", cost.pushes),
        ("lookups", "outboxes a read, the own included", cost.lookups_a_read),
        ("fanout", "CPU s", cost.fanout_s),
        ("reads", "CPU s", cost.reads_s),
        ("total", "CPU s", cost.fanout_s + cost.reads_s),
    ]


def _weeks(edges: Ids) -> Weeks:
    """Three weeks. Users with more followers post more; how much a user reads is independent of that."""
    chosen = np.random.default_rng(7)
    authors, followers = np.unique(edges[:, 1], return_counts=True)
    posting = chosen.lognormal(0, _SIGMA, len(authors)) * np.sqrt(followers)
    readers = chosen.choice(np.unique(edges[:, 0]), _READERS, replace=False)
    reading = chosen.lognormal(0, _SIGMA, _READERS)
    posts = chosen.choice(authors, 3 * _POSTS_A_WEEK, p=posting / posting.sum())
    reads = chosen.choice(readers, 3 * _READS_A_WEEK, p=reading / reading.sum())
    return Weeks(np.array_split(posts, 3 * _WEEK_H), np.array_split(reads, 3 * _WEEK_H), readers)


async def _cost(folder: Path, settings: Settings, weeks: Weeks, name: str) -> Cost:
    """Play the weeks under one policy, in a store of its own."""
    own = folder / f"policy-{name}"
    shutil.copytree(settings.data, own)
    settings = msgspec.structs.replace(settings, data=str(own), durability="relaxed")
    now_ms = [_START_MS + _WEEK_H * _HOUR_MS]
    rings = CountedRings(own / "timelines", slots=_READERS, now_ms=lambda: now_ms[0])
    with rings:
        async with wiring.open_stores(settings, "bench", create=False) as stores:
            sources, authored = Sources(stores.graph), stores.graph.graphs.number(AUTHORED)
            state, policy = stores.fanout_state, _POLICIES[name]
            fanout = Fanout(
                sources,
                rings,
                state,
                stores.leases,
                graphs=stores.graph.graphs,
                policy=policy,
                now_ms=lambda: now_ms[0],
            )
            skeletons = Skeletons(stores.graph, rings, state, stores.log, ReadCache(stores.graph.store, stores.log))
            for hour in range(_WEEK_H):
                await stores.graph.store.apply(_writes(authored, hour, weeks.authors[hour]))
            for reader in weeks.readers.tolist():
                await fanout.handle([Event(0, None, TIMELINE_REQUESTED, reader, 0, 0, hlc_of(0))])
            fanout_s = reads_s = 0.0
            lookups = 0
            homes: list[bytes] = []
            for hour in range(_WEEK_H, 3 * _WEEK_H):
                writes = _writes(authored, hour, weeks.authors[hour])
                await stores.graph.store.apply(writes)
                now_ms[0] = _START_MS + (hour + 1) * _HOUR_MS
                if hour == 2 * _WEEK_H:
                    rings.pushes, fanout_s, reads_s, lookups, homes = 0, 0.0, 0.0, 0, []
                started = time.process_time()
                await fanout.handle(_events(writes))
                fanout_s += time.process_time() - started
                started = time.process_time()
                for reader in weeks.reads[hour].tolist():
                    end = await stores.log.end()
                    all_handled = Progress(end, Backlog(end, 0, None))
                    noted = (await state.snapshot())._replace(progress=all_handled)
                    homes.append(await _home(skeletons, noted, NodeId(reader)))
                reads_s += time.process_time() - started
                for reader in weeks.reads[hour].tolist():
                    withheld = (await state.snapshot()).withheld.at_least(await _lacks_from(rings, reader))
                    lookups += 1 + len(await sources.followed_of(NodeId(reader), withheld.tolist()))
            return Cost(rings.pushes, lookups / len(homes), fanout_s, reads_s, homes)


async def _lacks_from(rings: RingTimelines, reader: int) -> int:
    """The lowest rate among authors whose posts a reader's timeline lacks."""
    timeline = await rings.read(reader)
    return 0 if timeline is None else timeline.withheld_rate_min


async def _home(skeletons: Skeletons, noted: FanoutSnapshot, reader: NodeId) -> bytes:
    """The ids of a reader's first page, reading past the end of the timeline if needed."""
    ids, end, _ = await skeletons.below(reader, None, _WANT, Degraded(), snapshot=noted)
    while len(ids) < _PAGE and end is not None:
        more, end, _ = await skeletons.below(reader, end, _WANT, Degraded(), snapshot=noted)
        ids = np.append(ids, more)
    return ids[:_PAGE].tobytes()


def _writes(graph: int, hour: int, authors: Ids) -> list[EdgeWrite]:
    """The posts of an hour."""
    first_ms, writes = _START_MS + hour * _HOUR_MS, []
    for number, author in enumerate(authors.tolist()):
        ms = first_ms + number * (_HOUR_MS // len(authors))
        post = NodeId((ms - EPOCH_MS) << TIME_SHIFT)
        writes.append(EdgeWrite(Edge(graph, NodeId(author), post, State.NORMAL, ms, hlc_of(ms))))
    return writes


def _events(writes: Sequence[EdgeWrite]) -> list[Event]:
    """The events of these writes, as fan-out reads them."""
    edges = [write.edge for write in writes]
    return [
        Event(edge.graph, None, NORMAL, edge.source, edge.destination, edge.position, edge.updated_at) for edge in edges
    ]
