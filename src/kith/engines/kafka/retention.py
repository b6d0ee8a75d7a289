"""Retention of events: a partition keeps a number of events, and forgets the oldest beyond it unless they are leased.

The owner of a partition does this. It appends `Forget` to the registry, whose rules respect leases, and then deletes
the records. The last commit of a partition always stays, as `commits` needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kith.core.clock import wall_ms
from kith.engines.kafka.broker import Broker
from kith.engines.kafka.commits import read_event_record
from kith.engines.kafka.positions import Place
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Forget

_CHUNK_RECORDS = 200
_STEPS = 8
_STEP_EVENTS_MIN = 16


class PartitionBounds(NamedTuple):
    """The bounds of a log: events kept, how long a lease lasts, and events kept while one is held."""

    events_max: int = 10_000_000
    lease_ms: int = 72 * 3_600_000
    leased_events_max: int = 100_000_000


DEFAULT_BOUNDS = PartitionBounds()


class PartitionRetention:
    """Forgets the oldest events of one partition, in steps of an eighth of what is kept."""

    def __init__(
        self,
        broker: Broker,
        registry: RegistryReplica,
        partition: int,
        keep: PartitionBounds,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._broker, self._registry, self._partition, self._now_ms = broker, registry, partition, now_ms
        self._events_max = max(1, keep.events_max // broker.partitions)
        self._leased_max = max(self._events_max, keep.leased_events_max // broker.partitions)
        self._step = max(self._events_max // _STEPS, _STEP_EVENTS_MIN)
        self._next = 0

    async def forget(self, end: Place) -> None:
        """Forget the oldest events of a partition that ends here, if a step of them is due."""
        if end.events < self._next:
            return
        start = (await self._registry.sync()).start(self._partition)
        self._next = max(start.events + self._events_max, end.events) + self._step
        if end.events - start.events <= self._events_max:
            return
        target = await self._find(start, end, end.events - self._events_max)
        even_if_leased = await self._find(start, end, end.events - self._leased_max)
        await self._registry.write(Forget(self._partition, target, even_if_leased, self._now_ms()))
        forgotten = self._registry.now.start(self._partition)
        if forgotten.offset > start.offset:
            await self._broker.forget("events", self._partition, forgotten.offset)

    async def _find(self, start: Place, end: Place, count: int) -> Place:
        """The place after the first `count` events; `start` if that is further."""
        if count <= start.events:
            return start
        low, high = start, end.offset
        while high - low.offset > _CHUNK_RECORDS:
            middle = (low.offset + high) // 2
            commit = await self._commit_from(middle, high)
            if commit is None or commit.events > count:
                high = middle
            else:
                low = commit
        for record in await self._broker.fetch("events", self._partition, low.offset, end.offset):
            if event_record := read_event_record(record, low.events):
                if event_record.first + event_record.length > count:
                    return Place(count, event_record.offset)
                low = Place(event_record.first + event_record.length, event_record.offset + 1)
        return low

    async def _commit_from(self, offset: int, end: int) -> Place | None:
        """The place before the first commit among the _CHUNK_RECORDS records from `offset` on; None: there is none."""
        for record in await self._broker.fetch("events", self._partition, offset, min(end, offset + _CHUNK_RECORDS)):
            if (event_record := read_event_record(record, -1)) and event_record.first >= 0:
                return Place(event_record.first, event_record.offset)
        return None
