"""The port of home timelines: for each active user, the newest post ids that were pushed to them.

A timeline is a cache. A lost one is rebuilt from the outboxes of the accounts that its user follows, so engines keep
timelines in memory and do not sync them. A timeline knows nothing of posts beyond their ids, nor of blocks and
visibility.

A timeline is evicted in two cases: the store is full (`put` evicts the least recently read one), or it was not read for
`timeline_days` (a task of the worker `fanout` calls `evict`). `engines/embedded` and `engines/redis` implement the
port; the conformance suite compares them with `tests/reference_timelines.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids

"""One dimension of ids, each 0 to 2**63 - 1."""

TIMELINE_IDS_MAX = 500
"""Ids of a timeline. Older posts are read from the outboxes."""
BUILD_PUSHES = 28
"""Pushes buffered for a user while their timeline is built. One more cancels the build."""
RATE_WINDOW_MS = 7 * 86_400_000
"""Rates count posts, or reads, in this time."""
RATE_MAX = 2**62
"""Greater than every rate. As `withheld_rate_min` it means: the timeline lacks nothing."""


class Timeline(NamedTuple):
    """The posts that were pushed to a user."""

    ids: Ids  # last pushed first; a post pushed twice is here twice
    floor: int  # every pushed id above it is in `ids`; 0: no id was dropped at the cap
    withheld_rate_min: int  # the lowest rate of the authors whose posts were withheld from it; RATE_MAX: none were

    @property
    def needs_rebuild(self) -> bool:
        """Whether too few ids are above the floor, so that a rebuild pays. Pushes of old ids cause this."""
        return self.floor > 0 and int(np.count_nonzero(self.ids > self.floor)) < TIMELINE_IDS_MAX // 4


class Habits(NamedTuple):
    """How often some users read, in columns, one row a user."""

    reads: NDArray[np.float64]  # reads of their timeline in RATE_WINDOW_MS, estimated; -1: no timeline
    withheld_rate_min: Ids  # as in Timeline; 0: no timeline


class TimelineReader(Protocol):
    """Reads timelines, in any process, also while others write.

    Order: last pushed first. Atomicity: a read returns a list that the user really had, never a torn one and never
    another user's. During a push the oldest few ids may be missing; while a timeline is replaced, `read` may return
    None. Errors: `Unavailable`. If no store exists, nobody has a timeline.
    """

    immediate: bool  # calls never wait, so running several concurrently gains nothing

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        """The user's timeline; None if there is none.

        `withheld_rate_min` covers every post that was withheld before the call and is not in `ids`. If nothing changed,
        the same object as before may be returned. `by_user`: the user reads home now, so the read counts for eviction.
        """
        ...

    async def count(self) -> int:
        """How many users have a timeline."""
        ...

    def users(self) -> AsyncIterator[list[int]]:
        """The users who have a timeline, in batches, each once. One gained or lost meanwhile may be left out."""
        ...

    async def name(self) -> int:
        """The name that `rename` gave these timelines; 0 if there are none."""
        ...

    def close(self) -> None:
        """Release the memory. A later call opens the store again."""
        ...


class TimelineStore(TimelineReader, Protocol):
    """Writes timelines. Several writers may change the same timelines at once.

    Order: `push` puts a post before everything the timeline holds. Repetition: a post that is pushed twice is in the
    list twice and counts twice towards the cap. Atomicity: a push is atomic per user, and concurrent pushes lose
    nothing. If a push is cut short (a killed process), some users have the post and others do not; repeating it is
    safe. Durability: none; a restart of the machine may lose every timeline. Errors: `Unavailable`; `StoreFull` from
    `put` if there is no room for even one timeline, with none changed.

    Building a timeline takes three steps: `begin`, then reading outboxes, then `put`. Changes in between are not lost:
    `put` adds what was pushed or withheld since `begin`. If the timeline was dropped meanwhile, the outboxes may have
    been read too early, so `put` changes nothing.
    """

    async def push(self, post: int, users: Ids) -> int:
        """Push a post to the `users` who have a timeline; returns how many. No user may occur twice."""
        ...

    async def habits(self, users: Ids) -> Habits:
        """How often these users read, in the order of `users`."""
        ...

    async def withhold(self, rate: int, users: Ids) -> None:
        """Note in the timelines of these users that they lack a post of an author with this rate."""
        ...

    async def begin(self, user: int) -> int:
        """Begin to build the user's timeline; returns the epoch for `put`. Cancels an earlier build."""
        ...

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        """Replace the user's timeline by these ids, newest first, after what was pushed since `begin`.

        False, with nothing changed, if the build of this epoch was cancelled: by `drop`, `clear`, a later `begin`, or
        more than BUILD_PUSHES pushes.

        The timeline lacks only what was withheld since `begin`. If there are fewer ids than the cap, no older posts
        exist. Ids beyond the cap are dropped. A new timeline counts as read once; a replaced one keeps its count. If
        the store is full, the least recently read timeline is evicted.
        """
        ...

    async def drop(self, users: Ids) -> int:
        """Drop these timelines and cancel their builds; returns how many there were. No user may occur twice."""
        ...

    async def clear(self) -> None:
        """Drop every timeline and cancel every build."""
        ...

    async def rename(self) -> int:
        """Give this set of timelines a new random name that no other set has; returns it."""
        ...

    async def evict(self, before_ms: int) -> int:
        """Drop the timelines last read before `before_ms` (ms since the epoch); returns how many."""
        ...
