"""A store of edges whose lists and counts are updated late, twice and in any order, as without transactions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from reference_edges import Key, Part, ReferenceEdges, Rows, key_of
from reference_logs import Partitions

from kith.graph.edge import Direction, Edge, State, merge
from kith.graph.shapes import Listing, Pair


class ScrambledEdges(ReferenceEdges):
    """Rows change at once. Each list and each count is updated later, in any order, and perhaps twice.

    So an edge that changes state may for a while be in two lists, or in none. A late update carries a version of the
    edge and obeys the merge law, as a table of an engine does with the version as write time. Conditions read current
    rows, but lagging counts.
    """

    transactional = False

    def __init__(self, seed: int, late_max: int = 12, events: Partitions | None = None) -> None:
        super().__init__(events)
        self._late_lists: dict[Part, Rows] = {part: {} for part in product(Direction, State)}
        self._late_counts: dict[Part, Rows] = {part: {} for part in product(Direction, State)}
        self._random, self._late_max = random.Random(seed), late_max
        self._operations = 0
        self._late: list[tuple[int, Rows, Edge]] = []  # (due at operation, list or count, version)

    def settle(self) -> None:
        """Apply all late updates, in random order, half of them twice."""
        arriving, self._late = [*self._late, *self._random.sample(self._late, len(self._late) // 2)], []
        self._random.shuffle(arriving)
        for _, part, edge in arriving:
            _apply_late(part, edge)

    async def barrier(self) -> None:
        self.settle()

    def pass_time(self) -> None:
        """Apply the late updates that are due."""
        self._tick()

    def late(self) -> set[Key]:
        """Edges for which some list or count is not up to date."""
        return {key_of(edge) for _, _, edge in self._late}

    def _listed(self, listing: Listing) -> Rows:
        return self._late_lists[listing.direction, listing.state]

    def _counted(self, listing: Listing) -> Rows:
        return self._late_counts[listing.direction, listing.state]

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        await super().forget(graph, pairs)
        self._late = [late for late in self._late if key_of(late[2]) not in {(graph, *pair) for pair in pairs}]

    def _parts(self) -> list[Rows]:
        return [self.rows, *self._late_lists.values(), *self._late_counts.values()]

    def _row_changed(self, edge: Edge) -> None:
        for part in (*self._late_lists.values(), *self._late_counts.values()):
            for _ in range(self._random.choice((1, 1, 2))):
                self._late.append((self._operations + self._random.randint(0, self._late_max), part, edge))

    def _tick(self) -> None:
        super()._tick()
        self._operations += 1
        self._random.shuffle(self._late)
        for due, part, edge in self._late:
            if due <= self._operations:
                _apply_late(part, edge)
        self._late = [late for late in self._late if late[0] > self._operations]


def _apply_late(part: Rows, edge: Edge) -> None:
    part[key_of(edge)] = merge(part.get(key_of(edge)), edge)
