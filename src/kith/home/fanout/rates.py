"""The policy by rates: each pair of an author and a reader is decided by how often one posts and the other reads.

A push is paid once a post, a pull once a read. So a post is pushed to those who read more often than the author posts,
weighed by what a pull costs in pushes (Silberstein et al., "Feeding Frenzy", SIGMOD 2010). Rates are numbers in
READS_MS. Who gets a post is decided here; who must look up which authors follows from `withheld`.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from kith.core.ids import EPOCH_MS, TIME_SHIFT, made_at_ms
from kith.home.timelines import READS_MS, Habits, Ids

Flags = NDArray[np.bool_]

POSTS_LOOKED_AT = 64
"""Newest posts of an author that their rate is estimated from."""
READS_MIN = 0.25
"""Reads that whoever has a timeline is taken to make at least, so that of most authors no reader need be looked at."""
AGAIN = 4.0
"""By how much too often someone must read for what is withheld, to be worth a new timeline that lacks nothing."""


class ByRates(msgspec.Struct, frozen=True):
    """What a pull costs, in pushes: setting `fanout_pull_cost`."""

    pull_cost: float = 100.0


def rate_of(posts: Ids, now_ms: int) -> int:
    """Posts in READS_MS of an author whose newest POSTS_LOOKED_AT posts these are, newest first.

    Rounded up to a power of two, so that it seldom changes. Of those who post more than we look at, from the time
    that it took them; 1 at least.
    """
    age_ms = max(1, now_ms - made_at_ms(int(posts[-1]))) if len(posts) else READS_MS
    if len(posts) == POSTS_LOOKED_AT and age_ms < READS_MS:
        count = len(posts) * READS_MS // age_ms
    else:
        count = int(np.count_nonzero(posts >> TIME_SHIFT > now_ms - READS_MS - EPOCH_MS))
    return 1 << max(0, count - 1).bit_length()


def pushed_to_all(rate: int, policy: ByRates) -> bool:
    """Whether the author posts so seldom that every reader gets it."""
    return rate <= READS_MIN * policy.pull_cost


def worth_pushing(rate: int, reads: NDArray[np.float64], policy: ByRates) -> Flags:
    """For each reader, by their reads in READS_MS: should an author of this rate push to them?"""
    return np.maximum(reads, READS_MIN) * policy.pull_cost >= rate


def worth_making_anew(rate: int, habits: Habits, policy: ByRates) -> Flags:
    """For each reader: do they lack posts of authors of this rate, and read so often now that they no longer should?"""
    return (habits.lacks_from <= rate) & (habits.reads * policy.pull_cost >= AGAIN * rate)
