"""Lists of edges that tests of stores fill and look at."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

from world import (
    ALICE,
    DANA,
    START_MS,
    G,
    edge_of,
    marks_of,
    writes_of,
)

from kith.core.paging import Mark
from kith.graph.edge import Direction, State
from kith.graph.store import EdgeStore, Listing

OUT = Listing(G, ALICE, Direction.OUT)
FOLLOWERS_OF_DANA = Listing(G, DANA, Direction.IN)
SIZES = [0, 1, 2, 60, 61, 62, 63, 122, 123, 124, 125, 1000]  # around the borders of blocks of 61


async def fill(store: EdgeStore, size: int, seed: int = 0) -> list[Mark]:
    """Alice follows `size` others, written in random order; the list as it must be."""
    marks = [Mark(START_MS + at // 3, at) for at in range(size)]  # three share each position
    shuffled = random.Random(seed).sample(marks, size)
    for at in range(0, size, 250):
        await store.apply(writes_of(*(edge_of(ALICE, mark.id, mark.position) for mark in shuffled[at : at + 250])))
    return marks[::-1]


async def state_of(store: EdgeStore, ids: list[int]) -> dict[str, Any]:
    """Rows, lists and counts of all nodes in `ids`."""
    listings = [Listing(G, node, end, state) for node, end, state in product(ids, Direction, State)]
    rows = [edge async for chunk in store.edges(G) for edge in chunk]
    return {
        "rows": rows,
        "lists": {listing: await marks_of(store, listing) for listing in listings},
        "counts": dict(zip(listings, await store.count_many(listings), strict=True)),
    }
