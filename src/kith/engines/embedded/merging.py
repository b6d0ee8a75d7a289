"""Merges the edge writes of one call into the store: rows, both lists and the log, in one transaction.

A write is plain if its outcome depends only on the row of its own edge and on the users at its ends. Many plain writes
are merged together, in the order of keys: one call of LMDB reads the stored rows, and a few calls write the new edges
(see `sorted_changes`). Writes with other conditions are merged one by one, in their order. The answers and the stored
rows are the same either way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kith.core.events import NOWHERE
from kith.engines.embedded import runs
from kith.engines.embedded.changes import edge_changed
from kith.engines.embedded.edge_rows import replace_edge
from kith.engines.embedded.jobs import WriteJob
from kith.engines.embedded.keys import list_prefix, pair_key, read_edge, state_at
from kith.engines.embedded.sorted_changes import add_new
from kith.engines.embedded.transaction import Transaction
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
from kith.graph.shapes import Listing

MANY = 64
"""Fewer writes than this are merged one by one."""
_SKIPPED = EdgeChange(Outcome.UNCHANGED, None, None)
"""The answer for a chained write after a refused one."""


class MergeEdges(WriteJob, frozen=True):
    """The job of `EdgeStore.apply`. Its answer is a list of `EdgeChange`."""

    writes: Sequence[EdgeWrite]

    def __call__(self, batch: Transaction) -> list[EdgeChange]:
        return apply_all(batch, self.writes)

    def graphs(self) -> Collection[int]:
        return graphs_of(self.writes)


def graphs_of(writes: Sequence[EdgeWrite]) -> set[int]:
    """The graphs that these writes change or read."""
    graphs = {write.edge.graph for write in writes}
    for write in writes:
        if write.unless or write.while_edge is not None or write.any_of:
            condition_edges = (*write.unless, *write.any_of, *([write.while_edge[:3]] if write.while_edge else ()))
            graphs.update([graph for graph, *_ in condition_edges])
    return graphs


def _never() -> bool:
    return False


def _none(_: EdgeLimit) -> int:
    return 0


def apply_all(batch: Transaction, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
    """Merge the writes of one call, in order."""
    merged: list[EdgeChange] = []
    for part in _parts(writes) if len(writes) >= MANY else [writes]:
        if not isinstance(part, dict):
            _apply_singly(batch, part, merged)
        elif len(part) < MANY or batch.expired_edges() is not None:
            _apply_singly(batch, list(part.values()), merged)
        else:
            merged += _apply_plain(batch, part)
    return merged


def _parts(writes: Sequence[EdgeWrite]) -> Iterator[Sequence[EdgeWrite] | dict[bytes, EdgeWrite]]:
    """Cut writes into parts, in their order. A part is a mapping from keys to plain writes of different edges of one
    graph, or a list of one other write.
    """
    plain: dict[bytes, EdgeWrite] = {}
    graph = writes[0].edge.graph
    for write in writes:
        edge = write.edge
        key = pair_key(edge.source, edge.destination)
        is_plain = not (
            write.chained
            or write.if_public
            or write.unless
            or write.while_node is not None
            or write.while_edge is not None
            or write.limit is not None
            or write.counted is not None
            or write.any_of
        )
        if plain and (not is_plain or key in plain or edge.graph != graph):
            yield plain
            plain = {}
        graph = edge.graph
        if is_plain:
            plain[key] = write
        else:
            yield [write]
    yield plain


def _apply_plain(batch: Transaction, writes: Mapping[bytes, EdgeWrite]) -> list[EdgeChange]:
    """Merge plain writes of different edges of one graph; `writes`: by the edge's key."""
    graph = next(iter(writes.values())).edge.graph
    cursor, inactive = batch.cursor(graph), batch.inactive_users(writes.values())
    stored_row = dict(cursor.getmulti(sorted(writes))).get
    positions = iter(batch.environment.positions.of_many(batch.log.last + 1, len(writes)))
    merged: list[EdgeChange] = []
    events: list[bytes] = []
    new_events: list[bytes] = []
    replaced: list[tuple[Edge | None, Edge]] = []
    for key, write in writes.items():
        edge, row = write.edge, stored_row(key)
        stored = None if row is None else read_edge(graph, edge.source, edge.destination, row)
        if stored is not None or inactive or edge.expires_ms or write.only_from is not None:
            ends = State.NORMAL
            if inactive:
                ends = max((inactive.get(user, ends) for user in batch.environment.user_ends.of(edge)), default=ends)
            edge = resolve(stored, write, ends)
            outcome = decide(stored, write, edge, barred=_never, limited=_none)
            if outcome is not Outcome.APPLIED:
                merged.append(EdgeChange(outcome, stored, stored))
                continue
        event = edge_changed(None if stored is None else stored.state, edge)
        events.append(event)
        if stored is None and not edge.expires_ms:
            new_events.append(event)
        else:
            replaced.append((stored, edge))
        merged.append(EdgeChange(Outcome.APPLIED, stored, edge, next(positions)))
    if new_events:
        add_new(cursor, new_events)
    for stored, edge in replaced:
        replace_edge(batch.txn, cursor, batch.environment.graph_db(graph), batch.environment.rows, stored, edge)
    batch.append_all(events)
    return merged


def _apply_singly(batch: Transaction, writes: Sequence[EdgeWrite], merged: list[EdgeChange]) -> None:
    for write in writes:
        previous = merged[-1] if merged else None
        skipped = write.chained and previous is not None and (previous is _SKIPPED or previous.outcome in REFUSED)
        merged.append(_SKIPPED if skipped else _apply(batch, write))


def _apply(batch: Transaction, write: EdgeWrite) -> EdgeChange:
    """Merge one write into the row, both lists and the log."""
    requested = write.edge
    graph, txn, db = requested.graph, batch.txn, batch.environment.graph_db(requested.graph)
    key = pair_key(requested.source, requested.destination)
    stored_row = txn.get(key, None, db)
    stored = None if stored_row is None else read_edge(graph, requested.source, requested.destination, stored_row)
    if stored is not None and (current := as_of(stored, batch.now_ms)) is not stored:
        batch.write_edge(stored, current)
        stored = current
    edge = resolve(stored, write, batch.ends(requested))

    def private() -> bool:
        return batch.nodes_known and batch.node(edge.destination).private

    def lapsed() -> bool:
        if write.while_node is not None and batch.node(write.while_node[0]).state != write.while_node[1]:
            return True
        if write.while_edge is None:
            return False
        *other, must_exist = write.while_edge
        return (state_of(*other) == State.NORMAL) != must_exist

    def barred() -> bool:
        return any(state_of(*other) in FORBIDDING_STATES for other in write.unless)

    def state_of(other: int, source: int, destination: int) -> State:
        row = txn.get(pair_key(source, destination), None, batch.environment.graph_db(other))
        return State.REMOVED if row is None else state_at(row, batch.now_ms)

    def limited(limit: EdgeLimit) -> int:
        return length_of(limit.direction, limit.states, limit.edges_max)

    def length_of(direction: Direction, states: Iterable[State] = (State.NORMAL,), edges_max: int = 0) -> int:
        node = edge.source if direction is Direction.OUT else edge.destination
        listings = [Listing(graph, node, direction, state) for state in states]
        length = sum(runs.length(txn, db, list_prefix(listing)) for listing in listings)
        if length < edges_max:
            return length  # below `edges_max` already; without expired entries it is smaller still
        expired = batch.expired_edges()
        return length if expired is None else length - sum(expired.count(listing) for listing in listings)

    outcome = decide(stored, write, edge, private=private, lapsed=lapsed, barred=barred, limited=limited)
    log_position, after = NOWHERE, stored
    if outcome is Outcome.APPLIED:
        log_position, after = batch.write_edge(stored, edge), edge
    length = 0 if write.counted is None else length_of(write.counted)
    any_listed = bool(write.any_of) and batch.any_listed(write.any_of)
    return EdgeChange(outcome, stored, after, log_position, length, any_listed)
