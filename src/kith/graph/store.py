"""The port behind the graph: what every engine that keeps edges must do.

Implemented by `engines/embedded` (LMDB) and held to `tests/reference.py` by the conformance suite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kith.core.events import Event
from kith.core.paging import Page, Window
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, State

Ids = NDArray[np.int64]
Pair = tuple[int, int]
Side = tuple[int, Direction]  # a graph, and which of a node's two lists in it


class Listing(NamedTuple):
    """One list: the edges of a node in one direction and state."""

    graph: int
    node: int
    direction: Direction
    state: State = State.NORMAL


class Node(NamedTuple):
    """A node itself. While its state is not NORMAL, edges added to it are stored in that state (see `nodes`)."""

    state: State = State.NORMAL
    private: bool = False  # follows need the node's consent
    labels: int = 0  # of `core.labels`


class IdLists(NamedTuple):
    """Several lists in one array, one after the other: the lengths say where each ends. Both int64."""

    ids: Ids
    lengths: Ids


class Degrees(NamedTuple):
    """How many NORMAL edges a node has in a graph, out of it and into it."""

    node: int
    out: int
    into: int


class Ends(NamedTuple):
    """What the two ends of an edge say of it: the stored row, and whether each list shows it as the row says."""

    edge: Edge
    in_out_list: bool
    in_in_list: bool

    @property
    def agree(self) -> bool:
        """Whether both lists show the edge."""
        return self.in_out_list and self.in_in_list


class EdgeStore(Protocol):
    """Edges, readable from both ends.

    Order: lists are newest first by (position, other end), both descending. Atomicity: one write is atomic
    per edge and end; per `apply` call, with both lists, counts and log, where `transactional` is true.
    Where it is false, lists and counts may lag behind the row by up to 2 s, in any order, and may be
    applied again; the row itself (`get_many`, `exists_many`) is always current. Durability: `apply` returns
    once the change is in the log as durably as the engine is set to. Errors: `StoreFull`,
    `StoreUnavailable`, `Overloaded`; drivers never leak.
    """

    transactional: bool

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        """Give each graph name a number, once and for all, and return all that exist."""
        ...

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge `writes` in order (see `edge.decide`); one answer each, in the same order."""
        ...

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        """Take the edges (source, destination) out for good, whatever their state: row, both lists, counts.

        Only for edges that mean nothing any more, because an older write that came late would bring them back; so
        it is no change, and the log does not tell of it. Atomic a call where `transactional`. Durable like `apply`.
        """
        ...

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """For each (source, destination): is there an edge in state NORMAL?"""
        ...

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        """For each (source, destination): the stored edge in any state, or None."""
        ...

    async def page(self, listing: Listing, window: Window) -> Page:
        """A part of a list, as (position, other end), newest first.

        It costs the same at any depth, and wherever in the list the range of `since` and `until` lies.
        """
        ...

    async def count_many(self, listings: Sequence[Listing]) -> list[int]:
        """The exact length of each list, in constant time each."""
        ...

    async def counts(self, sides: Sequence[Side], nodes: Ids) -> Ids:
        """The lengths of lists of NORMAL edges, a row for each of `sides`, a column for each of `nodes`.

        As `count_many`, for thousands of nodes at a time.
        """
        ...

    async def ids(self, listing: Listing, newest: int | None = None) -> Ids:
        """The other ends, newest first: all, or the `newest` that many. int64, one dimension."""
        ...

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        """The `newest` other ends of each list of one graph, in the order of `listings`; as `ids`, read at once."""
        ...

    async def degrees(self, graph: int, after: int | None, limit: int) -> list[Degrees]:
        """Up to `limit` nodes beyond `after` that are an end of a stored edge in whatever state, by id."""
        ...

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        """For each of `ids`: does its edge say that it is in the list? As current as `get_many`.

        Costs by the number of `ids`, not by the length of the list, and next to nothing where that is short.
        """
        ...

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        """What is known of each node itself; `Node()` unless set."""
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
    ) -> Node:
        """Change what is given of a node and leave the rest; skipped unless its state is `only_from`, if given.

        `tell`: an event to log if this changes anything. Returns the node as it then is. Atomic a node, its event
        included, where `transactional`. Durable like `apply`.
        """
        ...

    def edges(self, graph: int, after: Pair | None = None) -> AsyncIterator[list[Ends]]:
        """Every row of a graph by (source, destination), in chunks, with what both lists say of it."""
        ...

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        """Lists whose stored count differs from their length, as (list, stored, real)."""
        ...

    async def strays(self, graph: int, repair: bool) -> int:
        """How many entries stand in lists where no edge puts them; `repair` takes them out."""
        ...

    async def repair(self, edges: Sequence[Edge]) -> None:
        """Make both lists show each of these stored edges as its row says."""
        ...

    async def get_note(self, key: str) -> bytes | None:
        """A small durable note: job checkpoints, import progress."""
        ...

    async def put_note(self, key: str, value: bytes | None) -> None:
        """Set or (None) remove a note."""
        ...

    async def notes(self, prefix: str) -> dict[str, bytes]:
        """All notes whose key starts with `prefix`; for the few that jobs and imports keep."""
        ...
