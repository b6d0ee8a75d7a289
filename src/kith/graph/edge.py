"""Edges merge newest-wins, so any order and any repetition of the same writes leaves the same edge.

Of two writes to one edge the greater `(updated_at, rank(state), position)` wins; the law is commutative,
associative and idempotent (design, section 2, law 1; the states are FlockDB's). A removed edge therefore
stays as a row in state REMOVED: forgetting it would let an older, delayed write bring it back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

import msgspec

from kith.core.clock import Hlc
from kith.core.ids import NodeId

POSITION_MIN = -(2**63)
POSITION_MAX = 2**63 - 1


class State(enum.IntEnum):
    """The value is the rank: of two writes with the same version, the higher rank wins."""

    NORMAL = 0
    NEGATIVE = 1
    ARCHIVED = 2
    REMOVED = 3


class Direction(enum.IntEnum):
    """Which end of the edges a list hangs on. OUT: from the source; IN: to the destination."""

    OUT = 0
    IN = 1


class Edge(msgspec.Struct, frozen=True, gc=False, order=False):
    """One relation, as stored. `graph` is the graph's number (see `graphs`)."""

    graph: int
    source: NodeId
    destination: NodeId
    state: State
    position: int  # 64-bit signed; ms since the epoch unless the caller chose otherwise; newest first in lists
    updated_at: Hlc


class EdgeWrite(msgspec.Struct, frozen=True, gc=False):
    """An edge to merge, and the conditions under which it is skipped instead.

    A write made here and now sets `supersede`: it becomes later than whatever is stored, so that what a user
    does next always wins over what they did before, and `keep_place` leaves the stored position as it is.
    Writes with a version of their own (imports, replays, other systems) set neither: the merge law decides.

    `keep_live`: an edge that is already in that state stays as it is (a double follow keeps its place).
    `only_from`: skip unless the stored edge is in one of these states (no row counts as REMOVED).
    `out_limit`: OVER_LIMIT if the source already has this many NORMAL edges and this would add one.
    `unless`: FORBIDDEN if any of these edges (graph, source, destination) is NORMAL, or ARCHIVED: a block
    holds while either end is away, and until it is restored when they come back.
    `if_active`: INACTIVE unless both nodes themselves are NORMAL.
    `if_public`: PRIVATE if the destination's edges need its consent.
    `chained`: skip if the write before it in the same call was REFUSED.
    `while_node`: skip unless this node itself is in this state (a bulk operation that another one overtook).
    Conditions are exact where the engine is transactional and best effort elsewhere.
    """

    edge: Edge
    supersede: bool = False
    keep_place: bool = False
    keep_live: bool = False
    only_from: frozenset[State] | None = None
    out_limit: int | None = None
    unless: tuple[tuple[int, int, int], ...] = ()
    while_node: tuple[int, State] | None = None
    if_active: bool = False
    if_public: bool = False
    chained: bool = False


BARRING = frozenset({State.NORMAL, State.ARCHIVED})
"""States in which an edge of `unless` forbids."""


class Outcome(enum.Enum):
    """What became of a write."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"  # older than what is stored, the same, or skipped by a condition
    OVER_LIMIT = "over_limit"
    FORBIDDEN = "forbidden"
    INACTIVE = "inactive"
    PRIVATE = "private"


REFUSED = frozenset(Outcome) - {Outcome.APPLIED, Outcome.UNCHANGED}


class EdgeChange(msgspec.Struct, frozen=True, gc=False):
    """The answer to one write: the edge before it (None if there was none) and the edge now stored."""

    outcome: Outcome
    before: Edge | None
    after: Edge | None
    sequence: int = 0  # of the log entry, where APPLIED


def precedence(edge: Edge) -> tuple[int, int, int]:
    """What the merge law compares."""
    return (edge.updated_at, edge.state, edge.position)


def merge(stored: Edge | None, incoming: Edge) -> Edge:
    """The edge that remains of two versions of it."""
    if stored is None or precedence(incoming) > precedence(stored):
        return incoming
    return stored


def resolve(stored: Edge | None, write: EdgeWrite, ends: State = State.NORMAL) -> Edge:
    """The edge that `write` stands for: this, and not the write, goes into the log.

    `ends` is the greater state of the two nodes themselves: an edge added to an archived or removed node is
    stored in its state.
    """
    edge = write.edge
    if stored is None or not write.supersede:
        if edge.state != State.NORMAL or ends == State.NORMAL:
            return edge
        return msgspec.structs.replace(edge, state=ends)
    return Edge(
        edge.graph,
        edge.source,
        edge.destination,
        max(edge.state, ends) if edge.state == State.NORMAL else edge.state,
        stored.position if write.keep_place else edge.position,
        edge.updated_at if edge.updated_at > stored.updated_at else Hlc(stored.updated_at + 1),
    )


def _never() -> bool:
    return False


def decide(
    stored: Edge | None,
    write: EdgeWrite,
    edge: Edge,
    out_count: Callable[[], int],
    barred: Callable[[], bool],
    lapsed: Callable[[], bool] = _never,
    private: Callable[[], bool] = _never,
) -> Outcome:
    """Whether `edge` (the resolved write) takes the place of `stored`.

    `out_count`: the source's number of NORMAL edges; `barred`: whether an edge of `unless` bars it;
    `lapsed`: whether `while_node` no longer holds; `private`: whether the destination's edges need its consent.
    They are asked only if they matter.
    """
    if write.if_active and edge.state != write.edge.state:
        return Outcome.INACTIVE  # `resolve` gave the edge the state of an end that is not NORMAL
    live = stored is not None and stored.state == State.NORMAL
    if write.keep_live and stored is not None and stored.state == edge.state:
        return Outcome.UNCHANGED
    if write.only_from is not None and (State.REMOVED if stored is None else stored.state) not in write.only_from:
        return Outcome.UNCHANGED
    if stored is not None and merge(stored, edge) is stored:
        return Outcome.UNCHANGED
    if write.if_public and private():
        return Outcome.PRIVATE
    if write.while_node is not None and lapsed():
        return Outcome.UNCHANGED
    if write.unless and barred():
        return Outcome.FORBIDDEN
    if write.out_limit is not None and edge.state == State.NORMAL and not live and out_count() >= write.out_limit:
        return Outcome.OVER_LIMIT
    return Outcome.APPLIED


def applied(changes: Iterable[EdgeChange]) -> int:
    """How many of `changes` changed something."""
    return sum(change.outcome is Outcome.APPLIED for change in changes)
