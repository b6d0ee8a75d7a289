"""Deleted queue rows in Cassandra that reappear, as they do after a replica was away for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from cassandra_stores import Opened, opened_in, shared
from cast import ALICE, BOB, DANA, START_MS
from edges import G, edge_of, writes_of

from kith.core.clock import Hlc
from kith.engines.cassandra.edge_store import EXPIRED_PER_CALL_MAX
from kith.engines.cassandra.row_batch import edge_row
from kith.engines.cassandra.row_commands import id_row, period_of, period_row
from kith.engines.cassandra.rows import RowChange
from kith.graph.edge import State
from kith.records.store import Record, RecordKind

NOTICE = RecordKind.NOTICE


class Now:
    ms = START_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def opened(tmp_path: Path, now: Now) -> Iterator[Opened]:
    with opened_in(tmp_path, now) as (stores, thread):
        thread.call(stores.edges.declare(["follows"]))
        yield stores


def call(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return shared().thread.call(coroutine)


def test_a_reappeared_id_without_record_does_not_block_later_ids(opened: Opened) -> None:
    async def scene() -> None:
        owner = opened.partitions.of_record(NOTICE, 5)
        back = [id_row(NOTICE, owner, 5), period_row(NOTICE, period_of(5), owner)]
        await shared().rows.write([RowChange(*key, (), 1) for key in back])
        await opened.records.put([Record(NOTICE, 9, Hlc(1), b"told")])
        async with asyncio.timeout(60):
            while await opened.records.forget_below(NOTICE, 100, 1):
                pass
        assert await opened.records.get_many(NOTICE, [9]) == [None]

    call(scene())


def test_past_periods_are_read_once_however_much_is_forgotten(opened: Opened) -> None:
    async def scene() -> None:
        session, owners = shared().rows.session, range(opened.partitions.count)
        past_periods = [period_row(NOTICE, period, owner) for period in range(8) for owner in owners]
        await shared().rows.write([RowChange(*key, (), 1) for key in past_periods])
        ids = range(9 << 52, (9 << 52) + 40)
        for id_ in ids:
            await opened.records.put([Record(NOTICE, id_, Hlc(1), b"told")])
        statements, rows = list[str](), session.rows

        async def counting(statement: str, *values: Any) -> list[Any]:
            statements.append(statement)
            return await rows(statement, *values)

        with patch.object(session, "rows", counting):
            forgotten = [await opened.records.forget_below(NOTICE, 10 << 52, 4) for _ in range(11)]
        assert forgotten == [4] * 10 + [0]
        looks = sum("record_ids" in statement for statement in statements)
        assert looks <= 3 * len(past_periods) + 11 * len(owners)
        assert await opened.records.get_many(NOTICE, ids) == [None] * len(ids)

    call(scene())


def test_reappeared_expiries_without_edges_do_not_block_later_ones(opened: Opened, now: Now) -> None:
    async def scene() -> None:
        owner, reappeared = opened.partitions.of_node(ALICE), range(1_000, 1_000 + EXPIRED_PER_CALL_MAX)
        back = [("expiring", (owner, START_MS - 60_000, G, ALICE, destination)) for destination in reappeared]
        back.append(("expiring", (owner, START_MS - 60_000, G, ALICE, BOB)))
        await shared().rows.write([RowChange(table, key, (), 1) for table, key in back])
        lasting, ending = edge_of(ALICE, BOB, 1), edge_of(ALICE, DANA, 2)
        ending = msgspec.structs.replace(ending, expires_ms=START_MS + 1_000)
        await opened.edges.apply(writes_of(lasting, ending))
        now.ms += 2_000
        for _ in range(3):
            await opened.edges.end_expired()
        stored = await shared().rows.get([edge_row(G, ALICE, BOB), edge_row(G, ALICE, DANA)])
        assert [row and row[0] for row in stored] == [State.NORMAL, State.REMOVED]

    call(scene())
