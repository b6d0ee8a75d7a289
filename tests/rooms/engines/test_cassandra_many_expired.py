"""Counting a list of which very many entries expired at once: the batch holds only some of them at a time."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from cast import START_MS
from coroutines import Run
from edges import edge_of
from memory_rows import MemoryRows

from kith.engines.cassandra.edge_commands import WriteEdges
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.rows import RowChange, cell_row, listed
from kith.graph.edge import Direction, EdgeChange, EdgeWrite, State
from kith.graph.shapes import Listing
from kith.log.commands import Command

FOLLOWERS = Listing(1, 2, Direction.IN, State.NORMAL)
ENDED = 2_000


class Page(list[int]):
    """A page that can be weakly referenced, so that a test sees whether it is still held."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class PagedRows(MemoryRows):
    """Counts how many pages of expired entries are held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.held_max = 0

    async def expired_entries(self, listing: Listing, now_ms: int) -> AsyncIterator[Sequence[int]]:
        pages = weakref.WeakSet[Page]()
        async for entries in super().expired_entries(listing, now_ms):
            page = Page(entries)
            pages.add(page)
            self.held_max = max(self.held_max, len(pages))
            yield page
            del page


@pytest.mark.parametrize("ours", [True, False])
def test_a_batch_that_counts_a_list_holds_few_pages_of_expired_entries_at_a_time(run: Run, ours: bool) -> None:
    rows, partitions = PagedRows(), Partitions(2)
    owner, owner_of_expired = partitions.of_node(1), partitions.of_node(1) if ours else 1 - partitions.of_node(1)
    followers = [node for node in range(3, 3 * ENDED) if partitions.of_node(node) == owner_of_expired][:ENDED]
    stored = [
        RowChange("edges", (node, 1, 2), (int(State.NORMAL), START_MS - 9, 1, START_MS - 1), 1) for node in followers
    ]
    ending = [RowChange("ending", (*listed(FOLLOWERS), START_MS - 1, node), (), 1) for node in followers]
    count = RowChange(*cell_row(FOLLOWERS, owner_of_expired), (ENDED + 1, ENDED), 1)
    follow = WriteEdges([EdgeWrite(edge_of(1, 2), counted=Direction.IN)])

    async def scene() -> None:
        await rows.write([*stored, *ending, count])
        deciding = CassandraOwner(rows, partitions)
        await deciding.take(owner, 0)
        (decision,) = await deciding.decide(owner, [Command(7, START_MS, msgspec.msgpack.encode(follow))])
        (change,) = msgspec.msgpack.decode(decision.outcome, type=list[EdgeChange])
        assert change.length == 2, "the entry that did not expire, and the new one"
        assert rows.held_max <= 2

    run(scene())
