"""A sliding-window limit: at most `limit` requests in any window. The rule, and the port that stores the counts.

A window is divided into PARTS parts, and admitted requests are counted per part. The sum over the current part and the
PARTS before it is compared with the limit. So no window ever holds more than the limit, and a request counts for at
most one part longer than the window. One window after the last request all counts are zero, so nobody waits longer than
that. It takes a few numbers, whatever the limit.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

PARTS = 15
"""A part of a minute has 4 s, a part of an hour 4 minutes."""
EMPTY_WINDOW = (0,) * (PARTS + 1)
SKEW_S = 5.0
"""Largest difference between the clocks of processes, in seconds. A clock that is further back was set back. If two
clocks took turns at that, each request would move the counts on, out of the window. So on several machines no clock may
be further than half of this from the right time.
"""


class Quota(NamedTuple):
    """At most `limit` requests in any `window_s` seconds."""

    limit: int
    window_s: int


class Counts(NamedTuple):
    """Requests admitted during part `part` (counted from the epoch) and each of the parts before it, newest first."""

    part: int = 0
    counts: tuple[int, ...] = EMPTY_WINDOW
    last_s: float = 0.0  # when the last request was admitted, in seconds since the epoch


class TakeResult(NamedTuple):
    """Whether a request was admitted. `part`: the part that it was counted in. `wait_s`: 0 if it was admitted; else
    when to retry, in seconds.
    """

    part: int
    wait_s: float = 0.0


class QuotaUsage(NamedTuple):
    """How much of a quota a user has used."""

    user: int
    used: int


class QuotaStore(Protocol):
    """Stores the counts of all users, shared by all processes.

    Atomicity: concurrent `take` calls for a user see each other. Errors: none. If counts cannot be stored, or there are
    too many users, some counts are forgotten and more requests pass than the quota allows: refusing everybody would be
    worse.
    """

    immediate: bool  # answers without waiting, so running it beside other work gains nothing

    async def take(self, kind: int, user: int, quota: Quota, now_s: float) -> TakeResult:
        """Admit and count one request, if the quota has room. `kind`: which quota, from 0."""
        ...

    async def refund(self, kind: int, user: int, part: int) -> None:
        """Take back one request that was admitted during `part`."""
        ...

    async def fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[QuotaUsage]:
        """Up to `limit` users who have used `used_min` or more, highest use first. For operators.

        An engine may examine only some thousands of users, chosen arbitrarily.
        """
        ...


def take(window: Counts, quota: Quota, now_s: float) -> tuple[Counts, TakeResult]:
    """The counts after one more request, and its result."""
    width_s = quota.window_s / PARTS
    if window.last_s - SKEW_S < now_s < window.last_s:
        now_s = window.last_s
    window = _advanced(window, int(now_s / width_s), quota.window_s, now_s)
    over = sum(window.counts) - quota.limit
    if over < 0:
        return Counts(window.part, (window.counts[0] + 1, *window.counts[1:]), now_s), TakeResult(window.part)
    age = PARTS
    while over >= 0:  # find the part that must leave the window before there is room
        over -= window.counts[age]
        age -= 1
    passes_s = (window.part - age + PARTS) * width_s - now_s
    return window, TakeResult(window.part, max(min(passes_s, quota.window_s - (now_s - window.last_s)), 0.001))


def used(window: Counts, quota: Quota, now_s: float) -> int:
    """How many requests count against the limit now."""
    return sum(_advanced(window, int(now_s / (quota.window_s / PARTS)), quota.window_s, now_s).counts)


def refund(window: Counts, part: int) -> Counts:
    """The counts without one request of `part`, if it still counts."""
    age = window.part - part
    if not 0 <= age <= PARTS or not window.counts[age]:
        return window
    return window._replace(counts=(*window.counts[:age], window.counts[age] - 1, *window.counts[age + 1 :]))


def _advanced(window: Counts, part: int, window_s: int, now_s: float) -> Counts:
    """The counts moved on to `part`. If the clock was set back, they count as if admitted now; if it was set back by
    more than a window, counting starts over.
    """
    steps = part - window.part
    if steps < -PARTS or now_s - window.last_s >= window_s:
        return Counts(part)
    if now_s < window.last_s:
        return Counts(part, window.counts, now_s)
    if steps <= 0:
        return window
    return Counts(part, (*EMPTY_WINDOW[:steps], *window.counts[:-steps]), window.last_s)
