"""The port behind what fan-out keeps for homes: how far it is, and what timelines may lack.

A timeline alone does not tell what it lacks; a home finds that here, in one call for all of it. Implemented by
`fanout_state` of both engines; the conformance suite compares each with `tests/reference_fanout_state.py`. Which events
and posts are noted is for `consumer` to say, and what a home makes of them for `home.skeleton`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kith.core.events import BULK_LOADED, Event
from kith.graph.shapes import Ids
from kith.log.runner import lag_of
from kith.log.store import Progress

FAILURES_MAX = 100
"""Events that fan-out failed on; beyond it nobody's timeline is relied on."""


class Delivery(NamedTuple):
    """A post that is being pushed. `after` is its checkpoint: where the next chunk of followers begins; None: first.

    `failures`: how often a chunk of it failed; those that failed less often come first.
    """

    post: int
    author: int
    after: bytes | None = None
    failures: int = 0


class Withheld(NamedTuple):
    """Authors whose posts were withheld from some timelines, ascending; each with the highest rate at which they were.

    A timeline knows the lowest rate of the authors whose posts it lacks. So its home reads beside it the outboxes of
    the followed authors with that rate or a higher one: perhaps more than needed, never fewer. Rates only rise and no
    author ever leaves, because a timeline may still lack what was withheld before.
    """

    authors: Ids
    rates: Ids

    def rate_of(self, author: int) -> int:
        """The highest rate at which a post of the author was withheld; 0 if none was."""
        at = int(np.searchsorted(self.authors, author))
        return int(self.rates[at]) if at < len(self.authors) and self.authors[at] == author else 0

    def at_least(self, lowest: int) -> Ids:
        """Authors whose rate is `lowest` or higher."""
        return self.authors[self.rates >= lowest]


class FanoutSnapshot(NamedTuple):
    """What fan-out has noted, all of one moment."""

    progress: Progress | None  # how far it has handled the log, but for `failures`; None: fan-out never ran
    name: int | None  # of the timelines that fan-out keeps; None before it ever did
    deliveries: Sequence[Delivery]  # under way: what failed least often comes first, and of that the oldest
    withheld: Withheld
    failures: Sequence[Event]  # FAILURES_MAX + 1 at most

    def lag_s(self, now_ms: int) -> float:
        """Age of the oldest event not handled, see `log.runner.Lag`; infinite if fan-out never ran."""
        return math.inf if self.progress is None else lag_of(self.progress.behind, now_ms).oldest_s

    def keeps(self, reader: int) -> bool:
        """Whether the reader's timeline is kept up: fan-out failed on none of their changes, no bulk load, and on few
        events altogether."""
        failures = self.failures
        return len(failures) <= FAILURES_MAX and not any(
            one.source == reader or one.state == BULK_LOADED for one in failures
        )

    def undelivered(self) -> Ids:
        """Authors of whom no timeline need have everything: a post is being delivered, or fan-out failed on it."""
        return np.array([*(one.author for one in self.deliveries), *(one.source for one in self.failures)], np.int64)


class FanoutState(Protocol):
    """A row for each delivery and each withheld author, so that several workers may write.

    Atomicity: each row. Order: a snapshot shows what was written before it was asked for. Durable like
    `EdgeStore.apply`, since a home that does not know of a delivery lacks its post. Errors: `Unavailable`.
    """

    immediate: bool  # reads answer without waiting, so nothing is gained by making several together

    async def snapshot(self) -> FanoutSnapshot:
        """All of it, in one call."""
        ...

    async def withhold(self, rates: Mapping[int, int]) -> None:
        """Note that posts of these authors are withheld from some timelines, at these rates: a rate only rises."""
        ...

    async def deliver(self, delivery: Delivery) -> None:
        """Note a delivery that begins, or how far it is. An older checkpoint does no harm: some pushes are repeated."""
        ...

    async def end_delivery(self, post: int) -> None:
        """A post is delivered."""
        ...

    async def begin_anew(self, name: int) -> None:
        """Start over with the timelines of this name, all of them made from now on: nothing is being delivered."""
        ...
