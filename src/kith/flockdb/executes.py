"""FlockDB's writes: add, remove, archive and negate edges, one by one or all of a node in one direction.

An operation that names its edges and is due is done at once, and acknowledged when it is durable. An operation for a
later time, of low priority, or on all edges of a node becomes a job (`jobs`), and is acknowledged when the job is
durable.

An operation has a version. Without a time, its version is newer than the edges it finds. With a time, that time is the
version, and the merge law decides: such operations that name their edges leave each edge in one state, in any order and
however often they are repeated. Two things still depend on the order. First, the position: adding an existing or
archived edge keeps its position. Second, an operation on all edges of a node changes only the edges that it finds.

Archiving all edges of a node in a direction marks that side of it as away. The mark is an edge of the graph FLOCK_AWAY
from the node to `graph number * 2 + direction`, with the version of the operation. An edge that is added or negated
while one of its sides is away is stored as archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc, hlc_of, ms_of
from kith.core.errors import BadRequest, BatchTooLarge
from kith.core.ids import NodeId
from kith.flockdb.interface import ExecuteOperation
from kith.flockdb.selects import Term
from kith.graph.edge import POSITION_MAX, POSITION_MIN, Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.graph import Graph
from kith.graph.graphs import FLOCK_AWAY
from kith.graph.shapes import EdgeKey, Listing, Pair

EDGES_MAX = 100_000
"""Most edges that one `execute` may name."""
WRITES_A_COMMIT = 1_000
_STATES = {
    ExecuteOperation.ADD: State.NORMAL,
    ExecuteOperation.REMOVE: State.REMOVED,
    ExecuteOperation.ARCHIVE: State.ARCHIVED,
    ExecuteOperation.NEGATE: State.NEGATIVE,
}
_FROM = {
    ExecuteOperation.ADD: (State.ARCHIVED, State.NEGATIVE),
    ExecuteOperation.REMOVE: (State.NORMAL, State.NEGATIVE, State.ARCHIVED),
    ExecuteOperation.ARCHIVE: (State.NORMAL, State.NEGATIVE),
    ExecuteOperation.NEGATE: (State.NORMAL,),
}
"""The states that an operation on all edges of a node changes, in the order of its lists."""
_PLACED = (State.NORMAL, State.ARCHIVED)
"""An edge in one of these states keeps its position when it is added. Any other edge gets a new position, unless the
operation archives it.
"""
_BARRED = (ExecuteOperation.ADD, ExecuteOperation.NEGATE)
"""Edges that these operations make are archived while one of their sides is away."""


class ExecuteTask(NamedTuple):
    """One operation. `position`: of the edges; None: the time. `version`: None: newer than the stored edge."""

    change: ExecuteOperation
    term: Term
    position: int | None
    version: Hlc | None


def check_position(position: int | None) -> int | None:
    """Return the position. BadRequest if it is invalid."""
    if position is not None and not POSITION_MIN <= position <= POSITION_MAX:
        raise BadRequest("position must be a 64-bit number")
    return position


def check_edges(tasks: Sequence[ExecuteTask]) -> None:
    """BatchTooLarge if the operations name too many edges."""
    number = sum(len(task.term.others) for task in tasks if task.term.others is not None)
    if number > EDGES_MAX:
        raise BatchTooLarge(f"one execute may name {EDGES_MAX} edges at most; send several", max=EDGES_MAX)


def version_at(seconds: int, number: int) -> Hlc:
    """The version of operation `number` of those of a second. It is never 0, as that is the version of no edge."""
    return hlc_of(max(1, seconds * 1000), min(number, 0xFFFF))


class Executes:
    """Runs operations on a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._store = graph, graph.store
        self._away = graph.graphs.number(FLOCK_AWAY)

    async def edges(self, tasks: Iterable[ExecuteTask]) -> None:
        """Run operations that name their edges, in order: of two that name the same edge, the second finds the result
        of the first.
        """
        writes, keys = list[EdgeWrite](), set[EdgeKey]()
        for task in tasks:
            other_ids = [] if task.term.others is None else list(dict.fromkeys(task.term.others.tolist()))
            for start in range(0, len(other_ids), WRITES_A_COMMIT):
                pairs = task.term.pairs(other_ids[start : start + WRITES_A_COMMIT])
                edges = [(task.term.graph, *pair) for pair in pairs]
                if len(writes) >= WRITES_A_COMMIT or not keys.isdisjoint(edges):
                    await self._apply(writes)
                    writes, keys = [], set()
                writes += await self._writes(task, task.term.graph, pairs)
                keys.update(edges)
        await self._apply(writes)

    async def mark(self, task: ExecuteTask) -> bool:
        """Before going through all edges of a node, record whether this side of it is away from now on.

        False if a newer operation recorded the opposite: then this operation does nothing. Of two with the same
        version, as in calls for the same second, the later one counts as newer.
        """
        if task.change not in (ExecuteOperation.ADD, ExecuteOperation.ARCHIVE):
            return True
        term, version = task.term, task.version or self._graph.clock.next()
        side = NodeId(_side(term.graph, term.direction))
        mark = Edge(self._away, NodeId(term.node), side, _marked(task.change), ms_of(version), version)
        stored = await self._merged(mark)
        if _is_back(stored) != _is_back(mark) and stored.updated_at == version:
            stored = await self._merged(msgspec.structs.replace(mark, updated_at=Hlc(version + 1)))
        return _is_back(stored) == _is_back(mark)

    async def _merged(self, mark: Edge) -> Edge:
        """Merge the mark of a side; returns the stored one. A side is not a user, so it cannot be removed with one."""
        (change,) = await self._store.apply([EdgeWrite(mark, as_is=True)])
        return change.after or mark

    async def of_list(self, task: ExecuteTask, listing: Listing, other_ids: Sequence[int]) -> None:
        """Apply an operation to some entries of a list of its node."""
        is_out = listing.direction is Direction.OUT
        pairs = [(listing.node, other_id) if is_out else (other_id, listing.node) for other_id in other_ids]
        stored = await self._store.get_many(listing.graph, pairs)
        version = task.version or self._graph.clock.next()
        away = (self._away, listing.node, _side(listing.graph, listing.direction), True)
        writes = []
        for edge in stored:
            if edge is not None and edge.state == listing.state and edge.updated_at < version:
                after = msgspec.structs.replace(edge, state=_STATES[task.change], updated_at=version)
                unless = self._away_keys(edge.graph, edge.source, edge.destination)
                writes.append(
                    EdgeWrite(
                        after,
                        only_from=frozenset({listing.state}),
                        unless=unless if task.change is ExecuteOperation.ADD else (),
                        while_edge=away if task.change is ExecuteOperation.ARCHIVE else None,
                    )
                )
        await self._store.apply(writes)  # a refused edge stays archived, because its other side is away

    def listings(self, task: ExecuteTask) -> list[Listing]:
        """The lists that an operation on all edges of a node goes through."""
        term = task.term
        return [Listing(term.graph, term.node, term.direction, state) for state in _FROM[task.change]]

    async def _writes(self, task: ExecuteTask, graph: int, pairs: Sequence[Pair]) -> list[EdgeWrite]:
        """The writes of an operation that names its edges. Edges that already have the state keep their position and
        get the new version, so that an older change does not undo it.
        """
        stored = await self._store.get_many(graph, pairs)
        writes = []
        for pair, edge in zip(pairs, stored, strict=True):
            keeps = edge is not None and (edge.state in _PLACED or task.change is not ExecuteOperation.ADD)
            fixed_position = edge.position if edge is not None and keeps and task.version else task.position
            version = task.version or self._graph.clock.next()
            position = ms_of(version) if fixed_position is None else fixed_position
            writes.append(
                EdgeWrite(
                    Edge(graph, NodeId(pair[0]), NodeId(pair[1]), _STATES[task.change], position, version),
                    supersede=task.version is None,
                    keep_place=keeps,
                    unless=self._away_keys(graph, *pair) if task.change in _BARRED else (),
                )
            )
        return writes

    async def _apply(self, writes: Sequence[EdgeWrite]) -> None:
        """Apply writes. An edge that is refused because one of its sides is away is stored as archived."""
        changes = await self._store.apply(writes)
        forbidden = [
            (write, change.before)
            for write, change in zip(writes, changes, strict=True)
            if change.outcome is Outcome.FORBIDDEN
        ]
        if not forbidden:
            return
        refused = [write for write, _ in forbidden]
        archived = [
            EdgeWrite(_archived(write.edge, before), supersede=write.supersede, keep_place=True)
            for write, before in forbidden
        ]
        await self._store.apply(archived)
        # A side that came back meanwhile was processed before these edges existed. The second write merges the same
        # version in a lesser state, so it needs a newer version.
        await self._store.apply(
            [
                EdgeWrite(
                    write.edge,
                    supersede=True,
                    keep_place=True,
                    only_from=frozenset({State.ARCHIVED}),
                    unless=write.unless,
                )
                for write in refused
            ]
        )

    def _away_keys(self, graph: int, source: int, destination: int) -> tuple[EdgeKey, ...]:
        """The marks that say whether a side of this edge is away."""
        return (
            (self._away, source, _side(graph, Direction.OUT)),
            (self._away, destination, _side(graph, Direction.IN)),
        )

    async def away(self, graph: int, node: int, direction: Direction) -> Edge | None:
        """The mark that this side of a node is or was away; None if it never was."""
        (mark,) = await self._store.get_many(self._away, [(node, _side(graph, direction))])
        return mark


def _side(graph: int, direction: Direction) -> int:
    return graph * 2 + direction


def _marked(change: ExecuteOperation) -> State:
    return State.NORMAL if change is ExecuteOperation.ARCHIVE else State.REMOVED


def _is_back(mark: Edge) -> bool:
    return mark.state == State.REMOVED


def _archived(edge: Edge, before: Edge | None) -> Edge:
    """The edge as it is stored while one of its sides is away, at its previous position even if it was removed."""
    position = edge.position if before is None else before.position
    return msgspec.structs.replace(edge, state=State.ARCHIVED, position=position)
