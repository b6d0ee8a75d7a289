"""The ports behind consumers: what every engine that keeps the event log must do.

A log is one list of events, or several (partitions) of which each has an order of its own. So a place in it is an
opaque `LogPosition`; only the engine compares two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from kith.core.events import Event, LogPosition


class Fenced(Exception):
    """Another worker of the group has taken over; it handles what this one read and did not save."""


class Failure(msgspec.Struct, frozen=True):
    """An event that a group could not handle. It is retried at `next_try_ms`; if `dead`, it waits for a person."""

    group: str
    event: Event
    tries: int
    error: str
    failed_at_ms: int
    next_try_ms: int
    dead: bool = False


class Bell(Protocol):
    """Rings when events are appended, by whichever process. Read the log after each ring: none is missed."""

    async def rung(self, within_s: float) -> None:
        """Wait until it has rung since the last time, `within_s` at most. One task at a time waits."""
        ...


class Batch(NamedTuple):
    """What was read of a log: events that follow some position, and the position after them.

    `lost`: events in between were forgotten before they were read; a consumer that needs them rebuilds from the stores.
    """

    events: Sequence[Event]
    next: LogPosition
    lost: bool = False


class Backlog(NamedTuple):
    """What follows some position. `end`: of the log now. `events`: how many there are to read up to it, about.

    `oldest_ms`: when the first of them was logged; None where there is none, or where it was forgotten (`lost`).
    """

    end: LogPosition
    events: int
    oldest_ms: int | None
    lost: bool = False


class Progress(NamedTuple):
    """The checkpoint of a group, up to which all events are done but for its failures; and what follows it."""

    at: LogPosition
    behind: Backlog


class LogLease(NamedTuple):
    """Events after `at` are kept for `name` until `until_ms`. `lost`: it ended, or some of them were forgotten."""

    name: str
    at: LogPosition
    until_ms: int
    lost: bool


LEASES_MAX = 100
"""Leases of one log."""


class Subscription(Protocol):
    """One worker's share of a group: the partitions that are its own now, read from the checkpoint of each on.

    The engine divides the partitions of the log among the open subscriptions of a group, and may hand one over at any
    time, to whoever opens a subscription above all. The new owner reads on from what was saved, so what the old one
    handled and did not save comes twice, and nothing is left out. The old one can save nothing of it any more.
    """

    async def read(self, limit: int) -> Batch:
        """The next events of its partitions, `limit` at most; each partition's in their order.

        None come twice until `save` is refused; then it reads on from the checkpoint. `next`: what to save once these
        events and all those read before are handled; NOWHERE while no partition is its own. Where nothing was ever
        saved of a partition, reading begins at its end, and `lost` is true.
        """
        ...

    async def failures(self) -> Sequence[Failure]:
        """The failures of events of its partitions."""
        ...

    async def save(self, at: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        """Move the checkpoint to `at` (None: leave it); set failures by their event's position, or remove them (None).

        All or nothing. Fenced, if a partition that was read here was handed over since.
        """
        ...

    async def close(self) -> None:
        """Hand all partitions over."""
        ...


class LogStore(Protocol):
    """Events, and the checkpoint and failures of each group of consumers.

    Order: events of one source come in the order of their commits; those of different sources in some order, which may
    be another one each time they are read. **An event can be read only after rows, lists and counts of both ends show
    what it tells**, and once it is durable (the embedded engine: but for one change larger than its journal, and
    where durability is relaxed). Retention: the oldest events beyond a bound are forgotten, read or not, but
    for those that a lease keeps. A lease ends when it was not renewed for a bounded time, or when what it keeps exceeds
    a bounded size; its holder is told, by `lease` and by the `lost` of what it reads.
    Errors: `StoreFull`, `StoreUnavailable`, `Overloaded`.
    """

    def covers(self, position: LogPosition, other: LogPosition) -> bool:
        """Whether `position` is as far as `other`, in each partition. False for an `other` that is not of this log: of
        another one, or of events that were lost when this store was restored from a backup. Asks no store.
        """
        ...

    def joined(self, one: LogPosition, other: LogPosition) -> LogPosition:
        """The least position that covers both. Asks no store."""
        ...

    def bell(self) -> AbstractContextManager[Bell]:
        """A bell that rings while it is open. A ring may be lost, if rarely: read the log at times without one."""
        ...

    async def end(self) -> LogPosition:
        """The position after all that can be read now."""
        ...

    async def read(self, after: LogPosition, limit: int) -> Batch:
        """Up to `limit` events that `after` does not cover. If they are fewer, `next` covers all that can be read."""
        ...

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        """Like `read`, and surely with all that was told to anybody before this call."""
        ...

    async def behind(self, after: LogPosition) -> Backlog:
        """What follows a position, without reading it."""
        ...

    async def reached(self, position: LogPosition) -> bool:
        """Wait until what was acknowledged with this position can be read. False if this log does not have it."""
        ...

    async def announce(self, event: Event) -> None:
        """Append an event that is no edge (its position and its time are given by the log)."""
        ...

    async def lease(self, name: str, at: LogPosition) -> bool:
        """Keep what follows `at` for `name` from now on, and no longer what this name kept before; renew it like this.

        False: some of that was forgotten already, and nothing is kept. Overloaded: LEASES_MAX others keep something.
        """
        ...

    async def release(self, name: str) -> None:
        """End a lease; nothing where there is none."""
        ...

    async def leases(self) -> Sequence[LogLease]:
        """All leases, those that were lost too: one stays until it is released, or others need its room."""
        ...

    async def subscribe(self, group: str) -> Subscription:
        """A worker's share of a group; from now on others may have less. See `Subscription`."""
        ...

    async def progress(self, group: str) -> Progress | None:
        """How far a group is. None if it never saved a checkpoint."""
        ...

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        """The failures of a group; `limit` of them at most."""
        ...

    async def save(self, group: str, at: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        """As `Subscription.save`, on behalf of the whole group: for a person's tools. Nobody is fenced."""
        ...

    async def forget(self, group: str) -> None:
        """Forget the checkpoint and the failures of a group, as if it had never been; nothing where it was not."""
        ...
