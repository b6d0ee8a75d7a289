"""The types that an EdgeStore takes and returns: lists, nodes, pairs, and arrays of ids."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, State

Ids = NDArray[np.int64]
Pair = tuple[int, int]  # source, destination
EdgeKey = tuple[int, int, int]  # graph, source, destination
Side = tuple[int, Direction]  # a graph, and one of a node's two directions in it


class Listing(NamedTuple):
    """One list: the edges of a node in one direction and state."""

    graph: int
    node: int
    direction: Direction
    state: State = State.NORMAL


class Node(NamedTuple):
    """What is stored about a node itself. Edges added to it while its state is not NORMAL take that state."""

    state: State = State.NORMAL
    private: bool = False  # follows need the node's consent
    labels: int = 0  # see `core.labels`


class NodeChange(NamedTuple):
    """A node after a change, and the mark of the change: a reader that carries it sees the change."""

    node: Node
    mark: WriteMark


class IdLists(NamedTuple):
    """The ids of several lists in one array, one list after the other, and the length of each. Both int64."""

    ids: Ids
    lengths: Ids


class Chunk(NamedTuple):
    """Some ids of a list, and the engine's cursor for the next chunk; None at the end of the list."""

    ids: Ids
    after: bytes | None


class ExpiringEdge(NamedTuple):
    """An edge that expires. Sorted by expiry."""

    ends_ms: int
    graph: int
    source: int
    destination: int


class Degrees(NamedTuple):
    """How many NORMAL edges a node has in a graph: `out` as their source, `into` as their destination."""

    node: int
    out: int
    into: int


class DegreesPage(NamedTuple):
    """Some nodes of a graph, and the engine's cursor for the next part; None at the end of the graph."""

    nodes: list[Degrees]
    after: bytes | None


class AnyNote(enum.Enum):
    """The type of ANY_NOTE."""

    ANY_NOTE = "anything"


ANY_NOTE: Final = AnyNote.ANY_NOTE
"""As `only_if`: write the note whatever it holds now."""


class EdgeEnds(NamedTuple):
    """An edge from its row, and whether the list at each end agrees with it."""

    edge: Edge
    in_out_list: bool
    in_in_list: bool

    @property
    def agree(self) -> bool:
        """Whether both lists agree with the row."""
        return self.in_out_list and self.in_in_list
