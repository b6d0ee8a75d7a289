"""A closed store on Cassandra refuses every write without the permit."""

from __future__ import annotations

import pytest
from coroutines import run_coroutine
from edges import G, edge_of
from local_commands import LocalCommands
from memory_rows import MemoryRows
from reference_logs import Partitions as Events
from reference_logs import ReferenceLog

from kith.core.errors import StoreMismatch, StoreMoved, StoreUnavailable
from kith.core.events import LogPosition
from kith.engines.cassandra.closed_store import CassandraClosing
from kith.engines.cassandra.closing import ClosedRow, CloseStore
from kith.engines.cassandra.commands import AnyCommand, Owners
from kith.engines.cassandra.edge_commands import WriteEdges
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.partitions import Partitions
from kith.graph.edge import EdgeChange, EdgeWrite

PARTITIONS = 4


class Cluster:
    """Rows in memory, their owner, and its two clients: one without a permit, and the mover."""

    def __init__(self) -> None:
        self.rows, self._events = MemoryRows(), Events()
        owner = CassandraOwner(self.rows, Partitions(PARTITIONS))
        self.commands = LocalCommands(owner, PARTITIONS, self._events)
        self.anybody, self.mover = self._owners(0), self._owners(77)
        self.closing = CassandraClosing(self.rows, self.mover)

    def _owners(self, permit: int) -> Owners:
        def joined(position: LogPosition, other: LogPosition) -> LogPosition:
            return ReferenceLog.joined(None, position, other)  # type: ignore[arg-type]

        return Owners(self.commands, joined, permit)

    async def follow(self, owners: Owners, source: int) -> None:
        command = WriteEdges([EdgeWrite(edge_of(source, 99))])
        await owners.ask(owners.partitions.of_node(source), command, list[EdgeChange | None])

    def followers(self) -> set[int]:
        return {source for source, graph, _ in self.rows.table("edges") if graph == G}


async def refused(cluster: Cluster, source: int) -> StoreUnavailable | StoreMoved:
    """The error that refuses a follow without a permit."""
    with pytest.raises((StoreUnavailable, StoreMoved)) as error:
        await cluster.follow(cluster.anybody, source)
    return error.value


def test_a_closed_store_takes_writes_only_with_the_permit_whoever_owns_it() -> None:
    cluster = Cluster()

    async def scene() -> None:
        await cluster.follow(cluster.anybody, 1)
        await cluster.closing.close()
        assert await cluster.closing.permit() == 77
        assert "is being moved into this cluster" in (await refused(cluster, 2)).message
        await cluster.follow(cluster.mover, 3)
        cluster.commands.begin(10_000)  # another process owns all partitions
        assert isinstance(await refused(cluster, 4), StoreUnavailable)
        await cluster.follow(cluster.mover, 5)
        with pytest.raises(StoreMismatch, match="is being moved into this cluster"):
            await cluster.closing.refuse_closed()
        await cluster.closing.close()
        await cluster.closing.open()
        await cluster.closing.open()
        await cluster.closing.refuse_closed()
        await cluster.follow(cluster.anybody, 6)

    run_coroutine(scene())
    assert cluster.followers() == {1, 3, 5, 6}


def test_a_store_that_was_moved_away_says_where_it_is() -> None:
    cluster = Cluster()

    async def scene() -> None:
        await cluster.closing.close("the data folder kith-data")
        error = await refused(cluster, 1)
        assert (error.code, error.details) == ("STORE_MOVED", {"to": "the data folder kith-data"})

    run_coroutine(scene())
    assert cluster.followers() == set()


def test_writes_queued_before_the_close_are_done_and_later_ones_are_refused() -> None:
    """All come to the owner in one batch."""
    cluster = Cluster()
    of_one = [source for source in range(100) if cluster.mover.partitions.of_node(source) == 0][:3]

    async def scene() -> None:
        before, after, permitted = (WriteEdges([EdgeWrite(edge_of(source, 99))]) for source in of_one)
        commands: list[tuple[int, AnyCommand]] = [(0, before), (0, CloseStore(ClosedRow(77, ""))), (0, after)]
        with pytest.raises(StoreUnavailable):
            await cluster.anybody.ask_many(commands, object)
        await cluster.mover.ask_many([(0, permitted)], list[EdgeChange | None])

    run_coroutine(scene())
    assert cluster.followers() == {of_one[0], of_one[2]}
