"""How long to wait before something that failed is tried again."""

from __future__ import annotations

_DOUBLINGS_MAX = 40


def pause_ms(failures: int, first_ms: int, longest_ms: int, chance: float = 1.0) -> int:
    """The pause after so many failures in a row (1 or more): doubled with each, `longest_ms` at most.

    `chance`: random, 0 to 1, takes up to half of it, so that many who failed at once do not come again at once.
    """
    whole_ms = min(longest_ms, first_ms * 2 ** min(failures - 1, _DOUBLINGS_MAX))
    return int(whole_ms * (1 + chance) / 2)


def is_due(at_ms: int, now_ms: int, longest_ms: int) -> bool:
    """Whether it is time. What is further ahead than the longest pause was set before the clock was put back: it is."""
    return not 0 < at_ms - now_ms <= longest_ms
