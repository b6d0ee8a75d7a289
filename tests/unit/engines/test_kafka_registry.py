"""Which records the registry of consumer groups accepts and which it refuses."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from kith.core.clock import Hlc
from kith.core.events import Event, LogPosition
from kith.engines.kafka.positions import Place, Positions
from kith.engines.kafka.registry_state import (
    NO_ROOM,
    Beat,
    EndGroup,
    Entry,
    Expel,
    Forget,
    Free,
    GroupRegistry,
    Join,
    Leave,
    NameLog,
    RegistrySnapshot,
    RegistryVerdict,
    Release,
    Save,
    TakeLease,
    apply_entry,
)
from kith.log.store import LEASES_MAX, Failure

GROUP = "readers"


class Written:
    """A registry and the offset of the next record."""

    def __init__(self) -> None:
        self.registry, self._offsets = GroupRegistry(), itertools.count()
        self.last = -1

    def write(self, *entries: Entry) -> list[RegistryVerdict]:
        return [self._write(entry) for entry in entries]

    def _write(self, entry: Entry) -> RegistryVerdict:
        self.last = next(self._offsets)
        read = msgspec.msgpack.decode(msgspec.msgpack.encode(entry), type=Entry)
        return apply_entry(self.registry, self.last, read)

    def shares(self) -> dict[str, int]:
        """How many partitions each worker has."""
        group = self.registry.groups[GROUP]
        return {member: len(group.partitions_of(member)) for member in group.members}


@pytest.fixture
def written() -> Written:
    return Written()


def join(member: str, *, instance: str = "", gentle: bool = False, partitions: int = 8) -> Join:
    return Join(GROUP, member, instance or f"process of {member}", partitions, gentle)


def save(written: Written, member: str, since: dict[int, int], events: int = 1) -> RegistryVerdict:
    places = {at: Place(events, 0) for at in since}
    return written.write(Save(GROUP, member, since, places, []))[0]


def test_partitions_are_divided_into_equal_shares_with_few_moves(written: Written) -> None:
    written.write(join("a"))
    assert written.shares() == {"a": 8}
    before = written.registry.groups[GROUP].owners
    written.write(join("b"), join("c"))
    assert sorted(written.shares().values()) == [2, 3, 3]
    now = written.registry.groups[GROUP].owners
    assert sum(now[at] != before[at] for at in now) == 6
    written.write(Leave(GROUP, "b"))
    assert sorted(written.shares().values()) == [4, 4]
    written.write(*(join(str(number), partitions=8) for number in range(10)))
    assert sorted(written.shares().values()) == [0] * 4 + [1] * 8
    assert written.shares()["9"] == 1, "the last worker to join has a share"


def test_partitions_of_a_gentle_member_stay_until_it_releases_them(written: Written) -> None:
    written.write(join("a", gentle=True), join("b", gentle=True))
    group = written.registry.groups[GROUP]
    assert written.shares() == {"a": 8, "b": 0}
    targets = group.target_workers()
    leaving = [at for at, member in targets.items() if member == "b"]
    assert len(leaving) == 4
    assert written.write(*(Release(GROUP, "a", at) for at in leaving)) == [True] * 4
    assert written.shares() == {"a": 4, "b": 4}
    assert written.write(Release(GROUP, "a", leaving[0])) == [False]
    assert group.target_workers() == {at: owner for at, (owner, _) in group.owners.items()}


def test_a_worker_that_lost_a_partition_cannot_save_with_its_old_claim(written: Written) -> None:
    written.write(join("a"))
    old = written.registry.groups[GROUP].partitions_of("a")
    assert save(written, "a", old)
    written.write(join("b"))
    assert not save(written, "a", old, events=9)
    written.write(Leave(GROUP, "b"))
    assert set(written.registry.groups[GROUP].partitions_of("a")) == set(old)
    assert not save(written, "a", old, events=9)
    assert save(written, "a", written.registry.groups[GROUP].partitions_of("a"), events=5)
    assert set((written.registry.groups[GROUP].saved or {}).values()) == {Place(5, 0)}


def test_a_process_that_sent_a_heartbeat_since_is_not_expelled(written: Written) -> None:
    written.write(join("a", instance="one"))
    seen = written.last
    written.write(join("b", instance="two"), Beat("one"))
    assert written.write(Expel("one", seen)) == [False]
    assert written.write(Expel("one", written.registry.instances["one"])) == [True]
    assert written.shares() == {"b": 8}
    assert written.write(Expel("one", -1), Beat("one")) == [False, True]
    assert "one" not in written.registry.instances


def test_nothing_is_left_of_an_ended_group_and_its_workers_start_over(written: Written) -> None:
    saved = Save(GROUP, "", None, {0: Place(10, 5)}, [])
    written.write(saved, EndGroup(GROUP), EndGroup("nobody's"))
    assert not written.registry.groups
    written.write(Join(GROUP, "one", "first", 1, gentle=False), saved, EndGroup(GROUP))
    assert written.registry.groups[GROUP].saved is None
    assert written.shares() == {"one": 1}


def test_leases_hold_back_forgetting_and_forgotten_records_end_leases(written: Written) -> None:
    lease = TakeLease("backup", {0: Place(10, 5)}, 0, 100)
    assert written.write(lease, Forget(0, Place(50, 25), Place(0, 0), 99)) == [True, True]
    assert written.registry.forgotten == {0: Place(10, 5)}
    written.write(Forget(0, Place(50, 25), Place(20, 11), 99))
    assert written.registry.forgotten == {0: Place(20, 11)}, "leases hold records back only up to a bound"
    assert written.registry.is_lost(written.registry.leases["backup"], 0)
    assert written.write(lease) == [False]
    assert not written.registry.leases
    assert written.write(TakeLease("late", {0: Place(30, 15)}, 0, 100), Free("late"), Free("late")) == [
        True,
        True,
        False,
    ]
    written.write(TakeLease("over", {0: Place(30, 15)}, 0, 100), Forget(0, Place(50, 25), Place(0, 0), 100))
    assert written.registry.forgotten == {0: Place(50, 25)}, "a lease that ended keeps nothing"


def test_the_number_of_leases_is_bounded(written: Written) -> None:
    leases = [TakeLease(str(number), {}, 0, 100 + number) for number in range(LEASES_MAX)]
    assert set(written.write(*leases)) == {True}
    assert written.write(TakeLease("more", {}, 0, 100)) == [NO_ROOM]
    assert written.write(TakeLease("7", {}, 0, 100)) == [True]
    assert written.write(TakeLease("more", {}, 100, 200)) == [True], "expired leases make room"
    assert len(written.registry.leases) == LEASES_MAX - 1


def test_a_snapshot_holds_everything(written: Written) -> None:
    event = Event(1, None, 0, 7, 8, 9, Hlc(10), 11, LogPosition(b"mark"), b"data")
    failure = Failure(GROUP, event, 1, "a bug", 0, 0)
    written.write(
        NameLog(b"name"),
        NameLog(b"late"),
        join("a"),
        Save(GROUP, "", None, {0: Place(1, 2)}, [(0, event.log_position, failure)]),
        TakeLease("backup", {0: Place(10, 5)}, 0, 100),
        Forget(0, Place(5, 2), Place(0, 0), 0),
    )
    expects = written.last + 1
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(RegistrySnapshot(expects, written.registry)), type=Entry)
    assert isinstance(read, RegistrySnapshot)
    assert read.registry == written.registry
    assert read.registry.name == b"name"
    assert written.write(read, read) == [True, False]


def test_positions_of_other_logs_and_junk_are_not_positions_of_this_log() -> None:
    ours, theirs = Positions(b"ours"), Positions(b"them")
    position = ours.packed({3: Place(4, 5)})
    assert ours.places(position) == {3: Place(4, 5)}
    assert theirs.places(position) is None
    for junk in (b"ours", b"ours\xff", b"ours\x91\x01", b"ours\x93\x00\xff\x00", b"our"):
        assert ours.places(LogPosition(junk)) is None, junk
        assert not ours.covers(position, LogPosition(junk))
    assert ours.joined(position, theirs.packed({1: Place(1, 1)})) == position
