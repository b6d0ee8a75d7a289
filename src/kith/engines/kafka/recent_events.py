"""Caches the newest events of the log, and reads older ones from Kafka.

One task follows all partitions of `events` for all readers of the process. The newest RECENT_BYTES of records stay in
memory, so readers that keep up never query Kafka. Readers that lag fetch chunks of records; the last chunk of each
partition is cached.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from kith.core.errors import StoreUnavailable, Unavailable
from kith.core.events import Event
from kith.engines.kafka.broker import Broker, BrokerRecord, TopicFollower
from kith.engines.kafka.commits import EventRecord, read_event_record, state_before
from kith.engines.kafka.positions import Place, Positions
from kith.engines.kafka.registry import RegistryReplica

RECENT_BYTES = 16 << 20
"""Approximate size of the cached events, of all partitions together."""
CHUNK_RECORDS = 500
"""Records of one fetch of older events."""


class RecentBell:
    """See `log.store.Bell`."""

    def __init__(self, recent: RecentEvents) -> None:
        self._recent, self._rung = recent, asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def rung(self, within_s: float) -> None:
        with contextlib.suppress(Unavailable):  # it rings once Kafka is back, and this or another call opens the log
            await self._recent.open()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._rung.wait()
        self._rung.clear()


class _Part:
    """A partition. `end`: the place after all records read. `oldest`: the number of events before the cached ones."""

    def __init__(self, end: Place, next_write: int) -> None:
        self.end, self.oldest = end, end.events
        self.next_write = next_write  # the offset of the next command in `writes`
        self.cached: list[EventRecord] = []
        self.chunk: list[EventRecord] = []  # the last chunk of older records
        self._decoded: tuple[int, list[Event]] = (-1, [])  # the record decoded last: its offset and events

    def events(self, record: EventRecord, positions: Positions, partition: int) -> list[Event]:
        """The events of a record."""
        if self._decoded[0] != record.offset:
            self._decoded = record.offset, record.events(positions, partition)
        return self._decoded[1]


class RecentEvents:
    """The events that this process can read now."""

    def __init__(self, broker: Broker, registry: RegistryReplica) -> None:
        self._broker, self._registry = broker, registry
        self._parts: list[_Part] = []
        self._bytes = 0
        self._follower: TopicFollower | None = None
        self._opening = asyncio.Lock()
        self._grown = asyncio.Event()
        self._bells: set[RecentBell] = set()
        self._commit_callbacks: list[Callable[[int, EventRecord], None]] = []

    def on_commit(self, callback: Callable[[int, EventRecord], None]) -> None:
        """Register a callback for commits with answers: it gets the partition and the commit, as they are read."""
        self._commit_callbacks.append(callback)

    async def open(self) -> None:
        """Follow the log from its end on, unless that has started."""
        if self._follower is not None:
            return
        async with self._opening:
            if self._follower is not None:
                return
            await self._registry.open()
            registry, ends = await self._registry.sync(), await self._broker.ends("events")
            parts = []
            for partition, end in enumerate(ends):
                state = await state_before(self._broker, partition, registry.start(partition), end)
                parts.append(_Part(Place(state.events, end), state.next_write))
            self._parts = parts
            follower = self._broker.follower("events", self._handle)
            follower.follow(dict(enumerate(ends)))
            self._follower = follower

    async def close(self) -> None:
        if self._follower is not None:
            await self._follower.close()

    @property
    def ends(self) -> list[Place]:
        """For each partition, the place after all that can be read."""
        return [part.end for part in self._parts]

    @property
    def next_writes(self) -> list[int]:
        """For each partition, the offset of the next command in `writes`."""
        return [part.next_write for part in self._parts]

    @contextlib.contextmanager
    def ringing(self) -> Iterator[RecentBell]:
        """A bell that rings when events were read, while this context is open."""
        bell = RecentBell(self)
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    def awaited(self) -> AbstractContextManager[None]:
        """See `TopicFollower.awaited`. Effective once this is open."""
        return contextlib.nullcontext() if self._follower is None else self._follower.awaited()

    async def grown(self, within_s: float) -> None:
        """Wait until more records were read, for `within_s` at most."""
        with contextlib.suppress(TimeoutError), self.awaited():
            async with asyncio.timeout(within_s):
                await self._grown.wait()

    async def read(self, partition: int, after: Place, limit: int) -> tuple[list[Event], Place]:
        """Up to `limit` events after a place that is kept, and the place after them; `end` if all were read."""
        part, positions = self._parts[partition], self._registry.positions
        all_events: list[Event] = []
        while len(all_events) < limit and after.events < part.end.events:
            for record in await self._records_after(partition, after):
                skipped = max(0, after.events - record.first)
                events = part.events(record, positions, partition)[skipped:][: limit - len(all_events)]
                all_events += events
                after = record.after(skipped + len(events))
                if len(all_events) == limit:
                    break
        return all_events, (part.end if after.events == part.end.events else after)

    async def next_ms(self, partition: int, after: Place) -> int:
        """When the first event after a place was logged. The place must not be the end."""
        return (await self._records_after(partition, after))[0].at_ms

    async def _records_after(self, partition: int, after: Place) -> list[EventRecord]:
        """Records in order; the first holds the first event after a place. The place must not be the end."""
        part = self._parts[partition]
        if after.events >= part.oldest:
            return _following(part.cached, after)
        if not (following := _following(part.chunk, after)) or part.chunk[0].first > after.events:
            part.chunk = await self._chunk(partition, after)
            following = _following(part.chunk, after)
        if not following or following[0].first > after.events:
            raise StoreUnavailable("these events were forgotten while they were read; read again")
        return following

    async def _chunk(self, partition: int, after: Place) -> list[EventRecord]:
        """Fetch records until one holds the first event after a place."""
        chunk, count, first = list[EventRecord](), after.events, after.offset
        while True:
            end = self._parts[partition].end.offset
            records = await self._broker.fetch("events", partition, first, min(end, first + CHUNK_RECORDS))
            for record in records:
                if event_record := read_event_record(record, count):
                    count = event_record.first + event_record.length
                    chunk += [event_record] if event_record.length else []
            if count > after.events or not records:
                return chunk
            first = records[-1].offset + 1

    async def _handle(self, partition: int, records: Sequence[BrokerRecord]) -> None:
        part, events_before = self._parts[partition], self._parts[partition].end.events
        if records[0].offset > part.end.offset:
            await self._skip_deleted(partition)
        for record in records:
            if record.offset < part.end.offset:
                continue
            event_record = read_event_record(record, part.end.events)
            part.end = Place(
                event_record.first + event_record.length if event_record else part.end.events, record.offset + 1
            )
            if event_record and event_record.next_write is not None:
                part.next_write = event_record.next_write
            if event_record and event_record.length:
                part.cached.append(event_record.without_answers())
                self._bytes += event_record.size
            if event_record and event_record.answers:
                for callback in self._commit_callbacks:
                    callback(partition, event_record)
        while self._bytes > RECENT_BYTES:
            self._evict()
        if part.end.events > events_before:
            for bell in self._bells:
                bell.ring()
        self._grown.set()
        self._grown = asyncio.Event()

    async def _skip_deleted(self, partition: int) -> None:
        """Continue behind records that were deleted before this process read them, as after a long pause.

        The registry says how many events are before the oldest that is kept; an announced event does not.
        """
        part, start = self._parts[partition], (await self._registry.sync()).start(partition)
        if start.offset > part.end.offset:
            self._bytes -= sum(record.size for record in part.cached)
            part.cached, part.end, part.oldest = [], start, start.events

    def _evict(self) -> None:
        """Evict the older half of the partition with the most records."""
        part = max(self._parts, key=lambda part: len(part.cached))
        half = part.cached[: len(part.cached) // 2 + 1]
        del part.cached[: len(half)]
        part.oldest = half[-1].first + half[-1].length
        self._bytes -= sum(record.size for record in half)


def _following(records: list[EventRecord], after: Place) -> list[EventRecord]:
    """The records that hold events after a place."""
    return records[bisect_right(records, after.events, key=lambda record: record.first + record.length) :]
