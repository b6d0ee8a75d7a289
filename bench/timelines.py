"""Fan-out: from the store's follower lists to the timelines, in one process, on one core."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import peers
from bench.figures import SECONDS, Figure, generated, imported, real_graph, with_peer
from kith.commands.transfer.formats import read
from kith.core.events import Event
from kith.engines.embedded.timeline_store import RingTimelines
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Listing
from kith.graph.walk import read_whole_list
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.skeleton.sources import Sources
from kith.home.timelines import TIMELINE_IDS_MAX
from kith.run.config import Settings
from kith.run.opening.stores import OpenStores
from kith.run.opening.wiring import open_graph, open_stores

_POSTS = 20_000
_ROUNDS = 5
_CELEBRITY_FOLLOWERS = 1_000_000
_MEMORY = Path("/dev/shm")
_WAIT = "; the longest that the worker is held by one of their chunks"
_PEER = "Redis sorted sets, ZADD and ZREMRANGEBYRANK pipelined"

Ids = NDArray[np.int64]


class Rounds(NamedTuple):
    """Deliveries a second of each round, and deliveries in one."""

    rates: list[float]
    deliveries: int

    @property
    def median(self) -> float:
        """The median rate, which is the figure."""
        return float(np.median(self.rates))

    @property
    def overall(self) -> float:
        """The rate over all rounds together, for the disk: one round's writeback may delay the next."""
        return len(self.rates) / sum(1 / rate for rate in self.rates)


def fanout(folder: Path) -> list[Figure]:
    """Posts of authors drawn in proportion to their followers; and one post of every author. One push per post."""
    data = real_graph(folder)
    settings = imported(folder, data)
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    edges = edges[edges[:, 0] != edges[:, 1]]
    everyone, chosen = np.unique(edges), np.random.default_rng(7)
    drawn = chosen.choice(edges[:, 1], _POSTS)
    each = chosen.permutation(np.unique(edges[:, 1]))
    with RingTimelines(folder / "timelines", slots=len(everyone)) as rings:
        asyncio.run(_give(rings, chosen.permutation(everyone), itertools.repeat(TIMELINE_IDS_MAX)))  # as people come
        by_followers = _rounds(settings, lambda stores: _push_each(stores.graph, rings, drawn))
        by_author = _rounds(settings, lambda stores: _push_each(stores.graph, rings, each))
    means = [f"{data.says}; {len(posts):,} posts to {done.deliveries / len(posts):,.0f} on average"
             for posts, done in ((drawn, by_followers), (each, by_author))]  # fmt: skip
    figure = Figure("fanout", by_followers.median, "deliveries/s", ">= 1,400,000", data=means[0])
    return [
        with_peer(figure, _PEER, _redis_rate(folder, _lists(edges, drawn))),
        Figure("fanout-every-author", by_author.median, "deliveries/s", "", data=means[1]),
    ]


def fanout_celebrity(folder: Path) -> list[Figure]:
    """One author's posts to a million followers who all have a timeline: in memory, and in a folder on the disk."""
    celebrities = {"dana": _CELEBRITY_FOLLOWERS, "carol": 10_000}
    data = generated(folder, 1_200_000, 5_000_000, celebrities)
    settings = imported(folder, data)
    followers = _followers_of_dana(settings)
    says = f"{data.says}, one with {len(followers):,} followers, posts by that one; timelines "
    in_memory = None
    with _memory_folder() as memory:
        if memory is not None:
            in_memory = _celebrity(settings, memory, followers)
    on_disk = _celebrity(settings, folder / "timelines-celebrity", followers)
    figures = [
        Figure("fanout-celebrity-disk", on_disk.rate, "deliveries/s", "", data=says + "on the disk"),
        Figure("fanout-celebrity-disk-wait", on_disk.wait_ms, "ms", "< 2,000", data=says + "on the disk" + _WAIT),
    ]
    if in_memory is not None:
        where = f"in {_MEMORY}"
        figure = Figure("fanout-celebrity", in_memory.rate, "deliveries/s", ">= 10,000,000", data=says + where)
        figures.insert(0, with_peer(figure, _PEER, _redis_rate(folder, [followers])))
        figures.append(Figure("fanout-celebrity-wait", in_memory.wait_ms, "ms", "< 2,000", data=says + where + _WAIT))
    return figures


class Celebrity(NamedTuple):
    """Deliveries a second of posts to all followers; and the longest wait of other posts meanwhile, in ms."""

    rate: float
    wait_ms: float


def _celebrity(settings: Settings, folder: Path, followers: Ids) -> Celebrity:
    chosen = np.random.default_rng(7)
    users, lengths = chosen.permutation(followers), chosen.integers(0, TIMELINE_IDS_MAX, len(followers))
    with RingTimelines(folder, slots=len(followers)) as rings:
        asyncio.run(_give(rings, users, lengths.tolist()))  # different lengths, so rings fill at different times
        os.sync()  # so that what `put` wrote is not measured
        waits: list[float] = []
        rounds = _rounds(settings, lambda stores: _deliver(stores, rings, waits))
        return Celebrity(rounds.overall, max(waits) * 1000)


async def _give(rings: RingTimelines, users: Ids, lengths: Iterable[int]) -> None:
    """Give each user a timeline of the given length, in this order."""
    for user, length in zip(users.tolist(), lengths, strict=False):
        await rings.put(user, np.arange(length), await rings.begin(user))


async def _deliver(stores: OpenStores, rings: RingTimelines, waits: list[float]) -> int:
    """Have a worker deliver four posts; returns the number of deliveries. `waits` gets the seconds of each chunk."""
    service, state = stores.graph, stores.fanout_state
    worker = Fanout(
        Sources(service), rings, state, stores.leases, graphs=service.graphs, policy=Thresholds(pull_min=2**40)
    )
    authored, posts = service.graphs.number(AUTHORED), [next(_post_ids) for _ in range(4)]
    events = [Event(authored, None, State.NORMAL, 1, post, 0, service.clock.next()) for post in posts]
    await worker.handle(events)
    more = True
    while more:
        started = time.perf_counter()
        more = await worker.work_backlog()
        waits.append(time.perf_counter() - started)
    return len(posts) * await rings.count()


@contextlib.contextmanager
def _memory_folder() -> Iterator[Path | None]:
    """A folder in memory, if there is room for a million timelines and as much again."""
    if not _MEMORY.exists() or shutil.disk_usage(_MEMORY).free < 2 * 4_608 * _CELEBRITY_FOLLOWERS:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kith-bench-", dir=_MEMORY) as folder:
        yield Path(folder)


def _rounds(settings: Settings, work: Callable[[OpenStores], Awaitable[int]]) -> Rounds:
    """Repeat the same work in rounds."""

    async def run() -> Rounds:
        async with open_stores(settings, "bench", create=False) as stores:
            rates, deliveries = [], 0
            for _ in range(_ROUNDS):
                started = time.perf_counter()
                deliveries = await work(stores)
                rates.append(deliveries / (time.perf_counter() - started))
            return Rounds(rates, deliveries)

    return asyncio.run(run())


_post_ids = itertools.count(1 << 40)


async def _push_each(service: Graph, rings: RingTimelines, authors: Ids) -> int:
    pushed, graph = 0, service.graphs.number("follows")
    for author in authors.tolist():
        pushed += await rings.push(
            next(_post_ids), await read_whole_list(service.store, Listing(graph, author, Direction.IN))
        )
    return pushed


def _followers_of_dana(settings: Settings) -> Ids:
    async def run() -> Ids:
        async with open_graph(settings) as service:
            return await read_whole_list(service.store, Listing(service.graphs.number("follows"), 1, Direction.IN))

    return asyncio.run(run())


def _lists(edges: Ids, authors: Ids) -> list[Ids]:
    """The followers of each author."""
    by_author = edges[np.argsort(edges[:, 1], kind="stable")]
    starts = np.searchsorted(by_author[:, 1], authors)
    ends = np.searchsorted(by_author[:, 1], authors, side="right")
    return [by_author[start:end, 0] for start, end in zip(starts, ends, strict=True)]


def _redis_rate(folder: Path, lists: list[Ids]) -> float | None:
    """Deliveries a second to Redis sorted sets, empty at first, from follower lists in memory."""
    import redis

    with peers.redis_server(folder) as port:
        if port is None:
            return None
        client, delivered = redis.Redis(port=port), 0
        started = time.perf_counter()
        for post, followers in enumerate(itertools.cycle(lists), 1 << 40):
            for at in range(0, len(followers), 5_000):
                pipe = client.pipeline(transaction=False)
                for user in followers[at : at + 5_000].tolist():
                    pipe.zadd(f"t:{user}", {str(post): post})
                    pipe.zremrangebyrank(f"t:{user}", 0, -TIMELINE_IDS_MAX - 1)
                pipe.execute()
                delivered += len(followers[at : at + 5_000])
                if time.perf_counter() > started + SECONDS:
                    return delivered / (time.perf_counter() - started)
        return None
