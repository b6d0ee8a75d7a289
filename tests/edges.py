"""Makes edges to write, and reads whole lists."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

from cast import ALICE, DANA, START_MS

from kith.core.clock import Hlc, hlc_of
from kith.core.events import Event
from kith.core.ids import NodeId
from kith.core.paging import Mark, Page, Window
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.programs import Leaf
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore

G = 1
"""The number of the first declared graph. Tests of a bare store use it."""
OUT = Listing(G, ALICE, Direction.OUT)
FOLLOWERS_OF_DANA = Listing(G, DANA, Direction.IN)
SIZES = [0, 1, 2, 60, 61, 62, 63, 122, 123, 124, 125, 1000]  # around the borders of blocks of 61


def edge_of(
    source: int, destination: int, position: int = START_MS, state: State = State.NORMAL, version: int | None = None
) -> Edge:
    """An edge of graph G. All have the same version by default; a test that rewrites an edge gives another."""
    updated_at = hlc_of(START_MS) if version is None else Hlc(hlc_of(START_MS) + version)
    return Edge(G, NodeId(source), NodeId(destination), state, position, updated_at)


def edge_in(event: Event) -> Edge:
    """The edge that an event holds."""
    ends = NodeId(event.source), NodeId(event.destination)
    return Edge(event.graph, *ends, State(event.state), event.position, event.updated_at)


def writes_of(*edges: Edge) -> list[EdgeWrite]:
    """Unconditional writes."""
    return [EdgeWrite(edge) for edge in edges]


def leaf(node: int, direction: Direction = Direction.OUT, *states: State) -> Leaf:
    """A list of graph G as a leaf of a set program."""
    return Leaf(tuple(Listing(G, node, direction, state) for state in states or (State.NORMAL,)))


async def fill(store: EdgeStore, size: int, seed: int = 0) -> list[Mark]:
    """Write `size` follows by Alice in random order; returns the list that a read must show, newest first."""
    marks = [Mark(START_MS + at // 3, at) for at in range(size)]  # three share each position
    shuffled = random.Random(seed).sample(marks, size)
    for at in range(0, size, 250):
        await store.apply(writes_of(*(edge_of(ALICE, mark.id, mark.position) for mark in shuffled[at : at + 250])))
    return marks[::-1]


async def all_pages(fetch: Callable[[Window], Awaitable[Page]], limit: int, *, backward: bool = False) -> list[Mark]:
    """A whole list, read in pages: from the newest item on, or (`backward`) from just past the oldest item back."""
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


async def state_of(store: EdgeStore, ids: list[int]) -> dict[str, Any]:
    """All rows, and the lists and counts of the nodes in `ids`."""
    listings = [Listing(G, node, end, state) for node, end, state in product(ids, Direction, State)]
    rows = [ends async for chunk in store.edges(G) for ends in chunk]  # in any order
    return {
        "rows": sorted(rows, key=lambda ends: (ends.edge.source, ends.edge.destination)),
        "lists": {listing: await marks_of(store, listing) for listing in listings},
        "counts": dict(zip(listings, await store.count_many(listings), strict=True)),
    }
