"""The policy by rates: a post is pushed to those followers who read more often than its author posts.

A push is paid once a post, a pull once a read, so both rates are compared, weighed by what a pull costs in pushes
(Silberstein et al., "Feeding Frenzy", SIGMOD 2010). A rate is a number of posts, or of reads, in RATE_WINDOW_MS. Only
pushes are decided here; which outboxes a home reads beside its timeline follows from `state.Withheld`.
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
"""Newest posts of an author that their rate is estimated from."""
READS_MIN = 0.25
"""Everyone with a timeline counts as reading at least this often; so most authors push to all of their followers."""
REBUILD_FACTOR = 4.0
"""Rebuild a timeline that lacks posts when its reader reads this many times break-even."""


class ByRates(msgspec.Struct, frozen=True):
    """What a pull costs, in pushes: setting `fanout_pull_cost`."""

    pull_cost: float = 100.0


def rate_of(posts: Ids, now_ms: int) -> int:
    """How many posts an author makes in RATE_WINDOW_MS, by their newest POSTS_LOOKED_AT posts, newest first.

    Rounded up to a power of two, so that it seldom changes; 1 at least. For an author who made more than we look at, it
    is estimated from the time that these took.
    """
    age_ms = max(1, now_ms - made_at_ms(int(posts[-1]))) if len(posts) else RATE_WINDOW_MS
    if len(posts) == POSTS_LOOKED_AT and age_ms < RATE_WINDOW_MS:
        count = len(posts) * RATE_WINDOW_MS // age_ms
    else:
        count = int(np.count_nonzero(posts >> TIME_SHIFT > now_ms - RATE_WINDOW_MS - EPOCH_MS))
    return 1 << max(0, count - 1).bit_length()


def pushed_to_all(rate: int, policy: ByRates) -> bool:
    """Whether an author posts so seldom that every timeline gets it."""
    return rate <= READS_MIN * policy.pull_cost


def worth_pushing(rate: int, reads: NDArray[np.float64], policy: ByRates) -> Flags:
    """For each reader, by their reads in RATE_WINDOW_MS: do they get the posts of an author of this rate pushed?"""
    return np.maximum(reads, READS_MIN) * policy.pull_cost >= rate


def worth_rebuilding(rate: int, habits: Habits, policy: ByRates) -> Flags:
    """For each reader: does their timeline lack posts of authors of this rate, and do they read it often enough now?"""
    return (habits.lacks_from <= rate) & (habits.reads * policy.pull_cost >= REBUILD_FACTOR * rate)
