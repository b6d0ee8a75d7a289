"""Edges merge newest-wins: the same writes leave the same edge in any order, however often they are repeated.

Of two writes to one edge the greater `(updated_at, state, position, expires_ms)` wins. This merge law is commutative,
associative and idempotent. The states are FlockDB's. A removed edge stays as a row in state REMOVED; otherwise an
older, delayed write would bring it back.

An edge may expire at `expires_ms`. From then on it is the same edge in state REMOVED, with its old version (`as_of`).
By the merge law this wins over the edge before its expiry and loses to every later write. So the expiry needs no
version of its own, and any process may write it, at any later time and repeatedly.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId

POSITION_MIN = -(2**63)
POSITION_MAX = 2**63 - 1


class State(enum.IntEnum):
    """The state of an edge. Of two writes with the same version the greater state wins."""

    NORMAL = 0
    NEGATIVE = 1
    ARCHIVED = 2
    REMOVED = 3


class Direction(enum.IntEnum):
    """Which list of a node. OUT: its edges as a source; IN: its edges as a destination."""

    OUT = 0
    IN = 1


class Edge(msgspec.Struct, frozen=True, gc=False, order=False):
    """One edge, as stored. `graph` is the number of its graph (see `graphs`)."""

    graph: int
    source: NodeId
    destination: NodeId
    state: State
    position: int  # 64-bit signed; orders lists, greatest first; ms since the epoch unless the caller chose otherwise
    updated_at: Hlc
    expires_ms: int = 0  # in ms since the epoch, from then on it counts as removed; 0: never


class EdgeLimit(NamedTuple):
    """The most edges that one end of an edge may have in some states. OUT: its source; IN: its destination."""

    edges_max: int
    direction: Direction = Direction.OUT
    states: tuple[State, ...] = (State.NORMAL,)


class EdgeWrite(msgspec.Struct, frozen=True, gc=False):
    """An edge to merge, and the conditions under which it is not merged.

    First the edge is completed (`resolve`). A write made here and now sets `supersede`: its version becomes greater
    than the stored one, so that a user's later action wins over their earlier one. With `keep_place` it takes the
    stored position and expiry, with `keep_expiry` only the expiry. Writes that bring their own version (imports,
    replays, other systems) set none of these. With `as_is` the edge was decided elsewhere and is stored unchanged, even
    if one of its nodes is archived or removed.

    The stored edge is taken as of now: if it has expired, it counts as REMOVED below.

    Then the conditions are checked in this order. The first that fails decides the outcome:

    1. `chained`: UNCHANGED if the previous write of the call was REFUSED, or skipped for this same reason (checked by
       the engine).
    2. `if_active`: INACTIVE unless both nodes themselves, where they are users, are NORMAL.
    3. `keep_live`: UNCHANGED if the stored edge already has this state and expiry (a double follow keeps its place). If
       only the expiry differs, the edge gets the new one, and with `supersede` keeps its place.
    4. `only_from`: UNCHANGED unless the stored edge is in one of these states (no row counts as REMOVED).
    5. The merge law: UNCHANGED if the stored edge wins.
    6. `if_public`: PRIVATE if the destination must consent to its edges, unless the write only makes the stored edge
       expire sooner.
    7. `while_node`: UNCHANGED unless this node itself is in this state (else another bulk operation has taken over).
       `while_edge`: UNCHANGED unless this edge (graph, source, destination) is NORMAL (true) or not NORMAL (false).
    8. `unless`: FORBIDDEN if any of these edges (graph, source, destination) is NORMAL or ARCHIVED. A block is ARCHIVED
       while either end is deactivated, and it holds until it is restored.
    9. `limit`: OVER_LIMIT if an end of the edge already has this many edges in these states and this would add one.

    Conditions are exact on a transactional engine and best effort on others.

    `counted`: the answer has the length of the list at this end of the edge (see `EdgeChange.length`). `any_of`: the
    answer says whether any of these lists (graph, node, direction, state) has an entry (see `EdgeChange.any_listed`).
    """

    edge: Edge
    supersede: bool = False
    keep_place: bool = False
    keep_expiry: bool = False
    chained: bool = False
    if_active: bool = False
    keep_live: bool = False
    only_from: frozenset[State] | None = None
    if_public: bool = False
    while_node: tuple[int, State] | None = None
    unless: tuple[tuple[int, int, int], ...] = ()
    limit: EdgeLimit | None = None
    counted: Direction | None = None
    any_of: tuple[tuple[int, int, Direction, State], ...] = ()
    as_is: bool = False
    while_edge: tuple[int, int, int, bool] | None = None

    @property
    def condition_edges(self) -> tuple[tuple[int, int, int], ...]:
        """The other edges that the conditions read."""
        return self.unless if self.while_edge is None else (*self.unless, self.while_edge[:3])


FORBIDDING_STATES = frozenset({State.NORMAL, State.ARCHIVED})
"""The states in which an edge of `EdgeWrite.unless` forbids the write."""


class Outcome(enum.Enum):
    """The result of a write."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"  # older than or equal to the stored edge, or skipped by a condition
    OVER_LIMIT = "over_limit"
    FORBIDDEN = "forbidden"
    INACTIVE = "inactive"
    PRIVATE = "private"


REFUSED = (Outcome.OVER_LIMIT, Outcome.FORBIDDEN, Outcome.INACTIVE, Outcome.PRIVATE)
"""Outcomes that the caller must report as errors; UNCHANGED is as good as done. A tuple, because an outcome is compared
faster than hashed.
"""


class EdgeChange(msgspec.Struct, frozen=True, gc=False):
    """The answer to one write: the edge before it (None if there was none) and the edge now stored.

    `log_position`: if APPLIED, a log position that covers it has this change and the earlier ones of the call.
    `length`: if the write asked for it (`EdgeWrite.counted`), the number of NORMAL edges in that list, including this
    edge as it is now; else, or if the write was skipped as `chained`, 0. It is exact on a transactional engine. On
    others, changes of other edges may be missing, as in counts, but never this edge.

    `any_listed`: whether any list of `EdgeWrite.any_of` has an entry after the write; expired entries count. Only
    transactional engines answer it; on others it is false.
    """

    outcome: Outcome
    before: Edge | None
    after: Edge | None
    log_position: LogPosition = msgspec.field(default=NOWHERE, name="mark")  # its old name on the wire
    length: int = 0
    any_listed: bool = False


def precedence(edge: Edge) -> tuple[int, int, int, int]:
    """What the merge law compares; the greater wins."""
    return (edge.updated_at, edge.state, edge.position, edge.expires_ms)


def as_of(edge: Edge, now_ms: int) -> Edge:
    """The edge as of a moment: REMOVED if it has expired by then."""
    if edge.expires_ms and edge.expires_ms <= now_ms:
        return msgspec.structs.replace(edge, state=State.REMOVED, expires_ms=0)
    return edge


def merge(stored: Edge | None, incoming: Edge) -> Edge:
    """The version of an edge that stays."""
    if stored is None or precedence(incoming) > precedence(stored):
        return incoming
    return stored


def resolve(stored: Edge | None, write: EdgeWrite, ends: State = State.NORMAL) -> Edge:
    """The complete edge of `write`: the one that is compared, stored and logged.

    `ends` is the greater state of those of its two nodes that are users (`graphs.UserEnds`). An edge added to an
    archived or removed node takes the state of that node.
    """
    edge = write.edge
    if write.as_is:
        return edge
    state = max(edge.state, ends) if edge.state == State.NORMAL else edge.state
    position, version, expires_ms = edge.position, edge.updated_at, edge.expires_ms
    if stored is not None and write.supersede:
        if write.keep_place or (write.keep_live and stored.state == state):
            position = stored.position
        if write.keep_place or write.keep_expiry:
            expires_ms = stored.expires_ms
        if version <= stored.updated_at:
            version = Hlc(stored.updated_at + 1)
    if state == State.REMOVED:
        expires_ms = 0
    return Edge(edge.graph, edge.source, edge.destination, state, position, version, expires_ms)


def _never() -> bool:
    return False


def decide(
    stored: Edge | None,
    write: EdgeWrite,
    edge: Edge,
    *,
    private: Callable[[], bool] = _never,
    lapsed: Callable[[], bool] = _never,
    barred: Callable[[], bool],
    limited: Callable[[EdgeLimit], int],
) -> Outcome:
    """Whether `edge` (the resolved write) replaces `stored`: conditions 2 to 9 of `EdgeWrite`, in their order.

    Each function is called only if its condition is set and no earlier one failed. `private`: must the destination
    consent? `lapsed`: does `while_node` or `while_edge` not hold? `barred`: does an edge of `unless` forbid it?
    `limited`: how many edges does a limit count now?
    """
    if write.if_active and edge.state != write.edge.state:
        return Outcome.INACTIVE  # `resolve` gave the edge the state of a node that is not NORMAL
    if write.keep_live and stored is not None and (stored.state, stored.expires_ms) == (edge.state, edge.expires_ms):
        return Outcome.UNCHANGED
    if write.only_from is not None and (State.REMOVED if stored is None else stored.state) not in write.only_from:
        return Outcome.UNCHANGED
    if stored is not None and merge(stored, edge) is stored:
        return Outcome.UNCHANGED
    if write.if_public and not _ends_sooner(stored, edge) and private():
        return Outcome.PRIVATE
    if (write.while_node is not None or write.while_edge is not None) and lapsed():
        return Outcome.UNCHANGED
    if write.unless and barred():
        return Outcome.FORBIDDEN
    if (limit := write.limit) is not None:
        adds_one = edge.state in limit.states and (stored is None or stored.state not in limit.states)
        if adds_one and limited(limit) >= limit.edges_max:
            return Outcome.OVER_LIMIT
    return Outcome.APPLIED


def _ends_sooner(stored: Edge | None, edge: Edge) -> bool:
    """Whether a write makes a NORMAL edge expire sooner than before."""
    if stored is None or stored.state != State.NORMAL or not edge.expires_ms:
        return False
    return not stored.expires_ms or edge.expires_ms < stored.expires_ms


def count_applied(changes: Iterable[EdgeChange]) -> int:
    """How many of `changes` were applied."""
    return [change.outcome for change in changes].count(Outcome.APPLIED)
