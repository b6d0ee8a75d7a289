"""Writes and intersections in any graph, over an EdgeStore. The rules between people are not known here.

Works on an engine without transactions across keys, because every write merges with whatever came before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId
from kith.core.paging import Mark, Page, Window, cut
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, Outcome, State
from kith.graph.graphs import Graphs
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore
from kith.graph.walk import first_step, walk

PRESENT = frozenset({State.NORMAL, State.NEGATIVE, State.ARCHIVED})
"""The states of an edge that was not removed."""


class Graph:
    """All graphs of one store, and the clock that makes versions.

    `walk_max`: how many entries of a list a page of an intersection may read, whatever the length of the lists.
    """

    def __init__(self, store: EdgeStore, graphs: Graphs, clock: HybridClock, *, walk_max: int = 10_000) -> None:
        self.store, self.graphs, self.clock, self._walk_max = store, graphs, clock, walk_max

    async def write(self, writes: Sequence[EdgeWrite]) -> tuple[list[EdgeChange], WriteMark]:
        """See `EdgeStore.apply`; the mark is that of the last write that changed something."""
        changes = await self.store.apply(writes)
        return changes, write_mark_of(changes)

    def later_mark(self, mark: WriteMark, other: WriteMark) -> WriteMark:
        """A mark that covers two writes. Either may have changed nothing."""
        if mark is NO_MARK or other is NO_MARK:
            return mark if other is NO_MARK else other
        return WriteMark(self.store.joined(mark.at, other.at), max(mark.updated_at, other.updated_at))

    def edge_now(self, graph: int, source: NodeId, destination: NodeId, state: State) -> Edge:
        """An edge whose version and position are the current time."""
        version = self.clock.next()
        return Edge(graph, source, destination, state, ms_of(version), version)

    def check_expiry(self, expires_ms: int) -> None:
        """Raise InvalidContent if this expiry is in the past. 0: the edge never expires."""
        if expires_ms and expires_ms <= ms_of(self.clock.next()):
            raise InvalidContent(
                "expiresAt must be in the future; leave it out for an edge that does not expire", field="expiresAt"
            )

    def add_write(self, graph: int, source: NodeId, destination: NodeId) -> EdgeWrite:
        """The write that adds an edge now. An existing live edge keeps its place."""
        return EdgeWrite(self.edge_now(graph, source, destination, State.NORMAL), supersede=True, keep_live=True)

    def remove_write(self, graph: int, source: NodeId, destination: NodeId, *, chained: bool = False) -> EdgeWrite:
        """The write that removes an edge, if there is one."""
        edge = self.edge_now(graph, source, destination, State.REMOVED)
        return EdgeWrite(edge, supersede=True, keep_place=True, only_from=PRESENT, chained=chained)

    async def exists(self, graph: int, source: NodeId, destination: NodeId) -> bool:
        """Whether the edge exists in state NORMAL. A batch of one."""
        return (await self.store.exists_many(graph, [(source, destination)]))[0]

    async def intersection(self, listing: Listing, other: Listing, window: Window) -> Page:
        """Entries of `listing` whose id is also in `other`, in the order of `listing`.

        Walks `listing` and looks up each id in `other`. If `other` is much smaller and no longer than `walk_max`, it
        reads all of `other` and sorts instead. The first entries of both lists are read together with their lengths,
        because most lists are not longer.
        """
        questions = Questions()
        counts = questions.counts([listing, other])
        first = questions.page(listing, first_step(window))
        beginning = questions.page(other, first_step(Window(window.limit)))
        answers = await self.store.answer(questions)
        own, others = answers.counts[counts]
        page = answers.pages[beginning]
        known = None if page.more_after else {mark.id for mark in page.items}
        if own > 4 * others and others <= self._walk_max:
            ids = list(known) if known is not None else (await self.store.ids(other, self._walk_max)).tolist()
            return await self._sorted(listing, ids, window)

        async def in_other(marks: Sequence[Mark]) -> list[bool]:
            if known is not None:
                return [mark.id in known for mark in marks]
            ids = np.array([mark.id for mark in marks], np.int64)
            return list(map(bool, await self.store.contains(other, ids)))

        begun = answers.pages[first]
        return await walk(self.store, listing, window, in_other, entries_max=self._walk_max, begun=begun)

    async def _sorted(self, listing: Listing, ids: Sequence[int], window: Window) -> Page:
        """The entries of `listing` with one of these ids, in its order."""
        out = listing.direction is Direction.OUT
        pairs = [(listing.node, id_) if out else (id_, listing.node) for id_ in ids]
        edges = await self.store.get_many(listing.graph, pairs)
        marks = sorted(
            (
                Mark(edge.position, id_)
                for id_, edge in zip(ids, edges, strict=True)
                if edge is not None and edge.state == listing.state
            ),
            reverse=True,
        )
        return cut(marks, window)


def write_mark_of(changes: Sequence[EdgeChange]) -> WriteMark:
    """The mark of the last of `changes` that was applied; NO_MARK if none was."""
    for change in reversed(changes):
        if change.outcome is Outcome.APPLIED and change.after is not None:
            return WriteMark(change.log_position, change.after.updated_at)
    return NO_MARK
