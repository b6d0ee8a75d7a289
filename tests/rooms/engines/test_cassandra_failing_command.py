"""A write that makes its owner fail is answered as failed, and blocks no other.

If it stayed in the queue, it would fail again at each owner that takes over.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from coroutines import Run
from edges import edge_of, writes_of
from local_commands import LocalCommands
from memory_rows import MemoryRows
from reference_logs import Partitions as Events

from kith.core.events import LogPosition
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.edge_commands import ForgetEdges, WriteEdges
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.owner_command import FAILED
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.row_batch import RowBatch


def earlier(position: LogPosition, other: LogPosition) -> LogPosition:
    return min(position, other)


def test_writes_beside_one_that_fails_are_done(run: Run) -> None:
    rows = MemoryRows()
    commands = LocalCommands(CassandraOwner(rows, Partitions(1)), 1, Events())
    owners = Owners(commands, earlier)
    forget = ForgetEdges.run

    def failing(command: ForgetEdges, batch: RowBatch) -> Any:
        forget(command, batch)
        raise KeyError(command.pairs[0])

    async def scene() -> None:
        await owners.ask(0, WriteEdges(writes_of(edge_of(1, 2))), list)
        with patch.object(ForgetEdges, "run", failing):
            around = [WriteEdges(writes_of(edge_of(*pair))) for pair in ((3, 4), (5, 6))]
            writes = [around[0], ForgetEdges(1, [(1, 2)]), around[1]]
            _, failed, _ = await commands.ask_many([(0, msgspec.msgpack.encode(write)) for write in writes])
            assert failed.outcome == FAILED
            with pytest.raises(RuntimeError, match="its log says how"):
                await owners.ask(0, ForgetEdges(1, [(1, 2)]), type(None))
        assert {(source, to) for source, _, to in rows.table("edges")} == {(1, 2), (3, 4), (5, 6)}
        await owners.ask(0, ForgetEdges(1, [(1, 2)]), type(None))
        assert {(source, to) for source, _, to in rows.table("edges")} == {(3, 4), (5, 6)}

    run(scene())
