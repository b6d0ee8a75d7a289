"""A runner brings every event to its consumer, whatever fails; its checkpoint and failures outlive it."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from cast import ALICE, FakeClock
from coroutines import Run
from edges import edge_of, writes_of
from engines import open_embedded
from homes import failing

from kith.core.clock import Hlc
from kith.core.errors import StoreFull, StoreUnavailable, Unavailable
from kith.core.events import TIMELINE_WANTED, Event
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.log_store import EmbeddedLog
from kith.log.runner import BACKLOG_RETRY_MS, Lag, Pace, Runner, lag_of, replay
from kith.log.store import Failure

PACE = Pace(batch_max=10, tries_max=3, backoff_s=1.0, save_s=0.0)


class Remembering:
    """A consumer that notes what it sees. `broken` events fail; `outage` refuses all; `left`: slices of its backlog."""

    name = "remembering"

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.broken: set[int] = set()
        self.outage = False
        self.left_error: Exception | None = None
        self.lost_count = self.left = 0

    async def handle(self, events: Sequence[Event]) -> None:
        if self.outage:
            raise StoreUnavailable("not now")
        for event in events:
            if event.sequence in self.broken:
                raise ValueError(f"event {event.sequence} is broken")
            self.seen.append(event.sequence)

    async def work_backlog(self) -> bool:
        if self.left_error is not None:
            raise self.left_error
        self.left -= self.left > 0
        return self.left > 0

    async def lost(self) -> None:
        self.lost_count += 1


class World:
    """A store, its log, a consumer and a clock; runners come and go."""

    def __init__(self, run: Run, edges: EmbeddedEdges, clock: FakeClock) -> None:
        self._run, self._edges, self._next = run, edges, 0
        self.log = EmbeddedLog(edges._environment, edges._commits)
        self.clock, self.consumer = clock, Remembering()

    def write(self, count: int, version: int = 0) -> None:
        """So many events."""
        edges = [edge_of(ALICE, 100 + self._next + at, version=version) for at in range(count)]
        self._next += count
        self._run(self._edges.apply(writes_of(*edges)))

    def runner(self, pace: Pace = PACE) -> Runner:
        """A new runner, as a new process would have."""
        return Runner(self.consumer, self.log, pace, lambda: self.clock.ms)

    def drain(self, runner: Runner) -> None:
        """Step until there is nothing to do."""
        while self._run(runner.step()):
            pass

    def failures(self) -> Sequence[Failure]:
        return self.log.failures("remembering")


@pytest.fixture
def world(tmp_path: Path, run: Run) -> Iterator[World]:
    clock = FakeClock()
    with open_embedded(tmp_path, events_max=200, now_ms=clock) as (_, edges):
        run(edges.declare(["follows"]))
        yield World(run, edges, clock)


def test_a_new_group_builds_from_the_stores_and_follows_from_then_on(world: World) -> None:
    world.write(5)
    runner = world.runner()
    world.drain(runner)
    assert (world.consumer.lost_count, world.consumer.seen) == (1, [])
    world.write(3)
    world.drain(runner)
    assert (world.consumer.lost_count, world.consumer.seen) == (1, [6, 7, 8])


@pytest.mark.parametrize("saved", [True, False], ids=["saved", "killed before saving"])
def test_the_next_process_resumes_at_the_last_checkpoint(world: World, saved: bool) -> None:
    world.drain(world.runner())
    world.write(25)
    world.drain(world.runner(msgspec.structs.replace(PACE, save_s=0.0 if saved else 3600.0)))
    world.drain(world.runner())
    assert world.consumer.seen == list(range(1, 26)) * (1 if saved else 2)


def test_an_event_that_fails_delays_no_others_and_is_retried(world: World) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.broken = {4}
    world.write(12)
    world.drain(runner)
    assert sorted(set(world.consumer.seen)) == [1, 2, 3, *range(5, 13)]
    (failure,) = world.failures()
    assert (failure.event.sequence, failure.tries, failure.dead) == (4, 1, False)
    assert "event 4 is broken" in failure.error
    world.drain(runner)
    assert 4 not in world.consumer.seen  # not before its time
    world.consumer.broken = set()
    world.clock.ms += 3_000
    world.drain(world.runner())  # a new process finds it, too
    assert world.consumer.seen[-1] == 4
    assert not world.failures()


def test_an_event_that_always_fails_dies_until_a_person_replays_it(world: World, run: Run) -> None:
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


def test_an_outage_is_not_counted_against_events(world: World, run: Run) -> None:
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


def test_when_nearly_everything_fails_the_runner_waits(world: World, run: Run) -> None:
    runner = world.runner(msgspec.structs.replace(PACE, failures_max=4))
    world.drain(runner)
    world.consumer.broken = set(range(1, 8))
    world.write(9)
    with pytest.raises(Exception, match="failed on too many events"):
        run(runner.step())
    assert not world.failures()
    world.consumer.broken = set()
    world.drain(runner)
    assert world.consumer.seen[-9:] == list(range(1, 10))


def test_the_backlog_is_worked_between_events(world: World, run: Run) -> None:
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
def test_a_backlog_that_fails_delays_no_events_and_is_retried(world: World, error: Exception) -> None:
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


def test_events_forgotten_before_they_were_read_are_noticed(world: World) -> None:
    runner = world.runner()
    world.drain(runner)
    for _ in range(10):
        world.write(100)
    world.drain(runner)
    first, last = world.log.bounds()
    assert first > 1
    assert world.consumer.lost_count == 2
    assert world.consumer.seen == list(range(first, last + 1))


def test_lag_counts_events_and_the_age_of_the_oldest(world: World) -> None:
    world.drain(world.runner())
    assert lag_of(world.log, 0, world.clock.ms) == Lag(0, 0.0)
    world.write(7)
    events, oldest_s = lag_of(world.log, 2, world.clock.ms + 5_000)
    assert (events, oldest_s) == (5, pytest.approx(5.0, abs=0.1))


def test_the_age_of_an_event_is_that_of_its_commit_whatever_its_version_says(world: World) -> None:
    world.drain(world.runner())
    for version in (-(10**15), 10**15):  # of an import, and of a host whose clock is ahead
        world.write(1, version)
        assert lag_of(world.log, world.log.bounds()[1] - 1, world.clock.ms + 1_000) == Lag(1, 1.0)


def test_the_lag_behind_forgotten_events_or_those_of_the_future_is_infinite(world: World) -> None:
    world.drain(world.runner())
    world.write(7)
    hour_ms = 3_600_000
    assert lag_of(world.log, 2, world.clock.ms - 1_000).oldest_s == 0, "clocks differ a little"
    assert lag_of(world.log, 2, world.clock.ms - hour_ms).oldest_s == math.inf, "a clock was put back"
    world.write(300)
    first, last = world.log.bounds()
    assert first > 3
    assert lag_of(world.log, 2, world.clock.ms) == Lag(last - 2, math.inf)


def test_events_forgotten_while_they_are_about_to_be_read_are_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, read = world.runner(), world.log.read
    world.drain(runner)
    world.write(50)

    def overtaken(after: int, limit: int) -> Sequence[Event]:
        monkeypatch.setattr(world.log, "read", read)
        return read(20, limit)

    monkeypatch.setattr(world.log, "read", overtaken)
    world.drain(runner)
    assert world.consumer.lost_count == 2
    assert world.consumer.seen == list(range(21, 51))


def test_a_clock_that_is_put_back_delays_neither_progress_nor_retries(world: World, run: Run) -> None:
    runner = world.runner()
    world.drain(runner)
    world.write(1)
    world.drain(runner)
    world.clock.ms -= 3_600_000
    world.consumer.broken = {2}
    world.write(1)
    world.drain(runner)
    assert run(world.log.progress("remembering")) == 2
    world.consumer.broken = set()
    world.clock.ms -= 3_600_000
    world.drain(runner)
    assert not world.failures()


def test_an_event_that_is_no_edge_is_announced_in_the_log(world: World, run: Run) -> None:
    run(world.log.announce(Event(0, 0, None, TIMELINE_WANTED, int(ALICE), 0, 0, Hlc(77))))
    (event,) = world.log.read(0, 10)
    assert (event.sequence, event.state, event.source) == (1, TIMELINE_WANTED, 1)
    assert not event.began
    assert not event.ended


@pytest.mark.parametrize("seed", range(8))
def test_every_event_arrives_whatever_fails_in_whatever_order(world: World, run: Run, seed: int) -> None:
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
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = world.runner()
    world.drain(runner)
    world.consumer.broken = {2}
    world.write(3)
    with monkeypatch.context() as full:
        full.setattr(world.log, "save", failing(StoreFull("no room")))
        with pytest.raises(StoreFull):
            run(runner.step())
    world.consumer.broken = set()
    world.drain(runner)
    assert set(world.consumer.seen) == {1, 2, 3}
    assert run(world.log.progress("remembering")) == 3


def test_dead_events_count_towards_the_bound_of_failures(world: World, run: Run) -> None:
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
