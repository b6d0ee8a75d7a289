"""The LogStore on LMDB: reads the event log (`event_log`), and keeps the notes of consumer groups in `meta`.

group/<name>                 the group's checkpoint: the sequence number of the last event that it has handled
failure/<group>/<sequence>   a Failure as MessagePack
log-lease/<name>             a lease that keeps events; see `retention`
owner/<group>                the subscription that gets the group's events: 8 random bytes; absent after it closed
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import lmdb
import msgspec

from kith.core.errors import Overloaded, StandbyBehind
from kith.core.events import NOWHERE, Event, LogPosition
from kith.engines.embedded import changes, event_log
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.decoded_rows import DecodedRows
from kith.engines.embedded.driver_errors import translate
from kith.engines.embedded.environment import Environment, Txn
from kith.engines.embedded.retention import LEASE_PREFIX, StoredLease, lease_row, leased
from kith.engines.embedded.transaction import Transaction
from kith.log import store
from kith.log.store import LEASES_MAX, Backlog, Bell, Failure, Fenced, LogLease, Progress

TOKEN_WAIT_S = 2.0
"""Seconds that a read on a standby waits for the write of its token to arrive; beyond that, StandbyBehind."""
_POLL_S = 0.01
"""Seconds between checks whether it has arrived."""
GROUP_PREFIX, FAILURE_PREFIX = "group/", "failure/"
_OWNER_PREFIX = "owner/"


class EmbeddedLog:
    """See `log.store.LogStore`. It has one partition, in the order of commits."""

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        self._environment, self._commits, self._positions = environment, commits, environment.positions
        self.covers, self.joined = environment.positions.covers, environment.positions.joined
        self._decode = DecodedRows().events_of

    def bell(self) -> AbstractContextManager[Bell]:
        return self._environment.doorbell.bell()

    def bounds(self) -> tuple[int, int]:
        """The first and last sequence numbers in the log; (1, 0) if it never had an event."""
        with self.begin() as txn:
            return event_log.bounds(txn, self._environment.log)

    async def end(self) -> LogPosition:
        return self._positions.of(self.bounds()[1])

    async def read(self, after: LogPosition, limit: int) -> store.Batch:
        sequence = self._positions.sequence(after)
        with self.begin() as txn:
            batch = self.read_after(txn, sequence or 0, limit)
        return batch if sequence is not None else batch._replace(lost=True)

    async def latest(self, after: LogPosition, limit: int) -> store.Batch:
        return await self.read(after, limit)

    def read_after(self, txn: Txn, sequence: int, limit: int) -> store.Batch:
        """Up to `limit` events after a sequence number."""
        if sequence >= event_log.bounds(txn, self._environment.log)[1]:
            return store.Batch((), self._positions.of(sequence))
        events = event_log.read(txn, self._environment.log, self._positions, sequence, limit, self._decode)
        if not events:
            return store.Batch((), self._positions.of(sequence))
        return store.Batch(events, events[-1].log_position, events[0].log_position != self._positions.of(sequence + 1))

    def empty_batch(self, txn: Txn) -> store.Batch:
        """An empty batch for a group that never saved a checkpoint: reading begins at the end of the log, `lost`."""
        _, last = event_log.bounds(txn, self._environment.log)
        return store.Batch((), self._positions.of(last), lost=True)

    def sequence(self, position: LogPosition) -> int:
        """The number of the last event that a position covers; 0 if this store does not have it."""
        return self._positions.sequence(position) or 0

    async def behind(self, after: LogPosition) -> Backlog:
        with self.begin() as txn:
            return self._behind(txn, self.sequence(after))

    def _behind(self, txn: Txn, sequence: int) -> Backlog:
        first, last = event_log.bounds(txn, self._environment.log)
        end = self._positions.of(last)
        if sequence >= last:
            return Backlog(end, 0, None)
        if sequence + 1 < first:
            return Backlog(end, last - sequence, None, lost=True)
        (oldest,) = event_log.read(txn, self._environment.log, self._positions, sequence, 1)
        return Backlog(end, last - sequence, oldest.logged_ms)

    async def reached(self, position: LogPosition) -> bool:
        if self.covers(await self.end(), position):  # any read sees the acknowledged writes of all processes
            return True
        if self._positions.sequence(position) is None or not self._environment.is_closed():
            return False
        until_s = time.monotonic() + TOKEN_WAIT_S
        while not self.covers(await self.end(), position):  # wait until the standby has replayed it
            if time.monotonic() > until_s:
                raise StandbyBehind("this standby has not replayed the write of your token yet; ask the primary")
            await asyncio.sleep(_POLL_S)
        return True

    async def announce(self, event: Event) -> None:
        packed = changes.announced(event)
        await self._commits.run(lambda batch: batch.append(packed))

    async def lease(self, name: str, lease_position: LogPosition) -> bool:
        sequence = self._positions.sequence(lease_position)

        def write(batch: Transaction) -> bool:
            first, last = event_log.bounds(batch.txn, self._environment.log)
            is_kept = sequence is not None and first - 1 <= sequence <= last
            if is_kept and batch.note(LEASE_PREFIX + name) is None:
                self._make_room(batch, first)
            batch.put_note(LEASE_PREFIX + name, lease_row(sequence or 0, batch.now_ms) if is_kept else None)
            return is_kept

        return await self._commits.run(write)

    def _make_room(self, batch: Transaction, first: int) -> None:
        """If there are LEASES_MAX leases, remove the lost ones; Overloaded if none is lost."""
        leases = list(leased(batch.txn, self._environment.notes_db))
        lost_leases = [lease for lease in leases if self._lost(lease, first, batch.now_ms)]
        if len(leases) >= LEASES_MAX:
            if not lost_leases:
                raise Overloaded(f"{LEASES_MAX} leases of the log are held; release some (`kith log release`)")
            for lease in lost_leases:
                batch.put_note(LEASE_PREFIX + lease.name, None)

    def _lost(self, lease: StoredLease, first: int, now_ms: int) -> bool:
        return lease.sequence + 1 < first or not self._commits.retention.is_valid(lease, now_ms)

    async def release(self, name: str) -> None:
        await self._commits.run(lambda batch: batch.put_note(LEASE_PREFIX + name, None))

    async def leases(self) -> Sequence[LogLease]:
        keep, now_ms = self._commits.retention.bounds, self._commits.now_ms()
        with self.begin() as txn:
            first, _ = event_log.bounds(txn, self._environment.log)
            return [
                LogLease(
                    lease.name,
                    self._positions.of(lease.sequence),
                    lease.renewed_ms + keep.lease_ms,
                    self._lost(lease, first, now_ms),
                )
                for lease in leased(txn, self._environment.notes_db)
            ]

    def size(self) -> int:
        """Bytes of the log, in whole pages."""
        with self.begin() as txn:
            return self._commits.retention.size(txn)

    async def subscribe(self, group: str) -> EmbeddedSubscription:
        subscription = EmbeddedSubscription(self, group)
        await subscription.claim()
        return subscription

    async def progress(self, group: str) -> Progress | None:
        with self.begin() as txn:
            sequence = self.checkpoint(txn, group)
            return None if sequence is None else Progress(self._positions.of(sequence), self._behind(txn, sequence))

    async def failures(self, group: str, limit: int | None = None) -> Sequence[Failure]:
        notes = self._environment.notes(f"{FAILURE_PREFIX}{group}/", limit)
        return [self._failure(int(sequence), row) for sequence, row in notes.items()]

    async def save(
        self, group: str, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]
    ) -> None:
        await self.note(group, checkpoint, failures)

    async def forget(self, group: str) -> None:
        failures = f"{FAILURE_PREFIX}{group}/"
        keys = [
            GROUP_PREFIX + group,
            _OWNER_PREFIX + group,
            *(failures + suffix for suffix in self._environment.notes(failures)),
        ]

        def remove(batch: Transaction) -> None:
            for key in keys:
                if batch.note(key) is not None:
                    batch.put_note(key, None)

        await self._commits.run(remove)

    async def note(
        self,
        group: str,
        checkpoint: LogPosition | None,
        failures: Mapping[LogPosition, Failure | None],
        owner: bytes | None = None,
    ) -> None:
        """Save a group's checkpoint and failures; see `log.store.Subscription.save`.

        `owner`: Fenced if any other subscription owns the group's events. None: do not check the owner.
        """
        rows = {
            f"{FAILURE_PREFIX}{group}/{self.sequence(position):020}": (
                None if failure is None else msgspec.msgpack.encode(failure)
            )
            for position, failure in failures.items()
        }
        if checkpoint is not None:
            rows[GROUP_PREFIX + group] = str(self.sequence(checkpoint)).encode()

        def write(batch: Transaction) -> None:
            if owner is not None and self.owner(batch.txn, group) != owner:
                raise Fenced(f"another process works for {group} now")
            for key, row in rows.items():
                batch.put_note(key, row)

        await self._commits.run(write)

    async def hand_over(self, group: str, old_owner: bytes | None, new_owner: bytes | None) -> None:
        """Make `new_owner` the owner of a group's events (None: no owner), if `old_owner` owns them now.

        `old_owner` None: replace any owner.
        """

        def write(batch: Transaction) -> None:
            if old_owner is None or self.owner(batch.txn, group) == old_owner:
                batch.put_note(_OWNER_PREFIX + group, new_owner)

        await self._commits.run(write)

    def owner(self, txn: Txn, group: str) -> bytes | None:
        """The subscription that owns a group's events; None if there is none."""
        return txn.get((_OWNER_PREFIX + group).encode(), None, self._environment.notes_db)

    def checkpoint(self, txn: Txn, group: str) -> int | None:
        """The checkpoint of a group, as a sequence number; None if it never saved one."""
        stored = txn.get((GROUP_PREFIX + group).encode(), None, self._environment.notes_db)
        return None if stored is None else int(stored)

    def begin(self) -> Txn:
        """A read transaction."""
        self._environment.follow_history()
        try:
            return self._environment.lmdb.begin()
        except lmdb.Error as error:
            raise translate(error, "read") from error

    def _failure(self, sequence: int, row: bytes) -> Failure:
        failure = msgspec.msgpack.decode(row, type=Failure)
        event = msgspec.structs.replace(failure.event, log_position=self._positions.of(sequence))
        return msgspec.structs.replace(failure, event=event)


class EmbeddedSubscription:
    """See `log.store.Subscription`. The newest subscription of a group, in any process, owns the only partition."""

    def __init__(self, log: EmbeddedLog, group: str) -> None:
        self._log, self._group, self._name = log, group, secrets.token_bytes(8)
        self._last_read: int | None = None  # the last event that was read; None: continue at the checkpoint

    async def claim(self) -> None:
        """Take over the partition."""
        await self._log.hand_over(self._group, None, self._name)

    async def read(self, limit: int) -> store.Batch:
        with self._log.begin() as txn:
            owner = self._log.owner(txn, self._group)
            if owner == self._name:
                return self._read(txn, limit)
        self._last_read = None
        if owner is None:
            await self.claim()
        return store.Batch((), NOWHERE)

    def _read(self, txn: Txn, limit: int) -> store.Batch:
        if self._last_read is None:
            self._last_read = self._log.checkpoint(txn, self._group)
        batch = (
            self._log.empty_batch(txn) if self._last_read is None else self._log.read_after(txn, self._last_read, limit)
        )
        self._last_read = self._log.sequence(batch.next)
        return batch

    async def failures(self) -> Sequence[Failure]:
        with self._log.begin() as txn:
            is_owner = self._log.owner(txn, self._group) == self._name
        return await self._log.failures(self._group) if is_owner else ()

    async def save(self, checkpoint: LogPosition | None, failures: Mapping[LogPosition, Failure | None]) -> None:
        try:
            await self._log.note(self._group, checkpoint, failures, self._name)
        except Fenced:
            self._last_read = None
            raise

    async def close(self) -> None:
        await self._log.hand_over(self._group, self._name, None)
