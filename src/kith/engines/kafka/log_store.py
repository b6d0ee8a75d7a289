"""The LogStore on Kafka: events are in the topic `events`, the rest is in the registry (see `registry_state`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from kith.core.clock import wall_ms
from kith.core.errors import Overloaded, StoreUnavailable, Unavailable
from kith.core.events import TIMELINE_REQUESTED, Event, LogPosition
from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, Broker
from kith.engines.kafka.commits import Announcement, pack, row_of
from kith.engines.kafka.positions import START, Place
from kith.engines.kafka.recent_events import RecentEvents
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import NO_ROOM, EndGroup, Free, Save, TakeLease
from kith.engines.kafka.retention import DEFAULT_BOUNDS, PartitionBounds
from kith.engines.kafka.subscription import KafkaSubscription, failures_of
from kith.log.store import LEASES_MAX, Backlog, Batch, Bell, Failure, LogLease, Progress

TIMELINE_REQUESTS_A_SECOND = 200
"""Timelines that a process requests from fan-out each second, for example after Redis was emptied. Other readers'
homes are read from outboxes."""


class KafkaLog:
    """See `log.store.LogStore`. Each owner has one partition. `partition_of`: the partition of an event's source."""

    def __init__(
        self,
        broker: Broker,
        registry: RegistryReplica,
        recent: RecentEvents,
        partition_of: Callable[[int], int],
        keep: PartitionBounds = DEFAULT_BOUNDS,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._broker, self._registry, self._partition_of, self._now_ms = broker, registry, partition_of, now_ms
        self._keep = keep
        self._events_max = keep.events_max // broker.partitions
        self._recent = recent
        self._rotation = 0
        self._requested_in_s, self._requests = 0, 0  # the current second, and the timelines requested in it
        self.covers, self.joined = registry.positions.covers, registry.positions.joined

    async def open(self) -> None:
        """Start to follow the log; every other call does so too."""
        await self._recent.open()

    def bell(self) -> AbstractContextManager[Bell]:
        return self._recent.ringing()

    async def end(self) -> LogPosition:
        await self.open()
        await self._read_to(await self._broker.ends("events"))
        return self._registry.positions.packed(dict(enumerate(self._recent.ends)))

    async def _read_to(self, offsets: Sequence[int]) -> None:
        """Wait until this process has read each partition up to its offset."""
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while any(offset > self._recent.ends[partition].offset for partition, offset in enumerate(offsets)):
            if time.monotonic() > until_s:
                raise StoreUnavailable("the log is not read to its end; try again")
            await self._recent.grown(ANSWER_TIMEOUT_S)

    async def read(self, after: LogPosition, limit: int) -> Batch:
        await self.open()
        places = self._registry.positions.places(after)
        batch = await self.read_partitions(dict.fromkeys(range(self._broker.partitions), START) | (places or {}), limit)
        return batch if places is not None else batch._replace(lost=True)

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        await self.open()
        await self._read_to(await self._broker.ends("events"))
        return await self.read(after, limit)

    async def read_partitions(self, after: dict[int, Place], limit: int) -> Batch:
        """Up to `limit` events after these places, of their partitions only."""
        await self._refresh_retention(after)
        all_events: list[Event] = []
        reached, lost = dict(after), False
        self._rotation += 1  # rotate which partition is read first
        for partition in sorted(after, key=lambda partition: (partition + self._rotation) % self._broker.partitions):
            start = self._registry.now.start(partition)
            lost = lost or after[partition].events < start.events
            events, reached[partition] = await self._recent.read(
                partition, max(after[partition], start), limit - len(all_events)
            )
            all_events += events
        return Batch(all_events, self._registry.positions.packed(reached), lost)

    async def _refresh_retention(self, after: Mapping[int, Place]) -> None:
        """Refresh the registry if events after these places may have been forgotten; the newest are always kept."""
        ends = self._recent.ends
        if any(ends[partition].events - place.events > self._events_max for partition, place in after.items()):
            await self._registry.sync()

    async def behind(self, after: LogPosition) -> Backlog:
        await self.open()
        return await self._behind(self._registry.positions.places(after) or {})

    async def _behind(self, after: Mapping[int, Place]) -> Backlog:
        await self._refresh_retention(dict.fromkeys(range(self._broker.partitions), START) | dict(after))
        events, times, lost, ends = 0, list[int](), False, self._recent.ends
        for partition, end in enumerate(ends):
            place = after.get(partition, START)
            lost = lost or place.events < self._registry.now.start(partition).events
            events += max(0, end.events - place.events)
            if end.events > place.events and not lost:
                times.append(await self._recent.next_ms(partition, place))
        log_end = self._registry.positions.packed(dict(enumerate(ends)))
        return Backlog(log_end, events, None if lost else min(times, default=None), lost)

    async def reached(self, position: LogPosition) -> bool:
        await self.open()
        places = self._registry.positions.places(position)
        if places is None or max(places, default=0) >= self._broker.partitions:
            return False
        until_s, is_refreshed = time.monotonic() + ANSWER_TIMEOUT_S, False
        while any(place.events > self._recent.ends[partition].events for partition, place in places.items()):
            if not is_refreshed:
                ends, is_refreshed = await self._broker.ends("events"), True
                if any(place.offset > ends[partition] for partition, place in places.items()):
                    return False
            if time.monotonic() > until_s:
                raise StoreUnavailable("this process has not read the log up to your token yet; try again")
            await self._recent.grown(ANSWER_TIMEOUT_S)
        return True

    async def announce(self, event: Event) -> None:
        await self.open()
        if event.state == TIMELINE_REQUESTED:
            self._check_request_rate()
        partition = self._partition_of(event.source)
        offset = await self._broker.append("events", partition, pack(Announcement(row_of(event))))
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while self._recent.ends[partition].offset <= offset and time.monotonic() < until_s:
            await self._recent.grown(ANSWER_TIMEOUT_S)

    def _check_request_rate(self) -> None:
        """Raise Overloaded if this process requests too many timelines in a second.

        An owner's commit counts only if nothing was appended since its last one, so many requests would make it retry
        again and again.
        """
        now_s = int(time.monotonic())
        if now_s != self._requested_in_s:
            self._requested_in_s, self._requests = now_s, 0
        self._requests += 1
        if self._requests > TIMELINE_REQUESTS_A_SECOND:
            raise Overloaded("too many timelines are requested at once; try again in some seconds")

    async def lease(self, name: str, position: LogPosition) -> bool:
        await self.open()
        places = self._registry.positions.places(position)
        if places is None:
            await self.release(name)
            return False
        now_ms = self._now_ms()
        verdict = await self._registry.write(TakeLease(name, places, now_ms, now_ms + self._keep.lease_ms))
        if verdict == NO_ROOM:
            raise Overloaded(f"{LEASES_MAX} leases of the log are held; release some (`kith log release`)")
        return bool(verdict)

    async def release(self, name: str) -> None:
        await self.open()
        await self._registry.write(Free(name))

    async def leases(self) -> Sequence[LogLease]:
        await self.open()
        registry, now_ms = await self._registry.sync(), self._now_ms()
        return [
            LogLease(
                name, self._registry.positions.packed(lease.places), lease.until_ms, registry.is_lost(lease, now_ms)
            )
            for name, lease in registry.leases.items()
        ]

    async def subscribe(self, group: str) -> KafkaSubscription:
        await self.open()
        subscription = KafkaSubscription(self, self._registry, self._recent, group, self._broker.partitions)
        with suppress(Unavailable):  # it may have joined even so; `read` joins again under the same name
            await subscription.join()
        return subscription

    async def progress(self, group: str) -> Progress | None:
        await self.open()
        stored_group = (await self._registry.sync()).groups.get(group)
        if stored_group is None or stored_group.saved is None:
            return None
        places = dict(stored_group.saved)
        return Progress(self._registry.positions.packed(places), await self._behind(places))

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        await self.open()
        return failures_of(await self._registry.sync(), group)[:limit]

    async def save(
        self, group: str, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]
    ) -> None:
        await self.open()
        places = None if checkpoint is None else self._registry.positions.places(checkpoint) or {}
        if places is not None:
            places = dict.fromkeys(range(self._broker.partitions), START) | places
        partition_failures = [
            (self._registry.positions.partition(position), position, failure) for position, failure in failures.items()
        ]
        await self._registry.save(Save(group, "", None, places, partition_failures))

    async def forget(self, group: str) -> None:
        await self.open()
        await self._registry.write(EndGroup(group))
