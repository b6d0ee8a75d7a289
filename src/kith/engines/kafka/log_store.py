"""The LogStore on Kafka: events are in the topic `events`, everything else is in the book (see `book_state`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from kith.core.clock import wall_ms
from kith.core.errors import Overloaded, StoreUnavailable, Unavailable
from kith.core.events import TIMELINE_WANTED, Event, LogPosition
from kith.engines.kafka.book import OpenBook
from kith.engines.kafka.book_state import FULL, EndGroup, Free, Save, TakeLease
from kith.engines.kafka.broker import ANSWERED_S, Broker
from kith.engines.kafka.commits import Announced, pack, row_of
from kith.engines.kafka.positions import START, Place
from kith.engines.kafka.recent import Recent
from kith.engines.kafka.retention import KEEP, PartitionBounds
from kith.engines.kafka.subscription import KafkaSubscription, failures_of
from kith.log.store import LEASES_MAX, Backlog, Batch, Bell, Failure, LogLease, Progress

WISHES_A_SECOND = 200
"""Timelines that a process requests from fan-out each second, for example after Redis was emptied. Other readers'
homes are read from outboxes."""


class KafkaLog:
    """See `log.store.LogStore`. Each owner has one partition. `partition_of`: the partition of an event's source."""

    def __init__(
        self,
        broker: Broker,
        book: OpenBook,
        recent: Recent,
        partition_of: Callable[[int], int],
        keep: PartitionBounds = KEEP,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._broker, self._book, self._partition_of, self._now_ms = broker, book, partition_of, now_ms
        self._keep = keep
        self._kept = keep.events_max // broker.partitions
        self._recent = recent
        self._turn = 0
        self._wished_in_s, self._wishes = 0, 0  # the current second, and the timelines requested in it
        self.covers, self.joined = book.positions.covers, book.positions.joined

    async def open(self) -> None:
        """Start to follow the log; every other call does so too."""
        await self._recent.open()

    def bell(self) -> AbstractContextManager[Bell]:
        return self._recent.ringing()

    async def end(self) -> LogPosition:
        await self.open()
        await self._read_to(await self._broker.ends("events"))
        return self._book.positions.packed(dict(enumerate(self._recent.ends)))

    async def _read_to(self, offsets: Sequence[int]) -> None:
        """Wait until this process has read each partition up to its offset."""
        until_s = time.monotonic() + ANSWERED_S
        while any(offset > self._recent.ends[at].offset for at, offset in enumerate(offsets)):
            if time.monotonic() > until_s:
                raise StoreUnavailable("the log is not read to its end; try again")
            await self._recent.grown(ANSWERED_S)

    async def read(self, after: LogPosition, limit: int) -> Batch:
        await self.open()
        places = self._book.positions.places(after)
        batch = await self.read_of(dict.fromkeys(range(self._broker.partitions), START) | (places or {}), limit)
        return batch if places is not None else batch._replace(lost=True)

    async def latest(self, after: LogPosition, limit: int) -> Batch:
        await self.open()
        await self._read_to(await self._broker.ends("events"))
        return await self.read(after, limit)

    async def read_of(self, after: dict[int, Place], limit: int) -> Batch:
        """Up to `limit` events after these places, of their partitions only."""
        await self._see_forgotten(after)
        found: list[Event] = []
        reached, lost = dict(after), False
        self._turn += 1  # rotate which partition is read first
        for at in sorted(after, key=lambda at: (at + self._turn) % self._broker.partitions):
            start = self._book.now.start(at)
            lost = lost or after[at].events < start.events
            events, reached[at] = await self._recent.read(at, max(after[at], start), limit - len(found))
            found += events
        return Batch(found, self._book.positions.packed(reached), lost)

    async def _see_forgotten(self, after: Mapping[int, Place]) -> None:
        """Refresh the book if events after these places may have been forgotten; the newest ones are always kept."""
        ends = self._recent.ends
        if any(ends[at].events - place.events > self._kept for at, place in after.items()):
            await self._book.sync()

    async def behind(self, after: LogPosition) -> Backlog:
        await self.open()
        return await self._behind(self._book.positions.places(after) or {})

    async def _behind(self, after: Mapping[int, Place]) -> Backlog:
        await self._see_forgotten(dict.fromkeys(range(self._broker.partitions), START) | dict(after))
        events, times, lost, ends = 0, list[int](), False, self._recent.ends
        for at, end in enumerate(ends):
            place = after.get(at, START)
            lost = lost or place.events < self._book.now.start(at).events
            events += max(0, end.events - place.events)
            if end.events > place.events and not lost:
                times.append(await self._recent.next_ms(at, place))
        packed = self._book.positions.packed(dict(enumerate(ends)))
        return Backlog(packed, events, None if lost else min(times, default=None), lost)

    async def reached(self, position: LogPosition) -> bool:
        await self.open()
        places = self._book.positions.places(position)
        if places is None or max(places, default=0) >= self._broker.partitions:
            return False
        until_s, is_refreshed = time.monotonic() + ANSWERED_S, False
        while any(place.events > self._recent.ends[at].events for at, place in places.items()):
            if not is_refreshed:
                ends, is_refreshed = await self._broker.ends("events"), True
                if any(place.offset > ends[at] for at, place in places.items()):
                    return False
            if time.monotonic() > until_s:
                raise StoreUnavailable("this process has not read the log up to your token yet; try again")
            await self._recent.grown(ANSWERED_S)
        return True

    async def announce(self, event: Event) -> None:
        await self.open()
        if event.state == TIMELINE_WANTED:
            self._check_wishes()
        at = self._partition_of(event.source)
        offset = await self._broker.append("events", at, pack(Announced(row_of(event))))
        until_s = time.monotonic() + ANSWERED_S
        while self._recent.ends[at].offset <= offset and time.monotonic() < until_s:
            await self._recent.grown(ANSWERED_S)

    def _check_wishes(self) -> None:
        """Raise Overloaded if this process requests too many timelines in a second.

        An owner's commit counts only if nothing was appended since its last one, so many requests would make it retry
        again and again.
        """
        now_s = int(time.monotonic())
        if now_s != self._wished_in_s:
            self._wished_in_s, self._wishes = now_s, 0
        self._wishes += 1
        if self._wishes > WISHES_A_SECOND:
            raise Overloaded("too many timelines are requested at once; try again in some seconds")

    async def lease(self, name: str, at: LogPosition) -> bool:
        await self.open()
        places = self._book.positions.places(at)
        if places is None:
            await self.release(name)
            return False
        now_ms = self._now_ms()
        granted = await self._book.write(TakeLease(name, places, now_ms, now_ms + self._keep.lease_ms))
        if granted == FULL:
            raise Overloaded(f"{LEASES_MAX} leases of the log are held; release some (`kith log release`)")
        return bool(granted)

    async def release(self, name: str) -> None:
        await self.open()
        await self._book.write(Free(name))

    async def leases(self) -> Sequence[LogLease]:
        await self.open()
        book, now_ms = await self._book.sync(), self._now_ms()
        return [
            LogLease(name, self._book.positions.packed(held.places), held.until_ms, book.is_lost(held, now_ms))
            for name, held in book.leases.items()
        ]

    async def subscribe(self, group: str) -> KafkaSubscription:
        await self.open()
        subscription = KafkaSubscription(self, self._book, self._recent, group, self._broker.partitions)
        with suppress(Unavailable):  # it may have joined even so; `read` joins again under the same name
            await subscription.join()
        return subscription

    async def progress(self, group: str) -> Progress | None:
        await self.open()
        known = (await self._book.sync()).groups.get(group)
        if known is None or known.saved is None:
            return None
        saved = dict(known.saved)
        return Progress(self._book.positions.packed(saved), await self._behind(saved))

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        await self.open()
        return failures_of(await self._book.sync(), group)[:limit]

    async def save(self, group: str, at: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        await self.open()
        places = None if at is None else self._book.positions.places(at) or {}
        if places is not None:
            places = dict.fromkeys(range(self._broker.partitions), START) | places
        kept = [(self._book.positions.partition(position), position, failure) for position, failure in failures.items()]
        await self._book.save(Save(group, "", None, places, kept))

    async def forget(self, group: str) -> None:
        await self.open()
        await self._book.write(EndGroup(group))
