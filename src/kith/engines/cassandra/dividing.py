"""Long lists are divided, so that no part of Cassandra's data outgrows a node. `parts` says how nothing is lost.

A part of a list that may have become too long is noted by the owner that made it longer (`long_parts`); a process calls
`divide_long` now and then, and looks at these parts alone. Of a part that is too long the newest entries go to a part
of their own, as many as half a part has; entries of one position stay together. So no step reads or moves more than
that, however long a part has become meanwhile: Cassandra cannot count some millions in time, nor read past as many
marks of deleted entries.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import structlog

from kith.core.errors import Unavailable
from kith.engines.cassandra.batch import PART_MAX
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.connecting import ANSWERED_S
from kith.engines.cassandra.edge_commands import DivideList, ForgetLong, ListEdges, ListEntry, UnlistStrays
from kith.engines.cassandra.parts import ListParts, parts_row, read_parts
from kith.engines.cassandra.rows import CassandraRows, listed
from kith.graph.edge import Direction, State
from kith.graph.shapes import EdgeKey, Listing

_MOVED_AT_ONCE = 500
_log = structlog.get_logger("kith.cluster")
_PART = "graph = ? AND node = ? AND direction = ? AND state = ? AND part = ?"
_NEWEST = f"SELECT position FROM list_entries WHERE {_PART} LIMIT ?"
_OLDER = f"SELECT position FROM list_entries WHERE {_PART} AND position < ? LIMIT 1"
_FROM = f"SELECT position, other FROM list_entries WHERE {_PART} AND position >= ?"
_LONG_LISTS = "SELECT graph, node, direction, state FROM long_lists WHERE partition = ?"
_LONG_PARTS = "SELECT graph, node, direction, state, part FROM long_parts WHERE partition = ?"


class Divider:
    """Divides lists. `part_max`: entries of a part; `settle_s`: time after which earlier reads have ended."""

    def __init__(
        self, rows: CassandraRows, owners: Owners, *, part_max: int = PART_MAX, settle_s: float = 2 * ANSWERED_S
    ) -> None:
        self._rows, self._session, self._owners = rows, rows.session, owners
        self._part_max, self._settle_s = part_max, settle_s

    async def divide_long(self) -> int:
        """Divide the parts that were noted, until each is short enough; how many times.

        One that cannot be divided now stays noted, and holds up no other.
        """
        divided, failed = 0, None
        for partition in range(self._owners.partitions.count):
            lists = [(*row, None) for row in await self._session.rows(_LONG_LISTS, partition)]
            for graph, node, direction, state, part in lists + await self._session.rows(_LONG_PARTS, partition):
                listing = Listing(graph, node, Direction(direction), State(state))
                try:
                    divided += await self.divide(listing, part)
                    await self._owners.one(partition, ForgetLong(listing, part), type(None))
                except Unavailable as error:
                    _log.warning("a list is divided later", list=listed(listing), part=part, error=error.message)
                    failed = error
        if failed is not None:
            raise failed
        return divided

    async def divide(self, listing: Listing, part: int | None = None) -> int:
        """Finish what another began, and divide a list, or one part of it, until each is short enough; how many
        times."""
        (row,) = await self._rows.get([parts_row(listing)])
        parts, divided = read_parts(row), 0
        if parts.moving is not None:
            await self._divide_at(listing, parts.moving)
            divided += 1
        left = list(parts.begins) if part is None else [part]  # the newest part first, as most grow there
        while left:
            begin = await self._place(listing, left[-1])
            if begin is not None and await self._divide_at(listing, begin):
                left.append(begin)
                divided += 1
            else:
                left.pop()
        return divided

    async def _divide_at(self, listing: Listing, begin: int) -> bool:
        """Begin a part there, and move to it what it is to hold; or finish what another process is at. False where it
        is divided there."""
        owner = self._owners.partitions.of_node(listing.node)
        parts, _ = await self._owners.one(owner, DivideList(listing, begin), ListParts)
        if parts.moving is None:
            return False
        begin = parts.moving  # another process may be at it, elsewhere
        await self._owners.pass_batches()
        await self._wait_for_earlier_reads()
        await self._move(listing, begin, parts.before(begin))
        await self._owners.one(owner, DivideList(listing, begin, moved=True), ListParts)
        return True

    async def _place(self, listing: Listing, part: int) -> int | None:
        """Where to divide a part that is too long; None if it is not, or has one position."""
        found = await self._session.rows(_NEWEST, *listed(listing), part, self._part_max + 1)
        if len(found) <= self._part_max:
            return None
        positions: list[int] = [position for (position,) in found]
        begin = positions[self._part_max // 2]
        if positions[-1] < begin or await self._session.rows(_OLDER, *listed(listing), part, begin):
            return begin
        return min((position for position in positions if position > begin), default=None)

    async def _wait_for_earlier_reads(self) -> None:
        """Wait until reads have ended that began when the list was not divided yet."""
        await asyncio.sleep(self._settle_s)

    async def _move(self, listing: Listing, begin: int, before: int) -> None:
        """Have owners move what the part before still holds from a position on."""
        async for rows in self._session.pages(_FROM, *listed(listing), before, begin, size=_MOVED_AT_ONCE):
            entries = [ListEntry(listing, before, position, other) for position, other in rows]
            await self._enter_where_they_belong(entries)

    async def _enter_where_they_belong(self, entries: Sequence[ListEntry]) -> None:
        """Enter edges there, and only then delete their other entries, so that readers find one of them."""
        edges: dict[int, list[EdgeKey]] = defaultdict(list)
        strays: dict[int, list[ListEntry]] = defaultdict(list)
        for entry in entries:
            owner = self._owners.partitions.of_node(entry.edge[1])
            edges[owner].append(entry.edge)
            strays[owner].append(entry)
        await self._owners.many([(owner, ListEdges(some)) for owner, some in edges.items()], type(None))
        await self._owners.many([(owner, UnlistStrays(some, moved=True)) for owner, some in strays.items()], int)
