"""Deletes expired stories from the store: views, record, edge, in this order and in small batches.

Nothing of a story needs to stay, because its id alone says that it has expired. The edge is deleted last, so the next
run finds what a stopped run left, and two concurrent runs do no harm. A run walks all rows of the graph `stories`. As
runs delete the old rows, the cost depends on the live stories, not on all there ever were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kith.core.clock import wall_ms
from kith.core.ids import made_at_ms
from kith.core.paging import Window
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import STORIES, STORY_VIEWS
from kith.graph.shapes import Listing, Pair
from kith.records.store import RecordKind, RecordStore
from kith.stories.stories import HOUR_MS

BATCH = 500
"""Stories, or views of a story, that are deleted at a time."""
GRACE_MS = HOUR_MS
"""Time for which an expired story is kept, because a request that found it live may still be writing a view."""


class ReclaimResult(NamedTuple):
    """How many stories and views a run deleted."""

    stories: int = 0
    views: int = 0


async def reclaim(store: RecordStore, graph: Graph, hours: int, now_ms: Callable[[], int] = wall_ms) -> ReclaimResult:
    """Run once over all stories. May be stopped at any point and run again."""
    stories, views = graph.graphs.number(STORIES), graph.graphs.number(STORY_VIEWS)
    until = now_ms() - hours * HOUR_MS - GRACE_MS
    done, views_deleted = 0, 0
    async for chunk in graph.store.stored(stories):
        expired = [(edge.source, edge.destination) for edge in chunk if made_at_ms(edge.destination) <= until]
        for start in range(0, len(expired), BATCH):
            batch: list[Pair] = list(expired[start : start + BATCH])
            ids = [id_ for _, id_ in batch]
            for id_ in ids:
                views_deleted += await _forget_views(graph, views, id_)
            await store.forget(RecordKind.STORY, ids)
            await graph.store.forget(stories, batch)
        done += len(expired)
    return ReclaimResult(done, views_deleted)


async def _forget_views(graph: Graph, views: int, story: int) -> int:
    """Delete the views of a story, and return how many."""
    deleted = 0
    for state in State:
        while items := (await graph.store.page(Listing(views, story, Direction.IN, state), Window(BATCH))).items:
            await graph.store.forget(views, [(mark.id, story) for mark in items])
            deleted += len(items)
    return deleted
