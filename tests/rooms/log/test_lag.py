"""How far a group is behind: events to handle, and the age of the oldest."""

from __future__ import annotations

import math

import pytest
from consumer_world import ConsumerWorld

from kith.log.runner import Lag, lag_of


def lag(world: ConsumerWorld, now_ms: int) -> Lag:
    progress = world.progress()
    assert progress is not None
    return lag_of(progress.behind, now_ms)


def test_lag_counts_events_and_the_age_of_the_oldest(world: ConsumerWorld) -> None:
    world.drain(world.runner())
    assert lag(world, world.clock.ms) == Lag(0, 0.0)
    world.write(5)
    assert lag(world, world.clock.ms + 5_000) == (5, pytest.approx(5.0, abs=0.1))


def test_the_age_of_an_event_is_that_of_its_commit_whatever_its_version_says(world: ConsumerWorld) -> None:
    runner = world.runner()
    for version in (-(10**15), 10**15):  # of an import, and of a host whose clock is ahead
        world.drain(runner)
        world.write(1, version)
        assert lag(world, world.clock.ms + 1_000) == Lag(1, 1.0)


def test_the_lag_behind_forgotten_events_or_those_of_the_future_is_infinite(world: ConsumerWorld) -> None:
    world.drain(world.runner())
    world.write(7)
    hour_ms = 3_600_000
    assert lag(world, world.clock.ms - 1_000).oldest_s == 0, "clocks differ a little"
    assert lag(world, world.clock.ms - hour_ms).oldest_s == math.inf, "a clock was put back"
    world.write(500)
    assert lag(world, world.clock.ms).oldest_s == math.inf
