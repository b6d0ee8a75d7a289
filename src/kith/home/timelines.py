"""The port behind home timelines: for each active user, the newest post ids that were pushed to them.

A timeline is a cache: one that is lost is built again from the outboxes of those whom the user follows, so engines
keep it in memory and sync nothing. Posts, blocks and visibility are not known here.

A timeline is evicted in two cases: the store is full (`put` takes the one not read for longest), or it was not read for
`timeline_days` (a task of the worker `fanout` calls `evict`). Implemented by `engines/embedded` and `engines/redis`,
held to `tests/reference_timelines.py` by the conformance suite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids

"""One dimension of ids, each 0 to 2**63 - 1."""

TIMELINE_IDS_MAX = 500
"""How many of the newest pushes a timeline remembers; further back the outboxes take over."""
BUILD_PUSHES = 28
"""Pushes that are kept for a user while their timeline is built; of one more the build is given up."""
RATE_WINDOW_MS = 7 * 86_400_000
"""A rate is how many posts, or reads, in this time."""
RATE_MAX = 2**62
"""Above every rate. As `lacks_from`: the timeline lacks nothing."""


class Timeline(NamedTuple):
    """What was pushed to a user."""

    ids: Ids  # newest pushed first; one that was pushed again is there again
    floor: int  # all greater ids that were pushed are here, in whatever order they came; 0: none was pushed out
    lacks_from: int  # the lowest rate of authors whose posts were withheld from it; RATE_MAX if none were

    @property
    def needs_rebuild(self) -> bool:
        """Whether so few of its ids are above its floor that it is better built again. Pushes of old ids do that."""
        return self.floor > 0 and int(np.count_nonzero(self.ids > self.floor)) < TIMELINE_IDS_MAX // 4


class Habits(NamedTuple):
    """How some users read, in columns, a row a user."""

    reads: NDArray[np.float64]  # about how often their timeline was read in RATE_WINDOW_MS; -1: they have none
    lacks_from: Ids  # as in Timeline; 0 where there is none


class TimelineReader(Protocol):
    """What every process may do, also while others write.

    Order: newest pushed first. Atomicity: a list is one that the user really had, never torn and never
    another user's; of a list that is being pushed to, the oldest few may be missing. An answer "no timeline"
    may be given while a timeline is being replaced. Errors: `Unavailable`; where there is no store at all, nobody has a
    timeline.
    """

    immediate: bool  # calls answer without waiting, so nothing is gained by making several together

    async def read(self, user: int, *, by_user: bool = False) -> Timeline | None:
        """The user's timeline; None if there is none.

        What was withheld before the call and is not in `ids` is covered by `lacks_from`. Where nothing changed it may
        be the very object that was answered before. `by_user`: the user reads it now, which is noted; the timeline that
        its user did not read for longest is evicted first.
        """
        ...

    async def count(self) -> int:
        """How many users have a timeline."""
        ...

    def users(self) -> AsyncIterator[list[int]]:
        """Who has a timeline, some at a time; nobody twice. Those who get or lose theirs meanwhile may be left out."""
        ...

    async def name(self) -> int:
        """The name that `rename` gave these timelines; 0 where there are none."""
        ...

    def close(self) -> None:
        """Give the memory back. A later call opens what is there then."""
        ...


class TimelineStore(TimelineReader, Protocol):
    """What writers may do besides: several at once, of the same timelines.

    Order: `push` puts a post before all that the timeline holds. Repetition: a post that is pushed again is there
    again, and counts towards the cap again. Atomicity: a push is whole per user, and none is lost whoever pushes at the
    same time; when a push is cut short (a killed process) some users have the post and the others do not, and repeating
    it is safe. Durability: none beyond the process; a restart of the machine may lose every timeline. Errors:
    `Unavailable`; `StoreFull` from `put`, with no timeline changed, if there is no room for even one.

    A timeline is built in three steps: `begin`, then reading outboxes, then `put`. What others do to the user's
    timeline in between is not lost: `put` adds what was pushed or withheld since `begin`, and changes nothing where the
    timeline was dropped, since then what was read may be out of date.
    """

    async def push(self, post: int, users: Ids) -> int:
        """Give one post to those of `users` who have a timeline; how many got it. No user may occur twice."""
        ...

    async def habits(self, users: Ids) -> Habits:
        """How these users read, in the order of `users`."""
        ...

    async def withhold(self, rate: int, users: Ids) -> None:
        """Note that the timelines of these users lack a post of an author of this rate."""
        ...

    async def begin(self, user: int) -> int:
        """Begin to build the user's timeline; the epoch for `put`. A build that was begun before is given up."""
        ...

    async def put(self, user: int, ids: Ids, epoch: int) -> bool:
        """Give the user a timeline of these ids, newest first, in place of any before; it counts as read.

        Before them stands what was pushed since `begin`. False, with nothing changed, if the build of this epoch was
        given up: by `drop`, `clear`, a later `begin`, or because more than BUILD_PUSHES posts were pushed.

        The timeline lacks what was withheld since `begin`, and else nothing: if the ids are fewer than the cap, there
        are no others. Ids beyond the cap are left out. A new timeline counts as read once; one that replaces another
        adds no read. If all places are taken, or there is no room for more, the timeline that was not read for longest
        is evicted.
        """
        ...

    async def drop(self, users: Ids) -> int:
        """Take these timelines away, and give up their builds; how many there were. No user may occur twice."""
        ...

    async def clear(self) -> None:
        """Take every timeline away, and give up every build."""
        ...

    async def rename(self) -> int:
        """Give these timelines a new random name, which no others have, and return it."""
        ...

    async def evict(self, before_ms: int) -> int:
        """Take away the timelines last read before then (ms since the epoch); how many."""
        ...
