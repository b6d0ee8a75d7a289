"""A sliding-window limit: at most `limit` requests in any window of time. The rule, and the port that keeps the counts.

A window is cut into PARTS, and requests let in are counted by part. The sum over the present part and the PARTS before
it is compared with the limit. So no window ever holds more than the limit, and a request counts for at most one part
longer than the window. One window after the last request nothing counts any more, so nobody waits longer. This takes a
few numbers, whatever the limit is.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

PARTS = 15
"""A part of a minute has 4 s, one of an hour 4 minutes."""
NOTHING = (0,) * (PARTS + 1)
SKEW_S = 1.0
"""Processes that ask at the same moment read clocks this far apart, at most; one further back was set back."""


class Quota(NamedTuple):
    """At most `limit` requests in any `window_s` seconds."""

    limit: int
    window_s: int


class Counts(NamedTuple):
    """What was let in during part `part` (counted from the epoch) and each part before it, newest first."""

    part: int = 0
    counts: tuple[int, ...] = NOTHING
    last_s: float = 0.0  # when the last one was let in, in seconds since the epoch


class Taken(NamedTuple):
    """Whether a request was let in. `part`: in which part it was counted. `wait_s`: 0 if it was, else in
    how many seconds to ask again.
    """

    part: int
    wait_s: float = 0.0


class Used(NamedTuple):
    """How much of a quota a user has used."""

    user: int
    used: int


class QuotaStore(Protocol):
    """Keeps the counts of all users, the same for all processes.

    Atomicity: one `take` of a user never overlooks another. Errors: none. Where counts cannot be kept, or the bound
    on users is met, some are forgotten and more is let in than the quota says: refusing everybody would be worse.
    """

    immediate: bool  # answers without waiting, so nothing is gained by asking beside something else

    async def take(self, kind: int, user: int, quota: Quota, now_s: float) -> Taken:
        """Let one in and count it, if the quota has room. `kind`: whose quota it is, from 0."""
        ...

    async def give_back(self, kind: int, user: int, part: int) -> None:
        """Take one back that was let in during `part`."""
        ...

    async def fullest(self, kind: int, quota: Quota, used_min: int, now_s: float, limit: int) -> list[Used]:
        """Up to `limit` users who have used `used_min` or more, those with the most first. For operators.

        An engine may look at some thousands of users only, any of them.
        """
        ...


def take(held: Counts, quota: Quota, now_s: float) -> tuple[Counts, Taken]:
    """The counts after asking for one more, and the answer."""
    width_s = quota.window_s / PARTS
    if held.last_s - SKEW_S < now_s < held.last_s:
        now_s = held.last_s
    held = _moved(held, int(now_s / width_s), quota.window_s, now_s)
    over = sum(held.counts) - quota.limit
    if over < 0:
        return Counts(held.part, (held.counts[0] + 1, *held.counts[1:]), now_s), Taken(held.part)
    age = PARTS
    while over >= 0:  # which part must pass until there is room
        over -= held.counts[age]
        age -= 1
    passes_s = (held.part - age + PARTS) * width_s - now_s
    return held, Taken(held.part, max(min(passes_s, quota.window_s - (now_s - held.last_s)), 0.001))


def used(held: Counts, quota: Quota, now_s: float) -> int:
    """How many are held against the limit now."""
    return sum(_moved(held, int(now_s / (quota.window_s / PARTS)), quota.window_s, now_s).counts)


def give_back(held: Counts, part: int) -> Counts:
    """The counts less one of `part`, if they still have it."""
    age = held.part - part
    if not 0 <= age <= PARTS or not held.counts[age]:
        return held
    return held._replace(counts=(*held.counts[:age], held.counts[age] - 1, *held.counts[age + 1 :]))


def _moved(held: Counts, part: int, window_s: int, now_s: float) -> Counts:
    """The counts as of now, in `part`. If the clock was set back, they count as if let in now; if by more than a
    window, counting starts over.
    """
    steps = part - held.part
    if steps < -PARTS or now_s - held.last_s >= window_s:
        return Counts(part)
    if now_s < held.last_s:
        return Counts(part, held.counts, now_s)
    if steps <= 0:
        return held
    return Counts(part, (*NOTHING[:steps], *held.counts[:-steps]), held.last_s)
