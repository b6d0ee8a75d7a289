"""Reads of any kind and any graphs, answered by an EdgeStore in one call, so that a remote engine needs one round trip.

A caller adds its question and keeps the slice that it gets back. Once the store has answered, the slice selects the
answers:

    questions = Questions()
    blocks = questions.states([(BLOCKS, alice, bob), (BLOCKS, bob, alice)])
    size = questions.counts([Listing(FOLLOWS, bob, Direction.IN)])
    answers = await store.answer(questions)
    answers.states[blocks], answers.counts[size]

A function `ask_x(questions, ...)` adds its questions and returns a function that makes x from the `Answers`. So several
rooms share one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kith.core.paging import Page, Window
from kith.graph.edge import State
from kith.graph.shapes import EdgeKey, Ids, Listing, Node, Side

_Asked = TypeVar("_Asked")


class Answers(NamedTuple):
    """The answers to some questions, per kind in the order of the questions."""

    states: list[State | None]  # of each edge's row; None: there is no edge
    towards: list[list[State | None]]  # the same
    members: list[NDArray[np.bool_]]
    nodes: list[Node]
    counts: list[int]
    pages: list[Page]


class Questions:
    """The questions of one call. Every method returns where the answers will be among those of their kind."""

    __slots__ = ("asked_counts", "asked_members", "asked_nodes", "asked_pages", "asked_states", "asked_towards")

    def __init__(self) -> None:
        self.asked_states: list[EdgeKey] = []
        self.asked_towards: list[tuple[int, int, Sequence[int]]] = []
        self.asked_members: list[tuple[Listing, Ids]] = []
        self.asked_nodes: list[int] = []
        self.asked_counts: list[Listing] = []
        self.asked_pages: list[tuple[Listing, Window]] = []

    def __len__(self) -> int:
        """How many questions there are; the ids of `members` and `towards` count one by one."""
        members = sum(len(ids) for _, ids in self.asked_members)
        edges = len(self.asked_states) + sum(len(ends) for *_, ends in self.asked_towards) + members
        return edges + len(self.asked_nodes) + len(self.asked_counts) + len(self.asked_pages)

    def states(self, edges: Iterable[EdgeKey]) -> slice:
        """The state of each edge, from its row. See `EdgeStore.get_many`."""
        return _add(self.asked_states, edges)

    def towards(self, graph: int, source: int, ends: Sequence[int]) -> int:
        """The state of the edge from `source` to each of `ends`. As `states`, but faster."""
        self.asked_towards.append((graph, source, ends))
        return len(self.asked_towards) - 1

    def members(self, listing: Listing, ids: Ids) -> int:
        """For each of `ids`: whether it is in the list, by its row. See `EdgeStore.contains`."""
        self.asked_members.append((listing, ids))
        return len(self.asked_members) - 1

    def nodes(self, nodes: Iterable[int]) -> slice:
        """What is stored about each node itself. See `EdgeStore.nodes`."""
        return _add(self.asked_nodes, nodes)

    def counts(self, listings: Iterable[Listing]) -> slice:
        """The length of each list. See `EdgeStore.count_many`."""
        return _add(self.asked_counts, listings)

    def totals(self, sides: Sequence[Side], nodes: Sequence[int]) -> Callable[[Answers], list[list[int]]]:
        """The lengths of these lists for each of a few nodes, per side. See `EdgeStore.counts`."""
        slices = [self.counts([Listing(graph, node, direction) for node in nodes]) for graph, direction in sides]
        return lambda answers: [answers.counts[part] for part in slices]

    def page(self, listing: Listing, window: Window) -> int:
        """A part of a list. See `EdgeStore.page`."""
        self.asked_pages.append((listing, window))
        return len(self.asked_pages) - 1


def _add(asked: list[_Asked], more: Iterable[_Asked]) -> slice:
    start = len(asked)
    asked += more
    return slice(start, len(asked))
