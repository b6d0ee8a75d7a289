"""Two small in-memory logs of the writes to a `ReferenceEdges`. Engines are compared with them.

`ReferenceLog` is the simplest implementation: a list, and positions that count. `HostileLog` keeps the promises of a
partitioned log across a network, and no others: each call suspends, positions have gaps, only events of one source keep
their order, events are late, and partitions are reassigned at any time without notice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kith.core.clock import wall_ms
from kith.core.errors import Overloaded
from kith.core.events import NOWHERE, Event, LogPosition
from kith.log.store import LEASES_MAX, Backlog, Batch, Bell, Failure, Fenced, LogLease, Progress

if TYPE_CHECKING:
    from reference_edges import ReferenceEdges
    from scrambled_edges import ScrambledEdges

LEASE_MS = 3_600_000
Offsets = dict[int, int]
"""The offset of the last event that a position covers, by partition."""


def packed(offsets: Offsets) -> LogPosition:
    """A position. The one before the first event is not NOWHERE."""
    return LogPosition(msgspec.msgpack.encode({at: offset for at, offset in sorted(offsets.items()) if offset}))


def unpacked(position: LogPosition) -> Offsets:
    return msgspec.msgpack.decode(position, type=Offsets) if position else {}


def joined(one: LogPosition, other: LogPosition) -> LogPosition:
    """The least position that covers both."""
    a, b = unpacked(one), unpacked(other)
    return packed({at: max(a.get(at, 0), b.get(at, 0)) for at in a | b})


class LoggedEvent(NamedTuple):
    """An event, its partition and offset there, and its edge."""

    event: Event
    at: int
    offset: int
    edge: tuple[int, int, int]


class Partitions:
    """The logged events. The source of an event decides its partition. With `gaps`, offsets skip up to 3 numbers."""

    def __init__(self, count: int = 1, gaps: random.Random | None = None) -> None:
        self.count, self._gaps = count, gaps
        self.all: list[Event] = []
        self.logged: list[LoggedEvent] = []  # the same
        self.ends: Offsets = dict.fromkeys(range(count), 0)
        self.now_ms: Callable[[], int] = wall_ms

    def append(self, event: Event) -> LogPosition:
        """Log an event; returns its position, which covers no event of other partitions."""
        at = event.source % self.count
        self.ends[at] += 1 if self._gaps is None else self._gaps.randint(1, 4)
        mark = packed({at: self.ends[at]})
        logged = msgspec.structs.replace(event, log_position=mark, logged_ms=self.now_ms())
        self.all.append(logged)
        self.logged.append(LoggedEvent(logged, at, self.ends[at], (event.graph, event.source, event.destination)))
        return mark

    @property
    def end(self) -> LogPosition:
        return packed(self.ends)


class ReferenceLog:
    """See `log.store.LogStore`. It keeps the last `events_max` events of a partition, or `leased_max` for leases."""

    def __init__(self, edges: ReferenceEdges, events_max: int = 10**9, leased_max: int = 10**9) -> None:
        self._logged, self._events_max, self._leased_max = edges.events, events_max, leased_max
        self._forgotten: Offsets = {}
        self._leases: dict[str, tuple[Offsets, int]] = {}  # offsets, and when it was renewed
        self._checkpoints: dict[str, Offsets] = {}
        self._failures: dict[tuple[str, LogPosition], Failure] = {}
        self._owners: dict[str, dict[int, ReferenceSubscription]] = {}

    # Methods that HostileLog overrides.

    async def _called(self) -> None:
        """Called first by each call that may suspend on an engine."""

    def readable(self) -> Sequence[LoggedEvent]:
        """All events that can be read now. Events of a partition are in order."""
        return self._logged.logged

    def _next_events(self, parts: list[list[Event]], limit: int) -> list[Event]:
        """The next events of these partitions, at most `limit`."""
        wanted = {event.log_position for part in parts for event in part}
        return [one.event for one in self.readable() if one.event.log_position in wanted][:limit]

    def on_subscribe(self, group: str, subscription: ReferenceSubscription) -> None:
        """Called for a new subscription: give it all partitions."""
        self._owners[group] = dict.fromkeys(range(self._logged.count), subscription)

    # The port.

    def covers(self, position: LogPosition, other: LogPosition) -> bool:
        try:
            reached, asked = unpacked(position), unpacked(other)
        except msgspec.MsgspecError:
            return False
        return all(offset <= reached.get(at, 0) for at, offset in asked.items())

    def joined(self, one: LogPosition, other: LogPosition) -> LogPosition:
        return joined(one, other)

    @contextmanager
    def bell(self) -> Iterator[Bell]:
        yield _TurnBell()

    async def end(self) -> LogPosition:
        await self._called()
        return packed(self._ends())

    async def read(self, after: LogPosition, limit: int) -> Batch:
        await self._called()
        return self.read_of(unpacked(after), range(self._logged.count), limit)

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        return await self.read(after, limit)

    async def behind(self, after: LogPosition) -> Backlog:
        await self._called()
        return self._behind(unpacked(after))

    async def reached(self, position: LogPosition) -> bool:
        while self.covers(self._logged.end, position):
            await self._called()
            if self.covers(packed(self._ends()), position):
                return True
        return False

    async def announce(self, event: Event) -> None:
        await self._called()
        self._logged.append(event)

    async def lease(self, name: str, at: LogPosition) -> bool:
        await self._called()
        kept, now_ms = self._keeps(at), self._logged.now_ms()
        held = self._leases.pop(name, None)
        if not kept:
            return False
        if held is None and len(self._leases) >= LEASES_MAX:
            lost = [one.name for one in await self.leases() if one.lost]
            if not lost:
                raise Overloaded("too many leases")
            for other in lost:
                del self._leases[other]
        self._leases[name] = unpacked(at), now_ms
        return True

    async def release(self, name: str) -> None:
        await self._called()
        self._leases.pop(name, None)

    async def leases(self) -> Sequence[LogLease]:
        now_ms = self._logged.now_ms()
        return [
            LogLease(
                name, packed(at), renewed_ms + LEASE_MS, now_ms >= renewed_ms + LEASE_MS or not self._keeps(packed(at))
            )
            for name, (at, renewed_ms) in self._leases.items()
        ]

    async def subscribe(self, group: str) -> ReferenceSubscription:
        await self._called()
        subscription = ReferenceSubscription(self, group)
        self.on_subscribe(group, subscription)
        return subscription

    async def progress(self, group: str) -> Progress | None:
        await self._called()
        saved = self._checkpoints.get(group)
        return None if saved is None else Progress(packed(saved), self._behind(saved))

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        await self._called()
        return [failure for (of, _), failure in self._failures.items() if of == group][:limit]

    async def save(self, group: str, at: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        await self._called()
        self.saved(group, None if at is None else dict.fromkeys(range(self._logged.count), 0) | unpacked(at), failures)

    async def forget(self, group: str) -> None:
        await self._called()
        self._checkpoints.pop(group, None)
        self._failures = {key: one for key, one in self._failures.items() if key[0] != group}

    # Methods that subscriptions call.

    async def call(self) -> None:
        await self._called()

    def owned(self, group: str, subscription: ReferenceSubscription) -> set[int]:
        """The partitions of a subscription."""
        return {at for at, owner in self._owners.get(group, {}).items() if owner is subscription}

    def on_unsubscribe(self, group: str, subscription: ReferenceSubscription) -> None:
        """Called for a closed subscription: take its partitions away."""
        owners = self._owners[group]
        for at in self.owned(group, subscription):
            del owners[at]

    def claim_unowned(self, group: str, subscription: ReferenceSubscription) -> None:
        """Give a subscription the partitions without an owner."""
        for at in range(self._logged.count):
            self._owners.setdefault(group, {}).setdefault(at, subscription)

    def checkpoint(self, group: str, at: int) -> int | None:
        return self._checkpoints.get(group, {}).get(at)

    def end_of(self, at: int) -> int:
        return self._ends()[at]

    def saved(self, group: str, offsets: Offsets | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        if offsets is not None:
            self._checkpoints[group] = self._checkpoints.get(group, {}) | offsets
        for mark, failure in failures.items():
            self._failures.pop((group, mark), None)
            if failure is not None:
                self._failures[group, mark] = failure

    def failures_of(self, group: str, partitions: set[int]) -> list[Failure]:
        return [one for (of, mark), one in self._failures.items() if of == group and set(unpacked(mark)) <= partitions]

    def read_of(self, after: Offsets, partitions: Sequence[int], limit: int) -> Batch:
        """As `read`, from some partitions."""
        reached, lost, parts = dict(after), False, []
        for at in partitions:
            forgotten, kept = self._kept(at)
            lost = lost or after.get(at, 0) < forgotten
            reached[at] = max(after.get(at, 0), forgotten)
            parts.append([one.event for one in kept if one.offset > reached[at]])
        events = self._next_events(parts, limit)
        for event in events:
            reached |= unpacked(event.log_position)
        return Batch(events, packed(reached), lost)

    def _behind(self, after: Offsets) -> Backlog:
        whole = self.read_of(after, range(self._logged.count), 10**9)
        oldest_ms = min((event.logged_ms for event in whole.events), default=None)
        return Backlog(packed(self._ends()), len(whole.events), None if whole.lost else oldest_ms, whole.lost)

    def _keeps(self, position: LogPosition) -> bool:
        """Whether the log still has all events after a position."""
        after = unpacked(position)
        return all(self._kept(at)[0] <= after.get(at, 0) for at in range(self._logged.count))

    def _kept(self, at: int) -> tuple[int, list[LoggedEvent]]:
        """The offset of the last dropped event of a partition, and the events after it."""
        events = [one for one in self.readable() if one.at == at]
        offsets = [one.offset for one in events]
        now_ms, forgotten = self._logged.now_ms(), [0, *offsets[: -self._events_max]][-1]
        leased = [held.get(at, 0) for held, renewed_ms in self._leases.values() if now_ms < renewed_ms + LEASE_MS]
        overrun = [0, *offsets[: -self._leased_max]][-1]
        forgotten = max(self._forgotten.get(at, 0), min([forgotten, *leased]), min(forgotten, overrun))
        self._forgotten[at] = forgotten
        return forgotten, [one for one in events if one.offset > forgotten]

    def _ends(self) -> Offsets:
        ends = dict.fromkeys(range(self._logged.count), 0)
        for one in reversed(self.readable()):
            ends[one.at] = max(ends[one.at], one.offset)
            if all(ends.values()):
                break
        return ends


class ReferenceSubscription:
    """See `log.store.Subscription`."""

    def __init__(self, log: ReferenceLog, group: str) -> None:
        self._log, self._group = log, group
        self._at: Offsets = {}  # of the partitions that it believes it owns

    async def read(self, limit: int) -> Batch:
        log, group = self._log, self._group
        await log.call()
        log.claim_unowned(group, self)
        owned, lost = log.owned(group, self), False
        self._at = {at: offset for at, offset in self._at.items() if at in owned}
        for at in owned - self._at.keys():
            saved = log.checkpoint(group, at)
            lost = lost or saved is None
            self._at[at] = log.end_of(at) if saved is None else saved
        if not owned:
            return Batch((), NOWHERE)
        found = log.read_of(self._at, sorted(owned), 0 if lost else limit)
        self._at = dict.fromkeys(owned, 0) | unpacked(found.next)
        return found._replace(lost=lost or found.lost)

    async def failures(self) -> Sequence[Failure]:
        await self._log.call()
        return self._log.failures_of(self._group, self._log.owned(self._group, self))

    async def save(self, at: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        log, group = self._log, self._group
        await log.call()
        owned = log.owned(group, self)
        about = {part for position in (at or NOWHERE, *failures) for part in unpacked(position)}
        if not about <= owned or (at is not None and not owned):
            self._at = {}
            raise Fenced(f"of {group} this worker has {owned}")
        moved = None
        if at is not None:  # partitions that it got since that read keep their checkpoint
            moved = unpacked(at)
            moved |= {part: 0 for part in self._at.keys() & owned - moved.keys() if log.checkpoint(group, part) is None}
        log.saved(group, moved, failures)

    async def close(self) -> None:
        await self._log.call()
        self._log.on_unsubscribe(self._group, self)


class HostileLog(ReferenceLog):
    """A partitioned log over edges whose lists lag. `hand_over` has the effect of a worker that joins or leaves."""

    def __init__(
        self, edges: ScrambledEdges, chance: random.Random, events_max: int = 10**9, leased_max: int = 10**9
    ) -> None:
        super().__init__(edges, events_max, leased_max)
        self._edges, self._chance = edges, chance
        self._known: dict[str, list[ReferenceSubscription]] = {}

    async def _called(self) -> None:
        for _ in range(self._chance.randint(1, 3)):
            await asyncio.sleep(0)
        self._edges.pass_time()

    def readable(self) -> Sequence[LoggedEvent]:
        late, held, found = self._edges.late(), set[int](), list[LoggedEvent]()
        if not late:
            return self._logged.logged
        for one in self._logged.logged:
            if one.at in held or one.edge in late:
                held.add(one.at)  # later events of the partition wait, too
            else:
                found.append(one)
        return found

    def _next_events(self, parts: list[list[Event]], limit: int) -> list[Event]:
        found: list[Event] = []
        while len(found) < limit and (left := [part for part in parts if part]):
            part = self._chance.choice(left)
            count = min(self._chance.randint(1, 5), limit - len(found))
            found += part[:count]
            del part[:count]
        return found

    def on_subscribe(self, group: str, subscription: ReferenceSubscription) -> None:
        self._known.setdefault(group, []).append(subscription)
        self.hand_over(group)

    def on_unsubscribe(self, group: str, subscription: ReferenceSubscription) -> None:
        super().on_unsubscribe(group, subscription)
        self._known[group].remove(subscription)

    def claim_unowned(self, group: str, subscription: ReferenceSubscription) -> None:
        """If a partition has no owner, reassign all: a subscription cannot take one alone."""
        if len(self._owners[group]) < self._logged.count:
            self.hand_over(group)

    def hand_over(self, group: str) -> None:
        """Reassign the partitions at random among the newest two subscriptions of a group."""
        among = self._known.get(group, [])[-2:]
        self._owners[group] = {at: self._chance.choice(among) for at in range(self._logged.count)} if among else {}


class _TurnBell:
    """A bell that rings as soon as other tasks had a turn."""

    async def rung(self, within_s: float) -> None:
        await asyncio.sleep(0)
