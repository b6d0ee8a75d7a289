"""Edges that expire: from a given millisecond on they are removed, in every list and count, and the log records it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import Run
from edges import FOLLOWERS_OF_DANA, OUT, G, all_pages, edge_of, marks_of, writes_of
from engines import Engine
from msgspec.structs import replace
from store_types import Logged

from kith.core.events import NOWHERE, Event
from kith.core.paging import Mark, Window
from kith.graph.edge import Direction, Edge, EdgeLimit, EdgeWrite, Outcome, State
from kith.graph.questions import Questions
from kith.graph.shapes import Listing

PORT = "logs"
END_MS = START_MS + 604_800_000
IDS = list(range(200, 330))
LASTING = [id_ for id_ in IDS if id_ % 3]


@pytest.fixture
def logged(engine: Engine, tmp_path: Path, run: Run, clock: FakeClock) -> Iterator[Logged]:
    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=100_000, now_ms=clock) as opened:
        run(opened.edges.declare(["follows"]))
        yield opened


def expiring(edge: Edge, at_ms: int = END_MS) -> Edge:
    return replace(edge, expires_ms=at_ms)


async def arrived(logged: Logged) -> None:
    """Wait until lists show what the rows show: on engines with lagging lists, for some calls."""
    for _ in range(0 if logged.edges.transactional else 40):
        await logged.edges.count_many([OUT])


async def filled(logged: Logged) -> list[Mark]:
    """Let Alice follow many, every third until END_MS only. Bob follows Dana until then, and Carol without end.

    Returns the entries of Alice's list that do not expire.
    """
    edges = [edge_of(ALICE, id_, START_MS + id_ // 2) for id_ in IDS]
    await logged.edges.apply(writes_of(*(edge if edge.destination in LASTING else expiring(edge) for edge in edges)))
    await logged.edges.apply(writes_of(expiring(edge_of(BOB, DANA, 7)), edge_of(CAROL, DANA, 6)))
    await arrived(logged)
    return sorted((Mark(START_MS + id_ // 2, id_) for id_ in LASTING), reverse=True)


async def check_lists(logged: Logged, marks: list[Mark], followers: list[Mark]) -> None:
    """Check every kind of read of Alice's list and Dana's followers."""
    edges, shown = logged.edges, [mark.id for mark in marks]
    assert await marks_of(edges, OUT) == marks
    for limit, backward in ((7, False), (61, True), (1000, True)):
        assert await all_pages(lambda window: edges.page(OUT, window), limit, backward=backward) == marks
    since = await edges.page(OUT, Window(500, since=marks[50].position, until=marks[20].position))
    assert since.items == [mark for mark in marks if marks[50].position <= mark.position < marks[20].position]
    assert await marks_of(edges, FOLLOWERS_OF_DANA) == followers
    assert await edges.count_many([OUT, FOLLOWERS_OF_DANA]) == [len(marks), len(followers)]
    sides = [(G, Direction.OUT), (G, Direction.IN)]
    lengths = await edges.counts(sides, np.array([ALICE, DANA], np.int64))
    assert lengths.tolist() == [[len(marks), 0], [0, len(followers)]]
    for newest in (5, 1000):
        assert (await edges.ids(OUT, newest)).tolist() == shown[:newest]
        id_lists = await edges.ids_many([OUT, Listing(G, CAROL, Direction.OUT)], newest)
        assert id_lists.ids.tolist() == [*shown[:newest], DANA]
        assert id_lists.lengths.tolist() == [len(shown[:newest]), 1]
    chunk = await edges.chunk(OUT, None, 40)
    ids = chunk.ids.tolist()
    while chunk.after is not None:
        chunk = await edges.chunk(OUT, chunk.after, 40)
        ids += chunk.ids.tolist()
    assert sorted(ids) == sorted(shown)
    questions = Questions()
    counts, page = questions.counts([OUT]), questions.page(OUT, Window(1000))
    answers = await edges.answer(questions)
    assert (answers.counts[counts], answers.pages[page].items) == ([len(marks)], marks)


async def check_rows(logged: Logged, shown: list[int]) -> None:
    """Check every kind of read of rows."""
    edges, states = logged.edges, [State.NORMAL if id_ in shown else State.REMOVED for id_ in IDS]
    pairs = [(int(ALICE), id_) for id_ in IDS]
    assert await edges.exists_many(G, pairs) == [state is State.NORMAL for state in states]
    assert [await edges.exists_many(G, [pair]) for pair in pairs[:3]] == [[id_ in shown] for id_ in IDS[:3]]
    assert [edge and edge.state for edge in await edges.get_many(G, pairs)] == states
    few_ids, many_ids = np.array(IDS[:4], np.int64), np.array(IDS, np.int64)
    for ids in (few_ids, many_ids):
        assert (await edges.contains(OUT, ids)).tolist() == [id_ in shown for id_ in ids.tolist()]
    questions = Questions()
    rows = questions.states([(G, *pair) for pair in pairs])
    towards, members = questions.towards(G, ALICE, IDS), questions.members(OUT, many_ids)
    answers = await edges.answer(questions)
    assert answers.states[rows] == answers.towards[towards] == states
    assert answers.members[members].tolist() == [id_ in shown for id_ in IDS]


async def removals(logged: Logged) -> list[Event]:
    """The removals in the log, once it also holds a write made now."""
    (change,) = await logged.edges.apply(writes_of(edge_of(9, 10)))
    assert await logged.log.reached(change.log_position)
    events = (await logged.log.read(NOWHERE, 10_000)).events
    return [event for event in events if event.ended]


def test_an_edge_exists_until_it_expires_and_is_removed_from_that_millisecond_on(
    logged: Logged, run: Run, clock: FakeClock
) -> None:
    async def check() -> None:
        permanent = await filled(logged)
        marks = sorted((Mark(START_MS + id_ // 2, id_) for id_ in IDS), reverse=True)
        clock.ms = END_MS - 1
        await check_rows(logged, IDS)
        await check_lists(logged, marks, [Mark(7, BOB), Mark(6, CAROL)])
        clock.ms = END_MS
        await check_rows(logged, LASTING)
        await arrived(logged)
        await check_lists(logged, permanent, [Mark(6, CAROL)])
        removed_pairs = await removals(logged)
        assert sorted(event.destination for event in removed_pairs) == sorted([*set(IDS) - set(LASTING), DANA])
        await arrived(logged)
        await check_rows(logged, LASTING)
        await check_lists(logged, permanent, [Mark(6, CAROL)])
        (row,) = await logged.edges.get_many(G, [(BOB, DANA)])
        assert row == edge_of(BOB, DANA, 7, State.REMOVED)

    run(check())


def test_an_engine_does_not_call_its_log_complete_while_expired_edges_are_unlogged(
    logged: Logged, run: Run, clock: FakeClock
) -> None:
    async def check() -> None:
        await filled(logged)
        promises = bool(await logged.edges.last_logged_commit())
        clock.ms = END_MS - 1
        assert bool(await logged.edges.last_logged_commit()) is promises
        clock.ms = END_MS
        assert not await logged.edges.last_logged_commit()
        assert await removals(logged)
        assert bool(await logged.edges.last_logged_commit()) is promises

    run(check())


def test_an_engine_with_a_complete_log_lists_the_edges_that_expire_next(logged: Logged, run: Run) -> None:
    async def check() -> None:
        await filled(logged)
        edges = logged.edges
        if not edges.logs_every_change:
            return
        assert await edges.expiring_by(END_MS - 1, 1000) == []
        expected = sorted([(ALICE, id_) for id_ in set(IDS) - set(LASTING)] + [(BOB, DANA)])
        expiring_edges = await edges.expiring_by(END_MS, 1000)
        assert expiring_edges == [(END_MS, G, *ends) for ends in expected]
        assert await edges.expiring_by(END_MS, 3) == expiring_edges[:3]
        await edges.apply(writes_of(expiring(edge_of(CAROL, BOB, 5), END_MS - 1)))
        assert await edges.expiring_by(END_MS, 3) == [(END_MS - 1, G, CAROL, BOB), *expiring_edges[:2]]

    run(check())


def test_the_latest_expiry_wins_in_any_order_and_repetition(
    engine: Engine, tmp_path: Path, run: Run, clock: FakeClock
) -> None:
    assert engine.logs
    week, longer = expiring(edge_of(ALICE, BOB, version=1)), expiring(edge_of(ALICE, BOB, version=2), END_MS + 1)
    permanent, expiring_edge = edge_of(ALICE, BOB, version=3), expiring(edge_of(ALICE, CAROL, version=1))
    for number, order in enumerate(permutations((week, longer, permanent))):
        with engine.logs(tmp_path / str(number), events_max=1_000, now_ms=clock) as logged:
            edges = logged.edges
            run(edges.declare(["follows"]))
            clock.ms = START_MS
            run(edges.apply(writes_of(expiring_edge, *order, order[0])))
            clock.ms = END_MS + 1
            run(edges.apply(writes_of(*order[:2], expiring_edge)))
            run(arrived(logged))
            assert run(edges.get_many(G, [(ALICE, BOB), (ALICE, CAROL)])) == [
                permanent,
                edge_of(ALICE, CAROL, state=State.REMOVED, version=1),
            ]
            assert run(edges.count_many([OUT])) == [1]


def test_conditions_treat_an_expired_edge_as_removed(logged: Logged, run: Run, clock: FakeClock) -> None:
    async def check() -> None:
        block, follow = expiring(edge_of(BOB, ALICE)), edge_of(ALICE, BOB, version=5)
        other_edge = edge_of(ALICE, DANA, version=5)
        await logged.edges.apply(writes_of(block, expiring(edge_of(ALICE, CAROL)), edge_of(ALICE, 8)))
        await arrived(logged)
        barred = EdgeWrite(follow, supersede=True, keep_live=True, unless=((G, BOB, ALICE),))
        limited = EdgeWrite(other_edge, supersede=True, limit=EdgeLimit(2), counted=Direction.OUT)
        outcomes = [change.outcome for change in await logged.edges.apply([barred, limited])]
        assert outcomes == [Outcome.FORBIDDEN, Outcome.OVER_LIMIT]
        clock.ms = END_MS
        await logged.edges.count_many([OUT])
        await arrived(logged)
        (limited_now,) = await logged.edges.apply([limited])
        assert (limited_now.outcome, limited_now.length) == (Outcome.APPLIED, 2)
        (followed,) = await logged.edges.apply([barred])
        assert followed.outcome is Outcome.APPLIED
        repeated = edge_of(ALICE, CAROL, 99, version=6)
        (change,) = await logged.edges.apply([EdgeWrite(repeated, supersede=True, keep_live=True)])
        assert change.before == edge_of(ALICE, CAROL, state=State.REMOVED)
        assert change.after == repeated

    run(check())


def test_a_new_expiry_of_a_live_edge_keeps_its_place(logged: Logged, run: Run, clock: FakeClock) -> None:
    async def now(**kept: bool) -> Edge | None:
        nonlocal version
        version += 1
        written = edge_of(
            ALICE, BOB, 1_000 + version, State.ARCHIVED if "keep_place" in kept else State.NORMAL, version
        )
        edge = expiring(written, kept.pop("until", 0))
        await logged.edges.apply([EdgeWrite(edge, supersede=True, **kept)])
        (stored,) = await logged.edges.get_many(G, [(ALICE, BOB)])
        return stored and replace(stored, updated_at=edge.updated_at)

    async def check() -> None:
        await logged.edges.apply(writes_of(expiring(edge_of(ALICE, BOB, 5))))
        at_5 = edge_of(ALICE, BOB, 5)
        assert await now(keep_live=True, until=END_MS) == replace(at_5, updated_at=ver(1), expires_ms=END_MS)
        assert await now(keep_live=True, until=END_MS + 1) == replace(at_5, updated_at=ver(2), expires_ms=END_MS + 1)
        moved_edge = replace(at_5, position=1_003, updated_at=ver(3), expires_ms=END_MS + 1)
        assert await now(keep_expiry=True) == moved_edge
        archived = replace(moved_edge, state=State.ARCHIVED, updated_at=ver(4))
        assert await now(keep_place=True) == archived
        clock.ms = END_MS + 1
        await logged.edges.count_many([OUT])
        (row,) = await logged.edges.get_many(G, [(ALICE, BOB)])
        assert row is not None
        assert row.state is State.REMOVED
        await arrived(logged)
        assert await logged.edges.count_many([OUT._replace(state=State.ARCHIVED)]) == [0]

    def ver(number: int) -> int:
        return edge_of(ALICE, BOB, version=number).updated_at

    version = 0
    run(check())
