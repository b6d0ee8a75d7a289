"""What the embedded edges do beyond their port: grouped commits, pages found by seeking, changes sent to the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cast import ALICE, DANA, START_MS, FakeClock
from coroutines import Run
from edges import OUT, edge_of, writes_of
from msgspec.structs import replace
from reference_edges import ReferenceEdges

from kith.core.clock import hlc_of
from kith.core.events import NODE_CHANGED, NOWHERE, USER_CHANGED, Event, LogPosition
from kith.core.paging import Mark, Page, Window
from kith.engines.embedded import edge_store, transaction
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.pages import page_of
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import State
from kith.graph.store import EdgeStore


class Counted:
    """A cursor that counts its moves from block to block."""

    def __init__(self, cursor: Any) -> None:
        self._cursor, self.moves = cursor, 0

    def __getattr__(self, name: str) -> Any:
        self.moves += name in ("set_range", "set_key", "next", "prev")
        return getattr(self._cursor, name)


def test_a_page_of_a_range_costs_the_same_however_deep_it_lies(
    embedded: tuple[Environment, EmbeddedEdges], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is found by seeking, not scanning: the number of blocks that are read depends on the page alone."""
    _, store = embedded
    run(store.declare(["follows"]))
    run(store.apply(writes_of(*(edge_of(ALICE, index, index) for index in range(20_000)))))
    cursors: list[Counted] = []

    def counted(cursor: Any, prefix: bytes, window: Window) -> Page:
        cursors.append(Counted(cursor))
        return page_of(cursors[-1], prefix, window)  # type: ignore[arg-type]

    monkeypatch.setattr(edge_store, "page_of", counted)
    for since, until in ((19_000, 19_500), (10_000, 10_500), (30, 530), (0, 19_990), (10_000, 10_001)):
        for place in ({}, {"after": Mark(until - 5, 0)}, {"before": Mark(since, 0)}):
            page = run(store.page(OUT, Window(20, since=since, until=until, **place)))  # type: ignore[arg-type]
            assert len(page.items) == 20 or until - since < 20
    assert max(cursor.moves for cursor in cursors) <= 6, [cursor.moves for cursor in cursors]


def test_a_page_costs_the_same_however_many_edges_elsewhere_in_the_list_have_expired(
    embedded: tuple[Environment, EmbeddedEdges], run: Run, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = embedded
    run(store.declare(["follows"]))
    lasting = [edge_of(ALICE, index, index) for index in range(20_000, 20_050)]
    run(
        store.apply(
            writes_of(*(replace(edge_of(ALICE, index, index), expires_ms=START_MS + 5) for index in range(20_000)))
        )
    )
    run(store.apply(writes_of(*lasting)))
    cursors: list[Counted] = []

    def counted(cursor: Any, prefix: bytes, window: Window, hidden: Any) -> Page:
        cursors.append(Counted(cursor))
        return page_of(cursors[-1], prefix, window, hidden)  # type: ignore[arg-type]

    monkeypatch.setattr(edge_store, "page_of", counted)
    clock.ms += 5
    page = run(store.page(OUT, Window(20)))
    assert [mark.id for mark in page.items] == list(range(20_049, 20_029, -1))
    assert run(store.page(OUT, Window(20, after=page.oldest))).more_after
    assert max(cursor.moves for cursor in cursors) <= 6, [cursor.moves for cursor in cursors]
    assert len(run(store.page(OUT, Window(100))).items) == len(lasting)


def test_expired_edges_are_removed_and_logged_while_nothing_is_written(
    embedded: tuple[Environment, EmbeddedEdges], run: Run, clock: FakeClock
) -> None:
    """Each once, in batches; and no row about their expiry is left."""
    environment, store = embedded
    run(store.declare(["follows"]))
    count = 2 * transaction._EXPIRED_PER_COMMIT + 5
    week = [replace(edge_of(ALICE, index), expires_ms=START_MS + 604_800_000) for index in range(3)]
    soon = [replace(edge_of(ALICE, 10 + index), expires_ms=START_MS + 200) for index in range(count)]
    log = EmbeddedLog(environment, store._commits)

    async def removed() -> list[Event]:
        async with asyncio.timeout(60):
            while True:
                events = (await log.read(NOWHERE, 10**6)).events
                if sum(event.ended for event in events) >= count:
                    return [event for event in events if event.ended]
                with log.bell() as bell:
                    await bell.rung(1.0)

    run(store.apply(writes_of(*week, *soon)))
    clock.ms = START_MS + 200
    events = run(removed())
    assert sorted(event.destination for event in events) == [edge.destination for edge in soon]
    assert run(store.count_many([OUT])) == [len(week)]
    with environment.lmdb.begin() as txn:
        keys = [key for key, _ in txn.cursor(environment.records)]
    assert len(keys) == 3 * len(week)
    run(store.apply(writes_of(*(replace(edge, expires_ms=0, updated_at=edge.updated_at + 1) for edge in week))))
    with environment.lmdb.begin() as txn:
        assert not txn.stat(environment.records)["entries"]
        assert txn.get(b"first-expiry", None, environment.notes_db) is None


def test_one_failing_job_of_a_group_harms_no_other(embedded: tuple[Environment, EmbeddedEdges], run: Run) -> None:
    _, store = embedded
    run(store.declare(["follows"]))

    async def together() -> list[Any]:
        def fails(batch: Transaction) -> None:
            raise ValueError("a job's own fault")

        jobs = [store.apply(writes_of(edge_of(ALICE, index))) for index in range(5)]
        return await asyncio.gather(*jobs[:2], store._commits.run(fails), *jobs[2:], return_exceptions=True)

    answers = run(together())
    assert [type(answer).__name__ for answer in answers] == ["list", "list", "ValueError", "list", "list", "list"]
    assert run(store.count_many([OUT])) == [5]
    position_of = store._environment.positions.of
    assert [answer[0].log_position for answer in answers if isinstance(answer, list)] == [
        position_of(number) for number in range(1, 6)
    ]


def test_a_change_of_a_node_is_logged_once_and_only_if_it_changes_something(store: EdgeStore, run: Run) -> None:
    event, marks = Event(0, None, USER_CHANGED, DANA, 0, 0, hlc_of(START_MS)), list[LogPosition]()
    for change in (
        {"labels": 5},
        {"labels": 5},
        {},
        {"labels": 1, "only_from": State.ARCHIVED},
        {"labels": 0},
    ):
        marks.append(run(store.change_node(DANA, tell=event, **change)).mark.at)
    run(store.change_node(DANA, private=True))
    if isinstance(store, ReferenceEdges):
        events: Any = store.log
    else:
        assert isinstance(store, EmbeddedEdges)
        events = run(EmbeddedLog(store._environment, store._commits).read(NOWHERE, 9)).events
    announced = [
        (logged_event.state, logged_event.source) for logged_event in events if logged_event.state != NODE_CHANGED
    ]
    assert announced == [(USER_CHANGED, DANA)] * 2
    assert [marks.index(mark) for mark in marks] == [0, 0, 0, 0, 4], "the mark of a change covers its event"
