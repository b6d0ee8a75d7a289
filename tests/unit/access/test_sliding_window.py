"""Sliding windows admit at most the limit in any window, and exactly after the wait that a refusal names."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kith.access.sliding_window import PARTS, Counts, Quota, refund, take

POSTS = Quota(10, 3_600)
NOW_S = 1_700_000_000.5


def admitted_at(quota: Quota, times_s: list[float]) -> list[float]:
    """The times at which a request was admitted."""
    held, passed = Counts(), []
    for now_s in times_s:
        held, taken = take(held, quota, now_s)
        if not taken.wait_s:
            passed.append(now_s)
    return passed


def test_at_one_moment_exactly_the_limit_is_admitted() -> None:
    assert len(admitted_at(POSTS, [NOW_S] * 30)) == 10


@given(
    steps=st.lists(st.floats(0, 2_000, allow_nan=False), min_size=1, max_size=80),
    limit=st.integers(1, 12),
    window_s=st.sampled_from([60, 3_600]),
)
def test_no_window_exceeds_the_limit_and_each_refusal_is_due_to_a_full_window(
    steps: list[float], limit: int, window_s: int
) -> None:
    quota, now_s, held = Quota(limit, window_s), NOW_S, Counts()
    passed: list[float] = []
    for step in steps:
        now_s += step * window_s / 3_600
        held, taken = take(held, quota, now_s)
        within = [one for one in passed if one > now_s - window_s]
        if not taken.wait_s:
            passed.append(now_s)
            assert len(within) < limit
        else:
            counted = [one for one in passed if one > now_s - window_s * (PARTS + 1) / PARTS - 1e-6]
            assert len(counted) >= limit, "requests older than a window and one part no longer count"


@pytest.mark.parametrize("seed", range(20), ids="seed-{}".format)
def test_a_retry_after_the_named_wait_is_admitted_and_an_earlier_one_is_not(seed: int) -> None:
    chosen = random.Random(seed)
    quota, held, now_s = Quota(chosen.randrange(1, 20), chosen.choice((60, 3_600))), Counts(), NOW_S
    for _ in range(200):
        now_s += chosen.random() * quota.window_s / quota.limit / 2
        held, taken = take(held, quota, now_s)
        if taken.wait_s:
            assert 0 < taken.wait_s <= quota.window_s
            if taken.wait_s > 0.01:
                assert take(held, quota, now_s + taken.wait_s - 0.005)[1].wait_s
            assert not take(held, quota, now_s + taken.wait_s + 0.000_001)[1].wait_s


def test_a_place_that_is_given_back_can_be_taken_once() -> None:
    held, taken = Counts(), None
    for _ in range(10):
        held, taken = take(held, POSTS, NOW_S)
    assert taken is not None
    later_s = NOW_S + 700
    held, refused = take(held, POSTS, later_s)
    assert refused.wait_s
    held = refund(held, taken.part)
    held, again = take(held, POSTS, later_s)
    assert not again.wait_s
    assert take(held, POSTS, later_s)[1].wait_s
    assert refund(held, taken.part - PARTS - 5) is held
    assert refund(held, taken.part + 5) is held


def test_a_clock_that_goes_back_neither_raises_the_limit_nor_blocks_forever() -> None:
    held = Counts()
    for _ in range(10):
        held, _ = take(held, POSTS, NOW_S)
    held, taken = take(held, POSTS, NOW_S - 1_800)
    assert 0 < taken.wait_s <= 3_600
    assert not take(held, POSTS, NOW_S - 1_800 + taken.wait_s + 0.001)[1].wait_s
    held, taken = take(held, POSTS, NOW_S - 10 * 3_600)
    assert not taken.wait_s, "after a clock was set back by hours, counting restarts"


@pytest.mark.parametrize("apart_s", [0.5, 1.5, 3.0, 4.999])
def test_processes_whose_clocks_differ_share_one_quota(apart_s: float) -> None:
    quota, chosen, held = Quota(20, 60), random.Random(apart_s), Counts()
    passed_s: list[float] = []
    for turn in range(2_000):
        now_s = NOW_S + turn / 5
        held, taken = take(held, quota, now_s + chosen.choice((0, apart_s)))
        if not taken.wait_s:
            passed_s.append(now_s)
        window_s = quota.window_s - apart_s
        assert len([one for one in passed_s if one > now_s - window_s]) <= quota.limit
    assert len(passed_s) > 100


def test_a_lowered_limit_applies_to_requests_already_counted() -> None:
    held = Counts()
    for at in range(10):
        held, _ = take(held, POSTS, NOW_S + at * 300)
    refused = take(held, Quota(3, 3_600), NOW_S + 3_000)[1]
    assert refused.wait_s
    assert not take(held, Quota(3, 3_600), NOW_S + 3_000 + refused.wait_s + 0.001)[1].wait_s
