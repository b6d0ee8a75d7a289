"""What follows from the outcome of a try: go on, try again later, or give up. Pure.

A delivery that fails is tried again after pauses that double, for hours; meanwhile what follows waits, so that order
holds. It shrinks with each try, so that what is given up in the end is one change and not its neighbours.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kith.core.backoff import pause_ms

CHANGES_MAX = 100
"""Changes in a delivery."""
PAUSE_MS, PAUSE_MS_MAX = 1_000, 3_600_000
"""First and longest pause between tries."""
WAIT_MS_MAX = 24 * 3_600_000
"""Longest wait that an endpoint may ask for by Retry-After."""
TRIES_MIN = 8
"""Tries before anything is given up: by then it is one change."""


class DeliveryStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the deliveries of a webhook stand. Times in ms since the epoch.

    `failures`: tries in a row that failed, the first of them at `since_ms`; `status` and `error`: of the last try, null
    if there was no answer; `resting`: it was not made, as the host rests. `gap`: changes were forgotten before they
    were told, which the next delivery says.
    """

    failures: int = 0
    since_ms: int = 0
    next_try_ms: int = 0
    status: int | None = None
    error: str = ""
    resting: bool = False
    gap: bool = False


class TryOutcome(NamedTuple):
    """What became of a try. `resting`: it was not made."""

    status: int | None
    error: str = ""
    retry_after_s: float = 0.0
    resting: bool = False

    @property
    def delivered(self) -> bool:
        """Whether the endpoint has it."""
        return self.status is not None and 200 <= self.status < 300


class NextStep(NamedTuple):
    """What to do, and how the deliveries stand from then on."""

    verdict: Literal["next", "again", "give up"]
    standing: DeliveryStanding


def next_step(standing: DeliveryStanding, outcome: TryOutcome, now_ms: int, give_up_ms: int, chance: float) -> NextStep:
    """What follows. `give_up_ms`: for how long one change may hold back others; `chance`: random, 0 to 1."""
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
    """How long to wait before the next try. One further ahead than any was set before the clock was put back: none."""
    ahead_ms = standing.next_try_ms - now_ms
    return ahead_ms if 0 < ahead_ms <= WAIT_MS_MAX else 0


def changes_max(standing: DeliveryStanding) -> int:
    """How many changes the next try may have."""
    return max(1, CHANGES_MAX >> standing.failures)
