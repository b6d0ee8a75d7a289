"""The port behind consumers: what every engine that keeps the event log must do.

Implemented by `engines/embedded` (LMDB); tests/rooms/log hold it to what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from kith.core.events import Event


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


class LogStore(Protocol):
    """Events in the order of their commits, and the checkpoint and failures of each group of consumers.

    Order: sequence numbers grow by one an event and are never reused; an event is readable once the write that
    caused it is durable. Retention: the oldest events beyond a bound are forgotten, read or not; `bounds` tells.
    Atomicity: `save` is all or nothing. Errors: `StoreFull`, `StoreUnavailable`, `Overloaded`.
    """

    def bounds(self) -> tuple[int, int]:
        """The first and the last sequence number kept; (1, 0) when there was no event yet."""
        ...

    def read(self, after: int, limit: int) -> Sequence[Event]:
        """Up to `limit` events with numbers above `after`, oldest first."""
        ...

    def bell(self) -> AbstractContextManager[Bell]:
        """A bell that rings while it is open. A ring may be lost, if rarely: read the log at times without one."""
        ...

    async def progress(self, group: str) -> int | None:
        """The checkpoint of a group: all events up to this number are done. None if it never saved one."""
        ...

    async def save(self, group: str, sequence: int | None, failures: Mapping[int, Failure | None]) -> None:
        """Move the checkpoint to `sequence` (None: leave it); set failures by number, or remove them (None)."""
        ...

    def failures(self, group: str | None = None, limit: int | None = None) -> Sequence[Failure]:
        """The failures of a group, or of all, by sequence number; at most the first `limit`."""
        ...

    def groups(self) -> Mapping[str, int]:
        """Every group that ever saved a checkpoint, and where that is."""
        ...

    async def announce(self, event: Event) -> None:
        """Append an event that is no edge (its sequence is given by the log)."""
        ...
