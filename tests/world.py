"""The small world that tests play in: its people, its clock, and how to open a store.

What pytest hands out as fixtures is in `conftest.py`; this is for the tests that build a store an example.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reference import ReferenceEdges, ScrambledEdges

from kith.core.clock import Hlc, HybridClock, hlc_of
from kith.core.errors import InvalidContent, KithError
from kith.core.events import Event
from kith.core.ids import ID_MAX, NodeId
from kith.core.paging import Mark, Page, Window
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FEWER, FOLLOW_REQUESTS, FOLLOWS, MUTES, Graphs
from kith.graph.store import EdgeStore, Listing
from kith.home.affinity import Affinity
from kith.home.facts import PostFacts
from kith.home.home import Home
from kith.home.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.skeleton import Skeletons
from kith.home.timelines import TimelineReader
from kith.log.store import LogStore
from kith.people.privacy import Privacy
from kith.people.relations import RelationLimits, Relations
from kith.posts.comments import Comments
from kith.posts.posts import Posts

ALICE, BOB, CAROL = NodeId(1), NodeId(2), NodeId(3)
DANA = NodeId(ID_MAX)  # the one with a million followers, and the greatest id there is
GRAPHS = (FOLLOWS, BLOCKS, MUTES, FOLLOW_REQUESTS, FEWER)
G = 1
"""The number of the first graph declared; what tests of a bare store use."""
START_MS = 1_700_000_000_000
ENGINES = ("reference", "embedded")
SECRET = b"a secret only for tests, 32 bytes"

Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""How a test runs coroutines: the fixture `run`."""


class FakeClock:
    """A wall clock that stands still until told otherwise."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


@contextmanager
def open_embedded(folder: Path, **settings: Any) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """The embedded engine in a data folder, with a commit queue of its own."""
    with Environment(folder, durability="relaxed") as environment:
        commits = CommitQueue(environment, **settings)
        try:
            yield environment, EmbeddedEdges(environment, commits)
        finally:
            commits.close()


@contextmanager
def open_store(engine: str) -> Iterator[EdgeStore]:
    """An empty store of an engine, for tests that need a new one for each of their examples."""
    if engine == "reference":
        yield ReferenceEdges()
    else:
        with tempfile.TemporaryDirectory(prefix="kith-") as folder, open_embedded(Path(folder)) as (_, store):
            yield store


class Social(Graph):
    """A graph with the rules of people over it."""

    def __init__(self, store: EdgeStore, graphs: Graphs, clock: HybridClock, **limits: int) -> None:
        super().__init__(store, graphs, clock, walk_max=limits.pop("walk_max", 10_000))
        self.limits = RelationLimits(**limits)
        self.privacy = Privacy(self)
        self.people = Relations(self, self.privacy, self.limits)


async def service_over(store: EdgeStore, now_ms: Callable[[], int], **limits: int) -> Social:
    """A Social over a store, its graphs declared."""
    return Social(store, Graphs(await store.declare(GRAPHS)), HybridClock(now_ms), **limits)


def feed_over(
    graph: Graph,
    objects: Posts,
    timelines: TimelineReader,
    log: LogStore,
    *,
    group: str,
    now_ms: Callable[[], int],
) -> Home:
    """A Home with a ranker, all by one clock."""
    facts = PostFacts(objects.store, graph, now_ms, bits=8)
    ranker = Ranker(graph, facts, Affinity(graph, Comments(objects), facts, now_ms), now_ms)
    skeletons = Skeletons(graph, timelines, log, group=group, now_s=lambda: now_ms() / 1000)
    return Home(skeletons, ranker, HomeRules(graph, objects), now_ms=now_ms)


def edge_of(
    source: int, destination: int, position: int = START_MS, state: State = State.NORMAL, version: int | None = None
) -> Edge:
    """An edge of graph G; its version follows from nothing else, so a test that rewrites it gives one."""
    updated_at = hlc_of(START_MS) if version is None else Hlc(hlc_of(START_MS) + version)
    return Edge(G, NodeId(source), NodeId(destination), state, position, updated_at)


def writes_of(*edges: Edge) -> list[EdgeWrite]:
    """Unconditional writes."""
    return [EdgeWrite(edge) for edge in edges]


async def all_pages(fetch: Callable[[Window], Awaitable[Page]], limit: int, *, backward: bool = False) -> list[Mark]:
    """A whole list by its pages: from the newest on, or (`backward`) from just past its oldest item back."""
    found: list[Mark] = []
    window = Window(limit, before=Mark(-(2**63), 0)) if backward else Window(limit)
    for _ in range(10_000):
        page = await fetch(window)
        assert len(page.items) <= limit
        found = [*page.items, *found] if backward else [*found, *page.items]
        if not (page.more_before if backward else page.more_after):
            return found
        assert page.newest is not None
        assert page.oldest is not None
        window = Window(limit, before=page.newest) if backward else Window(limit, after=page.oldest)
    raise AssertionError("the list has no end")


async def marks_of(store: EdgeStore, listing: Listing) -> list[Mark]:
    """A whole list, newest first."""
    return await all_pages(lambda window: store.page(listing, window), 1000)


@contextmanager
def time_flies(store: EdgeStore | None = None) -> Iterator[None]:
    """Nobody sleeps; whoever would have slept 2 s or longer finds that all that was late in `store` has arrived."""
    sleep = asyncio.sleep

    async def fly(delay_s: float, *_: object) -> None:
        if delay_s >= 2 and isinstance(store, ScrambledEdges):
            store.settle()
        await sleep(0)

    with patch.object(asyncio, "sleep", fly):
        yield


async def answer(asked: Awaitable[Any]) -> Any:
    """What a call answers, or the kind of error that it raises."""
    try:
        return await asked
    except KithError as error:
        return type(error)


def run_all(coroutine: Any) -> Any:
    """Run one coroutine to its end in a loop of its own."""
    with asyncio.Runner() as runner:
        return runner.run(coroutine)


def edge_in(event: Event) -> Edge:
    """The edge that an event tells of."""
    ends = NodeId(event.source), NodeId(event.destination)
    return Edge(event.graph, *ends, State(event.state), event.position, event.updated_at)


async def no_images(owner: NodeId, id_: int, field: str) -> None:
    """For profiles without avatars: nobody has uploaded anything."""
    raise InvalidContent(f"{field} names {id_}, which nobody uploaded", field=field, id=str(id_))
