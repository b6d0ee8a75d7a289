"""Audits on a real Cassandra: wrong rows are found, and owners repair them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from cassandra_stores import Opened, offset_of_now, opened_in, shared
from cast import ALICE, BOB, CAROL, DANA
from edges import G, edge_of, state_of, writes_of
from local_commands import LocalCommands

from kith.core.errors import StoreUnavailable
from kith.core.events import NOWHERE
from kith.engines.cassandra import edge_scans
from kith.engines.cassandra.connecting import ANSWER_TIMEOUT_S, Row, Session
from kith.engines.cassandra.rows import RowChange
from kith.engines.kafka.commands import COMMAND_BYTES_MAX
from kith.graph.audit import audit
from kith.graph.edge import POSITION_MIN, Direction, State
from kith.log.commands import Reply

TOKEN_MIN, TOKEN_MAX = -(2**63), 2**63 - 1
PASSED_S = 100.0
"""Seconds that Cassandra takes to scan all rows."""
OUT, IN, NORMAL = int(Direction.OUT), int(Direction.IN), int(State.NORMAL)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with opened_in(tmp_path) as (stores, thread):
        thread.call(stores.edges.declare(["follows"]))
        thread.call(stores.edges.apply(writes_of(*(edge_of(node, DANA, 5) for node in (ALICE, BOB, CAROL)))))
        yield stores


def call(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return shared().thread.call(coroutine)


def test_ends_that_differ_for_a_moment_are_reported_as_unsettled_and_not_as_wrong(opened: Opened) -> None:
    async def scene() -> None:
        entry = ("list_entries", (G, DANA, IN, NORMAL, POSITION_MIN, 5, ALICE))
        removal, restoration = (
            RowChange(*entry, values, offset_of_now() + index) for index, values in enumerate((None, (0,)))
        )
        await shared().rows.write([removal])
        scanned = asyncio.Event()
        recheck_delays_s, progress = (0.05, 0.5), lambda edges: scanned.set() if edges == 3 else None
        auditing = asyncio.create_task(
            audit(opened.edges, "follows", G, recheck_delays_s=recheck_delays_s, progress=progress)
        )
        await scanned.wait()
        await asyncio.sleep(0.2)
        await shared().rows.write([restoration])
        report = await auditing
        assert report.clean
        assert [comparison.edges for comparison in report.unsettled] == [1, 1, 0]

    call(scene())


def test_audits_find_wrong_rows_and_owners_repair_them(opened: Opened) -> None:
    async def scene() -> None:
        edges, of_node = opened.edges, opened.partitions.of_node
        before = await state_of(edges, [ALICE, BOB, CAROL, DANA])
        wrong_rows = [
            RowChange("list_entries", (G, DANA, IN, NORMAL, POSITION_MIN, 5, ALICE), None, 0),
            RowChange("list_entries", (G, DANA, IN, NORMAL, POSITION_MIN, 9, BOB), (0,), 0),
            RowChange("list_entries", (G, 77, OUT, NORMAL, POSITION_MIN, 9, BOB), (0,), 0),
            RowChange("counts", (BOB, G, OUT, NORMAL, of_node(BOB)), (7, 0), 0),
            RowChange("counts", (DANA, G, IN, NORMAL, of_node(CAROL)), None, 0),
        ]
        await shared().rows.write([row._replace(timestamp=offset_of_now()) for row in wrong_rows])
        opened.take_over()  # new owners, with empty caches
        report = await audit(edges, "follows", G, recheck_delays_s=(0,))
        assert (report.edges, report.disagreeing, report.strays) == (3, 1, 2)
        assert report.wrong_counts >= 2
        assert report.examples == [f"{ALICE} -> {DANA}"]
        assert [comparison.edges for comparison in report.unsettled] == [1, 1], "in the first look and in the second"
        assert not (await audit(edges, "follows", G, repair=True, recheck_delays_s=(0,))).clean
        assert (await audit(edges, "follows", G, recheck_delays_s=(0,))).clean
        assert await state_of(edges, [ALICE, BOB, CAROL, DANA]) == before

    call(scene())


@pytest.mark.parametrize("dense_s", [0.0, 20.0])
def test_a_small_graph_is_scanned_though_nearly_all_rows_are_of_other_graphs(opened: Opened, dense_s: float) -> None:
    """In one query over millions of accounts, Cassandra would time out before it finds the few rows of such a graph.

    `dense_s`: extra seconds for the first thousandth of the token range.
    """
    page, passed_s = Session.page, [0.0]

    async def passing(
        session: Session, statement: str, *values: Any, size: int, after: bytes | None = None
    ) -> tuple[list[Row], bytes | None]:
        if "ALLOW FILTERING" in statement:
            first, last = values[:2] if "token" in statement else (TOKEN_MIN, TOKEN_MAX)
            dense = max(0, min(last, TOKEN_MIN + 2**54) - first)
            took_s = (last - first) / 2**64 * PASSED_S + dense / 2**54 * dense_s
            if took_s > ANSWER_TIMEOUT_S:
                raise StoreUnavailable("received only 0 responses")
            passed_s[0] += took_s
        return await page(session, statement, *values, size=size, after=after)

    async def scene() -> None:
        with (
            patch.object(Session, "page", passing),
            patch.object(edge_scans, "monotonic", lambda: passed_s[0], create=True),
        ):
            sources = [edge.source async for chunk in opened.edges.stored(G) for edge in chunk]
            assert sorted(sources) == sorted([ALICE, BOB, CAROL])
            assert passed_s[0] == pytest.approx(PASSED_S + dense_s)
            assert await opened.edges.strays(G, repair=False) == 0

    call(scene())


def test_repairs_of_many_edges_are_split_into_commands_that_the_log_accepts(opened: Opened) -> None:
    sizes: list[int] = []

    async def taken(_: LocalCommands, commands: Sequence[tuple[int, bytes]]) -> list[Reply]:
        sizes.extend(len(data) for _, data in commands)
        return [Reply(msgspec.msgpack.encode(None), NOWHERE) for _ in commands]

    async def scene() -> None:
        edges = [edge_of(2**60 + number, 2**61 + number, 5) for number in range(300_000)]
        with patch.object(LocalCommands, "ask_many", taken):
            await opened.edges.repair(edges)
        assert max(sizes) <= COMMAND_BYTES_MAX

    call(scene())
