"""Versions of edges and records: a hybrid logical clock, 48 bits of milliseconds and 16 of counter.

Values strictly grow, even if the machine's clock stands still or goes back, and stay above every observed value. So two
hosts with skewed clocks still agree on which write came last. Source: Kulkarni et al., "Logical Physical Clocks"
(2014).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NewType

from kith.core.errors import ClockTooFarAhead

Hlc = NewType("Hlc", int)

COUNTER_BITS = 16
_COUNTER_MASK = (1 << COUNTER_BITS) - 1
MS_MAX = (1 << 46) - 1
"""The greatest accepted millisecond (year 4199). It leaves two of the 48 bits free, in which engines store the
state.
"""
HLC_MAX = (MS_MAX << COUNTER_BITS) | _COUNTER_MASK
SKEW_MS_MAX = 60_000
"""How many ms a caller's version may be ahead of our clock. A version further ahead would win every merge until
then.
"""


def wall_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def hlc_of(ms: int, counter: int = 0) -> Hlc:
    """The clock value of `ms` since the epoch."""
    return Hlc((ms << COUNTER_BITS) | counter)


def ms_of(value: int) -> int:
    """The milliseconds part of a clock value."""
    return value >> COUNTER_BITS


class HybridClock:
    """Makes strictly growing values. Thread-safe. `now_ms` is injected, so that tests control the time."""

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self._now_ms = now_ms
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> Hlc:
        """A value greater than all values made or observed before."""
        with self._lock:
            self._last = max(self._last + 1, self._now_ms() << COUNTER_BITS)
            return Hlc(self._last)

    def next_many(self, count: int) -> range:
        """`count` values (`Hlc`), ascending; see `next`."""
        with self._lock:
            first = max(self._last + 1, self._now_ms() << COUNTER_BITS)
            self._last = first + count - 1
        return range(first, first + count)

    def observe(self, value: int) -> None:
        """Make only values above `value`, which another host made, from now on.

        A value more than SKEW_MS_MAX ahead of this clock is ignored, because no host's clock is that far ahead.
        """
        if ms_of(value) - self._now_ms() <= SKEW_MS_MAX:
            with self._lock:
                self._last = max(self._last, value)

    def restore(self, value: int) -> None:
        """Continue above the last value that this store has, even if the machine's clock went back since."""
        with self._lock:
            self._last = max(self._last, value)

    def check_ahead(self, value: int) -> None:
        """ClockTooFarAhead if `value` is more than SKEW_MS_MAX in the future."""
        ahead_ms = ms_of(value) - self._now_ms()
        if ahead_ms > SKEW_MS_MAX:
            raise ClockTooFarAhead(
                f"updatedAt is {ahead_ms} ms in the future (at most {SKEW_MS_MAX} is accepted); "
                "check the sender's clock, or leave updatedAt out",
                aheadMs=ahead_ms,
                maxMs=SKEW_MS_MAX,
            )
