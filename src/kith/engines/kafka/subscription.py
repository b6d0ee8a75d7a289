"""A worker's share of a group. The registry stores its partitions, checkpoints and failures.

A share may shrink or grow at any read. A worker that lost a partition notices when it saves: the save is refused whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

from kith.core.events import NOWHERE, LogPosition
from kith.engines.kafka.positions import Place
from kith.engines.kafka.recent_events import RecentEvents
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Group, GroupRegistry, Join, Leave, Save
from kith.log.store import Batch, Failure, Fenced

_NONE = Group()


class EventReads(Protocol):
    """The reads of the log that a subscription needs."""

    async def read_partitions(self, after: dict[int, Place], limit: int) -> Batch:
        """Up to `limit` events after these places, of their partitions only."""
        ...


class KafkaSubscription:
    """See `log.store.Subscription`."""

    def __init__(
        self, log: EventReads, registry: RegistryReplica, recent: RecentEvents, group: str, partitions: int
    ) -> None:
        self._log, self._registry, self._recent = log, registry, recent
        self._group, self._partitions, self._name = group, partitions, secrets.token_hex(8)
        self._since: dict[int, int] = {}  # partition read here -> the offset at which this worker got it
        self._places: dict[int, Place] = {}  # partition read here -> the place up to which it was read
        self._listed: dict[int, int] = {}  # like `_since`, as of the last list of failures, maybe before any read

    async def join(self) -> None:
        """Join the group, and so get a share of its partitions."""
        await self._registry.write(
            Join(self._group, self._name, self._registry.instance, self._partitions, gentle=False)
        )
        self._registry.beat()

    async def read(self, limit: int) -> Batch:
        group = self._registry.now.groups.get(self._group, _NONE)
        if self._name not in group.members:  # this process was expelled as silent, and others took over
            await self.join()
            group = self._registry.now.groups[self._group]
        since, lost, saved = group.partitions_of(self._name), False, group.saved or {}
        self._places = {
            partition: place
            for partition, place in self._places.items()
            if self._since.get(partition) == since.get(partition)
        }
        for partition in since.keys() - self._places.keys():
            lost = lost or partition not in saved
            self._places[partition] = saved[partition] if partition in saved else self._recent.ends[partition]
        self._since = since
        if not since:
            return Batch((), NOWHERE)
        batch = await self._log.read_partitions(self._places, 0 if lost else limit)
        self._places = self._registry.positions.places(batch.next) or {}
        return batch._replace(lost=lost or batch.lost)

    async def failures(self) -> Sequence[Failure]:
        registry = await self._registry.sync()
        self._listed = registry.groups.get(self._group, _NONE).partitions_of(self._name)
        return failures_of(registry, self._group, self._listed)

    async def save(self, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        positions = self._registry.positions
        places = None if checkpoint is None else positions.places(checkpoint)
        partition_failures = [
            (positions.partition(position), position, failure) for position, failure in failures.items()
        ]
        since = {
            checkpoint: self._since.get(checkpoint, self._listed.get(checkpoint, -1))
            for checkpoint, _, _ in partition_failures
        }
        since |= {checkpoint: self._since.get(checkpoint, -1) for checkpoint in places or ()}
        save = Save(self._group, self._name, since, places, partition_failures)
        if (checkpoint is not None and not places) or not await self._registry.save(save):
            self._places, self._since = {}, {}
            raise Fenced(f"another worker of {self._group} has partitions that were read here")

    async def close(self) -> None:
        await self._registry.write(Leave(self._group, self._name))


def failures_of(registry: GroupRegistry, group: str, partitions: Mapping[int, int] | None = None) -> list[Failure]:
    """The failures of a group; only those of `partitions`, if given."""
    failures = registry.groups.get(group, _NONE).failures
    return [failure for partition, failure in failures.values() if partitions is None or partition in partitions]
