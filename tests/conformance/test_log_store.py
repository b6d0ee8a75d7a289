"""The event log: which events can be read and when, how positions compare, and which events a group of workers gets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from cast import ALICE
from coroutines import Run
from edges import G, edge_of, writes_of
from engines import Engine
from store_types import Logged

from kith.core.clock import Hlc
from kith.core.events import NOWHERE, TIMELINE_REQUESTED, Event, LogPosition
from kith.graph.edge import Direction, State
from kith.graph.shapes import Listing
from kith.log.store import Batch, Failure, Fenced, Subscription

PORT = "logs"
SOURCES = range(1, 8)
GROUP = "readers"


async def written(logged: Logged, count: int, first: int = 0) -> LogPosition:
    """Write `count` events, one per call, and wait until each can be read. Returns the mark of the last one."""
    mark = NOWHERE
    for number in range(first, first + count):
        (change,) = await logged.edges.apply(writes_of(edge_of(SOURCES[number % len(SOURCES)], 100 + number)))
        mark = change.log_position
        assert await logged.log.reached(mark)
    return mark


def test_reading_the_latest_events_in_steps_misses_none(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(logged, 10)
        half = await logged.log.latest(NOWHERE, 5)
        assert len(half.events) == 5
        mark = await written(logged, 10, first=10)
        remaining = await logged.log.latest(half.next, 1_000)
        assert sorted(numbers([*half.events, *remaining.events])) == list(range(20))
        assert logged.log.covers(remaining.next, mark)

    run(scene())


async def read_all(logged: Logged, after: LogPosition, limit: int) -> list[Event]:
    """All events after a position, in reads of `limit`. Each read must make progress."""
    events: list[Event] = []
    while True:
        batch = await logged.log.read(after, limit)
        assert not batch.lost
        assert len(batch.events) <= limit
        events += batch.events
        if len(batch.events) < limit:
            assert logged.log.covers(batch.next, await logged.log.end())
            return events
        after = batch.next


def numbers(events: Iterable[Event]) -> list[int]:
    return [event.destination - 100 for event in events]


def of_each_source(events: Iterable[Event]) -> list[list[int]]:
    """The numbers of events, by source and in their order."""
    events = list(events)
    return [numbers(event for event in events if event.source == source) for source in SOURCES]


@pytest.mark.parametrize("limit", [1, 3, 28, 1_000])
def test_every_event_is_read_once_and_events_of_a_source_in_order(logged: Logged, run: Run, limit: int) -> None:
    async def scene() -> None:
        await written(logged, 60)
        events = await read_all(logged, NOWHERE, limit)
        assert of_each_source(events) == [list(range(offset, 60, len(SOURCES))) for offset in range(len(SOURCES))]
        assert len({event.log_position for event in events}) == 60
        half = await logged.log.read(NOWHERE, 30)
        remaining = await read_all(logged, half.next, limit)
        assert sorted(numbers([*half.events, *remaining])) == list(range(60))

    run(scene())


def test_an_event_holds_the_edge_and_its_state_before(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        first, second = edge_of(ALICE, 7, 5, version=1), edge_of(ALICE, 7, -5, State.ARCHIVED, 2)
        changes = await logged.edges.apply(writes_of(first, second))
        assert await logged.log.reached(changes[-1].log_position)
        logged_changes = [
            (event.graph, event.before, event.state, event.source, event.destination, event.position, event.updated_at)
            for event in await read_all(logged, NOWHERE, 10)
        ]
        assert logged_changes == [
            (G, None, State.NORMAL, ALICE, 7, 5, first.updated_at),
            (G, State.NORMAL, State.ARCHIVED, ALICE, 7, -5, second.updated_at),
        ]

    run(scene())


def test_an_event_can_be_read_only_after_rows_lists_and_counts_show_it(logged: Logged, run: Run) -> None:
    async def write() -> None:
        for number in range(40):
            await logged.edges.apply(writes_of(edge_of(SOURCES[number % len(SOURCES)], 100 + number)))
            await asyncio.sleep(0)

    async def scene() -> None:
        writing, reached, shown = asyncio.create_task(write()), NOWHERE, 0
        while shown < 40:
            batch = await logged.log.read(reached, 5)
            for event in batch.events:
                followed = Listing(G, event.source, Direction.OUT)
                into = Listing(G, event.destination, Direction.IN)
                assert event.destination in (await logged.edges.ids(followed, 100)).tolist()
                assert (await logged.edges.ids(into, 100)).tolist() == [event.source]
                assert await logged.edges.count_many([into]) == [1]
            reached, shown = batch.next, shown + len(batch.events)
            await asyncio.sleep(0)
        await writing

    run(scene())


def test_a_position_covers_events_read_up_to_it_and_nothing_later(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        log, positions, batches = logged.log, [NOWHERE], list[Batch]()
        await written(logged, 30)
        while (batch := await log.read(positions[-1], 4)).events:
            positions.append(batch.next)
            batches.append(batch)
        for (index, position), (number, batch) in product(enumerate(positions), enumerate(batches, 1)):
            assert all(log.covers(position, event.log_position) == (number <= index) for event in batch.events)
        for (index, mark), (number, other_mark) in product(enumerate(positions), repeat=2):
            assert log.covers(mark, other_mark) == (number <= index)
            assert log.covers(log.joined(mark, other_mark), positions[max(index, number)])
            assert log.covers(positions[max(index, number)], log.joined(mark, other_mark))
        assert not log.covers(NOWHERE, positions[1])

    run(scene())


def test_a_position_joined_with_marks_is_the_position_after_these_events(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        log = logged.log
        await written(logged, 25)
        events = (await log.read(NOWHERE, 25)).events
        joined = NOWHERE
        for number, event in enumerate(events):
            assert not log.covers(joined, event.log_position)
            joined = log.joined(joined, event.log_position)
            remaining = await read_all(logged, joined, 1_000)
            assert sorted(numbers([*events[: number + 1], *remaining])) == list(range(25))

    run(scene())


@pytest.mark.parametrize("junk", [b"\xff", b"junk", b"\xff" * 8, b"x" * 16, b"x" * 99])
def test_bytes_that_are_no_position_of_this_log_are_not_covered(logged: Logged, run: Run, junk: bytes) -> None:
    async def scene() -> None:
        await written(logged, 3)
        assert not logged.log.covers(await logged.log.end(), LogPosition(junk))
        assert not await logged.log.reached(LogPosition(junk))

    run(scene())


def test_the_mark_of_a_write_covers_all_its_changes_and_is_reached(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        log = logged.log
        await written(logged, 5)
        before = await log.end()
        changes = await logged.edges.apply(writes_of(*(edge_of(source, 99) for source in SOURCES)))
        assert not log.covers(before, changes[0].log_position)
        assert await log.reached(changes[-1].log_position)
        batch = await log.read(before, 100)
        assert len(batch.events) == len(SOURCES)
        assert all(log.covers(changes[-1].log_position, event.log_position) for event in batch.events)

    run(scene())


def test_the_lag_of_a_position_is_counted_and_dated(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        log = logged.log
        await written(logged, 12)
        batch = await log.read(NOWHERE, 5)
        backlog, remaining = await log.behind(batch.next), await read_all(logged, batch.next, 100)
        assert (backlog.events, backlog.lost) == (7, False)
        assert backlog.oldest_ms == min(event.logged_ms for event in remaining)
        assert log.covers(backlog.end, await log.end())
        assert await log.behind(backlog.end) == (backlog.end, 0, None, False)

    run(scene())


def test_a_reader_behind_forgotten_events_learns_that_they_are_lost(engine: Engine, tmp_path: Path, run: Run) -> None:
    async def scene(logged: Logged) -> None:
        await logged.edges.declare(["follows"])
        await written(logged, 10)
        start = await logged.log.end()
        await written(logged, 400, first=10)
        backlog, batch = await logged.log.behind(start), await logged.log.read(start, 1_000)
        assert (backlog.lost, batch.lost) == (True, True)
        assert backlog.oldest_ms is None
        assert 0 < len(batch.events) < 400
        assert logged.log.covers(batch.next, backlog.end)
        assert not (await logged.log.read(batch.next, 10)).lost

    assert engine.logs
    with engine.logs(tmp_path / "data", events_max=50) as logged:
        run(scene(logged))


def test_an_event_without_an_edge_can_be_announced(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        before = await logged.log.end()
        await logged.log.announce(Event(0, None, TIMELINE_REQUESTED, int(ALICE), 0, 0, Hlc(77)))
        (event,) = (await logged.log.read(before, 10)).events
        assert (event.state, event.source, event.updated_at) == (TIMELINE_REQUESTED, ALICE, 77)
        assert event.log_position != NOWHERE
        assert not event.began
        assert not event.ended

    run(scene())


# --- groups ------------------------------------------------------------------------------------------------


def failure_of(event: Event) -> Failure:
    return Failure(GROUP, event, 1, "a bug", 0, 0)


async def begun(logged: Logged, share: Subscription) -> None:
    """Start a new group, and save that it has handled everything so far."""
    batch = await share.read(10)
    assert batch.lost
    assert not batch.events
    await share.save(batch.next, {})
    progress = await logged.log.progress(GROUP)
    assert progress is not None
    assert progress.behind.events == 0


async def taken(share: Subscription) -> list[Event]:
    """All events that a subscription can read now, without saving progress."""
    all_events: list[Event] = []
    while events := (await share.read(4)).events:
        all_events += events
    return all_events


def test_a_new_group_starts_at_the_end_and_learns_that_it_must_build_everything(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        await written(logged, 5)
        assert await logged.log.progress(GROUP) is None
        share = await logged.log.subscribe(GROUP)
        await begun(logged, share)
        await written(logged, 20, first=5)
        assert sorted(numbers(await taken(share))) == list(range(5, 25))

    run(scene())


def test_events_that_were_not_saved_are_repeated_and_no_others(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        share = await logged.log.subscribe(GROUP)
        await begun(logged, share)
        await written(logged, 30)
        saved = await share.read(8)
        await share.save(saved.next, {})
        assert len(await taken(share)) == 22
        progress = await logged.log.progress(GROUP)
        assert progress is not None
        assert progress.behind.events == 22
        assert all(logged.log.covers(progress.at, event.log_position) for event in saved.events)
        await share.close()
        successor = await logged.log.subscribe(GROUP)
        repeated = await taken(successor)
        assert sorted(numbers([*saved.events, *repeated])) == list(range(30))

    run(scene())


def test_groups_are_independent(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        shares = [await logged.log.subscribe(name) for name in (GROUP, "others")]
        for share in shares:
            await share.save((await share.read(10)).next, {})
        await written(logged, 6)
        for share in shares:
            assert sorted(numbers(await taken(share))) == list(range(6))

    run(scene())


def test_failures_are_kept_by_event_until_they_are_settled(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        share = await logged.log.subscribe(GROUP)
        await begun(logged, share)
        await written(logged, 6)
        batch = await share.read(10)
        first, second, *_ = batch.events
        await share.save(batch.next, {event.log_position: failure_of(event) for event in (first, second)})
        stored = {failure.event.log_position: failure for failure in await share.failures()}
        assert stored == {event.log_position: failure_of(event) for event in (first, second)}
        assert len(await logged.log.failures(GROUP)) == 2
        assert len(await logged.log.failures(GROUP, 1)) == 1
        assert not await logged.log.failures("others")
        await share.save(None, {first.log_position: None})
        await logged.log.save(GROUP, None, {second.log_position: None})
        assert not await share.failures()

    run(scene())


def test_a_forgotten_group_leaves_nothing_behind(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        await logged.log.forget(GROUP)
        share = await logged.log.subscribe(GROUP)
        await begun(logged, share)
        await written(logged, 6)
        batch = await share.read(10)
        await share.save(batch.next, {event.log_position: failure_of(event) for event in batch.events[:2]})
        await logged.log.save("others", batch.next, {batch.events[0].log_position: failure_of(batch.events[0])})
        await logged.log.forget(GROUP)
        assert await logged.log.progress(GROUP) is None
        assert not await logged.log.failures(GROUP)
        assert await logged.log.progress("others") is not None
        assert len(await logged.log.failures("others")) == 1

    run(scene())


def test_a_replaced_worker_cannot_save_and_the_new_one_resumes_at_the_saved_position(logged: Logged, run: Run) -> None:
    async def scene() -> None:
        old_worker = await logged.log.subscribe(GROUP)
        await begun(logged, old_worker)
        await written(logged, 40)
        saved = await old_worker.read(10)
        await old_worker.save(saved.next, {})
        unsaved = await old_worker.read(20)  # now another worker takes over, in the middle of this batch
        await old_worker.close()
        new_worker = await logged.log.subscribe(GROUP)
        for failures in ({}, {unsaved.events[0].log_position: failure_of(unsaved.events[0])}):
            with pytest.raises(Fenced):
                await old_worker.save(unsaved.next, failures)
        assert not await logged.log.failures(GROUP)
        repeated = await taken(new_worker)
        assert sorted(numbers([*saved.events, *repeated])) == list(range(40))

    run(scene())


def test_two_workers_miss_no_event_and_save_none_twice(logged: Logged, run: Run) -> None:
    """Both workers read and save as if alone. The engine decides which events each gets."""

    async def scene() -> None:
        shares = [await logged.log.subscribe(GROUP)]
        await begun(logged, shares[0])
        shares.append(await logged.log.subscribe(GROUP))
        saved: list[int] = []
        await written(logged, 60)
        for _ in range(60):
            batches = [await share.read(5) for share in shares]
            for share, batch in zip(shares, batches, strict=True):
                if batch.next != NOWHERE:
                    try:
                        await share.save(batch.next, {})
                        saved += numbers(batch.events)
                    except Fenced:
                        pass
        assert sorted(saved) == list(range(60))
        progress = await logged.log.progress(GROUP)
        assert progress is not None
        assert progress.behind.events == 0

    run(scene())


def test_the_saved_progress_of_a_group_survives_a_restart(lasting: Engine, tmp_path: Path, run: Run) -> None:
    assert lasting.logs
    with lasting.logs(tmp_path / "data", events_max=1_000) as logged:
        run(logged.edges.declare(["follows"]))
        share = run(logged.log.subscribe(GROUP))
        run(begun(logged, share))
        run(written(logged, 9))
        batch = run(share.read(4))
        run(share.save(batch.next, {batch.events[0].log_position: failure_of(batch.events[0])}))
    with lasting.logs(tmp_path / "data", events_max=1_000) as logged:
        share = run(logged.log.subscribe(GROUP))
        assert run(share.failures()) == [failure_of(batch.events[0])]
        assert sorted(numbers([*batch.events, *run(taken(share))])) == list(range(9))
