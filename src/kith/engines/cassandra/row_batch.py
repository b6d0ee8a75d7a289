"""A batch of commands while its owner decides it: the rows that were read, and the rows to write.

Each command sees the changes of the commands before it. Nothing here does I/O. Rows are read before the batch is
decided. A row that a command needs and that was not read is noted as missing; the owner then reads it and decides the
batch again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import cast

from kith.core.clock import Hlc
from kith.core.events import Event
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.parts import ListParts, parts_row, parts_values, read_parts
from kith.engines.cassandra.recount import Recount
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import RowChange, cell_row, listed
from kith.graph.edge import Direction, Edge, State, as_of
from kith.graph.graphs import UserEnds
from kith.graph.shapes import EdgeKey, Listing, Node

PART_MAX = 100_000
"""About how many entries a part of a list may have before the part is divided. See `divider`."""
_EXPIRY = struct.Struct(">Q")


def edge_row(graph: int, source: int, destination: int) -> Key:
    """The key of an edge's row."""
    return Key("edges", (source, graph, destination))


def entry_row(listing: Listing, part: int, position: int, other_end: int) -> Key:
    """The key of an entry's row in one part of a list."""
    return Key("list_entries", (*listed(listing), part, position, other_end))


def expiry_row(edge: EdgeKey, expires_ms: int, partition: int) -> Key:
    """The key of the row by which the owner finds an edge that expires."""
    graph, source, destination = edge
    return Key("expiring", (partition, expires_ms, graph, source, destination))


def read_edge(graph: int, source: int, destination: int, values: Values) -> Edge:
    """Decode an edge from its row."""
    state, position, updated_at, expires_ms = values
    return Edge(graph, NodeId(source), NodeId(destination), State(state), position, Hlc(updated_at), expires_ms)


def read_node(values: Values | None) -> Node:
    """Decode a node from its row; the default node where there is no row."""
    return Node() if values is None else Node(State(values[0]), bool(values[1]), values[2])


def listings_of(edge: Edge) -> tuple[tuple[Listing, int], tuple[Listing, int]]:
    """The two lists that show an edge, each with the id that it shows."""
    graph, source, destination, state = edge.graph, edge.source, edge.destination, edge.state
    outgoing = Listing(graph, source, Direction.OUT, state)
    incoming = Listing(graph, destination, Direction.IN, state)
    return (outgoing, destination), (incoming, source)


def list_rows(edge: Edge, partition: int) -> Iterable[Key]:
    """For the two lists that show an edge: the keys of this partition's counts, and of the divisions."""
    for listing, _ in listings_of(edge):
        yield cell_row(listing, partition)
        yield parts_row(listing)


class RowBatch:
    """A batch in progress.

    `read`: rows by key; None where there is no row. `lengths`: the lengths of lists without this partition's entries.
    `recounts`: the recounts in progress; the batch updates a copy of them.
    `missing`: rows that a command needed and that were not read. If it is not empty, discard the batch's results.
    """

    def __init__(
        self,
        partition: int,
        partitions: Partitions,
        rows: Mapping[Key, Values | None],
        lengths: Mapping[Listing, int],
        recounts: Mapping[Listing, Recount],
        user_ends: UserEnds,
    ) -> None:
        self.user_ends, self.partition, self.partitions = user_ends, partition, partitions
        self._rows, self._lengths, self.recounts = rows, lengths, dict(recounts)
        self._changes: dict[Key, RowChange] = {}
        self.missing: dict[Key, None] = {}
        self._timestamp = 0
        self._expired_when_written: list[EdgeKey] = []
        self._noted_every = max(1, PART_MAX // 2 // partitions.count)
        self.now_ms = 0
        self.events: list[Event] = []

    @property
    def changes(self) -> list[RowChange]:
        """The rows to write."""
        return list(self._changes.values())

    def begin(self, offset: int, now_ms: int) -> None:
        """Start a command: its offset gives the timestamps of rows, `now_ms` is the time to decide it by."""
        self._timestamp, self.now_ms = offset + 1, now_ms
        self.events = []

    def get(self, key: Key) -> Values | None:
        """The current values of a row, with the changes of this batch; None if there is no row."""
        change = self._changes.get(key)
        if change is not None:
            return change.values
        if key not in self._rows:
            self.missing[key] = None
            return None
        return self._rows[key]

    def put(self, key: Key, values: Values, kept_s: int = 0) -> None:
        """Write a row. `kept_s`: see `RowChange`."""
        self._changes[key] = RowChange(*key, values, self._timestamp, kept_s)

    def delete(self, key: Key) -> None:
        """Delete a row."""
        self._changes[key] = RowChange(*key, None, self._timestamp)

    def node(self, node: int) -> Node:
        """The stored state, privacy and labels of a node."""
        return read_node(self.get(Key("nodes", (node,))))

    def stored_edge(self, key: EdgeKey) -> Edge | None:
        """The edge as stored. An edge that expired keeps its old state until its removal is written."""
        values = self.get(edge_row(*key))
        return None if values is None else read_edge(*key, values)

    def current_edge(self, key: EdgeKey) -> Edge | None:
        """An edge as of now. If it has expired and this partition owns it, this writes its removal."""
        stored = self.stored_edge(key)
        current = None if stored is None else as_of(stored, self.now_ms)
        if current is not None and current is not stored and self.partitions.of_node(key[1]) == self.partition:
            self.write_edge(stored, current)
        return current

    def remove_expired_when_written(self) -> None:
        """Remove edges that had already expired when this batch wrote them, so that lengths do not count them."""
        while self._expired_when_written:
            self.current_edge(self._expired_when_written.pop())

    def length(self, listing: Listing) -> int:
        """The length of a list, without entries that had expired when the batch was read."""
        return self._lengths.get(listing, 0) + self._cell(listing)[0]

    def write_edge(self, stored: Edge | None, edge: Edge) -> None:
        """Replace `stored` with an edge: write its row and both lists' entries, and append its event."""
        if stored is not None:
            self._unlist(stored)
        self.put(
            edge_row(edge.graph, edge.source, edge.destination),
            (int(edge.state), edge.position, edge.updated_at, edge.expires_ms),
        )
        self.list_edge(edge)
        for listing, other_end in listings_of(edge):
            self._count(listing, other_end, 1, edge)
        state_before = None if stored is None else int(stored.state)
        data = _EXPIRY.pack(edge.expires_ms) if edge.expires_ms else b""
        event = Event(
            edge.graph,
            state_before,
            edge.state,
            edge.source,
            edge.destination,
            edge.position,
            edge.updated_at,
            data=data,
        )
        self.events.append(event)
        if 0 < edge.expires_ms <= self.now_ms:
            self._expired_when_written.append((edge.graph, edge.source, edge.destination))

    def forget_edge(self, stored: Edge) -> None:
        """Delete an edge with its entries, as if it had never existed."""
        self._unlist(stored)
        self.delete(edge_row(stored.graph, stored.source, stored.destination))

    def list_edge(self, edge: Edge) -> None:
        """Write an edge's entries in both lists, and the rows that find it by its expiry."""
        for listing, other_end in listings_of(edge):
            own_part, *_ = self._entry_keys(listing, edge.position, other_end)
            self.put(own_part, (edge.expires_ms,))
            if edge.expires_ms:
                self.put(Key("ending", (*listed(listing), edge.expires_ms, other_end)), ())
        if edge.expires_ms:
            self.put(self._expiry(edge), ())

    def _unlist(self, stored: Edge) -> None:
        for listing, other_end in listings_of(stored):
            for key in self._entry_keys(listing, stored.position, other_end):
                self.delete(key)
            if stored.expires_ms:
                self.delete(Key("ending", (*listed(listing), stored.expires_ms, other_end)))
            self._count(listing, other_end, -1, stored)
        if stored.expires_ms:
            self.delete(self._expiry(stored))

    def parts(self, listing: Listing) -> ListParts:
        """How a list is divided."""
        return read_parts(self.get(parts_row(listing)))

    def divide(self, listing: Listing, parts: ListParts) -> None:
        """Store how a list is divided."""
        self.put(parts_row(listing), parts_values(parts))

    def _entry_keys(self, listing: Listing, position: int, other_end: int) -> list[Key]:
        """The keys at which an entry may be: in its own part and, while entries move, in the part before."""
        return [entry_row(listing, part, position, other_end) for part in self.parts(listing).places(position)]

    def _expiry(self, edge: Edge) -> Key:
        return expiry_row((edge.graph, edge.source, edge.destination), edge.expires_ms, self.partition)

    def _count(self, listing: Listing, other_end: int, step: int, edge: Edge) -> None:
        entries, expiring = self._cell(listing)
        expiring_step = step if edge.expires_ms else 0
        self.put_cell(listing, entries + step, expiring + expiring_step)
        if step > 0 and (entries + step) % self._noted_every == 0:
            part = self.parts(listing).of(edge.position)
            self.put(Key("long_parts", (self.partition, *listed(listing), part)), ())
        if (recount := self.recounts.get(listing)) is not None:
            self.recounts[listing] = recount.with_change(Mark(edge.position, other_end), step, expiring_step)

    def _cell(self, listing: Listing) -> tuple[int, int]:
        return cast("tuple[int, int]", self.get(self._cell_key(listing)) or (0, 0))

    def put_cell(self, listing: Listing, entries: int, expiring: int) -> None:
        """Set this partition's counts of a list: its entries, and how many of these expire."""
        self.put(self._cell_key(listing), (entries, expiring))

    def _cell_key(self, listing: Listing) -> Key:
        return cell_row(listing, self.partition)
