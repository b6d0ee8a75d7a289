"""Runs an `Owner` (see `log.commands`) over the partitions that this process owns.

The processes that run owners are a group of the registry with gentle handover: the old owner finishes its batch, then
releases the partition. Each partition has a task, which takes the waiting commands, has the owner decide them, and
commits the results (see `commits`).

If the store is unavailable, the task takes the partition again after growing pauses. If that lasts for CUT_OFF_S and
there are other processes, this process leaves its partitions to them for a while: it may be the only one cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from kith.core.backoff import pause_ms
from kith.core.clock import SKEW_MS_MAX, wall_ms
from kith.core.errors import KithError, StoreUnavailable
from kith.engines.kafka.broker import Broker, BrokerRecord, fetch_all, in_parts
from kith.engines.kafka.commands import unpacked
from kith.engines.kafka.commits import CommandAnswer, LoggedRow, PartitionEnd, row_of
from kith.engines.kafka.registry import RegistryReplica
from kith.engines.kafka.registry_state import Group, Join, Leave, Release
from kith.engines.kafka.retention import DEFAULT_BOUNDS, PartitionBounds, PartitionRetention
from kith.engines.kafka.rounds import BatchRounds
from kith.log.commands import Command, DecidedCommand, Owner
from kith.log.store import Fenced

GROUP = "owners of writes"
BATCH_MAX, BATCH_BYTES_MAX = 500, 1 << 20
"""Commands of one batch, and their bytes; a larger command is a batch of its own."""
WAITING_MAX, WAITING_BYTES_MAX = 2_000, 8 << 20
"""Commands of a partition that are read ahead, and their bytes. Beyond that, reading stops until less than a batch is
left."""
CUT_OFF_S = 6.0
"""How long the store may be unreachable before this process leaves its partitions to others."""
_BACK_OFF_S, _BACK_OFF_S_MAX = 5.0, 60.0
"""How long it then owns none: at first, and at most. The time doubles until it reaches its store again."""
_RETRY_MS, _RETRY_MS_MAX = 100, 1_000
_POLL_S = 1.0
_EVENT_BYTES = 64  # about, without its data
_log = structlog.get_logger("kith.log")
T = TypeVar("T")


class OwnerRunner:
    """Owns partitions while it runs. `keep`: how many events the log keeps."""

    def __init__(
        self,
        broker: Broker,
        registry: RegistryReplica,
        owner: Owner,
        keep: PartitionBounds = DEFAULT_BOUNDS,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.broker, self.registry, self.owner, self.keep, self.now_ms = broker, registry, owner, keep, now_ms
        self._name = secrets.token_hex(8)
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._tasks: dict[int, _PartitionTask] = {}
        self._backs_off_until_s, self._back_off_s = 0.0, _BACK_OFF_S
        self.rounds = BatchRounds()
        self._follower = broker.follower("writes", self._handle)

    async def start(self) -> None:
        """Join the group of owners. Partitions are then taken in the background."""
        await self.registry.open()
        await self.registry.write(self._join())
        self.registry.beat()
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Finish the batches in progress, and hand all partitions over."""
        self._stopping.set()
        if self._running is not None:
            await self._running
        await self._follower.close()

    @property
    def partitions(self) -> list[int]:
        """The partitions whose commands this process decides now."""
        return sorted(partition for partition, task in self._tasks.items() if task.is_ready)

    @property
    def is_ready(self) -> bool:
        """Whether this process is in the group, and decides the commands of exactly the partitions meant for it."""
        group = self.registry.now.groups.get(GROUP, Group())
        if self._name not in group.members or self._stopping.is_set():
            return False
        return self.partitions == sorted(
            partition for partition, name in group.target_workers().items() if name == self._name
        )

    def _join(self) -> Join:
        return Join(GROUP, self._name, self.registry.instance, self.broker.partitions, gentle=True)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._rebalance()
                await self._rest()
            except KithError as error:
                _log.warning("waiting for Kafka", error=error.message)
                await asyncio.sleep(_RETRY_MS / 1000)
            except Exception:
                _log.exception("taking and leaving partitions failed; it goes on")
                await asyncio.sleep(_RETRY_MS / 1000)
        await asyncio.gather(*(task.close() for task in self._tasks.values()))
        with contextlib.suppress(KithError):  # if Kafka is away, others expel this process later
            await self.registry.write(Leave(GROUP, self._name))

    async def _rest(self) -> None:
        """Wait until the registry has changed, _POLL_S have passed, or this must stop."""
        waiters = [asyncio.create_task(self.registry.changed(_POLL_S)), asyncio.create_task(self._stopping.wait())]
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()

    async def _rebalance(self) -> None:
        """Run a task for each partition of this process, and release those that are meant for others."""
        group, now_s = self.registry.now.groups.get(GROUP, Group()), asyncio.get_running_loop().time()
        if len(group.members) > 1 and self._is_cut_off(now_s):
            await self._back_off(now_s)
            return
        if self._name not in group.members:  # expelled as silent, or left because it was cut off
            if now_s < self._backs_off_until_s and group.members:
                return
            await self.registry.write(self._join())
            group = self.registry.now.groups[GROUP]
        owned, targets = group.partitions_of(self._name), group.target_workers()
        for partition in list(self._tasks):
            if (
                self._tasks[partition].since != owned.get(partition)
                or targets[partition] != self._name
                or self._tasks[partition].is_over
            ):
                await self._tasks[partition].close()
                del self._tasks[partition]
        for partition, since in owned.items():
            if partition in self._tasks:
                continue
            if targets[partition] == self._name:
                self._tasks[partition] = _PartitionTask(self, partition, since)
            else:  # the next round retries if this append fails
                await self.registry.write(Release(GROUP, self._name, partition))

    def _is_cut_off(self, now_s: float) -> bool:
        """Whether a partition's store has been unreachable for CUT_OFF_S, so another process may do better."""
        since = [task.away_since_s for task in self._tasks.values() if task.away_since_s is not None]
        return bool(since) and now_s - min(since) >= CUT_OFF_S

    async def _back_off(self, now_s: float) -> None:
        """Leave the group, and so all partitions, to other processes for a while."""
        _log.warning("the store is away; others decide the writes of this process", for_s=self._back_off_s)
        await asyncio.gather(*(task.close() for task in self._tasks.values()))
        self._tasks.clear()
        await self.registry.write(Leave(GROUP, self._name))
        self._backs_off_until_s = now_s + self._back_off_s
        self._back_off_s = min(_BACK_OFF_S_MAX, 2 * self._back_off_s)

    def reached_store(self) -> None:
        """Reset the back-off to the shortest, as the store answered."""
        self._back_off_s = _BACK_OFF_S

    # --- for the tasks of partitions ------------------------------------------------------------------------

    def is_ours(self, partition: int, since: int) -> bool:
        """Whether this process still owns a partition that it got at offset `since`."""
        return self.registry.now.groups.get(GROUP, Group()).partitions_of(self._name).get(partition) == since

    def follow(self) -> None:
        """Follow the commands of partitions that are ready and not full."""
        self._follower.follow(
            {partition: task.next for partition, task in self._tasks.items() if task.is_ready and not task.is_full}
        )

    async def _handle(self, partition: int, records: Sequence[BrokerRecord]) -> None:
        task = self._tasks.get(partition)
        if task is not None:
            task.put(records)


class _PartitionTask:
    """The task of one partition."""

    def __init__(self, runner: OwnerRunner, partition: int, since: int) -> None:
        self._runner, self._partition, self.since = runner, partition, since
        self._broker, self._owner = runner.broker, runner.owner
        self._retention = PartitionRetention(runner.broker, runner.registry, partition, runner.keep, runner.now_ms)
        self._waiting: list[BrokerRecord] = []
        self._waiting_bytes = 0
        self._arrived, self._stopping = asyncio.Event(), asyncio.Event()
        self.is_ready = self.is_full = False
        self.next = 0  # the offset of the next command to queue
        self.away_since_s: float | None = None  # since when the store has not answered; None: it did
        self._task = asyncio.create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether the task has ended; it does so only when it is closed."""
        return self._task.done()

    def put(self, records: Sequence[BrokerRecord]) -> None:
        """Queue commands to be decided."""
        if self.is_ready:
            self._log_deleted_commands(self.next, records[0].offset)
            self._waiting += records
            self._waiting_bytes += sum(len(record.value) for record in records)
            self.next = records[-1].offset + 1
            self._arrived.set()
            if len(self._waiting) > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX:
                self.is_full = True
                self._runner.follow()

    async def close(self) -> None:
        """Finish the batch in progress, and decide no more."""
        self._stopping.set()
        self._arrived.set()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                end = await self._take()
                tries = 0
                while not self._stopping.is_set():
                    await self._step(end)
            except Fenced as error:
                _log.warning("a partition of writes was handed over", partition=self._partition, error=str(error))
            except KithError as error:
                _log.warning("a partition of writes waits", partition=self._partition, error=error.message)
            except Exception:
                _log.exception("a partition of writes failed; it is taken again", partition=self._partition)
            finally:
                self.is_ready = self.is_full = False
                self._waiting, self._waiting_bytes = [], 0
                self._runner.follow()
            tries += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms(tries, _RETRY_MS, _RETRY_MS_MAX) / 1000):
                    await self._stopping.wait()

    async def _take(self) -> PartitionEnd:
        """Fence former owners, and finish a batch that they left undone."""
        partition, registry = self._partition, await self._runner.registry.sync()
        if not self._runner.is_ours(partition, self.since):
            raise Fenced(f"partition {partition} is another process's now")
        end = PartitionEnd(self._broker, partition)
        await end.take(registry.start(partition))
        unfinished = await self._call_owner(self._owner.take(partition, end.next_write))
        kept_from = (await self._broker.starts("writes"))[partition]
        if unfinished:
            first, after_last = max(end.next_write, kept_from), unfinished[-1].offset + 1
            await self._commit(end, unfinished, await fetch_all(self._broker, "writes", partition, first, after_last))
        if end.next_write < kept_from:
            self._log_deleted_commands(end.next_write, kept_from)
            await end.commit(kept_from, [], {})
        self.next, self.is_ready = end.next_write, True
        self._runner.follow()
        return end

    def _log_deleted_commands(self, first: int, end: int) -> None:
        """Log that Kafka deleted commands before an owner decided them. Their callers got NotConfirmed."""
        if first < end:
            _log.error(
                "writes waited for an owner for longer than Kafka keeps them, and are lost; run `kith worker apply`,"
                " and raise retention.ms of the topic of writes where it may be away for longer",
                partition=self._partition,
                writes=end - first,
            )

    async def _step(self, end: PartitionEnd) -> None:
        """Wait for commands, then decide and commit one batch."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
            if self._stopping.is_set():
                return
        async with self._runner.rounds.turn():
            batch = self._next_batch()
            if self.is_full and len(self._waiting) < BATCH_MAX and self._waiting_bytes < BATCH_BYTES_MAX:
                self.is_full = False
                self._runner.follow()
            commands = [
                Command(record.offset, self._decided_as_of(record), unpacked(record.value)[2]) for record in batch
            ]
            await self._commit(end, await self._call_owner(self._owner.decide(self._partition, commands)), batch)

    def _decided_as_of(self, record: BrokerRecord) -> int:
        """The time as of which a command is decided: when it was appended, but not in the future.

        The clock of a broker may be ahead, and then edges would expire early, for good.
        """
        now_ms = self._runner.now_ms()
        if record.at_ms - now_ms > SKEW_MS_MAX:
            _log.warning("a broker of Kafka is not trusted", error="its clock is ahead", partition=self._partition)
        return min(record.at_ms, now_ms)

    def _next_batch(self) -> list[BrokerRecord]:
        """Take the next batch from the queue."""
        size = count = 0
        for record in self._waiting[:BATCH_MAX]:
            size += len(record.value)
            if count and size > BATCH_BYTES_MAX:
                size -= len(record.value)
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= size
        return batch

    async def _call_owner(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call of the owner, and note since when its store has not answered."""
        try:
            answer = await call
        except StoreUnavailable:
            self.away_since_s = self.away_since_s or asyncio.get_running_loop().time()
            raise
        self.away_since_s = None
        self._runner.reached_store()
        return answer

    async def _commit(
        self, end: PartitionEnd, decisions: Sequence[DecidedCommand], records: Sequence[BrokerRecord]
    ) -> None:
        """Commit the events of decided commands, their answers, and the offset after them; then forget old events."""
        callers = {record.offset: unpacked(record.value)[:2] for record in records}
        for part in in_parts(decisions, _size_of) if decisions else ():
            rows: list[LoggedRow] = []
            answers: dict[bytes, list[CommandAnswer]] = {}
            for command in part:
                rows += map(row_of, command.events)
                if command.offset in callers:  # otherwise Kafka has deleted the command, and nobody waits for it
                    name, number = callers[command.offset]
                    answers.setdefault(name, []).append((number, command.outcome, len(rows)))
            await end.commit(part[-1].offset + 1, rows, answers)
        try:
            await self._retention.forget(end.end)
        except KithError as error:
            _log.warning("old events are kept longer", partition=self._partition, error=error.message)


def _size_of(decision: DecidedCommand) -> tuple[int, int]:
    """The rows and approximate bytes that a decided command takes in a commit."""
    return len(decision.events), len(decision.outcome) + sum(
        _EVENT_BYTES + len(event.data) for event in decision.events
    )
