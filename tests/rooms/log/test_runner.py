"""A runner delivers every event to its consumer, whatever fails; its checkpoint and failures outlive it.

Runs on each kind of log: that of the embedded engine, and the two references.
"""

from __future__ import annotations

import contextlib
import random

import msgspec
import pytest
from cast import FakeClock
from consumer_world import PACE, ConsumerWorld
from coroutines import Run
from home_scene import failing
from reference_logs import HostileLog, Partitions
from scrambled_edges import ScrambledEdges

from kith.core.errors import StoreFull, StoreUnavailable, Unavailable
from kith.log.runner import BACKLOG_RETRY_MS, Pace, Runner, begin, pause_after_batch_s, replay


def test_a_new_group_builds_from_the_stores_and_follows_from_then_on(world: ConsumerWorld) -> None:
    world.write(5)
    runner = world.runner()
    world.drain(runner)
    assert (world.consumer.lost_count, world.consumer.seen) == (1, [])
    world.write(3)
    world.drain(runner)
    assert (world.consumer.lost_count, world.consumer.seen) == (1, [6, 7, 8])


def test_a_group_that_was_begun_before_the_first_event_misses_none(world: ConsumerWorld) -> None:
    world._run(begin(world.log, ["remembering"]))
    world.write(5)
    world._run(begin(world.log, ["remembering", "late"]))
    world.drain(world.runner())
    assert (world.consumer.lost_count, sorted(world.consumer.seen)) == (0, [1, 2, 3, 4, 5])
    assert world._run(world.log.progress("late")) is None, "it builds from the stores"


@pytest.mark.parametrize("saved", [True, False], ids=["saved", "killed before saving"])
def test_the_next_process_resumes_at_the_last_checkpoint(world: ConsumerWorld, saved: bool) -> None:
    world.drain(world.runner())
    world.write(25)
    world.drain(world.runner(msgspec.structs.replace(PACE, save_s=0.0 if saved else 3600.0)))
    world.drain(world.runner())
    assert world.consumer.seen == sorted([*range(1, 26)] * (1 if saved else 2))


def test_an_event_that_fails_delays_no_others_and_is_retried(world: ConsumerWorld) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.broken = {4}
    world.write(12)
    world.drain(runner)
    assert sorted(set(world.consumer.seen)) == [1, 2, 3, *range(5, 13)]
    (failure,) = world.failures()
    assert (failure.event.destination, failure.tries, failure.dead) == (4, 1, False)
    assert "event 4 is broken" in failure.error
    world.drain(runner)
    assert 4 not in world.consumer.seen  # not before its time
    world.consumer.broken = set()
    world.clock.ms += 3_000
    world.drain(world.runner())  # a new process finds it, too
    assert world.consumer.handled[-1] == 4
    assert not world.failures()


def test_an_event_that_always_fails_dies_until_a_person_replays_it(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.broken = {1}
    world.write(1)
    for _ in range(10):
        world.drain(runner)
        world.clock.ms += 10_000
    (failure,) = world.failures()
    assert (failure.dead, failure.tries) == (True, 3)
    world.consumer.broken = set()
    world.drain(runner)
    assert world.consumer.seen == []
    run(replay(world.log, failure))
    world.clock.ms += 3_000
    world.drain(runner)
    assert world.consumer.seen == [1]
    assert not world.failures()


def test_an_outage_is_not_counted_against_events(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner()
    world.drain(runner)
    world.write(3)
    world.consumer.outage = True
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            run(runner.step())
    assert not world.failures()
    world.consumer.outage = False
    world.drain(runner)
    assert world.consumer.seen == [1, 2, 3]


def test_when_nearly_everything_fails_the_runner_waits(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner(msgspec.structs.replace(PACE, failures_max=4))
    world.drain(runner)
    world.consumer.broken = set(range(1, 8))
    world.write(9)
    with pytest.raises(Exception, match="failed on too many events"):
        run(runner.step())
    assert not world.failures()
    world.consumer.broken = set()
    world.drain(runner)
    assert set(world.consumer.seen) == set(range(1, 10))


def test_the_backlog_is_worked_between_events(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.left = 5
    world.write(25)
    for left in (4, 3, 2):
        assert run(runner.step())
        assert world.consumer.left == left
    assert world.consumer.seen == list(range(1, 26))
    world.drain(runner)
    assert world.consumer.left == 0


@pytest.mark.parametrize(
    "error", [ValueError("the backlog is broken"), StoreUnavailable("not now")], ids=["a bug", "an outage"]
)
def test_a_backlog_that_fails_delays_no_events_and_is_retried(world: ConsumerWorld, error: Exception) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.left, world.consumer.left_error = 3, error
    world.write(2)
    world.drain(runner)
    assert (world.consumer.seen, world.consumer.left) == ([1, 2], 3)
    world.consumer.left_error = None
    world.drain(runner)
    assert world.consumer.left == 3  # not before its time
    world.clock.ms += BACKLOG_RETRY_MS
    world.drain(runner)
    assert world.consumer.left == 0
    world.consumer.left, world.consumer.left_error = 3, error
    world.drain(runner)
    world.consumer.left_error = None
    world.clock.ms -= 3_600_000  # a clock that was put back does not delay it further
    world.drain(runner)
    assert world.consumer.left == 0


def test_events_forgotten_before_they_were_read_are_noticed(world: ConsumerWorld) -> None:
    runner = world.runner()
    world.drain(runner)
    for _ in range(10):
        world.write(100)
    world.drain(runner)
    kept = world.consumer.seen
    assert 100 <= len(kept) < 500
    assert kept[-1] == 1_000
    assert world.consumer.lost_count == 2


def test_a_clock_that_is_put_back_delays_neither_progress_nor_retries(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner()
    world.drain(runner)
    world.write(1)
    world.drain(runner)
    world.clock.ms -= 3_600_000
    world.consumer.broken = {2}
    world.write(1)
    world.drain(runner)
    progress = world.progress()
    assert progress is not None
    assert world.log.covers(progress.at, world.mark)
    world.consumer.broken = set()
    world.clock.ms -= 3_600_000
    world.drain(runner)
    assert not world.failures()


@pytest.mark.parametrize("seed", range(8))
def test_every_event_arrives_whatever_fails_in_whatever_order(world: ConsumerWorld, run: Run, seed: int) -> None:
    """Random failures, outages, restarts and gaps of time: in the end each event was handled."""
    chosen = random.Random(seed)
    runner = world.runner(msgspec.structs.replace(PACE, tries_max=1000))
    world.drain(runner)
    written = 0
    for _ in range(60):
        match chosen.randrange(6):
            case 0 | 1:
                count = chosen.randrange(1, 4)
                world.write(count)
                written += count
            case 2:
                world.consumer.broken = {chosen.randrange(1, written + 2) for _ in range(3)}
            case 3:
                world.consumer.outage = not world.consumer.outage
            case 4:
                runner = world.runner(msgspec.structs.replace(PACE, tries_max=1000))
            case 5:
                world.clock.ms += chosen.randrange(5_000)
        try:
            run(runner.step())
        except StoreUnavailable:
            assert world.consumer.outage
    world.consumer.broken, world.consumer.outage = set(), False
    world.clock.ms += 10**9
    world.drain(runner)
    assert set(world.consumer.seen) == set(range(1, written + 1))
    assert not world.failures()


def test_an_event_whose_failure_cannot_be_saved_is_handled_again(
    world: ConsumerWorld, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.broken = {2}
    world.write(3)
    with monkeypatch.context() as full:
        full.setattr(runner._share, "save", failing(StoreFull("no room")))
        with pytest.raises(StoreFull):
            run(runner.step())
    world.consumer.broken = set()
    world.drain(runner)
    assert set(world.consumer.seen) == {1, 2, 3}
    progress = world.progress()
    assert progress is not None
    assert world.log.covers(progress.at, world.mark)


@pytest.mark.parametrize("step", ["save", "close"])
def test_a_runner_that_is_stopped_during_an_outage_hands_over_what_it_can(
    world: ConsumerWorld, run: Run, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    runner = world.runner(msgspec.structs.replace(PACE, save_s=3600.0))
    world.drain(runner)
    world.write(3)
    world.drain(runner)
    share, closed = runner._share, list[bool]()
    assert share is not None
    close = share.close

    async def note_close() -> None:
        closed.append(True)
        await close()

    monkeypatch.setattr(share, "close", note_close)
    if step == "close":
        monkeypatch.setattr(share, "close", failing(StoreUnavailable("not now")))
    else:
        monkeypatch.setattr(share, "save", failing(StoreUnavailable("not now")))
    runner.stop()
    run(runner.run())
    progress = world.progress()
    assert progress is not None
    if step == "close":
        assert world.log.covers(progress.at, world.mark)
    else:
        assert closed, "another worker takes over at once"
        assert progress.behind.events == 3


def test_dead_events_count_towards_the_bound_of_failures(world: ConsumerWorld, run: Run) -> None:
    runner = world.runner(msgspec.structs.replace(PACE, failures_max=5))
    world.drain(runner)
    world.consumer.broken = set(range(1, 100))
    for _ in range(5):
        world.write(4)
        with contextlib.suppress(Unavailable):
            world.drain(runner)
        world.clock.ms += 60_000
    assert 0 < len(world.failures()) <= 5
    world.consumer.broken = set()
    for failure in world.failures():
        run(replay(world.log, failure))
    world.clock.ms += 3_000
    world.drain(runner)
    assert set(world.consumer.seen) == set(range(1, 21))


def test_a_runner_that_was_fenced_drops_what_it_holds_and_resumes_at_the_checkpoint(
    world: ConsumerWorld, run: Run
) -> None:
    """Two workers alternate, and each believes that the events are its own, until it saves."""
    slow = msgspec.structs.replace(PACE, save_s=3600.0, batch_max=3)
    first = Runner(world.consumer, world.log, slow, lambda: world.clock.ms)
    world.drain(first)
    world.write(20)
    run(first.step())
    second = Runner(world.consumer, world.log, slow, lambda: world.clock.ms)
    world.consumer.broken = {7, 8, 9}  # failures are saved at once
    for _ in range(30):
        run(first.step())
        run(second.step())
    world.consumer.broken = set()
    world.clock.ms += 60_000
    for _ in range(60):
        run(second.step())
        run(first.step())
    assert set(world.consumer.seen) == set(range(1, 21))
    assert max(world.consumer.seen.count(number) for number in range(1, 21)) <= 2
    world.clock.ms += 60_000
    assert not world.failures()


def test_a_batch_that_is_handed_over_while_it_is_handled_is_dropped(world: ConsumerWorld, run: Run) -> None:
    first, second = (Runner(world.consumer, world.log, PACE, lambda: world.clock.ms) for _ in range(2))
    world.drain(first)
    world.write(9)
    world.consumer.broken, world.consumer.meanwhile = {5}, second.step  # a failure is saved at once, so it notices
    run(first.step())
    world.consumer.broken = set()
    world.clock.ms += 60_000
    for _ in range(20):
        run(second.step())
        run(first.step())
    assert set(world.consumer.seen) == set(range(1, 10))
    assert max(world.consumer.seen.count(number) for number in range(1, 10)) <= 4, "twice each, as the batch fails"
    assert not world.failures()


@pytest.mark.parametrize("seed", range(8))
def test_partitions_that_move_between_two_workers_lose_no_event(run: Run, seed: int) -> None:
    chosen = random.Random(seed)
    edges = ScrambledEdges(seed, events=Partitions(4, chosen))
    log, clock = HostileLog(edges, chosen), FakeClock()
    world = ConsumerWorld(run, edges, log, clock)
    pace = msgspec.structs.replace(PACE, batch_max=4, save_s=1.0, tries_max=1000)
    runners = [Runner(world.consumer, log, pace, lambda: clock.ms) for _ in range(2)]
    for runner in runners:
        world.drain(runner)
    for _ in range(120):
        match chosen.randrange(5):
            case 0:
                world.write(chosen.randrange(1, 9))
            case 1:
                log.hand_over("remembering")
            case 2:
                world.consumer.broken = {chosen.randrange(1, world.written + 2) for _ in range(3)}
            case 3:
                clock.ms += chosen.randrange(3_000)
            case 4:
                run(chosen.choice(runners).step())
    world.consumer.broken = set()
    clock.ms += 10**7
    for _ in range(3):
        for runner in runners:
            world.drain(runner)
        clock.ms += 10**7
    assert set(world.consumer.seen) == set(range(1, world.written + 1))
    assert not world.failures()
    progress = world.progress()
    assert progress is not None
    assert progress.behind.events == 0


@pytest.mark.parametrize(
    ("worked_s", "events", "rests_s"),
    [(0.001, 1, 0.01), (0.03, 1, 0.03), (0.001, 20, 0.02), (0.03, 20, 0.03), (9.0, 1, 0.05), (0.001, 1_000, 0.05)],
)
def test_a_runner_rests_as_long_as_it_worked_and_longer_where_many_events_come(
    worked_s: float, events: int, rests_s: float
) -> None:
    assert pause_after_batch_s(Pace(), worked_s, events) == pytest.approx(rests_s)
