"""The port of fan-out's state: its progress in the log, and which posts timelines may lack.

A timeline does not tell which posts it lacks. Home learns that here, in one call. Both engines implement the port in
`fanout_state`; the conformance suite compares them with `tests/reference_fanout_state.py`. `consumer` decides what is
written here, and `home.skeleton` how it is used.
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
"""Events on which fan-out failed. With more, home uses no timeline at all."""


class Delivery(NamedTuple):
    """A post that is being pushed. `after`: the checkpoint, where the next chunk of followers begins; None: at the
    start. `failures`: how many chunks failed; deliveries with fewer failures come first.
    """

    post: int
    author: int
    after: bytes | None = None
    failures: int = 0


class Withheld(NamedTuple):
    """Authors whose posts were withheld from some timelines, ascending, with the highest rate at which they were.

    A timeline has the lowest rate of the authors whose posts it lacks. So home also reads the outboxes of followed
    authors with that rate or a higher one: sometimes more than needed, never fewer. Rates only rise and no author is
    ever removed, because a timeline may still lack posts that were withheld before.
    """

    authors: Ids
    rates: Ids

    def rate_of(self, author: int) -> int:
        """The highest rate at which a post of the author was withheld; 0: none was."""
        at = int(np.searchsorted(self.authors, author))
        return int(self.rates[at]) if at < len(self.authors) and self.authors[at] == author else 0

    def at_least(self, lowest: int) -> Ids:
        """Authors whose rate is `lowest` or higher."""
        return self.authors[self.rates >= lowest]


class FanoutSnapshot(NamedTuple):
    """The state of fan-out at one moment."""

    progress: Progress | None  # how far it has handled the log, except `failures`; None: fan-out never ran
    name: int | None  # of the timelines that fan-out writes; None: it never wrote any
    deliveries: Sequence[Delivery]  # unfinished ones, fewest failures first, then oldest first
    withheld: Withheld
    failures: Sequence[Event]  # FAILURES_MAX + 1 at most

    def lag_s(self, now_ms: int) -> float:
        """Age of the oldest unhandled event, see `log.runner.Lag`; infinite if fan-out never ran."""
        return math.inf if self.progress is None else lag_of(self.progress.behind, now_ms).oldest_s

    def keeps(self, reader: int) -> bool:
        """Whether home may use the reader's timeline: fan-out failed on none of their changes, on no bulk load, and on
        FAILURES_MAX events at most."""
        failures = self.failures
        return len(failures) <= FAILURES_MAX and not any(
            one.source == reader or one.state == BULK_LOADED for one in failures
        )

    def undelivered(self) -> Ids:
        """Authors with a post that timelines may lack: it is being delivered, or fan-out failed on it."""
        return np.array([*(one.author for one in self.deliveries), *(one.source for one in self.failures)], np.int64)


class FanoutState(Protocol):
    """Stores a row for each delivery and each withheld author, so that several workers may write.

    Atomicity: per row. Order: a snapshot shows every earlier write. Durability: as `EdgeStore.apply`, since a home that
    does not know of a delivery would lack its post. Errors: `Unavailable`.
    """

    immediate: bool  # reads never wait, so running several concurrently gains nothing

    async def snapshot(self) -> FanoutSnapshot:
        """The whole state, in one call."""
        ...

    async def withhold(self, rates: Mapping[int, int]) -> None:
        """Note that posts of these authors are withheld from some timelines, at these rates. A rate only rises."""
        ...

    async def deliver(self, delivery: Delivery) -> None:
        """Store a new delivery, or its checkpoint. An older checkpoint is harmless: some pushes are repeated."""
        ...

    async def end_delivery(self, post: int) -> None:
        """Remove the delivery of a post: it is done."""
        ...

    async def reset(self, name: int) -> None:
        """Start over with the timelines of this name, all built from now on: remove every delivery."""
        ...
