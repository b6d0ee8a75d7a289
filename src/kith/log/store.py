"""The ports behind consumers: what an engine that stores the event log must provide.

A log is one ordered list of events, or several (partitions), each with its own order. A position in it is therefore an
opaque `LogPosition`, which only the engine can compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from kith.core.events import Event, LogPosition


class Fenced(Exception):
    """Another worker of the group has taken over. It will handle again what this one read and did not save."""


class Failure(msgspec.Struct, frozen=True):
    """An event that a group failed to handle. It is retried at `next_try_ms`; if `dead`, it waits for a person."""

    group: str
    event: Event
    tries: int
    error: str
    failed_at_ms: int
    next_try_ms: int
    dead: bool = False


class Bell(Protocol):
    """Rings when any process appends events. Read the log after each ring, and you miss none."""

    async def rung(self, within_s: float) -> None:
        """Wait until it has rung since the last call, at most `within_s`. Only one task may wait at a time."""
        ...


class Batch(NamedTuple):
    """Events read after some position, and the position after them.

    `lost`: events in between were deleted before they were read. A consumer that needs them rebuilds from the stores.
    """

    events: Sequence[Event]
    next: LogPosition
    lost: bool = False


class Backlog(NamedTuple):
    """What follows some position. `end`: the end of the log now. `events`: about how many there are up to it.

    `oldest_ms`: when the first of them was logged; None if there is none, or if it was deleted (`lost`).
    """

    end: LogPosition
    events: int
    oldest_ms: int | None
    lost: bool = False


class Progress(NamedTuple):
    """The checkpoint of a group, and what follows it. All events up to the checkpoint are done, except its failures."""

    at: LogPosition
    behind: Backlog


class LogLease(NamedTuple):
    """Keeps events after `at` for `name` until `until_ms`. `lost`: it expired, or some of the events were deleted."""

    name: str
    at: LogPosition
    until_ms: int
    lost: bool


LEASES_MAX = 100
"""Most leases of one log."""


class Subscription(Protocol):
    """One worker's share of a group: the partitions that it owns now, each read from its checkpoint on.

    The engine divides the partitions of the log among the open subscriptions of a group. It may move a partition at any
    time, above all when a subscription is opened. The new owner continues from the checkpoint: events that the old
    owner handled and did not save are repeated, and none is left out. The old owner can then save no progress on that
    partition.
    """

    async def read(self, limit: int) -> Batch:
        """The next events of its partitions, at most `limit`, each partition's in their order.

        No event is repeated until `save` is refused; reading then restarts at the checkpoint. `next`: what to save once
        these and all earlier events are handled; NOWHERE while it owns no partition. A partition without any checkpoint
        is read from its end on, with `lost` set.
        """
        ...

    async def failures(self) -> Sequence[Failure]:
        """The failures of events in its partitions."""
        ...

    async def save(self, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        """Save a checkpoint (None: keep the old one). Set failures by their event's position, or remove them (None).

        All or nothing. Fenced if a partition that was read here has moved since.
        """
        ...

    async def close(self) -> None:
        """Give up all partitions."""
        ...


class LogStore(Protocol):
    """Events, and the checkpoint and failures of each group of consumers.

    Order: events of one source come in the order of their commits. Events of different sources come in some order,
    which may differ each time they are read. **An event can be read only after rows, lists and counts of both ends show
    its change**, and once it is durable (exceptions in the embedded engine: one change larger than its journal, and
    relaxed durability).

    Retention: above a limit the oldest events are deleted, read or not, except those that a lease keeps. A lease
    expires if it is not renewed within a bounded time, or if it keeps more than a bounded size. Its holder learns that
    from `lease`, and from the `lost` of what it reads.

    Errors: `StoreFull`, `StoreUnavailable`, `Overloaded`.
    """

    def covers(self, position: LogPosition, other: LogPosition) -> bool:
        """Whether `position` is at least as far as `other` in each partition. False if `other` is not of this log: it
        is of another log, or of events that were lost when this store was restored from a backup. Queries no store.
        """
        ...

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        """The least position that covers both. Queries no store."""
        ...

    def bell(self) -> AbstractContextManager[Bell]:
        """A bell that rings while it is open. A ring may get lost, rarely; so read the log from time to time without
        one.
        """
        ...

    async def end(self) -> LogPosition:
        """The position after everything that can be read now."""
        ...

    async def read(self, after: LogPosition, limit: int) -> Batch:
        """Up to `limit` events that `after` does not cover. If there are fewer, `next` covers everything that can be
        read.
        """
        ...

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        """As `read`, and certain to include every event that was acknowledged or read before this call."""
        ...

    async def behind(self, after: LogPosition) -> Backlog:
        """What follows a position, without reading the events."""
        ...

    async def reached(self, position: LogPosition) -> bool:
        """Wait until everything that was acknowledged with this position can be read. False if this log does not have
        it.
        """
        ...

    async def announce(self, event: Event) -> None:
        """Append an event that is not an edge. The log sets its position and time."""
        ...

    async def lease(self, name: str, position: LogPosition) -> bool:
        """Keep the events after `position` for `name` from now on, instead of those that this name kept before. Call it
        again to renew.

        False: some of them were already deleted, and nothing is kept. Overloaded: LEASES_MAX other leases exist.
        """
        ...

    async def release(self, name: str) -> None:
        """Release a lease. Does nothing if there is none."""
        ...

    async def leases(self) -> Sequence[LogLease]:
        """All leases, including lost ones. A lost lease stays until it is released or its room is needed."""
        ...

    async def subscribe(self, group: str) -> Subscription:
        """A worker's share of a group. Other workers may get less from now on. See `Subscription`."""
        ...

    async def progress(self, group: str) -> Progress | None:
        """The progress of a group. None if it never saved a checkpoint."""
        ...

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        """The failures of a group, at most `limit`."""
        ...

    async def save(
        self, group: str, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]
    ) -> None:
        """As `Subscription.save`, for the whole group, for operators' tools. Fences nobody."""
        ...

    async def forget(self, group: str) -> None:
        """Delete the checkpoint and failures of a group, as if it had never existed. Does nothing for an
        unknown group.
        """
        ...
