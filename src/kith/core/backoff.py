"""Exponential backoff: how long to wait before a retry."""

from __future__ import annotations

_DOUBLINGS_MAX = 40


def pause_ms(failures: int, first_ms: int, longest_ms: int, chance: float = 1.0) -> int:
    """The pause after this many failures in a row (1 or more): doubled with each, at most `longest_ms`.

    `chance`: random, 0 to 1; it removes up to half of the pause, so that callers that failed together do not retry
    together.
    """
    whole_ms = min(longest_ms, first_ms * 2 ** min(failures - 1, _DOUBLINGS_MAX))
    return int(whole_ms * (1 + chance) / 2)


def is_due(at_ms: int, now_ms: int, longest_ms: int) -> bool:
    """Whether a retry planned for `at_ms` is due. A time further ahead than the longest pause was set before the clock
    was set back, so it counts as due.
    """
    return not 0 < at_ms - now_ms <= longest_ms
