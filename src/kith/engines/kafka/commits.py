"""The records of the topic `events`, and how one owner at a time appends them.

    take        a new owner starts; commits that a former owner appends after it are void
    commit      a batch of commands is done: its events, the answers to the callers, and the offset in `writes`
                after it; one record, so all or nothing
    announced   one event that is no edge; any process may append it at any time

A commit names the offset at which it expects to be: after all records that its owner knows. **It counts only if it is
at that offset.** The first record of a new owner (`take`) shifts the commits of the former owner to other offsets. That
fences the former owner without any lookup: readers see from the record alone that it is void, and the former owner sees
it from the acknowledged offset.

Each commit also holds the number of events before it, so positions count events.

Records of other kinds, from a newer Kith or a stranger, are ignored. So are fields that a newer Kith adds to an event.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import StoreUnavailable
from kith.core.events import Event
from kith.engines.kafka.broker import Broker, BrokerRecord, fetch_all
from kith.engines.kafka.positions import Place, Positions
from kith.log.store import Fenced

CommandAnswer = tuple[int, bytes, int]
"""The number of a request, its outcome, and the number of the commit's events up to and with this command's."""
_FIRST_READ = 8
"""Records that are read first to find the last commit; 8 times as many each time, while there is none among them."""


class LoggedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as it is stored."""

    graph: int
    before: int | None
    state: int
    source: int
    destination: int
    position: int
    updated_at: int
    data: bytes


class Take(msgspec.Struct, frozen=True, array_like=True, tag="take"):
    """A new owner starts. `owner`: random, so that no two such records are equal."""

    owner: str


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """A batch is done.

    `expects`: the offset at which this record counts. `next_write`: the offset of the next command in `writes`.
    `first`: the number of events before it in the partition. `count`, `rows`: its events.
    `answers`: for each calling process, a list of `CommandAnswer`.
    """

    expects: int
    next_write: int
    first: int
    count: int
    rows: msgspec.Raw
    answers: list[tuple[bytes, msgspec.Raw]]


class Announcement(msgspec.Struct, frozen=True, array_like=True, tag="announced"):
    """One event that is no edge."""

    row: LoggedRow


_kinds: msgspec.msgpack.Decoder[Take | Commit | Announcement] = msgspec.msgpack.Decoder(Take | Commit | Announcement)
_answers = msgspec.msgpack.Decoder(list[CommandAnswer]).decode
_rows = msgspec.msgpack.Decoder(list[LoggedRow]).decode
pack = msgspec.msgpack.encode


def row_of(event: Event) -> LoggedRow:
    """An event as it is stored."""
    return LoggedRow(
        event.graph,
        event.before,
        event.state,
        event.source,
        event.destination,
        event.position,
        event.updated_at,
        event.data,
    )


def _kind(value: bytes) -> Take | Commit | Announcement | None:
    """Decode a record; None if its kind is unknown."""
    try:
        return _kinds.decode(value)
    except msgspec.MsgspecError:
        return None


class EventRecord(NamedTuple):
    """A valid record of events: its offset, the number of events before it (`first`) and in it (`length`)."""

    offset: int
    at_ms: int
    first: int
    length: int
    rows: msgspec.Raw | LoggedRow
    answers: Sequence[tuple[bytes, msgspec.Raw]] = ()
    next_write: int | None = None  # the offset of the next command; None for an announced event

    @property
    def size(self) -> int:
        """The approximate size of its events in bytes."""
        return 64 + (memoryview(self.rows).nbytes if isinstance(self.rows, msgspec.Raw) else 64)

    def without_answers(self) -> EventRecord:
        """A copy without answers, which does not keep the original record's whole buffer in memory."""
        return self._replace(rows=self.rows.copy() if isinstance(self.rows, msgspec.Raw) else self.rows, answers=())

    def answers_to(self, name: bytes) -> list[CommandAnswer]:
        """The answers to the process with this name."""
        return [answer for process, packed in self.answers if process == name for answer in _answers(packed)]

    def events(self, positions: Positions, partition: int) -> list[Event]:
        """Its events, each with its log position; that of the last is the place after this record."""
        rows = _rows(self.rows) if isinstance(self.rows, msgspec.Raw) else [self.rows]
        return [
            Event(
                row.graph,
                row.before,
                row.state,
                row.source,
                row.destination,
                row.position,
                Hlc(row.updated_at),
                self.at_ms,
                positions.packed({partition: self.after(number)}),
                row.data,
            )
            for number, row in enumerate(rows, 1)
        ]

    def after(self, number: int) -> Place:
        """The place after the first `number` of its events."""
        return Place(self.first + number, self.offset + (number == self.length))


class PartitionState(NamedTuple):
    """The state of a partition at some offset: the offset of the next command in `writes`, and the count of events."""

    next_write: int
    events: int


def read_event_record(record: BrokerRecord, count: int) -> EventRecord | None:
    """Read a record as events, perhaps none; None for a void or other record. `count`: the events before it."""
    kind = _kind(record.value)
    if isinstance(kind, Announcement):
        return EventRecord(record.offset, record.at_ms, count, 1, kind.row)
    if isinstance(kind, Commit) and kind.expects == record.offset:
        return EventRecord(
            record.offset, record.at_ms, kind.first, kind.count, kind.rows, kind.answers, kind.next_write
        )
    return None


async def state_before(broker: Broker, partition: int, start: Place, end: int) -> PartitionState:
    """The state of a partition at offset `end`, from the last commit before it. `start`: the oldest place kept."""
    low, step = end, _FIRST_READ
    while True:
        low, step = max(start.offset, low - step), step * 8
        next_write, count = None, start.events
        for record in await fetch_all(broker, "events", partition, low, end):
            kind = _kind(record.value)
            if isinstance(kind, Commit) and kind.expects == record.offset:
                next_write, count = kind.next_write, kind.first + kind.count
            elif isinstance(kind, Announcement):
                count += 1
        if next_write is not None:
            return PartitionState(next_write, count)
        if low == start.offset:  # no commit yet: retention never deletes the last one
            return PartitionState(0, count)


class PartitionEnd:
    """The end of a partition, where its owner appends.

    `next_write`: the offset of the next command in `writes`. `end`: the place after all events.
    """

    def __init__(self, broker: Broker, partition: int) -> None:
        self._broker, self._partition = broker, partition
        self.next_write = 0
        self.end = Place(0, 0)

    async def take(self, start: Place) -> None:
        """Become the owner and fence former ones: none of them can commit any more. `start`: the oldest place kept."""
        offset = await self._broker.append("events", self._partition, pack(Take(secrets.token_hex(8))))
        state = await state_before(self._broker, self._partition, start, offset)
        self.next_write, self.end = state.next_write, Place(state.events, offset + 1)

    async def commit(
        self, next_write: int, rows: Sequence[LoggedRow], answers: Mapping[bytes, Sequence[CommandAnswer]]
    ) -> None:
        """Append events and answers, and advance to the next command. Fenced if there is a new owner.

        Announced events in between void the commit, which is then appended again.
        """
        encoded = (
            msgspec.Raw(pack(rows)),
            [(name, msgspec.Raw(pack(process_answers))) for name, process_answers in answers.items()],
        )
        while True:
            first, expects = self.end
            record = Commit(expects, next_write, first, len(rows), *encoded)
            offset = await self._broker.append("events", self._partition, pack(record))
            if offset == expects:
                self.next_write, self.end = next_write, Place(first + len(rows), offset + 1)
                return
            await self._skip(expects, offset)

    async def _skip(self, first: int, offset: int) -> None:
        """Skip announced events that others appended in between. Fenced if a record is, or may be, a new owner's."""
        between = await fetch_all(self._broker, "events", self._partition, first, offset)
        if len(between) != offset - first:
            raise StoreUnavailable(f"the log's partition {self._partition} is not what it was; Kafka lost records")
        count = self.end.events
        for record in between:
            kind = _kind(record.value)
            if kind is None or isinstance(kind, Take):
                raise Fenced(f"another process owns partition {self._partition} now")
            count += isinstance(kind, Announcement)
        self.end = Place(count, offset + 1)
