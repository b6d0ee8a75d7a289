"""What to do after an attempt to deliver: continue, retry later, or give up. Pure.

A failed delivery is retried for hours, after pauses that double. Later changes wait meanwhile, so that order holds.
Each retry halves the delivery, so that in the end only one change is given up and not its neighbours.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kith.core.backoff import pause_ms

CHANGES_MAX = 100
"""Changes in one delivery."""
PAUSE_MS, PAUSE_MS_MAX = 1_000, 3_600_000
"""First and longest pause between attempts."""
WAIT_MS_MAX = 24 * 3_600_000
"""Longest wait that an endpoint may ask for by Retry-After."""
TRIES_MIN = 8
"""Attempts before anything is given up: by then a delivery is one change."""


class DeliveryStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a webhook's deliveries. Times in ms since the epoch.

    `failures`: failed attempts in a row; the first was at `since_ms`. `status`, `error`: of the last attempt; `status`
    is null if there was no answer. `resting`: the last attempt was not made, because the host rests.
    `gap`: the log forgot changes before they were sent; the next delivery says so.
    """

    failures: int = 0
    since_ms: int = 0
    next_try_ms: int = 0
    status: int | None = None
    error: str = ""
    resting: bool = False
    gap: bool = False


class TryOutcome(NamedTuple):
    """The outcome of an attempt. `resting`: it was not made, because the host rests."""

    status: int | None
    error: str = ""
    retry_after_s: float = 0.0
    resting: bool = False

    @property
    def delivered(self) -> bool:
        """Whether the endpoint accepted the delivery."""
        return self.status is not None and 200 <= self.status < 300


class NextStep(NamedTuple):
    """What to do, and the state of deliveries from then on."""

    verdict: Literal["next", "again", "give up"]
    standing: DeliveryStanding


def next_step(standing: DeliveryStanding, outcome: TryOutcome, now_ms: int, give_up_ms: int, chance: float) -> NextStep:
    """Decide after an attempt. `give_up_ms`: how long one change may hold back others; `chance`: random, 0 to 1."""
    if outcome.delivered:
        return NextStep("next", DeliveryStanding(status=outcome.status))
    asked_ms = min(WAIT_MS_MAX, int(outcome.retry_after_s * 1000))
    if outcome.resting:
        waits = msgspec.structs.replace(standing, next_try_ms=now_ms + asked_ms, resting=True)
        return NextStep("again", waits)
    failures = standing.failures + 1
    since_ms = standing.since_ms if standing.failures else now_ms
    if failures >= TRIES_MIN and now_ms - since_ms >= give_up_ms:
        return NextStep("give up", DeliveryStanding(status=outcome.status, error=outcome.error, gap=standing.gap))
    wait_ms = max(pause_ms(failures, PAUSE_MS, PAUSE_MS_MAX, chance), asked_ms)
    return NextStep(
        "again",
        DeliveryStanding(failures, since_ms, now_ms + wait_ms, outcome.status, outcome.error, gap=standing.gap),
    )


def wait_ms(standing: DeliveryStanding, now_ms: int) -> int:
    """How long to wait before the next attempt. 0 if it is over WAIT_MS_MAX ahead: then the clock was set back."""
    ahead_ms = standing.next_try_ms - now_ms
    return ahead_ms if 0 < ahead_ms <= WAIT_MS_MAX else 0


def changes_max(standing: DeliveryStanding) -> int:
    """How many changes the next attempt may send; each failure halves it."""
    return max(1, CHANGES_MAX >> standing.failures)
