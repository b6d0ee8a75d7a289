"""Lists by time range, and the strip of stories of a user who follows thousands."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from bench.figures import Data, Figure, imported
from kith.commands.transfer.formats import EdgeFileWriter
from kith.core.clock import ms_of, wall_ms
from kith.core.ids import NodeId, Snowflakes
from kith.core.paging import Window
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.shapes import Listing
from kith.graph.walk import read_whole_list
from kith.home.rank.affinity import Affinity
from kith.home.rank.facts import PostFacts
from kith.posts.comments import Comments
from kith.posts.post import Draft
from kith.posts.posts import Posts
from kith.records.read_cache import ReadCache
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.stories.stories import Stories
from kith.stories.strip import Strip

_LIST, _FIRST_MS, _STEP_MS = 1_000_000, 1_600_000_000_000, 1_000
_ROUNDS = 4_000
_VIEWER, _FOLLOWED, _LIVE_SHARE, _STORIES_EACH, _ALL_LIVE = 1, 5_000, 0.01, 3, 10_000
_STRIPS = 40
_LIVE_AUTHORS = "bench_live_authors"


def time_range(folder: Path) -> list[Figure]:
    """Pages of 20 within one hour, near the newest and the oldest end of a list of 1 M entries, one a second."""
    settings = imported(folder, _a_long_list(folder))

    async def run() -> list[Figure]:
        async with wiring.open_stores(settings, "bench", create=False) as stores:
            listing = Listing(stores.graph.graphs.number("follows"), 1, Direction.IN)
            says = f"a list of {_LIST:,}, an entry a second; 20 of an hour"
            figures = []
            for name, share in (("newest", 0.99), ("oldest", 0.0)):
                took = await _pages(stores.graph, listing, share)
                p50, p99 = np.percentile(took, [50, 99]) * 1000
                figures.append(Figure(f"time-range-{name}", float(p99), "ms p99", "< 1", data=f"{says}, {name} 1 %"))
                figures.append(Figure(f"time-range-{name}-p50", float(p50), "ms p50", "", data=f"{says}, {name} 1 %"))
            return figures

    return asyncio.run(run())


async def _pages(graph: Graph, listing: Listing, share: float) -> list[float]:
    """Seconds of each page of an hour; the hours are drawn from about a hundredth of the list, from `share` on."""
    chosen, took = random.Random(3), []
    for _ in range(_ROUNDS):
        since = _FIRST_MS + int((share + chosen.random() * 0.006) * _LIST) * _STEP_MS
        started = time.perf_counter()
        page = await graph.store.page(listing, Window(20, since=since, until=since + 3_600_000))
        took.append(time.perf_counter() - started)
        assert len(page.items) == 20
        assert since <= page.items[-1].position < since + 3_600_000
    return took


def _a_long_list(folder: Path) -> Data:
    file = folder / "long-list.tsv"
    if not file.exists():
        ids = np.arange(_LIST, dtype=np.int64)
        with EdgeFileWriter(file) as writer:
            writer.write(np.column_stack([ids + 10, np.ones(_LIST, np.int64), _FIRST_MS + ids * _STEP_MS]))
    return Data(file, f"a list of {_LIST:,}")


def strip(folder: Path) -> list[Figure]:
    """The strip of a user who follows 5,000 authors, of whom 1% have stories; and three ways to find these authors."""
    settings = Settings(data=str(folder / "strip"), graphs=(_LIVE_AUTHORS,), durability="relaxed")
    says = (
        f"{_FOLLOWED:,} followed, {int(_FOLLOWED * _LIVE_SHARE)} of them with {_STORIES_EACH} stories; "
        f"{_ALL_LIVE:,} live authors in all"
    )

    async def run() -> list[Figure]:
        async with wiring.open_stores(settings, "bench") as stores:
            graph = stores.graph
            snowflakes = Snowflakes(0, lambda: ms_of(graph.clock.next()))
            posts = Posts(stores.records, graph, snowflakes)
            stories = Stories(posts.store, graph, snowflakes, hours=24)
            await _populate(graph, stories)
            memory = ReadCache(graph.store, stores.log)
            facts = PostFacts(posts.store, graph, memory, wall_ms)
            affinity = Affinity(graph, Comments(posts), facts, memory, wall_ms)
            whole = Strip(graph, stories, affinity.by_author)
            ways: dict[str, Callable[[], Awaitable[object]]] = {
                "strip": lambda: whole.page(NodeId(_VIEWER), Window(20)),
                "strip-find-by-count": lambda: _by_count(graph, stories),
                "strip-find-by-live-list": lambda: _by_live_list(graph, stories),
                "strip-find-by-reading-all": lambda: _by_reading_all(graph, stories),
            }
            took = await _took(ways)
        return [Figure(name, value * 1000, "ms", "", data=says) for name, value in took.items()]

    return asyncio.run(run())


async def _populate(graph: Graph, stories: Stories) -> None:
    chosen = random.Random(5)
    follows, live = graph.graphs.number("follows"), graph.graphs.number(_LIVE_AUTHORS)
    users = chosen.sample(range(10, 1_000_000), _FOLLOWED + _ALL_LIVE)
    followed = users[:_FOLLOWED]
    telling = [*followed[: int(_FOLLOWED * _LIVE_SHARE)], *users[_FOLLOWED:]]
    await graph.store.apply([_edge(graph, follows, _VIEWER, author) for author in followed])
    for at in range(0, len(telling), 1_000):
        batch = telling[at : at + 1_000]
        await graph.store.apply([_edge(graph, live, 0, author) for author in batch])
        await asyncio.gather(
            *(
                stories.create(NodeId(author), Draft(text=f"story {number}"))
                for author in batch
                for number in range(_STORIES_EACH)
            )
        )


def _edge(graph: Graph, number: int, source: int, destination: int) -> EdgeWrite:
    return EdgeWrite(Edge(number, NodeId(source), NodeId(destination), State.NORMAL, wall_ms(), graph.clock.next()))


async def _followed(graph: Graph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return await read_whole_list(graph.store, Listing(graph.graphs.number("follows"), _VIEWER, Direction.OUT))


async def _by_count(graph: Graph, stories: Stories) -> int:
    """As the strip does it: find the lists that are not empty, by their stored lengths."""
    authors = await stories.with_stories(await _followed(graph))
    return sum([len(await stories.newest([author], 50)) for author in authors])


async def _by_live_list(graph: Graph, stories: Stories) -> int:
    """Query one list of all authors with live stories for the followed ones."""
    followed = await _followed(graph)
    telling = await graph.store.contains(Listing(graph.graphs.number(_LIVE_AUTHORS), 0, Direction.OUT), followed)
    return sum([len(await stories.newest([author], 50)) for author in followed[telling].tolist()])


async def _by_reading_all(graph: Graph, stories: Stories) -> int:
    """Read a page of every followed author's list."""
    return sum([len(await stories.newest([author], 50)) for author in (await _followed(graph)).tolist()])


async def _took(ways: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """The median time of each way in seconds. They run in turns, so that a busy moment of the machine affects all."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_STRIPS):
        for name, work in ways.items():
            started = time.perf_counter()
            await work()
            took[name].append(time.perf_counter() - started)
    return {name: float(np.median(times)) for name, times in took.items()}
