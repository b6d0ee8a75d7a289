"""Gives back the room of stories that are over: views, record, edge, in this order and in small batches.

Nothing of them stays, because nothing needs them: that a story is over follows from its id. The edge goes last; so
what a stopped run leaves is found by the next one, and running twice at once does no harm. It walks all rows of the
graph `stories`, which are those of the last day and hour: bounded by what is live, not by what there ever was.
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
from kith.graph.store import Listing, Pair
from kith.records.store import RecordKind, RecordStore
from kith.stories.stories import HOUR_MS

BATCH = 500
GRACE_MS = HOUR_MS
"""How long after its time a story is left alone: whoever found it live may still be writing that they saw it."""


class Reclaimed(NamedTuple):
    """What one run took out."""

    stories: int = 0
    views: int = 0


async def reclaim(store: RecordStore, graph: Graph, hours: int, now_ms: Callable[[], int] = wall_ms) -> Reclaimed:
    """One run over all stories; may be stopped and repeated at any point."""
    stories, views = graph.graphs.number(STORIES), graph.graphs.number(STORY_VIEWS)
    until = now_ms() - hours * HOUR_MS - GRACE_MS
    done, seen = 0, 0
    async for chunk in graph.store.edges(stories):
        edges = (ends.edge for ends in chunk)
        over = [(edge.source, edge.destination) for edge in edges if made_at_ms(edge.destination) <= until]
        for at in range(0, len(over), BATCH):
            batch: list[Pair] = list(over[at : at + BATCH])
            ids = [id_ for _, id_ in batch]
            for id_ in ids:
                seen += await _forget_views(graph, views, id_)
            await store.forget(RecordKind.STORY, ids)
            await graph.store.forget(stories, batch)
        done += len(over)
    return Reclaimed(done, seen)


async def _forget_views(graph: Graph, views: int, story: int) -> int:
    """Take out who has seen a story; how many that were."""
    seen = 0
    for state in State:
        while items := (await graph.store.page(Listing(views, story, Direction.IN, state), Window(BATCH))).items:
            await graph.store.forget(views, [(mark.id, story) for mark in items])
            seen += len(items)
    return seen
