"""What a user has seen and read: one record per user, changed under its version.

The unread number is never stored: it is the number of listed notices that are not read. So it is right after any crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from kith.core.clock import HybridClock, ms_of
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.core.tokens import WriteMark
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, Record, RecordKind, RecordStore

ONE_BY_ONE_MAX = 1_000
"""Notices that are marked one by one. Beyond, everything up to the oldest of them counts as marked."""
LATE_MS = 86_400_000
"""How long after its notice a row may be written and still be unmarked, although everything was marked before.

Followers get rows of a mention in parts, over some time. So notices younger than this are marked one by one, up to
AT_ONCE_MAX of them.
"""
AT_ONCE_MAX = 500


class Marks(msgspec.Struct, frozen=True, array_like=True):
    """Up to which notice a user has seen and read everything, and which newer ones they read and saw. Ids are times.

    New fields come last and have a default.
    """

    seen_up_to: int = -1
    read_up_to: int = -1
    read: frozenset[int] = frozenset()
    seen: frozenset[int] = frozenset()

    def is_read(self, notice: int) -> bool:
        """Whether the user has read a notice."""
        return notice <= self.read_up_to or notice in self.read

    def is_seen(self, notice: int) -> bool:
        """Whether the user has seen that a notice is there. A read notice was seen."""
        return notice <= self.seen_up_to or notice in self.seen or self.is_read(notice)

    def reading(self, notices: Collection[int]) -> Marks:
        """The marks once these notices are read too."""
        up_to, read = _bounded(self.read_up_to, {*self.read, *notices})
        return msgspec.structs.replace(self, read_up_to=up_to, read=read)

    def reading_up_to(self, notice: int, rows: Collection[int], since: int) -> Marks:
        """The marks once everything up to `notice` is read.

        `rows`: the newest rows up to it. Those made after `since` are marked one by one.
        """
        up_to, late = _split(notice, rows, since)
        up_to, read = _bounded(max(up_to, self.read_up_to), {*self.read, *late})
        return msgspec.structs.replace(self, read_up_to=up_to, read=read)

    def seeing_up_to(self, notice: int, rows: Collection[int], since: int) -> Marks:
        """The marks once everything up to `notice` is seen. `rows` and `since` as in `reading_up_to`.

        The same object if nothing is new, because apps mark at each start.
        """
        are_all = len(rows) <= AT_ONCE_MAX or min(rows) <= self.seen_up_to
        if are_all and all(map(self.is_seen, rows)):
            return self
        up_to, late = _split(notice, rows, since)
        up_to, seen = _bounded(max(up_to, self.seen_up_to), {*self.seen, *late})
        return msgspec.structs.replace(self, seen_up_to=up_to, seen=seen)


def _split(notice: int, rows: Collection[int], since: int) -> tuple[int, list[int]]:
    """How to mark everything up to `notice`: up to where, and which newer `rows` one by one."""
    late = sorted(row for row in rows if row > since)
    beyond = len(late) - AT_ONCE_MAX
    return (late[beyond - 1] if beyond > 0 else min(notice, since)), late


def _bounded(up_to: int, notices: Collection[int]) -> tuple[int, frozenset[int]]:
    """Up to which notice all are marked, and the newest ONE_BY_ONE_MAX of these `notices` above it."""
    newer = sorted(id_ for id_ in notices if id_ > up_to)
    beyond = len(newer) - ONE_BY_ONE_MAX
    return (up_to, frozenset(newer)) if beyond <= 0 else (newer[beyond - 1], frozenset(newer[beyond:]))


NO_MARKS = Marks()
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(Marks).decode


def read_marks(record: Record | None) -> Marks:
    """The marks in a record."""
    return NO_MARKS if record is None else _decode(record.data)


class MarkStore:
    """Reads and changes the marks of users."""

    def __init__(self, records: RecordStore, clock: HybridClock) -> None:
        self._records, self._clock = records, clock

    async def of(self, user: NodeId) -> Marks:
        """The marks of a user."""
        (record,) = await self._records.get_many(RecordKind.NOTICE_MARKS, [user])
        return read_marks(record)

    async def read(self, user: NodeId, notices: Collection[int]) -> tuple[Marks, WriteMark]:
        """Note that these notices were read."""
        return await self._change(user, lambda marks: marks.reading(notices))

    async def read_up_to(self, user: NodeId, notice: int, rows: Collection[int]) -> tuple[Marks, WriteMark]:
        """Note that everything up to `notice` was read. `rows`: the newest up to it, AT_ONCE_MAX and one more."""
        since = self._late_since()
        return await self._change(user, lambda marks: marks.reading_up_to(notice, rows, since))

    async def seen_up_to(self, user: NodeId, notice: int, rows: Collection[int]) -> tuple[Marks, WriteMark]:
        """Note that everything up to `notice` was seen. `rows` as in `read_up_to`."""
        since = self._late_since()
        return await self._change(user, lambda marks: marks.seeing_up_to(notice, rows, since))

    def _late_since(self) -> int:
        """The greatest id of a notice of which no row is written any more."""
        return (ms_of(self._clock.next()) - LATE_MS - EPOCH_MS) << TIME_SHIFT

    async def forget(self, user: NodeId) -> None:
        """Empty the record of a removed user. May be repeated."""
        await self._change(user, lambda _: NO_MARKS)

    async def _change(self, user: NodeId, change: Callable[[Marks], Marks]) -> tuple[Marks, WriteMark]:
        async def replace() -> tuple[Put, Marks]:
            (stored,) = await self._records.get_many(RecordKind.NOTICE_MARKS, [user])
            old = read_marks(stored)
            new = change(old)
            if new == old:
                return NOTHING_TO_DO, old
            record = Record(RecordKind.NOTICE_MARKS, user, next_version(self._clock, stored), _encode(new))
            record = record if new == NO_MARKS else with_newer_fields(record, stored)
            at_version = AtVersion(RecordKind.NOTICE_MARKS, user, 0 if stored is None else stored.updated_at)
            return await self._records.put([record], only_if=[at_version]), new

        put, marks = await rewrite("what you have read", user, replace)
        return marks, put.mark
