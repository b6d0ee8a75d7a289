"""What every FanoutState must do. Each test is one claim of `home.fanout.state`.

Progress and failures come from the log. `rooms/home/test_degraded_home.py` tests how homes use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from engines import Engine

from kith.core.ids import ID_MAX
from kith.home.fanout.state import Delivery, FanoutState
from kith.home.timelines import RATE_MAX

PORT = "fanout_state"


@pytest.fixture
def state(engine: Engine, tmp_path: Path) -> Iterator[FanoutState]:
    """A state in which fan-out has not noted anything yet."""
    assert engine.fanout_state
    with engine.fanout_state(tmp_path) as opened:
        yield opened


def test_before_fan_out_ever_ran_nothing_is_noted(run: Run, state: FanoutState) -> None:
    noted = run(state.snapshot())
    assert (noted.progress, noted.name) == (None, None)
    assert (list(noted.deliveries), list(noted.failures), noted.withheld.authors.tolist()) == ([], [], [])
    assert noted.undelivered().tolist() == []


def test_a_withheld_author_keeps_the_highest_rate_and_is_never_dropped(run: Run, state: FanoutState) -> None:
    run(state.withhold({BOB: 8, ALICE: 64}))
    run(state.withhold({BOB: 4, CAROL: RATE_MAX}))
    run(state.withhold({BOB: 8, ALICE: 1, ID_MAX: 2}))
    withheld = run(state.snapshot()).withheld
    rates = [withheld.rate_of(author) for author in (ALICE, BOB, CAROL, 999, ID_MAX)]
    assert rates == [64, 8, RATE_MAX, 0, 2]
    assert withheld.at_least(9).tolist() == sorted([ALICE, CAROL])
    assert withheld.at_least(8).tolist() == sorted([ALICE, BOB, CAROL])
    assert withheld.at_least(RATE_MAX).tolist() == [CAROL]


def test_deliveries_are_listed_one_by_one_failed_ones_last(run: Run, state: FanoutState) -> None:
    first, other = Delivery(1 << 40, ALICE), Delivery(1 << 41, BOB, b"\0 there")
    run(state.deliver(other))
    run(state.deliver(first))
    assert list(run(state.snapshot()).deliveries) == [first, other]
    assert sorted(run(state.snapshot()).undelivered().tolist()) == sorted([ALICE, BOB])
    failed = first._replace(after=b"7", failures=1)
    run(state.deliver(failed))
    assert list(run(state.snapshot()).deliveries) == [other, failed]
    run(state.end_delivery(other.post))
    run(state.end_delivery(other.post))
    assert list(run(state.snapshot()).deliveries) == [failed]


def test_when_timelines_start_anew_no_delivery_is_under_way(run: Run, state: FanoutState) -> None:
    run(state.deliver(Delivery(5, ALICE)))
    run(state.withhold({BOB: 8}))
    run(state.reset(77))
    noted = run(state.snapshot())
    assert (list(noted.deliveries), noted.name) == ([], 77)
    assert noted.withheld.rate_of(BOB) == 8, "a home may still hold an earlier timeline"


def test_the_noted_state_is_there_for_the_next_process(run: Run, engine: Engine, tmp_path: Path) -> None:
    if not engine.keeps:
        pytest.skip("the state is in the memory of one process")
    assert engine.fanout_state
    with engine.fanout_state(tmp_path) as state:
        run(state.reset(77))
        run(state.deliver(Delivery(5, ALICE)))
        run(state.withhold({ALICE: 4}))
    with engine.fanout_state(tmp_path) as state:
        noted = run(state.snapshot())
        assert (list(noted.deliveries), noted.name) == ([Delivery(5, ALICE)], 77)
        assert noted.withheld.rate_of(ALICE) == 4


def test_a_snapshot_does_not_change_later(run: Run, state: FanoutState) -> None:
    run(state.deliver(Delivery(5, ALICE)))
    run(state.withhold({ALICE: 4}))
    before = run(state.snapshot())
    run(state.end_delivery(5))
    run(state.withhold({BOB: 4}))
    assert list(before.deliveries) == [Delivery(5, ALICE)]
    assert before.withheld.authors.tolist() == [ALICE]
