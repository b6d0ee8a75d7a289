"""Owners on a real Cassandra: killed before each row of a batch, taken over, and fenced when they wake up late.

`rooms/engines/test_cassandra_owner.py` tests random histories of this, with rows in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cassandra_stores import KEYSPACE, NODES, PARTITIONS, Opened, opened_in, shared
from cast import ALICE, BOB, CAROL, START_MS
from edges import G, edge_of, state_of
from reference_edges import ReferenceEdges

from kith.core.errors import BadRequest, StoreMismatch, StoreUnavailable
from kith.engines.cassandra import rows
from kith.engines.cassandra.connecting import connect
from kith.engines.cassandra.edge_commands import WriteEdges
from kith.engines.cassandra.metadata import Metadata
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.rows import CassandraRows, RowChange
from kith.graph.edge import Edge, EdgeWrite, State
from kith.log.commands import Command
from kith.log.store import Fenced

STEPS = [
    [edge_of(ALICE, BOB, 1), edge_of(ALICE, CAROL, 2), edge_of(ALICE, BOB, 3, version=1)],
    [edge_of(ALICE, BOB, 3, State.REMOVED, 2), edge_of(ALICE, CAROL, 5, version=2)],
    [edge_of(ALICE, BOB, 4, version=3), edge_of(ALICE, CAROL, 5, State.ARCHIVED, 3)],
]
"""Alice's writes, as batches."""


class Killed(Exception):
    """Raised where the process is killed."""


class MortalRows(CassandraRows):
    """Rows written one by one, until the process is killed or held up before one of them."""

    def __init__(self, rows: CassandraRows, dies_at: int = 10**9) -> None:
        super().__init__(rows.session)
        self._dies_at, self._steps = dies_at, 0
        self.held_up = ""  # the name of the call to hold up
        self.arrived, self.released = asyncio.Event(), asyncio.Event()

    async def _hold_up(self, call: str) -> None:
        if self.held_up == call:
            self.arrived.set()
            await self.released.wait()

    def _step(self) -> None:
        self._steps += 1
        if self._steps >= self._dies_at:
            raise Killed

    async def write(self, changes: Sequence[RowChange]) -> None:
        await self._hold_up("write")
        for change in changes:
            self._step()
            await super().write([change])
        self._step()

    async def write_journal(self, partition: int, epoch: int, batch: bytes) -> bool:
        await self._hold_up("write_journal")
        return await super().write_journal(partition, epoch, batch)

    async def _write_part(self, partition: int, epoch: int, number: int, part: bytes) -> bool:
        self._step()
        return await super()._write_part(partition, epoch, number, part)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Empty stores, in the thread of the driver."""
    with opened_in(tmp_path) as (stores, thread):
        thread.call(stores.edges.declare(["follows"]))
        yield stores


def call(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return shared().thread.call(coroutine)


def commands_of(batches: Sequence[Sequence[Edge]], first: int) -> list[Command]:
    """One command per batch."""
    return [
        Command(first + offset, START_MS, msgspec.msgpack.encode(WriteEdges([EdgeWrite(edge) for edge in edges])))
        for offset, edges in enumerate(batches)
    ]


async def decide_all(owner: CassandraOwner, partition: int, commands: Sequence[Command]) -> None:
    """Take over with nothing done, and decide the commands that a former owner did not."""
    offsets = [decision.offset for decision in await owner.take(partition, commands[0].offset)]
    for command in commands:
        if command.offset not in offsets:
            await owner.decide(partition, [command])


@pytest.mark.parametrize("journal_bytes", [1 << 20, 500])
def test_an_owner_killed_before_any_row_is_taken_over_without_a_trace(
    opened: Opened, journal_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "JOURNAL_PART_BYTES", journal_bytes)

    async def scene() -> None:
        model = ReferenceEdges()
        await model.declare(["follows"])
        await model.apply([EdgeWrite(edge) for edges in STEPS for edge in edges])
        expected = await state_of(model, [ALICE, BOB, CAROL])
        partition = opened.partitions.of_node(ALICE)
        dies_at, died = 0, True
        while died:
            dies_at += 1
            await opened.edges.forget(G, [(ALICE, BOB), (ALICE, CAROL)])
            mortal_rows, commands = MortalRows(shared().rows, dies_at), commands_of(STEPS, opened.next_offset())
            died, place = False, 0
            try:
                mortal = CassandraOwner(mortal_rows, opened.partitions)
                await mortal.take(partition, commands[0].offset)
                for place, command in enumerate(commands):  # noqa: B007
                    await mortal.decide(partition, [command])
            except Killed:
                died = True
            await decide_all(CassandraOwner(shared().rows, opened.partitions), partition, commands[place:])
            assert await state_of(opened.edges, [ALICE, BOB, CAROL]) == expected, dies_at
            opened.take_over()
        assert dies_at > 20

    call(scene())


@pytest.mark.parametrize("held_up", ["write_journal", "write"])
def test_an_owner_that_wakes_up_late_changes_nothing(opened: Opened, held_up: str) -> None:
    async def scene() -> None:
        partition = opened.partitions.of_node(ALICE)
        first, second, third = commands_of(STEPS, opened.next_offset())
        late_rows = MortalRows(shared().rows)
        late_owner, current_owner = (
            CassandraOwner(owner_rows, opened.partitions) for owner_rows in (late_rows, shared().rows)
        )
        await late_owner.take(partition, first.offset)
        late_rows.held_up = held_up
        deciding = asyncio.ensure_future(late_owner.decide(partition, [first]))
        await late_rows.arrived.wait()
        await decide_all(current_owner, partition, [first, second, third])
        before = await state_of(opened.edges, [ALICE, BOB, CAROL])
        late_rows.released.set()
        if held_up == "write_journal":
            with pytest.raises(Fenced):
                await deciding
        else:
            await deciding
            with pytest.raises(Fenced):
                await late_owner.decide(partition, [second])
        assert await state_of(opened.edges, [ALICE, BOB, CAROL]) == before
        opened.take_over()

    call(scene())


def test_an_unreachable_node_or_a_bad_keyspace_name_is_reported() -> None:
    for nodes, keyspace, error in (
        ("127.0.0.1:1", "kith", StoreUnavailable),
        ("127.0.0.1:x", "kith", BadRequest),
        ("127.0.0.1:1,127.0.0.2:2", "kith", BadRequest),
        ("127.0.0.1:1", "no-name", BadRequest),
    ):
        with pytest.raises(error):
            call(connect(nodes, keyspace, replicas=1))


def test_the_number_of_partitions_cannot_change(opened: Opened) -> None:
    metadata = Metadata(shared().rows.session)
    for _ in range(2):
        call(metadata.check_partitions(PARTITIONS))
    with pytest.raises(StoreMismatch):
        call(metadata.check_partitions(PARTITIONS + 1))


def test_a_failed_statement_raises_an_error_of_kith(opened: Opened) -> None:
    session = shared().rows.session
    for failing in (session.rows("SELECT nothing FROM edges"), session.define("CREATE TABLE edges")):
        with pytest.raises(StoreUnavailable):
            call(failing)


def test_a_keyspace_with_more_copies_than_nodes_is_not_made() -> None:
    async def scene() -> None:
        with pytest.raises(BadRequest, match=r"99 copies .* 50 nodes .* datacentre \S+ has \d+: .*cluster_copies"):
            await connect(NODES, f"{KEYSPACE}_copies", replicas=99)
        query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?"
        assert await shared().rows.session.rows(query, f"{KEYSPACE}_copies") == []

    call(scene())
