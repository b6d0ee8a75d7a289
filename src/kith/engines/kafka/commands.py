"""The client's side of commands on Kafka: appended to `writes`, answered in `events` by their commit (see `commits`).

    writes    the calling process (8 bytes), the number of its request (u64), the command

So an outcome cannot get lost: a caller that waits long enough gets it, after this process has read the events of the
command.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import struct
from collections.abc import Sequence

from kith.core.errors import BadRequest, NotConfirmed
from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, Broker
from kith.engines.kafka.commits import EventRecord
from kith.engines.kafka.positions import Positions
from kith.engines.kafka.recent_events import RecentEvents
from kith.log.commands import PendingCommands, Reply

COMMAND_BYTES_MAX = 1 << 20
WAITING_MAX = 10_000
"""Calls that wait for outcomes at once; further calls wait before they append anything."""
GATHER_WINDOW_S, GATHER_WAITING_MIN = 0.005, 8
"""How long a command waits for others of its partition, so that they are appended, read and decided together. It does
not wait if fewer than GATHER_WAITING_MIN commands of this process wait for answers."""
NAME_BYTES = 8
_head = struct.Struct(f">{NAME_BYTES}sQ")


def unpacked(value: bytes) -> tuple[bytes, int, bytes]:
    """Split a record into calling process, request number and command. One that is too short is padded with zeros."""
    name, number = _head.unpack_from(value.ljust(_head.size, b"\0"))
    return name, number, value[_head.size :]


class KafkaCommands:
    """See `log.commands.Commands`. `answer_timeout_s`: how long to wait for an outcome."""

    def __init__(
        self, broker: Broker, recent: RecentEvents, positions: Positions, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._broker, self._recent, self._positions, self._answer_timeout_s = (
            broker,
            recent,
            positions,
            answer_timeout_s,
        )
        self.partitions = broker.partitions
        self._name = secrets.token_bytes(NAME_BYTES)
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._gathered: dict[int, list[tuple[int, bytes]]] = {}  # by partition, what is appended next
        self._appending: dict[int, asyncio.Task[None]] = {}
        recent.on_commit(self._handle_answers)

    async def ask(self, partition: int, data: bytes) -> Reply:
        (reply,) = await self.ask_many([(partition, data)])
        return reply

    async def ask_many(self, commands: Sequence[tuple[int, bytes]]) -> list[Reply]:
        if not commands:
            return []
        if any(len(data) > COMMAND_BYTES_MAX for _, data in commands):
            raise BadRequest(f"a command has {COMMAND_BYTES_MAX} bytes at most; write less at once")
        loop = asyncio.get_running_loop()
        numbers = [next(self._numbers) for _ in commands]
        answers = [loop.create_future() for _ in commands]
        try:
            async with asyncio.timeout(self._answer_timeout_s), self._room:
                await self._recent.open()
                with self._recent.awaited():
                    self._waiting.update(zip(numbers, answers, strict=True))
                    records = [
                        (partition, _head.pack(self._name, number) + data)
                        for number, (partition, data) in zip(numbers, commands, strict=True)
                    ]
                    await self._append(records)
                    return [await answer for answer in answers]
        except TimeoutError:
            raise NotConfirmed(
                f"nobody answered within {self._answer_timeout_s:g} s; it may be done all the same: repeat it"
            ) from None
        finally:
            for number in numbers:
                self._waiting.pop(number, None)

    async def _append(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Append commands; if many wait for answers, batched with those that come within GATHER_WINDOW_S."""
        partitions = {partition for partition, _ in records}
        if len(self._waiting) - len(records) < GATHER_WAITING_MIN or len(partitions) > 1:
            await self._broker.append_many("writes", records)
            return
        (partition,) = partitions
        gathered = self._gathered.setdefault(partition, [])
        gathered += records
        if partition not in self._appending:
            self._appending[partition] = asyncio.create_task(self._append_gathered(partition))
        await asyncio.shield(self._appending[partition])

    async def _append_gathered(self, partition: int) -> None:
        """Append a partition's batch. The moments are the same for all partitions, so an owner gets them together."""
        await asyncio.sleep(GATHER_WINDOW_S - asyncio.get_running_loop().time() % GATHER_WINDOW_S)
        del self._appending[partition]
        await self._broker.append_many("writes", self._gathered.pop(partition))

    async def waiting(self) -> PendingCommands:
        """The commands of all processes that no owner has done yet."""
        await self._recent.open()
        kept_from, ends = await self._broker.starts("writes"), await self._broker.ends("writes")
        starts = map(max, self._recent.next_writes, kept_from)  # without commands that Kafka has deleted
        pending = [
            (partition, start) for partition, (start, end) in enumerate(zip(starts, ends, strict=True)) if start < end
        ]
        oldest = [await self._broker.fetch("writes", partition, start, start + 1) for partition, start in pending]
        oldest_ms = min((record.at_ms for records in oldest for record in records), default=None)
        return PendingCommands(sum(ends[partition] - start for partition, start in pending), oldest_ms)

    def _handle_answers(self, partition: int, commit: EventRecord) -> None:
        for number, outcome, event_count in commit.answers_to(self._name):
            answer = self._waiting.get(number)
            if answer is not None and not answer.done():
                answer.set_result(Reply(outcome, self._positions.packed({partition: commit.after(event_count)})))
