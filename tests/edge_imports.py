"""Imports files of edges into a data folder, and reads the whole graph afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from edges import all_pages
from reference_leases import own_leases
from store_wrappers import ProcessDied

from kith.boards.reconciler import FollowReconciler
from kith.commands.edges import import_edges
from kith.commands.transfer import loading
from kith.commands.transfer.loading import ImportResult
from kith.core.ids import NodeId
from kith.graph.audit import audit
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.removal import account_jobs
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.wiring import open_graph

FOLLOWS = "follows"
ALICE, BOB, CAROL, ELSEWHERE = 1, 2, 3, 1 << 61
OLD = 5  # a position before every other


class Silent:
    """Import progress that is not shown. After `stop_after` calls the process dies."""

    def __init__(self, stop_after: int = 1 << 62) -> None:
        self._left = stop_after

    def _step(self, *_: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise ProcessDied

    reading = writing = _step


def die(*_: object, **__: object) -> None:
    """The process dies here. `fault/test_import_kill.py` tests real kills."""
    raise ProcessDied


class GraphContent(NamedTuple):
    """All that reads show of a graph: edges with their positions, every list, every count."""

    edges: dict[tuple[int, int], tuple[State, int]]
    lists: dict[tuple[int, Direction], list[tuple[int, int]]]
    counts: dict[tuple[int, Direction], int]


def file_of(folder: Path, rows: Iterable[tuple[int, ...]], name: str = "edges.csv") -> Path:
    """Write a file with these rows; returns its path."""
    path = folder / name
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def bring(
    set_to: Settings, path: Path, graph: str = FOLLOWS, *, mutual: bool = False, progress: Silent | None = None
) -> ImportResult:
    """Import a file, as `kith import edges` does."""
    return import_edges(set_to, graph, path, progress or Silent(), mutual=mutual)


def merge(set_to: Settings, path: Path, graph: str = FOLLOWS, *, mutual: bool = False) -> ImportResult:
    """Import by merging, even into an empty graph."""

    async def run() -> ImportResult:
        async with open_graph(set_to) as service:
            report = Path(set_to.data) / "refused.tsv"
            return await loading.load_merging(path, service, graph, report, Silent(), mutual=mutual)

    return asyncio.run(run())


def do(set_to: Settings, *calls: tuple[Any, ...]) -> None:
    """Do writes of users. A call: ("follow", ALICE, BOB), for example."""

    async def run() -> None:
        async with wiring.open_stores(set_to, "chore") as stores:
            people = wiring.relations(set_to, stores.graph, FollowReconciler(stores.graph, stores.records))
            for call, one, other, *more in calls:
                await getattr(people, call)(NodeId(one), NodeId(other), *more)

    asyncio.run(run())


def archive(set_to: Settings, user: int, operation: NodeOperation = NodeOperation.ARCHIVE) -> None:
    """Archive a user with all edges, or do another operation on them."""

    async def run() -> None:
        async with open_graph(set_to) as service:
            jobs = account_jobs(service, own_leases())
            await jobs.start(operation, NodeId(user))
            await jobs.wait()

    asyncio.run(run())


def graph_content(set_to: Settings, graph: str = FOLLOWS) -> GraphContent:
    """Audit the graph, and read all of it."""

    async def run() -> GraphContent:
        async with open_graph(set_to) as service:
            return await _graph_content(service, graph)

    return asyncio.run(run())


async def _graph_content(service: Graph, graph: str) -> GraphContent:
    number, store = service.graphs.number(graph), service.store
    found = await audit(store, graph, number, recheck_delays_s=(0,))
    assert found.clean, found
    edges = {}
    async for chunk in store.edges(number):
        for ends in chunk:
            edges[int(ends.edge.source), int(ends.edge.destination)] = (ends.edge.state, ends.edge.position)
    nodes = sorted({node for pair in edges for node in pair})
    lists, counts = {}, {}
    for node in nodes:
        for direction in Direction:
            listing = Listing(number, node, direction)
            lists[node, direction] = [
                tuple(mark) for mark in await all_pages(lambda w, at=listing: store.page(at, w), 50)
            ]
            (counts[node, direction],) = await store.count_many([listing])
            assert counts[node, direction] == len(lists[node, direction])
    return GraphContent(edges, lists, counts)


def without_import_times(graph: Graph, known: Iterable[tuple[int, ...]]) -> GraphContent:
    """The graph, with positions that an import chose set to 0. They are the time of the import, so imports differ."""
    given_positions = {row[2] for row in known if len(row) == 3}
    edges = {
        pair: (state, position if position in given_positions else 0) for pair, (state, position) in graph.edges.items()
    }
    lists = {
        key: [(at if at in given_positions else 0, other) for at, other in marks] for key, marks in graph.lists.items()
    }
    return GraphContent(edges, lists, graph.counts)


def wanted(rows: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[State, int]]:
    """The edges that rows with positions must make. An edge that is given twice has the greatest position."""
    edges: dict[tuple[int, int], tuple[State, int]] = {}
    for source, destination, position in rows:
        if source != destination:
            _, before = edges.get((source, destination), (State.NORMAL, position))
            edges[source, destination] = (State.NORMAL, max(before, position))
    return edges


def random_rows(seed: int, count: int, width: int) -> list[tuple[int, ...]]:
    """Rows with many duplicates, a hub, and extreme ids and positions."""
    chosen = random.Random(seed)
    nodes = [0, *range(1, 12), 1 << 40, ELSEWHERE, (1 << 63) - 1]
    places = [-(2**62), -1, 0, 1, 7, 1 << 47, (1 << 48) - 1, 1 << 48, 2**62]
    return [
        (chosen.choice(nodes), 3 if chosen.random() < 0.4 else chosen.choice(nodes), chosen.choice(places))[:width]
        for _ in range(count)
    ]
