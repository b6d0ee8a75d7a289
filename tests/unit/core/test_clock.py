"""Versions always grow, even if the clock stands still, goes back, or is behind after a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from cast import START_MS, FakeClock
from hypothesis import given
from hypothesis import strategies as st

from kith.core.clock import HLC_MAX, MS_MAX, SKEW_MS_MAX, Hlc, HybridClock, hlc_of, ms_of
from kith.core.errors import ClockTooFarAhead


@given(st.lists(st.integers(-100_000, 100_000), max_size=50))
def test_versions_grow_whatever_the_machine_clock_does(jumps: list[int]) -> None:
    now = FakeClock()
    clock, last = HybridClock(now), 0
    for jump in jumps:
        now.ms += jump
        version = clock.next()
        assert version > last
        assert ms_of(version) >= now.ms
        last = version


def test_versions_of_one_millisecond_count_up(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)
    assert [hybrid.next() - hlc_of(START_MS) for _ in range(4)] == [0, 1, 2, 3]


def test_when_the_clock_goes_back_versions_continue_from_the_last_one(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)
    before = hybrid.next()
    clock.ms -= 3_600_000
    assert hybrid.next() == before + 1
    clock.ms += 3_600_001
    assert hybrid.next() == hlc_of(START_MS + 1)


def test_more_versions_than_a_millisecond_has_borrow_from_the_next(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)
    hybrid.observe(hlc_of(START_MS, 0xFFFF))
    assert hybrid.next() == hlc_of(START_MS + 1)
    clock.ms += 1
    assert hybrid.next() == hlc_of(START_MS + 1, 1)


def test_a_batch_of_versions_equals_single_ones(clock: FakeClock) -> None:
    many, singly = HybridClock(clock), HybridClock(clock)
    for count in (3, 0, 1, 70_000):
        assert list(many.next_many(count)) == [singly.next() for _ in range(count)]
        clock.ms += 1
    assert many.next() == singly.next()


def test_the_next_version_exceeds_every_observed_one(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)
    theirs = hlc_of(START_MS + SKEW_MS_MAX, 7)
    hybrid.observe(theirs)
    assert hybrid.next() == theirs + 1
    hybrid.observe(hlc_of(1))
    assert hybrid.next() == theirs + 2


@pytest.mark.parametrize("ahead_ms", [SKEW_MS_MAX + 1, 10**9, MS_MAX - START_MS], ids="{} ms".format)
def test_a_version_from_the_far_future_is_refused_and_moves_no_clock(clock: FakeClock, ahead_ms: int) -> None:
    hybrid = HybridClock(clock)
    hybrid.observe(hlc_of(START_MS + ahead_ms))
    with pytest.raises(ClockTooFarAhead) as raised:
        hybrid.check_ahead(hlc_of(START_MS + ahead_ms))
    assert raised.value.details == {"aheadMs": ahead_ms, "maxMs": SKEW_MS_MAX}
    assert hybrid.next() == hlc_of(START_MS)


def test_a_version_at_the_bound_is_accepted_and_the_past_always(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)
    for ms in (START_MS + SKEW_MS_MAX, START_MS, 0):
        hybrid.check_ahead(hlc_of(ms, 0xFFFF))


def test_restore_continues_after_the_stored_version_however_far_ahead_it_is(clock: FakeClock) -> None:
    stored = HybridClock(clock).next()
    clock.ms -= 10 * 365 * 86_400_000
    restarted = HybridClock(clock)
    restarted.restore(stored)
    assert restarted.next() == stored + 1
    restarted.restore(hlc_of(1))
    assert restarted.next() == stored + 2


def test_threads_never_get_the_same_version(clock: FakeClock) -> None:
    hybrid = HybridClock(clock)

    def take(_: int) -> list[Hlc]:
        return [hybrid.next() for _ in range(2_000)]

    with ThreadPoolExecutor(4) as pool:
        taken = [version for part in pool.map(take, range(4)) for version in part]
    assert len(set(taken)) == 8_000


@given(st.integers(0, MS_MAX), st.integers(0, 0xFFFF))
def test_a_version_consists_of_milliseconds_and_a_counter(ms: int, counter: int) -> None:
    version = hlc_of(ms, counter)
    assert ms_of(version) == ms
    assert version & 0xFFFF == counter
    assert version <= HLC_MAX < 2**62
