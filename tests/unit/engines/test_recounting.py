"""Wrong counts are counted anew some lists at a time: commands are small, as their owner decides nothing beside one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kith.engines.cassandra.edge_commands import CountEntries
from kith.engines.cassandra.edge_scans import EdgeScans
from kith.engines.cassandra.partitions import Partitions
from kith.graph.edge import Direction, State
from kith.graph.shapes import Listing

LISTS = 1_000


class Commands:
    partitions = Partitions(4)

    def __init__(self) -> None:
        self.asked: list[tuple[int, CountEntries]] = []

    async def many(self, commands: Sequence[tuple[int, CountEntries]], _: object) -> None:
        self.asked += commands


def test_many_wrong_counts_are_counted_anew_in_small_commands() -> None:
    commands, rows = Commands(), SimpleNamespace(session=None)
    scans: Any = EdgeScans(rows, commands)  # type: ignore[arg-type]
    listings = [Listing(1, node, direction, State.NORMAL) for node in range(LISTS // 2) for direction in Direction]
    asyncio.run(scans._recount(listings))
    assert all(len(command.listings) <= 100 for _, command in commands.asked)
    times = Counter(listing for _, command in commands.asked for listing in command.listings)
    assert times == {one: 1 if one.direction is Direction.OUT else 4 for one in listings}, "each owner, where it may be"
