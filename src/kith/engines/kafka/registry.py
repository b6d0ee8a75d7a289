"""This process's copy of the registry (see `registry_state`): it follows the topic `groups`, and appends to it.

A process that appends a record waits until it reads that record back, and so learns whether it was granted. Every
SNAPSHOT_RECORDS records a snapshot is appended, and the records before it are deleted.

A process with workers appends a heartbeat (`Beat`) every BEAT_S. If another process sees no new one for `expel_after_s`
of its own clock, it expels the silent process's workers.

Records of an unknown kind, from a newer Kith, are skipped. A process that skipped one writes no more snapshots, because
they would lack what that record changed. Records that no Kith wrote are skipped too, and have no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence

import msgspec
import structlog

from kith.core.errors import KithError, StoreUnavailable, Unavailable
from kith.engines.kafka import registry_state
from kith.engines.kafka.broker import (
    ANSWER_TIMEOUT_S,
    PART_BYTES_MAX,
    Broker,
    BrokerRecord,
    TopicFollower,
    fetch_all,
    in_parts,
)
from kith.engines.kafka.commits import pack
from kith.engines.kafka.positions import NAME_BYTES, Positions
from kith.engines.kafka.registry_state import (
    Beat,
    Entry,
    Expel,
    NameLog,
    PartitionFailure,
    RegistrySnapshot,
    RegistryVerdict,
    Save,
    apply_entry,
)

SNAPSHOT_RECORDS = 2_000
"""Records from one snapshot to the next."""
BEAT_S = 2.0
"""How often a process with workers appends a heartbeat."""
EXPEL_AFTER_S = 10.0
"""A process without a new heartbeat for this long is expelled."""
_VERDICTS_MAX = 10_000
"""Verdicts of records that are kept in memory, for the calls that appended them."""
_FAILURE_BYTES = 256  # approximate size of a failure, without its error and the data of its event
_entries, _decode_any = msgspec.msgpack.Decoder(Entry), msgspec.msgpack.Decoder()
_log = structlog.get_logger("kith.log")


class RegistryReplica:
    """The registry as this process has read it. `positions`: those of the log that the registry belongs to."""

    def __init__(self, broker: Broker, expel_after_s: float = EXPEL_AFTER_S) -> None:
        self._broker, self._expel_after_s = broker, expel_after_s
        self.instance = secrets.token_hex(8)
        self.now = registry_state.GroupRegistry()
        self.positions = Positions(b"")
        self._next = 0  # the offset of the next record to read
        self._knows_all = True
        self._verdicts: dict[int, RegistryVerdict] = {}
        self._grown = asyncio.Event()
        self._follower: TopicFollower | None = None
        self._beating: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._seen: dict[str, tuple[int, float]] = {}  # by process: its last heartbeat, and when we first saw that one

    async def open(self) -> None:
        """On the first call, read the whole registry, and follow the topic from then on."""
        async with self._opening:
            if self._follower is None:
                records, end = await self._read_stored()
                follower = self._broker.follower("groups", self._handle)
                follower.follow({0: end})  # first: if this fails, the next `open` begins with an empty registry too
                self._read(records)
                self._next, self._follower = end, follower
            if not self.now.name:  # the next `open` retries if this append fails
                await self.write(NameLog(secrets.token_bytes(NAME_BYTES)))

    async def _read_stored(self) -> tuple[list[BrokerRecord], int]:
        """All stored records, and the offset after them. Restarts if a newer snapshot deletes some meanwhile."""
        while True:
            (start,), (end,) = await self._broker.starts("groups"), await self._broker.ends("groups")
            try:
                return await fetch_all(self._broker, "groups", 0, start, end), end
            except StoreUnavailable:
                if await self._broker.starts("groups") == [start]:
                    raise

    async def close(self) -> None:
        """Remove this process's workers from the registry, and stop following it."""
        if self._beating is not None:
            self._beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._beating
            with contextlib.suppress(KithError):  # if Kafka is away, others expel this process later
                await self.write(Expel(self.instance, (await self.sync()).instances.get(self.instance, -1)))
        if self._follower is not None:
            await self._follower.close()

    async def write(self, entry: Entry) -> RegistryVerdict:
        """Append a record and wait for its verdict."""
        offset = await self._broker.append("groups", 0, pack(entry))
        await self._until(offset + 1)
        if offset % SNAPSHOT_RECORDS == SNAPSHOT_RECORDS - 1 and self._knows_all:
            await self._snapshot()
        if offset not in self._verdicts:  # this process was paused until a snapshot replaced the record
            raise StoreUnavailable("the outcome of a save in Kafka is not known; try again")
        return self._verdicts[offset]

    async def save(self, save: Save) -> RegistryVerdict:
        """Append a checkpoint and failures. Large ones take several records, with the checkpoint in the last."""
        *earlier, last = in_parts(save.failures, _size_of)
        for chunk in earlier:
            verdict = await self.write(msgspec.structs.replace(save, places=None, failures=chunk))
            if not verdict:
                return verdict
        return await self.write(msgspec.structs.replace(save, failures=last))

    async def sync(self) -> registry_state.GroupRegistry:
        """The registry with all records that were appended before this call."""
        (end,) = await self._broker.ends("groups")
        await self._until(end)
        return self.now

    async def changed(self, within_s: float) -> None:
        """Wait until more records were read, for `within_s` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._grown.wait()

    def beat(self) -> None:
        """Start sending heartbeats, as this process has workers, and expelling processes that send none."""
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            try:
                await self.write(Beat(self.instance))
                for instance, beat in self._silent_instances():
                    if await self.write(Expel(instance, beat)):
                        _log.warning("a process is gone, its partitions are handed over", instance=instance)
            except Unavailable as error:
                _log.warning("waiting for Kafka", error=error.message)
            except Exception:
                _log.exception("a beat failed; the next follows")
            await asyncio.sleep(min(BEAT_S, self._expel_after_s / 4))

    def _silent_instances(self) -> list[tuple[str, int]]:
        """Other processes without a new heartbeat for too long, each with its last one."""
        now_s, previous = time.monotonic(), self._seen
        self._seen = {
            instance: previous[instance] if previous.get(instance, (None,))[0] == beat else (beat, now_s)
            for instance, beat in self.now.instances.items()
            if instance != self.instance
        }
        return [(instance, beat) for instance, (beat, at_s) in self._seen.items() if now_s - at_s > self._expel_after_s]

    async def _snapshot(self) -> None:
        """Append a snapshot of the registry, and delete the records before it. If another record came first, give up.

        If failures make the snapshot too large for one record, it is written without them, and they are saved again
        after it. The larger the registry, the less often this is done. A failure that is settled at that very moment
        may stay in the registry; its event is then retried.
        """
        expects = self._next
        packed = pack(RegistrySnapshot(expects, self.now))
        size = -(-len(packed) // PART_BYTES_MAX)  # in records
        if expects // SNAPSHOT_RECORDS % size:
            return
        if size > 1:
            packed = pack(RegistrySnapshot(expects, self.now.without_failures()))
        if await self._broker.append("groups", 0, packed) != expects:
            return
        if size > 1:
            await self._save_failures_again()
        await self._broker.forget("groups", 0, expects)

    async def _save_failures_again(self) -> None:
        for name, group in list(self.now.groups.items()):
            failures: list[PartitionFailure] = [
                (partition, position, failure) for position, (partition, failure) in group.failures.items()
            ]
            for chunk in in_parts(failures, _size_of):
                unsettled = self.now.groups[name].failures if name in self.now.groups else {}
                if remaining := [partition_failure for partition_failure in chunk if partition_failure[1] in unsettled]:
                    await self.write(Save(name, "", None, None, remaining))

    async def _until(self, end: int) -> None:
        """Wait until all records before an offset are read."""
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        with contextlib.nullcontext() if self._follower is None else self._follower.awaited():
            while self._next < end:
                if time.monotonic() > until_s:
                    raise StoreUnavailable("what was saved cannot be read from Kafka; try again")
                await self.changed(until_s - time.monotonic() + 0.001)

    async def _handle(self, partition: int, records: Sequence[BrokerRecord]) -> None:
        self._read(records)

    def _skip(self, record: BrokerRecord) -> None:
        self._next = record.offset + 1
        if not _is_from_kith(record.value):
            _log.warning("somebody else writes to the topic of the registry; forbid it", offset=record.offset)
        elif self._knows_all:
            _log.warning("the registry has records of a newer Kith, which are passed over", offset=record.offset)
            self._knows_all = False

    def _read(self, records: Sequence[BrokerRecord]) -> None:
        for record in records:
            try:
                entry = _entries.decode(record.value)
            except msgspec.MsgspecError:
                self._skip(record)
                continue
            if isinstance(entry, RegistrySnapshot) and record.offset > self._next and entry.expects == record.offset:
                self.now = entry.registry  # the records before it were deleted
            self._next = record.offset + 1
            self._verdicts[record.offset] = apply_entry(self.now, record.offset, entry)
            if len(self._verdicts) > _VERDICTS_MAX:
                del self._verdicts[next(iter(self._verdicts))]
        if self.now.name != self.positions.name:
            self.positions.name = self.now.name
        self._grown.set()
        self._grown = asyncio.Event()


def _is_from_kith(value: bytes) -> bool:
    """Whether some version of Kith wrote a record: a list that begins with the number of its kind."""
    try:
        match _decode_any.decode(value):
            case [int(), *_]:
                return True
    except msgspec.MsgspecError:
        pass
    return False


def _size_of(partition_failure: PartitionFailure) -> tuple[int, int]:
    """The rows (1) and the approximate bytes that a failure takes in a record."""
    failure = partition_failure[2]
    return 1, _FAILURE_BYTES + (0 if failure is None else len(failure.event.data) + len(failure.error))
