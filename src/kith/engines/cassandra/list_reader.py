"""Reads the newest entries of lists, and batches the reads of one turn of the event loop.

A statement reads stretches with equal bounds from up to PLACES_MAX lists: those of some nodes in some graphs (each
node in each graph). Limits are rounded up to one of `_SIZES`, as a few extra entries cost less than another statement.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from kith.core.paging import Mark
from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.row_reader import padded
from kith.graph.shapes import Listing

PLACES_MAX = 32
_SIZES = (8, 32, 256, 1_024)
BATCHED_ENTRIES_MAX = _SIZES[-1]
"""Entries of the longest stretch that is batched; longer ones are read alone, page by page."""
_ROWS_MAX = 4_096
"""Rows that one statement may return."""
BETWEEN = (
    "SELECT position, other, expires_ms FROM list_entries"
    " WHERE graph = ? AND node = ? AND direction = ? AND state = ? AND part = ?"
    " AND (position, other) > (?, ?) AND (position, other) <= (?, ?)"
)
"""Selects the entries of a part of a list that are above the first mark and not above the second."""
NewestEntry: TypeAlias = tuple[int, int, int]
"""Position, other end, expires_ms."""


class ListStretch(NamedTuple):
    """The newest `limit` entries of a part of a list, from those greater than `above` and not greater than `top`."""

    listing: Listing
    part: int
    above: Mark
    top: Mark
    limit: int


_Place: TypeAlias = tuple[int, int]  # graph, node
_Requests: TypeAlias = dict[_Place, list[tuple[int, "asyncio.Future[list[NewestEntry]]"]]]  # with the limit of each
_Bounds: TypeAlias = tuple[int, int, int, Mark, Mark, int]  # direction, state, part, above, top, size


class NewestReader:
    """Reads stretches of lists, in batches. For one event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests: dict[_Bounds, _Requests] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def of(self, stretch: ListStretch) -> list[NewestEntry]:
        """The entries of a stretch, newest first, with expired ones."""
        (graph, node, direction, state), part, above, top, limit = stretch
        size = next(size for size in _SIZES if size >= limit)
        loop = asyncio.get_running_loop()
        if not self._requests:
            loop.call_soon(self._begin)
        answer: asyncio.Future[list[NewestEntry]] = loop.create_future()
        requests = self._requests.setdefault((int(direction), int(state), part, above, top, size), {})
        requests.setdefault((graph, node), []).append((limit, answer))
        return await answer

    def _begin(self) -> None:
        """Start reading all stretches that were requested in this turn."""
        requests, self._requests = self._requests, {}
        for bounds, places in requests.items():
            for graphs, nodes in _products(list(places), max(1, min(PLACES_MAX, _ROWS_MAX // bounds[-1]))):
                reading = asyncio.get_running_loop().create_task(self._read(bounds, graphs, nodes, places))
                self._reading.add(reading)
                reading.add_done_callback(self._reading.discard)

    async def _read(self, bounds: _Bounds, graphs: Sequence[int], nodes: Sequence[int], requests: _Requests) -> None:
        direction, state, part, above, top, size = bounds
        padded_graphs, padded_nodes = padded(graphs), padded(nodes)
        statement = _newest(len(padded_graphs), len(padded_nodes))
        try:
            rows = await self._session.rows(
                statement, *padded_graphs, *padded_nodes, direction, state, part, *above, *top, size
            )
        except Exception as error:
            for _, answer in (waiter for graph in graphs for node in nodes for waiter in requests[graph, node]):
                if not answer.done():
                    answer.set_exception(error)
            return
        entries: dict[_Place, list[NewestEntry]] = defaultdict(list)
        for graph, node, *entry in rows:
            entries[graph, node].append(tuple(entry))
        for graph in graphs:
            for node in nodes:
                for limit, answer in requests[graph, node]:
                    if not answer.done():
                        answer.set_result(entries[graph, node][:limit])


def _products(places: Sequence[_Place], places_max: int) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Group places into few products of graphs and nodes: nodes whose requested graphs are the same go together."""
    graphs_of: dict[int, list[int]] = defaultdict(list)
    for graph, node in places:
        graphs_of[node].append(graph)
    nodes_by_graphs: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for node, graphs in graphs_of.items():
        for start in range(0, len(graphs), places_max):
            nodes_by_graphs[tuple(sorted(graphs)[start : start + places_max])].append(node)
    for graphs_of_nodes, nodes in nodes_by_graphs.items():
        width = max(1, places_max // len(graphs_of_nodes))
        for start in range(0, len(nodes), width):
            yield graphs_of_nodes, nodes[start : start + width]


@cache
def _newest(graphs: int, nodes: int) -> str:
    """The statement that reads stretches of so many graphs and nodes."""
    return (
        "SELECT graph, node, position, other, expires_ms FROM list_entries"
        f" WHERE graph {_one_of(graphs)} AND node {_one_of(nodes)} AND direction = ? AND state = ? AND part = ?"
        " AND (position, other) > (?, ?) AND (position, other) <= (?, ?) PER PARTITION LIMIT ?"
    )


def _one_of(count: int) -> str:
    return "= ?" if count == 1 else f"IN ({', '.join('?' * count)})"
