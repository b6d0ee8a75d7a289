"""The port behind the graph, divided by who uses which part. An engine that keeps edges implements all of it.

Code asks for the part that it needs. `EdgeStore` is all parts: an engine provides it, and a `Graph` works on it.
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
    ANYTHING,
    Anything,
    Chunk,
    DegreesPart,
    Ends,
    ExpiringEdge,
    IdLists,
    Ids,
    Listing,
    Node,
    NodeChanged,
    Pair,
    Side,
)


class Edges(Protocol):
    """Edges, readable from both ends.

    Order: lists are newest first by (position, other end), both descending.

    Atomicity: where `transactional` is true, each `apply` call is one transaction with both lists, counts and log.
    Where it is false, up to 200 writes of one source are decided together, with no other of that source in between;
    those of several sources side by side, but for a chained one, which comes after the one before it. A row is
    written at once, and so is each end of an edge; lists and counts may lag behind the row by up to 2 s, in any order,
    and changes may reach them twice. The row itself (`get_many`, `exists_many`) is always current.

    Durability: `apply` returns once the change is in the log, as durably as the engine is set to. Errors: `StoreFull`,
    `StoreUnavailable`, `Overloaded`; driver errors never leak.

    Expiry: from the millisecond `Edge.expires_ms` on an edge is removed, as `edge.as_of` says, by the reader's clock:
    at once in the row, and elsewhere as soon as a write of that moment would show. No call is needed for it. The log
    tells it like a removal, within seconds while any process has the store open.

    Moving: an edge that is written with another position moves there in both lists, and every count stays.
    """

    transactional: bool
    immediate: bool  # reads answer without waiting, so nothing is gained by making several together
    tells_all: bool  # the log tells all that changes, of records too: before a write is answered, after rows show it

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge `writes`, those of a source in order (see `edge.EdgeWrite`); one answer each, in the same order."""
        ...

    async def barrier(self) -> None:
        """Return once all writes that were begun before show in rows, lists and counts, whoever makes them and however
        long they take, or never will. Those that begin later are decided by what was written before this call.

        At once where `transactional`.
        """
        ...

    def joined(self, one: LogPosition, other: LogPosition) -> LogPosition:
        """The least position of the log that covers both marks. Asks no store."""
        ...

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        """Delete these edges for good, whatever their state: row, entries in both lists, counts.

        Only for edges that nobody can need again, because a late, older write would bring them back. The log tells
        it as EDGE_FORGOTTEN, not as a change of the edge. Atomic per call where `transactional`. Durable like `apply`.
        """
        ...

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """For each (source, destination): is there an edge in state NORMAL?"""
        ...

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        """For each (source, destination): the stored edge in any state, or None."""
        ...

    async def answer(self, questions: Questions) -> Answers:
        """Answer questions of any kind in one call, from one moment where `transactional`."""
        ...

    async def last_told(self) -> int:
        """The number of the last transaction, of whoever wrote, if the log tells all that is so by then: each change
        can be read in rows and in the log from the same moment on, and nothing has expired that the log does not tell
        yet. Otherwise 0; always on engines that cannot promise it.
        """
        ...

    async def ending(self, until_ms: int, limit: int) -> list[ExpiringEdge]:
        """Edges that end by then and are not removed yet, those first that end first. Only where `tells_all`."""
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
        """The other ends of a list, newest first, `newest` at most. int64, one dimension. All of one: `whole_list`."""
        ...

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        """Up to `limit` other ends of a list, in any order; the first, or those `after` an earlier chunk.

        If the list changes meanwhile, entries that stay throughout come exactly once; those added or removed may come
        or not.
        """
        ...

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        """Like `ids`, for several lists of one graph at once, in the order of `listings`."""
        ...

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        """For each of `ids`: is it in the list, as its row says? As current as `get_many`.

        The cost depends on the number of `ids`, not on the length of the list; where the list is short it is near 0.
        """
        ...


class Nodes(Protocol):
    """What is stored about nodes themselves: their states, whether they are private, their labels. Current at once."""

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        """What is stored about each node itself; `Node()` where nothing is."""
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
    ) -> NodeChanged:
        """Change what is given of a node, and return the node as it is afterwards.

        `only_from`: change it only if it is in this state. `tell`: an event to log if this changes anything. Atomic per
        node, with its event, where `transactional`. Durable like `apply`.
        """
        ...


class Notes(Protocol):
    """Small durable notes, such as a job's checkpoint. Current at once; durable like `Edges.apply`."""

    async def get_note(self, key: str) -> bytes | None:
        """Read a small durable note, such as a job's checkpoint; None if there is none."""
        ...

    async def put_note(self, key: str, value: bytes | None, *, only_if: bytes | Anything | None = ANYTHING) -> bool:
        """Write a note, or remove it (None); whether it was written.

        `only_if`: write it only if the note still holds this (None: if there is no note). Of several writers that read
        the same note, one succeeds.
        """
        ...

    async def notes(self, prefix: str) -> dict[str, bytes]:
        """All notes whose key starts with `prefix`, by key; there are only a few."""
        ...


class Schema(Protocol):
    """Which graphs there are."""

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        """Give each graph name a number, once and for all, and return the numbers of all graphs."""
        ...


class Scans(Protocol):
    """Whole graphs, for audits, exports and jobs over everybody.

    Order: any. If the graph changes meanwhile, what stays throughout comes exactly once; what is added or removed may
    come or not. An edge that has expired may show as it was, until the log tells that it is removed.
    """

    transactional: bool

    def edges(self, graph: int) -> AsyncIterator[list[Ends]]:
        """Every edge of a graph with what its lists say, in chunks."""
        ...

    def stored(self, graph: int) -> AsyncIterator[list[Edge]]:
        """Every edge of a graph as its row says, in chunks: a third of the work of `edges`."""
        ...

    async def ends(self, graph: int, pairs: Sequence[Pair]) -> list[Ends | None]:
        """For each (source, destination): the edge and what the lists say of it, as `edges` shows it; None: no row."""
        ...

    async def degrees(self, graph: int, after: bytes | None, limit: int) -> DegreesPart:
        """Up to `limit` nodes that are an end of a stored edge in any state: the first, or those `after` a part."""
        ...

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        """Lists whose stored count is wrong, as (list, stored count, real length); `repair` corrects them."""
        ...

    async def strays(self, graph: int, repair: bool) -> int:
        """How many list entries belong to no edge; `repair` deletes them."""
        ...

    async def repair(self, edges: Sequence[Edge]) -> None:
        """Make both lists show each of these stored edges as its row says."""
        ...


class EdgeStore(Edges, Nodes, Notes, Schema, Scans, Protocol):
    """All that a graph needs of an engine."""
