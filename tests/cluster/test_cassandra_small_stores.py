"""Small stores that processes share in Cassandra: inboxes, the state of fan-out, leases, rankings."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cassandra_stores import KEYSPACE, NODES, shared
from cast import ALICE, BOB, CAROL, START_MS
from coroutines import Run
from reference_edges import ReferenceEdges
from reference_logs import ReferenceLog

from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.engines.cassandra.connecting import Session, connect
from kith.engines.cassandra.small_stores import (
    CassandraFanoutState,
    CassandraInboxes,
    CassandraLeases,
    CassandraSuggestions,
)
from kith.engines.cassandra.suggestion_store import SPARE_S
from kith.home.fanout.state import Delivery
from kith.notifications.inbox import PERIOD_MS, InboxRow
from kith.suggestions.store import RankingRow

HOUR_MS = 3_600_000


def at(week: int) -> int:
    """The id of a notice made in this week."""
    return (START_MS + week * PERIOD_MS - EPOCH_MS) << TIME_SHIFT


@pytest.fixture
def sessions(run: Run) -> list[Session]:
    """The sessions of two processes, over empty tables."""
    shared()

    async def opened() -> list[Session]:
        opened_sessions = [await connect(NODES, KEYSPACE, replicas=1) for _ in range(2)]
        for table in ("inbox_periods", "fanout_state", "leases", "suggestions"):
            await opened_sessions[0].define(f"TRUNCATE {table}")
        return opened_sessions

    return list(run(opened()))


def counted(session: Session) -> Counter[str]:
    """Queries per table, counted from now on."""
    statements: Counter[str] = Counter()
    execute = session._execute

    async def counting(statement: str, *arguments: Any, **settings: Any) -> Any:
        statements[statement.rsplit(" FROM ", maxsplit=1)[-1].split(maxsplit=1)[0]] += 1
        return await execute(statement, *arguments, **settings)

    session._execute = counting  # type: ignore[method-assign]
    return statements


def test_rows_added_by_another_process_are_not_new_and_removed_ones_are(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        first_store, second_store = (CassandraInboxes(session, buckets=4) for session in sessions)
        rows = [InboxRow(user, at(0)) for user in range(300)]
        assert all(await first_store.add(rows[:200]))
        assert await second_store.add(rows) == [False] * 200 + [True] * 100
        await second_store.remove_all(7)
        await first_store.remove(8, [at(0)])
        assert await first_store.add_for_all(at(0), np.arange(300, dtype=np.int64)) == 2
        assert await second_store.page(7, limit=5) == await second_store.page(8, limit=5) == [at(0)]

    run(scene())


def test_a_week_forgotten_by_another_process_is_gone_and_can_start_again(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        first_store, second_store = (CassandraInboxes(session) for session in sessions)
        await first_store.add([InboxRow(ALICE, at(0)), InboxRow(ALICE, at(2))])
        assert await second_store.page(ALICE, limit=5) == [at(2), at(0)]
        assert await first_store.expire(START_MS + 2 * PERIOD_MS) == 1
        assert await second_store.page(ALICE, limit=5) == [at(2)]
        assert not (await second_store.holding(at(0), np.array([ALICE], np.int64))).any()
        assert await second_store.add([InboxRow(ALICE, at(0) + 1)]) == [True]
        assert await first_store.page(ALICE, limit=5) == [at(2), at(0) + 1]

    run(scene())


def test_the_first_page_reads_only_the_newest_weeks_and_each_once(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        session, _ = sessions
        store = CassandraInboxes(session)
        await store.add([InboxRow(ALICE, at(week)) for week in range(10)])
        statements = counted(session)
        assert await store.page(ALICE, limit=2) == [at(9), at(8)]
        assert statements == {"inbox_periods": 1, "inbox_rows": 2}

    run(scene())


def fanout(session: Session, clock_s: Callable[[], float] = lambda: 0.0) -> CassandraFanoutState:
    return CassandraFanoutState(session, ReferenceLog(ReferenceEdges(), 100), "fanout", clock_s=clock_s)


def test_withholding_an_author_again_at_the_same_rate_causes_no_reload(run: Run, sessions: list[Session]) -> None:
    """Every post of an author with over a million followers is withheld this way."""

    async def scene() -> None:
        first, second = map(fanout, sessions)
        await first.withhold({ALICE: 64, BOB: 4})
        for state in (first, second):
            await state.snapshot()
        statements = counted(sessions[1])
        await first.withhold({ALICE: 64})
        await first.withhold({BOB: 2})
        assert (await second.snapshot()).withheld.rate_of(ALICE) == 64
        assert statements == {"fanout_state": 1}
        await first.withhold({ALICE: 64, BOB: 5})
        assert (await second.snapshot()).withheld.rate_of(BOB) == 5

    run(scene())


def test_of_rates_noted_by_two_processes_the_highest_is_kept(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        first, second = map(fanout, sessions)
        await first.withhold({ALICE: 64, BOB: 4})
        assert (await second.snapshot()).withheld.rate_of(ALICE) == 64
        await second.withhold({ALICE: 8, BOB: 16})
        await first.withhold({CAROL: 2})
        for state in (first, second):
            withheld = (await state.snapshot()).withheld
            assert [withheld.rate_of(author) for author in (ALICE, BOB, CAROL)] == [64, 16, 2]

    run(scene())


def test_unchanged_state_is_not_reloaded(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        session, another = sessions
        first, second = fanout(session), fanout(another)
        await first.withhold({ALICE: 64})
        await first.snapshot()
        statements = counted(session)
        await first.snapshot()
        assert statements == {"fanout_state": 1}
        await second.deliver(Delivery(5, BOB))
        assert list((await first.snapshot()).deliveries) == [Delivery(5, BOB)]
        assert statements == {"fanout_state": 4}

    run(scene())


def test_a_delivery_does_not_reload_all_withheld_authors(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        session, another = sessions
        first, second = fanout(session), fanout(another)
        await second.withhold(dict.fromkeys(range(100, 500), 4))
        assert len((await first.snapshot()).withheld.authors) == 400
        rows_read, rows = list[int](), session.rows

        async def counting(statement: str, *values: Any) -> list[Any]:
            result = await rows(statement, *values)
            rows_read.append(len(result))
            return result

        session.rows = counting  # type: ignore[method-assign]
        await second.deliver(Delivery(5, BOB))
        snapshot = await first.snapshot()
        assert (list(snapshot.deliveries), len(snapshot.withheld.authors)) == ([Delivery(5, BOB)], 400)
        await second.end_delivery(5)
        assert list((await first.snapshot()).deliveries) == []
        assert sum(rows_read) < 10

    run(scene())


def test_authors_withheld_while_deliveries_are_read_are_in_the_same_snapshot(run: Run, sessions: list[Session]) -> None:
    """A home that sees the delivery ended, but not the withheld author, would lack the post."""

    async def scene() -> None:
        session, another = sessions
        first, second = fanout(session), fanout(another)
        await second.deliver(Delivery(5, BOB))
        await first.snapshot()
        await second.deliver(Delivery(6, CAROL))
        rows = session.rows

        async def overtaken(statement: str, *values: Any) -> list[Any]:
            result = await rows(statement, *values)
            session.rows = rows  # type: ignore[method-assign]
            await second.withhold({BOB: 4})
            await second.end_delivery(5)
            return result

        session.rows = overtaken  # type: ignore[method-assign]
        snapshot = await first.snapshot()
        assert list(snapshot.deliveries) == [Delivery(6, CAROL)]
        assert snapshot.withheld.rate_of(BOB) == 4
        await second.end_delivery(6)
        assert list((await first.snapshot()).deliveries) == []

    run(scene())


def test_a_process_with_another_clock_can_end_a_delivery(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        ahead, behind = sessions
        beginner, ender = fanout(ahead, lambda: 1e9), fanout(behind, lambda: 5.0)
        await beginner.deliver(Delivery(5, ALICE))
        await ender.end_delivery(5)
        assert list((await beginner.snapshot()).deliveries) == []

    run(scene())


def test_a_lease_ends_by_the_clocks_of_the_nodes(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        holder, competitor = (CassandraLeases(session) for session in sessions)
        first = await holder.acquire("a job", "one", 30.0)
        assert first is not None
        assert await competitor.acquire("a job", "other", 30.0) is None
        assert await holder.renew(first, 0.2)
        async with asyncio.timeout(60):
            while (second := await competitor.acquire("a job", "other", 30.0)) is None:  # each attempt queries a node
                pass
        assert second.token > first.token
        assert not await holder.renew(first, 30.0)

    run(scene())


def test_a_ranking_is_deleted_a_bounded_time_after_it_expired(run: Run, sessions: list[Session]) -> None:
    async def scene() -> None:
        session, _ = sessions
        store = CassandraSuggestions(session)
        await store.put_many([RankingRow(ALICE, START_MS + HOUR_MS, b"x"), RankingRow(BOB, 0, b"x")], START_MS)
        ttl_by_user = dict(await session.rows("SELECT user, TTL(data) FROM suggestions"))
        assert 3_600 < ttl_by_user[ALICE] <= 3_600 + SPARE_S
        assert 0 < ttl_by_user[BOB] <= SPARE_S

    run(scene())
