"""The registry: what the records of the topic `groups` (one partition) add up to. Pure: equal in every process.

Each record requests a change. Whether it is granted follows from the records before it alone. So a worker whose
partitions were handed over is refused, whatever it believes, and no race can forget events that a lease keeps.

    NameLog       sets the log's name; the first one counts
    Join, Leave   a worker joins or leaves a group
    Beat, Expel   a process is alive; a process sent no heartbeat since a given one, so its workers are removed
    Release       a worker releases a partition that goes to another worker
    Save          stores a checkpoint and failures of a group; EndGroup deletes both
    TakeLease     keeps the events after some places; Free ends the lease
    Forget        forgets the oldest events of a partition, except those that leases keep
    RegistrySnapshot  the whole registry; the records before it can then go; void unless at the offset it expects
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kith.core.events import LogPosition
from kith.engines.kafka.positions import START, Place
from kith.log.store import LEASES_MAX, Failure

NO_ROOM = "full"
"""The verdict on a lease for which there is no room (LEASES_MAX)."""


PartitionFailure: TypeAlias = tuple[int, LogPosition, Failure | None]
"""The partition of an event, its log position, and its failure; None: the failure is settled."""


class NameLog(msgspec.Struct, frozen=True, array_like=True, tag=1):
    name: bytes


class Join(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A worker joins. `gentle`: a partition is handed over only when its worker releases it, not at once."""

    group: str
    member: str
    instance: str
    partitions: int
    gentle: bool


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=3):
    group: str
    member: str


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=4):
    instance: str


class Expel(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Remove a silent process. `beat`: the offset of the last heartbeat that was seen of it."""

    instance: str
    beat: int


class Release(msgspec.Struct, frozen=True, array_like=True, tag=6):
    group: str
    member: str
    partition: int


class Save(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Save a checkpoint (`places`; None: leave it) and failures of a group.

    `since`: for each partition concerned, the offset at which the worker got it. If one differs in the registry, the
    save is refused. None: an operator's tool saves, and is not checked.
    """

    group: str
    member: str
    since: dict[int, int] | None
    places: dict[int, Place] | None
    failures: list[PartitionFailure]


class TakeLease(msgspec.Struct, frozen=True, array_like=True, tag=8):
    name: str
    places: dict[int, Place]
    now_ms: int
    until_ms: int


class Free(msgspec.Struct, frozen=True, array_like=True, tag=9):
    name: str


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Forget events of a partition before `upto`, unless leased; and before `even_if_leased`, leased or not."""

    partition: int
    upto: Place
    even_if_leased: Place
    now_ms: int


class RegistryLease(msgspec.Struct, frozen=True, array_like=True):
    """A lease: events after `places` are kept until `until_ms`."""

    places: dict[int, Place]
    until_ms: int


class Group(msgspec.Struct, array_like=True):
    """A group of workers, with its checkpoint and failures."""

    partitions: int = 0
    gentle: bool = False
    members: dict[str, str] = {}  # worker -> its process, in the order of joining
    owners: dict[int, tuple[str, int]] = {}  # partition -> its worker, and the offset at which the worker got it
    saved: dict[int, Place] | None = None
    failures: dict[LogPosition, tuple[int, Failure]] = {}

    def partitions_of(self, member: str) -> dict[int, int]:
        """The partitions of a worker, each with the offset at which the worker got it."""
        return {partition: since for partition, (owner, since) in self.owners.items() if owner == member}

    def target_workers(self) -> dict[int, str]:
        """The worker that each partition should go to: equal shares, the rest to the newest workers, fewest moves."""
        shares_left = {member: self.partitions // len(self.members) for member in self.members}
        for member in list(self.members)[::-1][: self.partitions - sum(shares_left.values())]:
            shares_left[member] += 1
        targets: dict[int, str] = {}
        for partition, (owner, _) in sorted(self.owners.items()):
            if shares_left.get(owner, 0):
                targets[partition] = owner
                shares_left[owner] -= 1
        open_shares = [member for member, count in shares_left.items() for _ in range(count)]
        for partition in range(self.partitions):
            if partition not in targets:
                targets[partition] = open_shares.pop()
        return targets

    def assign(self, offset: int) -> None:
        """Assign partitions to their `target_workers`, as of this offset. A gentle group leaves those not released."""
        self.owners = {partition: owner for partition, owner in self.owners.items() if owner[0] in self.members}
        if self.members:
            for partition, member in self.target_workers().items():
                owner, _ = self.owners.get(partition, ("", 0))
                if not owner or (owner != member and not self.gentle):
                    self.owners[partition] = member, offset


class GroupRegistry(msgspec.Struct, array_like=True):
    """The whole registry."""

    name: bytes = b""  # of the log
    instances: dict[str, int] = {}  # process -> the offset of its last heartbeat
    groups: dict[str, Group] = {}
    leases: dict[str, RegistryLease] = {}
    forgotten: dict[int, Place] = {}  # partition -> its oldest place that is kept

    def start(self, partition: int) -> Place:
        """The oldest place of a partition that is kept."""
        return self.forgotten.get(partition, START)

    def without_failures(self) -> GroupRegistry:
        """A copy in which no group has failures."""
        groups = {name: msgspec.structs.replace(group, failures={}) for name, group in self.groups.items()}
        return msgspec.structs.replace(self, groups=groups)

    def keeps(self, places: dict[int, Place]) -> bool:
        """Whether all events after these places are still kept."""
        return all(start.events <= places.get(partition, START).events for partition, start in self.forgotten.items())

    def is_lost(self, lease: RegistryLease, now_ms: int) -> bool:
        return now_ms >= lease.until_ms or not self.keeps(lease.places)


class EndGroup(msgspec.Struct, frozen=True, array_like=True, tag=12):
    group: str


class RegistrySnapshot(msgspec.Struct, frozen=True, array_like=True, tag=11):
    expects: int
    registry: GroupRegistry


Entry = NameLog | Join | Leave | Beat | Expel | Release | Save | TakeLease | Free | Forget | RegistrySnapshot | EndGroup
RegistryVerdict = bool | str


def apply_entry(registry: GroupRegistry, offset: int, entry: Entry) -> RegistryVerdict:
    """Apply a record to a registry; returns whether it was granted."""
    match entry:
        case NameLog(name):
            registry.name = registry.name or name
        case Beat(instance):
            if instance in registry.instances:
                registry.instances[instance] = offset
        case Join() | Leave() | Release() | Expel():
            return _change_workers(registry, offset, entry)
        case Save():
            return _save_progress(registry, entry)
        case EndGroup(group):
            _end_group(registry, group)
        case TakeLease():
            return _take_lease(registry, entry)
        case Free(name):
            return registry.leases.pop(name, None) is not None
        case Forget():
            _forget_events(registry, entry)
        case RegistrySnapshot():
            return entry.expects == offset
    return True


def _change_workers(registry: GroupRegistry, offset: int, entry: Join | Leave | Release | Expel) -> bool:
    if isinstance(entry, Expel):
        if registry.instances.get(entry.instance) != entry.beat:
            return False  # it is alive
        del registry.instances[entry.instance]
        for group in registry.groups.values():
            group.members = {member: process for member, process in group.members.items() if process != entry.instance}
            group.assign(offset)
        return True
    group = registry.groups.setdefault(entry.group, Group())
    if isinstance(entry, Join):
        registry.instances[entry.instance] = offset
        group.partitions, group.gentle = entry.partitions, entry.gentle
        group.members[entry.member] = entry.instance
    elif isinstance(entry, Leave):
        group.members.pop(entry.member, None)
    elif group.owners.get(entry.partition, ("", 0))[0] != entry.member:
        return False
    else:
        del group.owners[entry.partition]
    group.assign(offset)
    return True


def _save_progress(registry: GroupRegistry, entry: Save) -> bool:
    group = registry.groups.setdefault(entry.group, Group())
    if entry.since is not None and not entry.since.items() <= group.partitions_of(entry.member).items():
        return False
    if entry.places is not None:
        group.saved = (group.saved or {}) | entry.places
    for partition, position, failure in entry.failures:
        group.failures.pop(position, None)
        if failure is not None:
            group.failures[position] = partition, failure
    return True


def _end_group(registry: GroupRegistry, name: str) -> None:
    group = registry.groups.get(name)
    if group is not None and group.members:  # its workers start over
        group.saved, group.failures = None, {}
    else:
        registry.groups.pop(name, None)


def _take_lease(registry: GroupRegistry, entry: TakeLease) -> RegistryVerdict:
    is_renewal = entry.name in registry.leases
    if not registry.keeps(entry.places):
        registry.leases.pop(entry.name, None)
        return False
    if not is_renewal and len(registry.leases) >= LEASES_MAX:
        lost_names = [name for name, lease in registry.leases.items() if registry.is_lost(lease, entry.now_ms)]
        if not lost_names:
            return NO_ROOM
        for name in lost_names:
            del registry.leases[name]
    registry.leases[entry.name] = RegistryLease(entry.places, entry.until_ms)
    return True


def _forget_events(registry: GroupRegistry, entry: Forget) -> None:
    partition, live = entry.partition, [lease for lease in registry.leases.values() if entry.now_ms < lease.until_ms]
    oldest_kept = min([entry.upto, *(lease.places.get(partition, START) for lease in live)])
    registry.forgotten[partition] = max(registry.start(partition), oldest_kept, entry.even_if_leased)
