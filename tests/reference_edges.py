"""The simplest EdgeStore, in memory: one dict of rows; each read of a list sorts them. Engines are compared with it.

It is slow on purpose, and does not model durability. `scrambled_edges` has one without transactions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import product
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray
from reference_logs import Partitions, joined

from kith.core.clock import Hlc
from kith.core.events import (
    NODE_CHANGED,
    NOWHERE,
    RECORD_CHANGED,
    RECORD_FORGOTTEN,
    RECORDS_FORGOTTEN,
    Event,
    LogPosition,
)
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import (
    FORBIDDING_STATES,
    REFUSED,
    Direction,
    Edge,
    EdgeChange,
    EdgeLimit,
    EdgeWrite,
    Outcome,
    State,
    as_of,
    decide,
    resolve,
)
from kith.graph.graphs import UserEnds, assign
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import (
    ANY_NOTE,
    AnyNote,
    Chunk,
    Degrees,
    DegreesPage,
    EdgeEnds,
    ExpiringEdge,
    IdLists,
    Ids,
    Listing,
    Node,
    NodeChange,
    Pair,
    Side,
)

Key = tuple[int, int, int]
"""(graph, source, destination)"""
Rows = dict[Key, Edge]
Part = tuple[Direction, State]
_STATES_OF_STORED = (RECORD_CHANGED, RECORD_FORGOTTEN, RECORDS_FORGOTTEN, NODE_CHANGED)
"""States of events of stored records and nodes."""
_SCAN_ROWS = 7  # small, so that scans in tests have several chunks


def key_of(edge: Edge) -> Key:
    """What identifies an edge."""
    return (edge.graph, edge.source, edge.destination)


def listing_of(edge: Edge, direction: Direction) -> Listing:
    """The list that shows `edge` at one of its two nodes."""
    node = edge.source if direction is Direction.OUT else edge.destination
    return Listing(edge.graph, node, direction, edge.state)


def cut_page(marks: Sequence[Mark], window: Window) -> Page:
    """The page of a whole list (newest first) that `window` asks for."""
    marks = [mark for mark in marks if window.spans(mark)]
    if window.before is not None:
        newer = [mark for mark in marks if mark > window.before]
        items = newer[-window.limit :]
    else:
        older = [mark for mark in marks if window.after is None or mark < window.after]
        items = older[: window.limit]
    if items:
        return Page(items, marks[-1] < items[-1], marks[0] > items[0])
    if window.before is not None:  # no mark is newer, so the remaining ones are older
        return Page([], bool(marks), False)
    return Page([], False, bool(marks))


def other_end(edge: Edge, direction: Direction) -> int:
    """The node of the edge that a list in `direction` shows."""
    return edge.destination if direction is Direction.OUT else edge.source


def _edges_of(rows: Rows, listing: Listing) -> list[Edge]:
    """The edges of one list: those with this `listing_of`. Faster than calling it for each edge."""
    graph, node, direction, state = listing
    own_end = attrgetter("source" if direction is Direction.OUT else "destination")
    return [edge for edge in rows.values() if edge.state is state and own_end(edge) == node and edge.graph == graph]


class ReferenceEdges:
    """See `graph.store.EdgeStore`. Transactional, as no method yields to other tasks."""

    transactional = immediate = True
    logs_every_change = False

    def __init__(self, events: Partitions | None = None) -> None:
        self.rows: Rows = {}
        self.events = events or Partitions()
        self._expiring: set[Key] = set()
        self._numbers: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}
        self._notes: dict[str, bytes] = {}

    @property
    def log(self) -> list[Event]:
        """The logged events, without those of stored records and nodes."""
        return [event for event in self.events.all if event.state not in _STATES_OF_STORED]

    # The rows that lists and counts are made of. Subclasses give other rows.

    def _listed(self, listing: Listing) -> Rows:
        return self.rows

    def _counted(self, listing: Listing) -> Rows:
        return self.rows

    def _row_changed(self, edge: Edge) -> None:
        """Called after a row has changed."""

    def _tick(self) -> None:
        """Called before each operation on edges: removes expired edges."""
        for key in sorted(self._expiring):
            stored = self.rows.get(key)
            if stored is None or not stored.expires_ms:
                self._expiring.remove(key)
            elif (ended := as_of(stored, self.events.now_ms())) is not stored:
                self._store(stored, ended)

    def _store(self, stored: Edge | None, edge: Edge) -> LogPosition:
        """Store and log an edge in place of `stored`; returns the log position of its event."""
        self.rows[key_of(edge)] = edge
        if edge.expires_ms:
            self._expiring.add(key_of(edge))
        self._row_changed(edge)
        before = None if stored is None else stored.state
        return self.events.append(
            Event(edge.graph, before, edge.state, edge.source, edge.destination, edge.position, edge.updated_at)
        )

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        self._numbers = assign(self._numbers, names)
        return self._numbers

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        changes: list[EdgeChange] = []
        refused, mark = False, NOWHERE
        for write in writes:
            skipped = write.chained and refused
            change = EdgeChange(Outcome.UNCHANGED, None, None) if skipped else self._apply(write)
            if change.outcome is Outcome.APPLIED:
                mark = joined(mark, change.log_position)
                change = msgspec.structs.replace(change, log_position=mark)
            changes.append(change)
            refused = skipped or change.outcome in REFUSED
        return changes

    async def barrier(self) -> None:
        """No write is ever in progress here."""

    def joined(self, one: LogPosition, other: LogPosition) -> LogPosition:
        return joined(one, other)

    def _apply(self, write: EdgeWrite) -> EdgeChange:
        self._tick()
        stored = self.rows.get(key_of(write.edge))
        users = UserEnds(self._numbers).of(write.edge)
        ends = max(map(self._node_state, users), default=State.NORMAL)
        edge = resolve(stored, write, ends)
        outcome = decide(
            stored,
            write,
            edge,
            private=lambda: self._nodes.get(edge.destination, Node()).private,
            lapsed=lambda: self._lapsed(write),
            barred=lambda: self._barred(write),
            limited=lambda limit: self._limited(limit, edge),
        )
        if outcome is not Outcome.APPLIED:
            length, listed = self._length(edge, stored, write.counted), self._any_listed(write)
            return EdgeChange(outcome, stored, stored, length=length, any_listed=listed)
        self.rows[key_of(edge)] = edge
        length = self._length(edge, edge, write.counted)
        mark = self._store(stored, edge)
        return EdgeChange(outcome, stored, edge, mark, length, self._any_listed(write))

    def _any_listed(self, write: EdgeWrite) -> bool:
        return self.transactional and any(_edges_of(self.rows, Listing(*one)) for one in write.any_of)

    def _length(self, asked: Edge, stored: Edge | None, counted: Direction | None) -> int:
        """The length of the list that shows `asked` at one of its nodes, with the edge as it is stored."""
        if counted is None:
            return 0
        listing = listing_of(asked, counted)._replace(state=State.NORMAL)
        rows = {key: edge for key, edge in self._counted(listing).items() if key != key_of(asked)}
        return len(_edges_of(rows if stored is None else rows | {key_of(asked): stored}, listing))

    def _node_state(self, node: int) -> State:
        return self._nodes.get(node, Node()).state

    def _limited(self, limit: EdgeLimit, edge: Edge) -> int:
        node = edge.source if limit.direction is Direction.OUT else edge.destination
        return sum(self._count(Listing(edge.graph, node, limit.direction, state)) for state in limit.states)

    def _lapsed(self, write: EdgeWrite) -> bool:
        if write.while_node is not None and self._node_state(write.while_node[0]) != write.while_node[1]:
            return True
        if write.while_edge is None:
            return False
        *key, there = write.while_edge
        stored = self.rows.get((key[0], key[1], key[2]))
        return (stored is not None and stored.state == State.NORMAL) != there

    def _barred(self, write: EdgeWrite) -> bool:
        return any(key in self.rows and self.rows[key].state in FORBIDDING_STATES for key in write.unless)

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        for pair, part in product(pairs, self._parts()):
            part.pop((graph, *pair), None)

    def _parts(self) -> list[Rows]:
        return [self.rows]

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        return [edge is not None and edge.state == State.NORMAL for edge in await self.get_many(graph, pairs)]

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        self._tick()
        return [self.rows.get((graph, source, destination)) for source, destination in pairs]

    async def answer(self, questions: Questions) -> Answers:
        self._tick()
        rows = [self.rows.get(key) for key in questions.asked_states]
        return Answers(
            [None if row is None else row.state for row in rows],
            [self._towards(*asked) for asked in questions.asked_towards],
            [await self.contains(listing, ids) for listing, ids in questions.asked_members],
            await self.nodes(questions.asked_nodes),
            await self.count_many(questions.asked_counts),
            [await self.page(listing, window) for listing, window in questions.asked_pages],
        )

    def _towards(self, graph: int, source: int, ends: Sequence[int]) -> list[State | None]:
        rows = [self.rows.get((graph, source, to)) for to in ends]
        return [None if row is None else row.state for row in rows]

    async def page(self, listing: Listing, window: Window) -> Page:
        self._tick()
        return cut_page(self._marks(listing), window)

    async def count_many(self, listings: Sequence[Listing]) -> list[int]:
        self._tick()
        return [self._count(listing) for listing in listings]

    async def counts(self, sides: Sequence[Side], nodes: Ids) -> Ids:
        listings = [Listing(graph, node, direction) for graph, direction in sides for node in nodes.tolist()]
        return np.array(await self.count_many(listings), np.int64).reshape(len(sides), len(nodes))

    async def ids(self, listing: Listing, newest: int) -> Ids:
        self._tick()
        return np.array([mark.id for mark in self._marks(listing)[:newest]], np.int64)

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        self._tick()
        ids = sorted(mark.id for mark in self._marks(listing))
        left = [id_ for id_ in ids if after is None or id_ > int(after)]
        more = b"%d" % left[limit - 1] if len(left) > limit else None
        return Chunk(np.array(left[:limit], np.int64), more)

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        lists = [await self.ids(listing, newest) for listing in listings]
        lengths = np.array([len(ids) for ids in lists], np.int64)
        return IdLists(np.concatenate([np.empty(0, np.int64), *lists]), lengths)

    async def degrees(self, graph: int, after: bytes | None, limit: int) -> DegreesPage:
        """Nodes with the greatest id first, as the port promises no order."""
        self._tick()
        nodes = sorted({end for number, *ends in self.rows if number == graph for end in ends}, reverse=True)
        left = [node for node in nodes if after is None or node < int(after)]
        part = [Degrees(node, *(self._count(Listing(graph, node, end)) for end in Direction)) for node in left[:limit]]
        return DegreesPage(part, b"%d" % part[-1].node if len(left) > limit else None)

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        out = listing.direction is Direction.OUT
        pairs = [(listing.node, other) if out else (other, listing.node) for other in ids.tolist()]
        edges = await self.get_many(listing.graph, pairs)
        return np.array([edge is not None and edge.state == listing.state for edge in edges], np.bool_)

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        return [self._nodes.get(node, Node()) for node in nodes]

    async def expiring_by(self, until_ms: int, limit: int) -> list[ExpiringEdge]:
        ends = [
            ExpiringEdge(edge.expires_ms, *key)
            for key, edge in self.rows.items()
            if edge.state is not State.REMOVED and 0 < edge.expires_ms <= until_ms
        ]
        return sorted(ends)[:limit]

    async def last_logged_commit(self) -> int:
        return 0  # so nothing is cached over this store; only the embedded engine can tell

    async def change_node(
        self,
        node: int,
        *,
        state: State | None = None,
        private: bool | None = None,
        labels: int | None = None,
        only_from: State | None = None,
        tell: Event | None = None,
    ) -> NodeChange:
        known = self._nodes.get(node, Node())
        if only_from in (None, known.state):
            asked = {"state": state, "private": private, "labels": labels}
            changed = known._replace(**{name: value for name, value in asked.items() if value is not None})
            if tell is not None and changed != known:
                self.events.append(tell)
            if changed != known:
                data = b"" if changed == Node() else bytes([changed.state, changed.private, changed.labels])
                self.events.append(Event(0, None, NODE_CHANGED, node, 0, 0, Hlc(0), data=data))
            known = self._nodes[node] = changed
        return NodeChange(known, WriteMark(self.events.end, 0 if tell is None else tell.updated_at))

    async def edges(self, graph: int) -> AsyncIterator[list[EdgeEnds]]:
        keys = [key for key in self.rows if key[0] == graph]
        for at in range(0, len(keys), _SCAN_ROWS):
            yield [self._ends(self.rows[key]) for key in keys[at : at + _SCAN_ROWS] if key in self.rows]

    async def stored(self, graph: int) -> AsyncIterator[list[Edge]]:
        async for chunk in self.edges(graph):
            yield [ends.edge for ends in chunk]

    async def ends(self, graph: int, pairs: Sequence[Pair]) -> list[EdgeEnds | None]:
        rows = [self.rows.get((graph, *pair)) for pair in pairs]
        return [None if edge is None else self._ends(edge) for edge in rows]

    def _ends(self, edge: Edge) -> EdgeEnds:
        shown = [self._listed(listing_of(edge, end)).get(key_of(edge)) == edge for end in Direction]
        return EdgeEnds(edge, *shown)

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        lists = {listing_of(edge, end) for edge in self.rows.values() if edge.graph == graph for end in Direction}
        checked = [(listing, self._count(listing), len(self._marks(listing))) for listing in sorted(lists)]
        wrong = [(listing, stored, real) for listing, stored, real in checked if stored != real]
        for listing, _, _ in wrong if repair else []:
            self._counted(listing).update(self._listed(listing))
        return wrong

    async def strays(self, graph: int, repair: bool) -> int:
        return 0

    async def repair(self, edges: Sequence[Edge]) -> None:
        for key, end, state in product(map(key_of, edges), Direction, State):
            listing = listing_of(self.rows[key], end)._replace(state=state)
            self._listed(listing)[key] = self._counted(listing)[key] = self.rows[key]

    async def get_note(self, key: str) -> bytes | None:
        return self._notes.get(key)

    async def put_note(self, key: str, value: bytes | None, *, only_if: bytes | AnyNote | None = ANY_NOTE) -> bool:
        if only_if is not ANY_NOTE and self._notes.get(key) != only_if:
            return False
        self._notes.pop(key, None)
        if value is not None:
            self._notes[key] = value
        return True

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return {key: value for key, value in self._notes.items() if key.startswith(prefix)}

    def _marks(self, listing: Listing) -> list[Mark]:
        """A whole list, newest first."""
        shown = _edges_of(self._listed(listing), listing)
        return sorted((Mark(edge.position, other_end(edge, listing.direction)) for edge in shown), reverse=True)

    def _count(self, listing: Listing) -> int:
        return len(_edges_of(self._counted(listing), listing))
