"""Commands that change edges and their lists. Commands on edges are sent to the partition of the edges' source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.events import EDGE_FORGOTTEN, Event
from kith.engines.cassandra.owner_command import OwnerCommand
from kith.engines.cassandra.parts import LOWEST, ListParts, Span, parts_row
from kith.engines.cassandra.recount import Recount, StretchOutcome
from kith.engines.cassandra.row_batch import RowBatch, edge_row, entry_row, expiry_row, list_rows
from kith.engines.cassandra.row_reader import Key
from kith.engines.cassandra.rows import listed
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
from kith.graph.shapes import EdgeKey, Listing, Pair


class ListEntry(NamedTuple):
    """An entry of a list."""

    listing: Listing
    part: int
    position: int
    other: int

    @property
    def edge(self) -> EdgeKey:
        """The edge that the entry shows."""
        graph, node, direction, _ = self.listing
        return (graph, node, self.other) if direction == Direction.OUT else (graph, self.other, node)


class WriteEdges(OwnerCommand, frozen=True, tag="write"):
    """Merge writes in order. Answers one change per write; None for a chained write that was skipped.

    A chained write is skipped if the write before it was refused or skipped. `first_decides`: stop after the first
    write if it is REFUSED.
    """

    writes: list[EdgeWrite]
    first_decides: bool = False

    def reads(self, partition: int) -> Iterable[Key]:
        previous_ends: Pair | None = None
        for write in self.writes:
            edge, ends = write.edge, (write.edge.source, write.edge.destination)
            yield edge_row(edge.graph, *ends)
            if write.only_from is None or State.REMOVED in write.only_from:  # mostly a new edge
                yield from list_rows(edge, partition)
            elif ends != previous_ends:  # mostly a stored edge, in its old lists too; a pair's second write finds none
                yield from list_rows(edge, partition)
                yield from list_rows(msgspec.structs.replace(edge, state=State.NORMAL), partition)
            previous_ends = ends
            yield Key("nodes", (edge.source,))
            yield Key("nodes", (edge.destination,))
            if write.while_node is not None:
                yield Key("nodes", (write.while_node[0],))
            for key in write.condition_edges:
                yield edge_row(*key)

    def lengths(self) -> Iterable[Listing]:
        for write in self.writes:
            if write.limit is not None:
                yield from _counted_by(write.limit, write.edge)
            if write.counted is not None:
                yield _at_end(write.edge, write.counted)

    def run(self, batch: RowBatch) -> list[EdgeChange | None]:
        changes: list[EdgeChange | None] = []
        refused = False
        for write in self.writes:
            change = None if write.chained and refused else _apply(batch, write)
            refused = change is None or change.outcome in REFUSED
            changes.append(change)
            if self.first_decides and len(changes) == 1 and refused:
                break
        return changes


class ForgetEdges(OwnerCommand, frozen=True, tag="forget"):
    """Delete edges as if they had never existed."""

    graph: int
    pairs: list[Pair]

    def reads(self, partition: int) -> Iterable[Key]:
        return [edge_row(self.graph, *pair) for pair in self.pairs]

    def run(self, batch: RowBatch) -> None:
        for pair in self.pairs:
            edge = batch.stored_edge((self.graph, *pair))
            if edge is not None:
                batch.forget_edge(edge)
                batch.events.append(Event(self.graph, None, EDGE_FORGOTTEN, *pair, 0, Hlc(0)))


class EndEdges(OwnerCommand, frozen=True, tag="end"):
    """Remove the edges that have expired; answers how many were removed.

    `ends_ms`: the expiry of each edge in its row of `expiring`. A row that does not agree with its edge is deleted, for
    example one that reappeared after its deletion.
    """

    edges: list[EdgeKey]
    ends_ms: list[int] = msgspec.field(default_factory=list)

    def reads(self, partition: int) -> Iterable[Key]:
        return [edge_row(*edge) for edge in self.edges]

    def run(self, batch: RowBatch) -> int:
        events_before = len(batch.events)
        for edge in self.edges:
            batch.current_edge(edge)
        for edge, expires_ms in zip(self.edges, self.ends_ms, strict=False):  # an older Kith sends no `ends_ms`
            stored = batch.stored_edge(edge)
            if stored is None or stored.expires_ms != expires_ms:
                batch.delete(expiry_row(edge, expires_ms, batch.partition))
        return len(batch.events) - events_before


class ListEdges(OwnerCommand, frozen=True, tag="list"):
    """Write the list entries of stored edges again, at both ends."""

    edges: list[EdgeKey]

    def reads(self, partition: int) -> Iterable[Key]:
        return [edge_row(*edge) for edge in self.edges]

    def run(self, batch: RowBatch) -> None:
        for edge in self.edges:
            stored_edge = batch.stored_edge(edge)
            if stored_edge is not None:
                batch.list_edge(stored_edge)


class UnlistStrays(OwnerCommand, frozen=True, tag="unlist"):
    """Delete the entries that do not agree with the row of their edge; answers how many were deleted.

    `moved`: also delete entries that belong in another part of their list.
    """

    entries: list[ListEntry]
    moved: bool = False

    def reads(self, partition: int) -> Iterable[Key]:
        for entry in self.entries:
            yield edge_row(*entry.edge)
            yield parts_row(entry.listing)

    def run(self, batch: RowBatch) -> int:
        deleted = 0
        for entry in self.entries:
            parts = batch.parts(entry.listing)
            if not shows(entry, batch.stored_edge(entry.edge), parts) or (
                self.moved and entry.part != parts.of(entry.position)
            ):
                batch.delete(entry_row(*entry))
                deleted += 1
        return deleted


class CountStretch(OwnerCommand, frozen=True, tag="stretch"):
    """Add one stretch to the owner's recount of a list, from the newest entry to the oldest; see `recount`.

    Answers a `StretchOutcome`. `name`: identifies the recount. `span`: the stretch; None: start the recount.
    `entries`: how many entries of the stretch this owner wrote; `expiring`: how many of these expire.
    """

    listing: Listing
    name: int
    span: Span | None = None
    entries: int = 0
    expiring: int = 0

    def reads(self, partition: int) -> Iterable[Key]:
        return []

    def run(self, batch: RowBatch) -> StretchOutcome:
        recount = batch.recounts.get(self.listing)
        if self.span is None:
            batch.recounts[self.listing] = Recount(self.name)
        elif recount is None or (recount.name, recount.below) != (self.name, self.span.top):
            return StretchOutcome.FORGOTTEN
        elif recount.changed is not None and recount.changed > self.span.above:
            batch.recounts[self.listing] = recount._replace(changed=None)
            return StretchOutcome.CHANGED
        else:
            entries, expiring = recount.entries + self.entries, recount.expiring + self.expiring
            batch.recounts[self.listing] = Recount(self.name, self.span.above, entries, expiring)
            if self.span.above == LOWEST:
                del batch.recounts[self.listing]
                batch.put_cell(self.listing, entries, expiring)
        return StretchOutcome.COUNTED


class DivideList(OwnerCommand, frozen=True, tag="divide"):
    """Record that entries of a list start to move to a part beginning at `begin`, or that all have moved (`moved`).

    Answers how the list is divided. Sent to the partition of the list's node.
    """

    listing: Listing
    begin: int
    moved: bool = False

    def reads(self, partition: int) -> Iterable[Key]:
        return [parts_row(self.listing)]

    def run(self, batch: RowBatch) -> ListParts:
        parts = stored_parts = batch.parts(self.listing)
        if self.moved and parts.moving == self.begin:
            parts = parts._replace(moving=None)
        elif not self.moved and parts.moving is None and self.begin not in parts.begins:
            parts = ListParts(tuple(sorted((*parts.begins, self.begin))), self.begin)
        if parts != stored_parts:
            batch.divide(self.listing, parts)
        return parts


class ForgetLong(OwnerCommand, frozen=True, tag="forget_long"):
    """Delete the note that a part may be too long. `part` None: the note of a whole list, which an older Kith wrote."""

    listing: Listing
    part: int | None = None

    def reads(self, partition: int) -> Iterable[Key]:
        return []

    def run(self, batch: RowBatch) -> None:
        note_key = (batch.partition, *listed(self.listing))
        batch.delete(Key("long_lists", note_key) if self.part is None else Key("long_parts", (*note_key, self.part)))


def shows(entry: ListEntry, edge: Edge | None, parts: ListParts) -> bool:
    """Whether an entry agrees with the row of its edge, and is in a part where it may be."""
    if edge is None or entry.part not in parts.places(entry.position):
        return False
    return (edge.state, edge.position) == (entry.listing.state, entry.position)


def _at_end(edge: Edge, direction: Direction) -> Listing:
    return Listing(edge.graph, edge.source if direction is Direction.OUT else edge.destination, direction)


def _counted_by(limit: EdgeLimit, edge: Edge) -> list[Listing]:
    return [_at_end(edge, limit.direction)._replace(state=state) for state in limit.states]


def _apply(batch: RowBatch, write: EdgeWrite) -> EdgeChange:
    """Merge one write; see `graph.edge.EdgeWrite`."""
    requested = write.edge
    batch.remove_expired_when_written()
    stored = batch.current_edge((requested.graph, requested.source, requested.destination))
    ends = max((batch.node(user).state for user in batch.user_ends.of(requested)), default=State.NORMAL)
    edge = resolve(stored, write, ends)

    def state_of(key: EdgeKey) -> State:
        edge_found = batch.stored_edge(key)
        return State.REMOVED if edge_found is None else as_of(edge_found, batch.now_ms).state

    def barred() -> bool:
        return any(state_of(key) in FORBIDDING_STATES for key in write.unless)

    def lapsed() -> bool:
        if write.while_node is not None and batch.node(write.while_node[0]).state != write.while_node[1]:
            return True
        if write.while_edge is None:
            return False
        *key, must_exist = write.while_edge
        return (state_of((key[0], key[1], key[2])) == State.NORMAL) != must_exist

    outcome = decide(
        stored,
        write,
        edge,
        private=lambda: batch.node(requested.destination).private,
        lapsed=lapsed,
        barred=barred,
        limited=lambda limit: sum(batch.length(listing) for listing in _counted_by(limit, requested)),
    )
    if outcome is Outcome.APPLIED:
        batch.write_edge(stored, edge)
    length = 0 if write.counted is None else batch.length(_at_end(requested, write.counted))
    return EdgeChange(outcome, stored, edge if outcome is Outcome.APPLIED else stored, length=length)
