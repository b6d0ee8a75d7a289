"""One Cassandra node with a wrong clock ends no lease early, and dates no write."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
from coroutines import Run

from kith.engines.cassandra.connecting import Session
from kith.engines.cassandra.lease_store import CassandraLeases
from kith.engines.cassandra.node_time import MEASURE_EVERY_S, NodeTime

NOW_MS = 1_700_000_000_000


class Nodes:
    """Nodes with a clock each, queried in turn as by the driver, and the one lease that they store."""

    def __init__(self, *ahead_ms: int) -> None:
        self._nodes = itertools.cycle(enumerate(ahead_ms))
        self._row: tuple[int | None, int | None] | None = None

    def _time(self) -> tuple[str, int]:
        node, ahead_ms = next(self._nodes)
        return str(node), NOW_MS + ahead_ms

    async def node_time(self) -> tuple[str, int]:
        return self._time()

    async def rows_serial(self, statement: str, name: str) -> list[tuple[Any, ...]]:
        now = (self._time()[1],) if "now()" in statement else ()
        return [] if self._row is None else [(*self._row, *now)]

    async def conditional(self, statement: str, *values: Any) -> bool:
        _, _, token, until_ms, _, *was = values
        if (self._row or (None, None)) != tuple(was):
            return False
        self._row = token, until_ms
        return True


def session_of(nodes: Nodes) -> Session:
    return cast("Session", nodes)


@pytest.mark.parametrize("ahead_ms", [600_000, -600_000])
def test_a_held_lease_is_not_lost_to_the_wrong_clock_of_one_node(run: Run, ahead_ms: int) -> None:
    nodes = session_of(Nodes(0, ahead_ms, 0))

    async def scene() -> None:
        first, second = CassandraLeases(nodes), CassandraLeases(nodes)
        for leases in (first, second):  # the clocks of the processes stand still, as those of the nodes do
            leases._node_time = NodeTime(nodes, lambda: 5.0)
        lease = await first.acquire("a job", "first", 30.0)
        assert lease is not None
        for _ in range(6):
            assert await second.acquire("a job", "second", 30.0) is None
            assert await first.renew(lease, 30.0)
        await first.release(lease)
        assert await second.acquire("a job", "second", 30.0) is not None

    run(scene())


def test_writes_get_the_time_of_most_nodes_each_later_than_the_last(run: Run) -> None:
    nodes, now_s = session_of(Nodes(0, 600_000, 0)), 5.0
    time = NodeTime(nodes, lambda: now_s)

    async def scene() -> None:
        nonlocal now_s
        for _ in range(6):
            first, second = await time.now_us(), await time.now_us()
            assert NOW_MS * 1_000 <= first < second < NOW_MS * 1_000 + 100
            now_s += MEASURE_EVERY_S + 1  # the nodes' clocks stand still, and are queried again

    run(scene())
