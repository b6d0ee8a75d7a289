"""The next step of a webhook delivery after each outcome of a try."""

from __future__ import annotations

import pytest

from kith.webhooks.next_step import (
    CHANGES_MAX,
    PAUSE_MS,
    PAUSE_MS_MAX,
    TRIES_MIN,
    WAIT_MS_MAX,
    DeliveryStanding,
    TryOutcome,
    changes_max,
    next_step,
    wait_ms,
)

NOW = 1_000_000_000
HOUR = 3_600_000
FAILED = TryOutcome(500, "it answered 500")
TRIED = DeliveryStanding(
    failures=TRIES_MIN - 1, since_ms=NOW - HOUR, next_try_ms=NOW, status=500, error="it answered 500"
)


def step(
    standing: DeliveryStanding, outcome: TryOutcome, chance: float = 1.0, give_up_ms: int = HOUR
) -> tuple[str, DeliveryStanding]:
    return next_step(standing, outcome, NOW, give_up_ms, chance)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
@pytest.mark.parametrize("standing", [DeliveryStanding(), TRIED, DeliveryStanding(gap=True)])
def test_an_accepted_delivery_is_done_and_clears_earlier_failures(standing: DeliveryStanding, status: int) -> None:
    assert step(standing, TryOutcome(status)) == ("next", DeliveryStanding(status=status))


@pytest.mark.parametrize("status", [None, 100, 301, 302, 308, 400, 401, 404, 410, 413, 429, 500, 503, 599])
def test_a_delivery_that_is_not_accepted_is_retried(status: int | None) -> None:
    verdict, standing = step(DeliveryStanding(), TryOutcome(status, "why"))
    assert verdict == "again"
    assert standing == DeliveryStanding(1, NOW, NOW + PAUSE_MS, status, "why")


@pytest.mark.parametrize(
    ("failures", "chance", "pause_ms"),
    [
        (0, 1.0, PAUSE_MS), (0, 0.0, PAUSE_MS // 2), (1, 1.0, 2 * PAUSE_MS), (4, 0.5, 12 * PAUSE_MS),
        (100, 1.0, PAUSE_MS_MAX), (10_000, 0.0, PAUSE_MS_MAX // 2),
    ],
)  # fmt: skip
def test_pauses_double_up_to_a_bound_and_half_of_each_is_random(failures: int, chance: float, pause_ms: int) -> None:
    verdict, standing = step(DeliveryStanding(failures, NOW, NOW), FAILED, chance)
    assert (verdict, standing.next_try_ms - NOW, standing.failures) == ("again", pause_ms, failures + 1)


@pytest.mark.parametrize(
    ("asked_s", "waited_ms"), [(0.1, PAUSE_MS), (90, 90_000), (10**9, WAIT_MS_MAX)], ids=["shorter", "longer", "absurd"]
)
def test_an_endpoint_may_ask_for_a_longer_pause(asked_s: float, waited_ms: int) -> None:
    _, standing = step(DeliveryStanding(), TryOutcome(503, "busy", asked_s))
    assert standing.next_try_ms - NOW == waited_ms


def test_a_delivery_is_given_up_after_its_time_and_a_minimum_of_tries() -> None:
    assert step(TRIED, FAILED) == ("give up", DeliveryStanding(status=500, error="it answered 500"))
    assert step(TRIED, FAILED, give_up_ms=HOUR + 1)[0] == "again"
    assert step(DeliveryStanding(TRIES_MIN - 2, NOW - 9 * HOUR), FAILED)[0] == "again"


def test_time_before_a_success_does_not_count() -> None:
    _, standing = step(TRIED, TryOutcome(200))
    assert step(standing, FAILED)[1].since_ms == NOW


def test_a_resting_host_does_not_count_as_a_try() -> None:
    verdict, standing = step(TRIED, TryOutcome(None, "it rests", 30, resting=True))
    assert (verdict, standing.failures, standing.status) == ("again", TRIED.failures, TRIED.status)
    assert (standing.resting, standing.next_try_ms) == (True, NOW + 30_000)


def test_a_gap_is_reported_until_a_delivery_is_accepted() -> None:
    gap = DeliveryStanding(TRIES_MIN, NOW - HOUR, NOW, gap=True)
    assert step(DeliveryStanding(gap=True), FAILED)[1].gap
    assert step(gap, FAILED) == ("give up", DeliveryStanding(status=500, error="it answered 500", gap=True))
    assert not step(gap, TryOutcome(204))[1].gap


def test_retried_deliveries_shrink_to_one_change() -> None:
    sizes = [changes_max(DeliveryStanding(failures)) for failures in range(40)]
    assert sizes[0] == CHANGES_MAX
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[TRIES_MIN - 1] == sizes[-1] == 1


@pytest.mark.parametrize(("next_try_ms", "waits_ms"), [(0, 0), (NOW - 5, 0), (NOW + 5, 5), (NOW + WAIT_MS_MAX + 1, 0)])
def test_the_wait_for_a_retry_ends_if_the_clock_was_put_back(next_try_ms: int, waits_ms: int) -> None:
    assert wait_ms(DeliveryStanding(1, NOW, next_try_ms), NOW) == waits_ms
