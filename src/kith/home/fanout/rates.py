"""The fan-out policy by rates: pushes a post to the followers who read more often than its author posts.

A push costs once for each post and a pull once for each read. So the policy compares both rates, weighted by the cost
of a pull in pushes (Silberstein et al., "Feeding Frenzy", SIGMOD 2010). A rate is a number of posts, or of reads, in
RATE_WINDOW_MS. Only pushes are decided here; `state.Withheld` tells which outboxes home reads beside a timeline.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from kith.core.ids import EPOCH_MS, TIME_SHIFT, made_at_ms
from kith.graph.shapes import Ids
from kith.home.timelines import RATE_WINDOW_MS, Habits

Flags = NDArray[np.bool_]

POSTS_LOOKED_AT = 64
"""Newest posts of an author from which the rate is estimated."""
READS_MIN = 0.25
"""The least rate of reads assumed of a user with a timeline. So most authors push to all of their followers."""
REBUILD_FACTOR = 4.0
"""Rebuild a timeline that lacks posts when its reader reads this many times break-even."""


class ByRates(msgspec.Struct, frozen=True):
    """The cost of a pull, in pushes: setting `fanout_pull_cost`."""

    pull_cost: float = 100.0


def rate_of(posts: Ids, now_ms: int) -> int:
    """The author's posts in RATE_WINDOW_MS, from their newest POSTS_LOOKED_AT `posts`, newest first.

    Rounded up to a power of two, so that it seldom changes; at least 1. If the author made more posts than these in the
    window, the rate is extrapolated from the age of the oldest of these.
    """
    age_ms = max(1, now_ms - made_at_ms(int(posts[-1]))) if len(posts) else RATE_WINDOW_MS
    if len(posts) == POSTS_LOOKED_AT and age_ms < RATE_WINDOW_MS:
        count = len(posts) * RATE_WINDOW_MS // age_ms
    else:
        count = int(np.count_nonzero(posts >> TIME_SHIFT > now_ms - RATE_WINDOW_MS - EPOCH_MS))
    return 1 << max(0, count - 1).bit_length()


def pushes_to_all(rate: int, policy: ByRates) -> bool:
    """Whether an author of this rate posts so seldom that all followers get the post pushed."""
    return rate <= READS_MIN * policy.pull_cost


def worth_pushing(rate: int, reads: NDArray[np.float64], policy: ByRates) -> Flags:
    """For each reader, by their `reads` in RATE_WINDOW_MS: whether an author of this rate pushes to them."""
    return np.maximum(reads, READS_MIN) * policy.pull_cost >= rate


def worth_rebuilding(rate: int, habits: Habits, policy: ByRates) -> Flags:
    """For each reader: whether their timeline lacks posts of this rate, and they read often enough for a rebuild."""
    return (habits.withheld_rate_min <= rate) & (habits.reads * policy.pull_cost >= REBUILD_FACTOR * rate)
