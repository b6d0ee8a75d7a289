"""Scans of whole graphs in Cassandra, in the order of its tokens, and repairs, which owners execute.

A scan of one graph reads past the rows of all graphs. It is for audits, exports and jobs over all users.

A scan queries one range of tokens after another. Cassandra answers only when a page is full or the range ends, so in a
graph with few edges a query over all tokens would time out.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from time import monotonic

from kith.core.errors import StoreUnavailable
from kith.core.gathering import gather
from kith.core.paging import Mark
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.connecting import Row
from kith.engines.cassandra.edge_commands import ListEdges, ListEntry, UnlistStrays, shows
from kith.engines.cassandra.list_reader import BETWEEN
from kith.engines.cassandra.parts import ListParts, Span, parts_row, read_parts
from kith.engines.cassandra.recounter import Recounter
from kith.engines.cassandra.row_batch import edge_row, entry_row, listings_of, read_edge
from kith.engines.cassandra.rows import CassandraRows, listed
from kith.graph.edge import Direction, Edge, State
from kith.graph.shapes import Degrees, DegreesPage, EdgeEnds, EdgeKey, Listing, Pair

_SCAN_ROWS = 1_000
_CONCURRENT_NODES = 100
_PAGE_ROWS = 5_000
_COMPARISONS_MAX, _COMPARISON_PAUSE_S = 3, 0.5
"""How often a list is compared before its count is reported as wrong, and the pause between."""
_CONCURRENT_RECOUNTS = 20
"""Lists recounted at once; each sends one command to every owner at a time."""
_TOKEN = struct.Struct(">q")
_TOKEN_MIN, _TOKEN_MAX = -(2**63), 2**63 - 1
_RANGE_FIRST, _RANGE_PAGE_S, _RANGE_GROWTH_MAX = 1 << 54, 0.5, 16
"""The first range of tokens (a thousandth of all), the time that a page of a range should take, and the greatest factor
by which a range may grow."""
_RANGE_MIN = _RANGE_FIRST // _RANGE_GROWTH_MAX**4
"""If Cassandra does not answer in time for a range as short as this, it counts as unavailable."""
_WITHIN = "token({0}) > ? AND token({0}) <= ? AND graph = ? ALLOW FILTERING"
_EDGES = (
    f"SELECT source, destination, state, position, updated_at, expires_ms FROM edges WHERE {_WITHIN.format('source')}"
)
_ENTRIES = (
    "SELECT node, direction, state, part, position, other FROM list_entries"
    f" WHERE {_WITHIN.format('graph, node, direction, state, part')}"
)
_LISTS = "SELECT DISTINCT graph, node, direction, state, part FROM list_entries"
_NODES = "SELECT DISTINCT node FROM counts"
_NODES_AFTER = "SELECT DISTINCT node, token(node) FROM counts WHERE token(node) > ?"
_CELLS = "SELECT direction, state, length FROM counts WHERE graph = ? AND node = ?"
_OTHERS = "SELECT other FROM list_entries WHERE graph = ? AND node = ? AND direction = ? AND state = ? AND part = ?"


class EdgeScans:
    """See `graph.store.Scans`."""

    def __init__(self, rows: CassandraRows, owners: Owners) -> None:
        self._rows, self._session, self._owners = rows, rows.session, owners
        self._recounter = Recounter(self._newest_in, owners)

    async def edges(self, graph: int) -> AsyncIterator[list[EdgeEnds]]:
        async for chunk in self.stored(graph):
            yield await self._shown(chunk)

    async def stored(self, graph: int) -> AsyncIterator[list[Edge]]:
        async for rows in self._scan(_EDGES, graph):
            if rows:
                yield [read_edge(graph, row[0], row[1], row[2:]) for row in rows]

    async def _scan(self, statement: str, graph: int) -> AsyncIterator[list[Row]]:
        """The rows of a graph. Each range of tokens is sized so that its slowest page takes about _RANGE_PAGE_S.

        A range that times out before its first row is retried with a shorter one.
        """
        above, width = _TOKEN_MIN, _RANGE_FIRST
        while above < _TOKEN_MAX:
            range_end, slowest_s, asked_s, found_some = min(above + width, _TOKEN_MAX), 0.0, monotonic(), False
            try:
                async for rows in self._session.pages(statement, above, range_end, graph, size=_SCAN_ROWS):
                    slowest_s, found_some = max(slowest_s, monotonic() - asked_s), found_some or bool(rows)
                    yield rows
                    asked_s = monotonic()
            except StoreUnavailable:
                if found_some or width <= _RANGE_MIN:
                    raise
                width //= _RANGE_GROWTH_MAX
                continue
            above, width = range_end, max(1, int(width * min(_RANGE_PAGE_S / max(slowest_s, 0.001), _RANGE_GROWTH_MAX)))

    async def ends(self, graph: int, pairs: Sequence[Pair]) -> list[EdgeEnds | None]:
        rows = await self._rows.get([edge_row(graph, *pair) for pair in pairs])
        stored = [read_edge(graph, *pair, row) for pair, row in zip(pairs, rows, strict=True) if row is not None]
        shown = iter(await self._shown(stored))
        return [None if row is None else next(shown) for row in rows]

    async def _shown(self, edges: Sequence[Edge]) -> list[EdgeEnds]:
        """Edges, each with whether both its lists have an entry for it."""
        ends = [(listing, edge.position, other_end) for edge in edges for listing, other_end in listings_of(edge)]
        divided = await self._divisions(listing for listing, _, _ in ends)
        places = [
            [entry_row(listing, part, position, other_end) for part in divided[listing].places(position)]
            for listing, position, other_end in ends
        ]
        keys = [key for keys_of_edge in places for key in keys_of_edge]
        existing = {key for key, entry in zip(keys, await self._rows.get(keys), strict=True) if entry is not None}
        in_lists = [not existing.isdisjoint(keys_of_edge) for keys_of_edge in places]
        return [EdgeEnds(edge, *in_lists[2 * index : 2 * index + 2]) for index, edge in enumerate(edges)]

    async def _divisions(self, listings: Iterable[Listing]) -> dict[Listing, ListParts]:
        """How lists are divided."""
        distinct = list(dict.fromkeys(listings))
        rows = await self._rows.get([parts_row(listing) for listing in distinct])
        return {listing: read_parts(row) for listing, row in zip(distinct, rows, strict=True)}

    async def degrees(self, graph: int, after: bytes | None, limit: int) -> DegreesPage:
        last_token = -(2**63) if after is None else _TOKEN.unpack(after)[0]
        result: list[Degrees] = []
        async for rows in self._session.pages(_NODES_AFTER, last_token, size=_SCAN_ROWS):
            for start in range(0, len(rows), _CONCURRENT_NODES):
                batch = rows[start : start + _CONCURRENT_NODES]
                degrees_of_batch = await gather(False, *(self._degrees(graph, node) for node, _ in batch))
                for degrees, (_, token) in zip(degrees_of_batch, batch, strict=True):
                    if degrees is not None:
                        result.append(degrees)
                        if len(result) == limit:
                            return DegreesPage(result, _TOKEN.pack(token))
        return DegreesPage(result, None)

    async def _degrees(self, graph: int, node: int) -> Degrees | None:
        """A node's degrees; None if all its lists are empty."""
        lengths = await self._lengths(graph, node)
        if not any(lengths.values()):
            return None
        return Degrees(node, *(lengths.get((direction, State.NORMAL), 0) for direction in Direction))

    async def _lengths(self, graph: int, node: int) -> dict[tuple[Direction, State], int]:
        """The stored lengths of a node's lists."""
        lengths: dict[tuple[Direction, State], int] = defaultdict(int)
        for direction, state, entries in await self._session.rows(_CELLS, graph, node):
            lengths[Direction(direction), State(state)] += entries
        return lengths

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        wrong: list[tuple[Listing, int, int]] = []
        async for batch in self._listings(graph):
            compared = await gather(False, *(self._compare(*counted) for counted in batch))
            wrong += [comparison for comparison in compared if comparison is not None]
        if repair:
            for start in range(0, len(wrong), _CONCURRENT_RECOUNTS):
                some_wrong = wrong[start : start + _CONCURRENT_RECOUNTS]
                await gather(False, *(self._recounter.recount(listing) for listing, _, _ in some_wrong))
        return wrong

    async def _compare(self, listing: Listing, stored: int) -> tuple[Listing, int, int] | None:
        """A list with its stored and its real length, if they differ at all _COMPARISONS_MAX comparisons; else None.

        A list that is written to while it is counted may differ as well. It counts as right if the real length lies
        between the stored lengths before and after.
        """
        for attempt in range(_COMPARISONS_MAX):
            if attempt:
                await asyncio.sleep(_COMPARISON_PAUSE_S)
            length, stored_before = await self._length(listing), stored
            if length == stored_before:
                return None
            (cells,) = await self._rows.cells([listing])
            stored = sum(entries for _, entries, _ in cells)
            if min(stored_before, stored) <= length <= max(stored_before, stored):
                return None
        return listing, stored, length

    async def _length(self, listing: Listing) -> int:
        """How many entries a list has. An entry that is being moved, and is in two parts, counts once."""
        parts = (await self._divisions([listing]))[listing]
        moving = [] if parts.moving is None else parts.places(parts.moving)
        counted = (self._length_of_part(listing, begin) for begin in parts.begins if begin not in moving)
        length = sum(await gather(False, *counted))
        if not moving:
            return length
        other_ends: set[int] = set()
        for part in reversed(moving):
            async for rows in self._session.pages(_OTHERS, *listed(listing), part, size=_PAGE_ROWS):
                other_ends.update(other_end for (other_end,) in rows)
        return length + len(other_ends)

    async def _length_of_part(self, listing: Listing, part: int) -> int:
        """How many entries a part has, counted here page by page: Cassandra cannot count some millions in time."""
        pages = self._session.pages(_OTHERS, *listed(listing), part, size=_PAGE_ROWS)
        return sum([len(rows) async for rows in pages])

    async def _newest_in(self, listing: Listing, span: Span, limit: int) -> list[tuple[Mark, int]]:
        """See `recounter.NewestEntries`."""
        parts, newest = (await self._divisions([listing]))[listing], list[tuple[Mark, int]]()
        for places, within in parts.within(span):
            of_places: dict[Mark, int] = {}
            for part in reversed(places):
                bounds, rows_read = (*listed(listing), part, *within.above, *within.top), 0
                async for rows in self._session.pages(BETWEEN, *bounds, size=min(limit, _PAGE_ROWS)):
                    of_places.update(
                        (Mark(position, other_end), expires_ms) for position, other_end, expires_ms in rows
                    )
                    rows_read += len(rows)
                    if rows_read >= limit - len(newest):
                        break
            newest += sorted(of_places.items(), reverse=True)[: limit - len(newest)]
            if len(newest) == limit:
                break
        return newest

    async def _listings(self, graph: int) -> AsyncIterator[list[tuple[Listing, int]]]:
        """Every list with its stored length: first the lists with stored counts, then those with entries only (0)."""
        async for rows in self._session.pages(_NODES, size=_CONCURRENT_NODES):
            nodes = [node for (node,) in rows]
            counted = await gather(False, *(self._lengths(graph, node) for node in nodes))
            yield [
                (Listing(graph, node, *part), length)
                for node, lengths in zip(nodes, counted, strict=True)
                for part, length in lengths.items()
            ]
        async for rows in self._session.pages(_LISTS, size=_CONCURRENT_NODES):
            listings = (Listing(graph, row[1], Direction(row[2]), State(row[3])) for row in rows if row[0] == graph)
            lists = list(dict.fromkeys(listings))
            cells = await self._rows.cells(lists)
            yield [(listing, 0) for listing, counts in zip(lists, cells, strict=True) if not counts]

    async def strays(self, graph: int, repair: bool) -> int:
        count = 0
        async for rows in self._scan(_ENTRIES, graph):
            entries = [
                ListEntry(Listing(graph, node, Direction(direction), State(state)), part, position, other_end)
                for node, direction, state, part, position, other_end in rows
            ]
            divided = await self._divisions(entry.listing for entry in entries)
            edges = await self._rows.get([edge_row(*entry.edge) for entry in entries])
            strays = [
                entry
                for entry, row in zip(entries, edges, strict=True)
                if not shows(entry, None if row is None else read_edge(*entry.edge, row), divided[entry.listing])
            ]
            count += len(strays)
            if repair and strays:
                await self._unlist(strays)
        return count

    async def _unlist(self, strays: Sequence[ListEntry]) -> None:
        entries_by_owner: dict[int, list[ListEntry]] = defaultdict(list)
        for entry in strays:
            entries_by_owner[self._owners.partitions.of_node(entry.edge[1])].append(entry)
        await self._owners.ask_many(
            [(partition, UnlistStrays(entries)) for partition, entries in entries_by_owner.items()], int
        )

    async def repair(self, edges: Sequence[Edge]) -> None:
        for start in range(0, len(edges), _SCAN_ROWS):
            keys_by_owner: dict[int, list[EdgeKey]] = defaultdict(list)
            for edge in edges[start : start + _SCAN_ROWS]:
                keys_by_owner[self._owners.partitions.of_node(edge.source)].append(
                    (edge.graph, edge.source, edge.destination)
                )
            await self._owners.ask_many(
                [(partition, ListEdges(keys)) for partition, keys in keys_by_owner.items()], type(None)
            )
