"""Divides long lists into parts, so that no partition of Cassandra outgrows a node. `parts` says how nothing is lost.

An owner that adds to a part notes now and then that it may have become too long (`long_parts`). A process calls
`divide_long` periodically, which checks only the noted parts. If a part is too long, its newest entries move to a new
part: half of `part_max`, and entries with equal positions stay together.

So a step moves about half of `part_max` entries, however long the part has become. That bound is needed: Cassandra can
neither count some millions of entries in time, nor read past as many tombstones.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import structlog

from kith.core.errors import Unavailable
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.connecting import ANSWER_TIMEOUT_S
from kith.engines.cassandra.edge_commands import DivideList, ForgetLong, ListEdges, ListEntry, UnlistStrays
from kith.engines.cassandra.parts import ListParts, parts_row, read_parts
from kith.engines.cassandra.row_batch import PART_MAX
from kith.engines.cassandra.rows import CassandraRows, listed
from kith.graph.edge import Direction, State
from kith.graph.shapes import EdgeKey, Listing

_MOVE_PAGE_ROWS = 500
_log = structlog.get_logger("kith.cluster")
_PART = "graph = ? AND node = ? AND direction = ? AND state = ? AND part = ?"
_NEWEST = f"SELECT position FROM list_entries WHERE {_PART} LIMIT ?"
_OLDER = f"SELECT position FROM list_entries WHERE {_PART} AND position < ? LIMIT 1"
_FROM = f"SELECT position, other FROM list_entries WHERE {_PART} AND position >= ?"
_LONG_LISTS = "SELECT graph, node, direction, state FROM long_lists WHERE partition = ?"
_LONG_PARTS = "SELECT graph, node, direction, state, part FROM long_parts WHERE partition = ?"


class Divider:
    """Divides lists. `part_max`: entries of a part; `settle_s`: how long reads in progress may still take."""

    def __init__(
        self, rows: CassandraRows, owners: Owners, *, part_max: int = PART_MAX, settle_s: float = 2 * ANSWER_TIMEOUT_S
    ) -> None:
        self._rows, self._session, self._owners = rows, rows.session, owners
        self._part_max, self._settle_s = part_max, settle_s

    async def divide_long(self) -> int:
        """Divide the noted parts until each is short enough; returns the number of divisions.

        A part that cannot be divided now stays noted, and the other parts are still divided. Then the last error is
        raised.
        """
        divided, failed = 0, None
        for partition in range(self._owners.partitions.count):
            lists = [(*row, None) for row in await self._session.rows(_LONG_LISTS, partition)]
            for graph, node, direction, state, part in lists + await self._session.rows(_LONG_PARTS, partition):
                listing = Listing(graph, node, Direction(direction), State(state))
                try:
                    divided += await self.divide(listing, part)
                    await self._owners.ask(partition, ForgetLong(listing, part), type(None))
                except Unavailable as error:
                    _log.warning("a list is divided later", list=listed(listing), part=part, error=error.message)
                    failed = error
        if failed is not None:
            raise failed
        return divided

    async def divide(self, listing: Listing, part: int | None = None) -> int:
        """Finish a division in progress, then divide a list, or one part of it, until each part is short enough.

        Returns the number of divisions.
        """
        (row,) = await self._rows.get([parts_row(listing)])
        parts, divided = read_parts(row), 0
        if parts.moving is not None:
            await self._divide_at(listing, parts.moving)
            divided += 1
        unchecked = list(parts.begins) if part is None else [part]  # newest part first: most lists grow there
        while unchecked:
            begin = await self._dividing_position(listing, unchecked[-1])
            if begin is not None and await self._divide_at(listing, begin):
                unchecked.append(begin)
                divided += 1
            else:
                unchecked.pop()
        return divided

    async def _divide_at(self, listing: Listing, begin: int) -> bool:
        """Begin a part at `begin` and move its entries there, or finish a division that another process began.

        Returns False if the list was already divided there.
        """
        owner = self._owners.partitions.of_node(listing.node)
        parts, _ = await self._owners.ask(owner, DivideList(listing, begin), ListParts)
        if parts.moving is None:
            return False
        begin = parts.moving  # may be elsewhere: another process's division
        await self._owners.drain_batches()
        await self._wait_for_earlier_reads()
        await self._move(listing, begin, parts.before(begin))
        await self._owners.ask(owner, DivideList(listing, begin, moved=True), ListParts)
        return True

    async def _dividing_position(self, listing: Listing, part: int) -> int | None:
        """Where to divide a part. None if it is short enough, or all its entries have one position."""
        newest = await self._session.rows(_NEWEST, *listed(listing), part, self._part_max + 1)
        if len(newest) <= self._part_max:
            return None
        positions: list[int] = [position for (position,) in newest]
        begin = positions[self._part_max // 2]
        if positions[-1] < begin or await self._session.rows(_OLDER, *listed(listing), part, begin):
            return begin
        return min((position for position in positions if position > begin), default=None)

    async def _wait_for_earlier_reads(self) -> None:
        """Wait until all reads have ended that began before the list was divided."""
        await asyncio.sleep(self._settle_s)

    async def _move(self, listing: Listing, begin: int, source_part: int) -> None:
        """Have owners move entries from position `begin` on out of `source_part`."""
        async for rows in self._session.pages(_FROM, *listed(listing), source_part, begin, size=_MOVE_PAGE_ROWS):
            entries = [ListEntry(listing, source_part, position, other_end) for position, other_end in rows]
            await self._move_entries(entries)

    async def _move_entries(self, entries: Sequence[ListEntry]) -> None:
        """Write entries in their new part, and only then delete the old ones: readers always find one of the two."""
        edges: dict[int, list[EdgeKey]] = defaultdict(list)
        strays: dict[int, list[ListEntry]] = defaultdict(list)
        for entry in entries:
            owner = self._owners.partitions.of_node(entry.edge[1])
            edges[owner].append(entry.edge)
            strays[owner].append(entry)
        await self._owners.ask_many([(owner, ListEdges(chunk)) for owner, chunk in edges.items()], type(None))
        await self._owners.ask_many([(owner, UnlistStrays(chunk, moved=True)) for owner, chunk in strays.items()], int)
