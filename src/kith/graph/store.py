"""The port behind the graph, split by use. An engine that stores edges implements all of it.

Callers ask for the part that they need. `EdgeStore` is all parts: an engine provides it, and a `Graph` works on it.
Implemented by `engines/embedded` (LMDB) and `engines/cassandra`; the conformance suite compares both with
`tests/reference_edges.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kith.core.events import Event, LogPosition
from kith.core.paging import Page, Window
from kith.graph.edge import Edge, EdgeChange, EdgeWrite, State
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import (
    ANY_NOTE,
    AnyNote,
    Chunk,
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


class Edges(Protocol):
    """Edges, readable from both ends.

    Order: lists are newest first by (position, other end), both descending.

    Atomicity: where `transactional`, each `apply` call is one transaction with both lists, counts and log. Otherwise up
    to 200 writes of one source are decided together, with no other write of that source in between. Writes of several
    sources are decided concurrently, except a chained one, which follows its predecessor. A row is written at once, and
    so is each end of an edge. Lists and counts may lag behind the row by up to 2 s, in any order, and changes may reach
    them twice. The row itself (`get_many`, `exists_many`) is always current.

    Durability: `apply` returns once the change is in the log, as durable as the engine is configured. Errors:
    `StoreFull`, `StoreUnavailable`, `Overloaded`; errors of drivers never leak.

    Expiry: from the millisecond `Edge.expires_ms` on an edge is removed, as `edge.as_of` says, by the reader's clock.
    The row shows it at once; everything else shows it as soon as it would show a write of that moment. It needs no
    call. The log reports it like a removal, within seconds while any process has the store open.

    Moving: an edge that is written with another position moves in both lists, and no count changes.
    """

    transactional: bool
    immediate: bool  # reads answer without waiting, so running them concurrently gains nothing
    logs_every_change: (
        bool  # the log reports every change, also of records: before the write is answered, after rows show it
    )

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge `writes`, those of one source in order (see `edge.EdgeWrite`). One answer per write, in the
        same order.
        """
        ...

    async def barrier(self) -> None:
        """Return once rows, lists and counts show every write that began earlier, in any process and however long it
        takes; or that write will never happen. Later writes are decided by what was written before this call.

        Returns at once where `transactional`.
        """
        ...

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        """The least log position that covers both. Queries no store."""
        ...

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        """Delete these edges permanently, whatever their state: row, entries in both lists, counts.

        Only for edges that nobody can need again, because a late, older write would bring them back. The log reports it
        as EDGE_FORGOTTEN, not as a change of the edge. Atomic per call where `transactional`. As durable as `apply`.
        """
        ...

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """For each (source, destination): whether the edge exists in state NORMAL."""
        ...

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        """For each (source, destination): the stored edge in any state, or None."""
        ...

    async def answer(self, questions: Questions) -> Answers:
        """Answer questions of any kind in one call, from one moment where `transactional`."""
        ...

    async def last_logged_commit(self) -> int:
        """The number of the last transaction of any process, if the log is complete: each change becomes readable in
        rows and log at the same moment, and no edge has expired that the log does not report yet. Otherwise 0; always 0
        on engines that cannot promise it.
        """
        ...

    async def expiring_by(self, until_ms: int, limit: int) -> list[ExpiringEdge]:
        """Edges that expire by `until_ms` and are not removed yet, earliest first. Only where `logs_every_change`."""
        ...

    async def page(self, listing: Listing, window: Window) -> Page:
        """A part of a list, as (position, other end), newest first.

        Costs the same at any depth, and wherever in the list the range from `since` to `until` lies.
        """
        ...

    async def count_many(self, listings: Sequence[Listing]) -> list[int]:
        """The exact length of each list, in constant time each."""
        ...

    async def counts(self, sides: Sequence[Side], nodes: Ids) -> Ids:
        """The lengths of lists of NORMAL edges: a row for each of `sides`, a column for each of `nodes`.

        Like `count_many`, for thousands of nodes at a time.
        """
        ...

    async def ids(self, listing: Listing, newest: int) -> Ids:
        """The other ends of a list, newest first, at most `newest`. int64, one dimension. For a whole list:
        `read_whole_list`.
        """
        ...

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        """Up to `limit` other ends of a list, in any order; the first ones, or those `after` an earlier chunk.

        If the list changes meanwhile, entries that stay come exactly once; added or removed ones may be missing.
        """
        ...

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        """As `ids`, for several lists of one graph at once, in the order of `listings`."""
        ...

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        """For each of `ids`: whether it is in the list, by its row. As current as `get_many`.

        The cost depends on the number of `ids`, not on the length of the list; for a short list it is near 0.
        """
        ...


class Nodes(Protocol):
    """What is stored about nodes themselves: their states, whether they are private, their labels. Current at once."""

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        """What is stored about each node itself; `Node()` if nothing is."""
        ...

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
        """Change the given fields of a node, and return the node after the change.

        `only_from`: change it only if it is in this state. `tell`: an event to log if this changes anything. Atomic per
        node, with its event, where `transactional`. As durable as `apply`.
        """
        ...


class Notes(Protocol):
    """Small durable notes, such as a job's checkpoint. Current at once; as durable as `Edges.apply`."""

    async def get_note(self, key: str) -> bytes | None:
        """Read a note; None if there is none."""
        ...

    async def put_note(self, key: str, value: bytes | None, *, only_if: bytes | AnyNote | None = ANY_NOTE) -> bool:
        """Write a note, or remove it (None). Returns whether it was written.

        `only_if`: write it only if the note still holds this (None: if there is no note). Of several writers that read
        the same note, one succeeds.
        """
        ...

    async def notes(self, prefix: str) -> dict[str, bytes]:
        """All notes whose key starts with `prefix`, by key. There are only a few."""
        ...


class Schema(Protocol):
    """The graphs of a store."""

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        """Assign each graph name a permanent number, and return the numbers of all graphs."""
        ...


class Scans(Protocol):
    """Whole graphs, for audits, exports and jobs over all users.

    Order: any. If the graph changes meanwhile, what stays comes exactly once; what is added or removed may be missing.
    An expired edge may show its old state until the log reports its removal.
    """

    transactional: bool

    def edges(self, graph: int) -> AsyncIterator[list[EdgeEnds]]:
        """Every edge of a graph with the state of its lists, in chunks."""
        ...

    def stored(self, graph: int) -> AsyncIterator[list[Edge]]:
        """Every edge of a graph from its row only, in chunks: a third of the work of `edges`."""
        ...

    async def ends(self, graph: int, pairs: Sequence[Pair]) -> list[EdgeEnds | None]:
        """For each (source, destination): the edge with the state of its lists, as from `edges`; None: no row."""
        ...

    async def degrees(self, graph: int, after: bytes | None, limit: int) -> DegreesPage:
        """Up to `limit` nodes that have a stored edge in any state: the first ones, or those `after` an earlier
        part.
        """
        ...

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        """Lists whose stored count is wrong, as (list, stored count, real length); `repair` corrects them."""
        ...

    async def strays(self, graph: int, repair: bool) -> int:
        """The number of list entries without an edge; `repair` deletes them."""
        ...

    async def repair(self, edges: Sequence[Edge]) -> None:
        """Make both lists agree with the rows of these edges."""
        ...


class EdgeStore(Edges, Nodes, Notes, Schema, Scans, Protocol):
    """Everything that a graph needs from an engine."""
