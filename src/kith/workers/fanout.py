"""Fan-out: brings new posts into the timelines of followers, and keeps timelines true to the graph.

A timeline exists for those who read lately, so pushing to all of an author's followers reaches the active ones and
costs nothing for the others: they get theirs from the outboxes when they come. Whatever else changes a home feed (a
follow, an unfollow, a loaded graph) drops the timeline, and the next read builds it anew. All of it may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kith.core.events import BULK_LOADED, TIMELINE_WANTED, Event
from kith.core.ids import NodeId
from kith.feed.plan import Plan, Thresholds, plan_fanout
from kith.feed.sources import Sources
from kith.graph.graphs import AUTHORED, FOLLOWS, Graphs
from kith.timeline.store import TIMELINE_IDS_MAX, TimelineStore

NAME = "fanout"
_EVERYONE = 2**62


class Fanout:
    """The consumer that writes timelines. There is one of it a data folder: timelines have one writer."""

    name = NAME

    def __init__(
        self,
        sources: Sources,
        timelines: TimelineStore,
        *,
        graphs: Graphs,
        thresholds: Thresholds,
    ) -> None:
        self._sources, self._timelines, self._thresholds = sources, timelines, thresholds
        self._authored, self._follows = graphs.number(AUTHORED), graphs.number(FOLLOWS)

    async def handle(self, events: Sequence[Event]) -> None:
        """Push posts, drop timelines that changed otherwise, build those that are wanted."""
        pulled = set()
        for event in events:
            if event.state == BULK_LOADED:
                await self.lost()
            elif event.state == TIMELINE_WANTED:
                await self._build(NodeId(event.source))
            elif event.graph == self._follows and (event.began or event.ended):
                self._timelines.drop(event.source)
            elif event.graph == self._authored and event.began and await self._push(event) is Plan.PULL:
                pulled.add(event.source)
        if pulled:
            await self._sources.note_pulled(pulled)

    async def lost(self) -> None:
        """Every timeline may miss something: drop them all."""
        self._timelines.evict(_EVERYONE)

    async def _push(self, event: Event) -> Plan:
        """Bring a post to the author's and the followers' timelines; the post is the edge's destination."""
        plan = plan_fanout(await self._sources.follower_count(event.source), self._thresholds)
        followers = np.empty(0, np.int64) if plan is Plan.PULL else await self._sources.followers(event.source)
        self._timelines.push(event.destination, np.append(followers, np.int64(event.source)))
        return plan

    async def _build(self, user: NodeId) -> None:
        """Give the user a timeline, of what the outboxes hold now."""
        if not self._timelines.has(np.array([user], np.int64))[0]:
            marks = await self._sources.outboxes((await self._sources.authors(user)).tolist(), TIMELINE_IDS_MAX)
            self._timelines.put(user, np.array([mark.id for mark in marks], np.int64))
