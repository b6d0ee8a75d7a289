"""The port to Kafka: append, read, follow, delete. `connecting` implements it on a real Kafka.

Topics; each name is preceded by the cluster's prefix and a dash:

    writes    commands, one partition per owner (see `commands`)
    events    events and answers, in the same partitions (see `commits`)
    groups    one partition: checkpoints and workers of groups, leases, what is forgotten (see `registry`)

No topic has transactions, and none is compacted. So the offsets of a partition have no gaps, and the offset of the next
record is known before it is appended. `commits` and `registry` rely on that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeVar

from kith.core.errors import StoreUnavailable

Topic = Literal["writes", "events", "groups"]
RECORD_BYTES_MAX = 8 << 20
"""The size of the largest record."""
PART_ROWS_MAX, PART_BYTES_MAX = 20_000, RECORD_BYTES_MAX // 2
"""Rows, and approximate bytes, of one record; more are split over several records."""
ANSWER_TIMEOUT_S = 5.0
"""How long Kafka may take to answer before it counts as unavailable."""


_Item = TypeVar("_Item")


class BrokerRecord(NamedTuple):
    """A record of a partition. `at_ms`: when it was appended, by the clock of the broker."""

    offset: int
    at_ms: int
    value: bytes


Handle = Callable[[int, Sequence[BrokerRecord]], Awaitable[None]]
"""A callback for records of a partition, in order. The next records are read once it returns."""


class TopicFollower(Protocol):
    """A task that reads partitions of a topic as they grow."""

    def follow(self, offsets: Mapping[int, int]) -> None:
        """Follow exactly these partitions from now on. A new one is read from the given offset on."""
        ...

    def awaited(self) -> AbstractContextManager[None]:
        """While this context is open, a caller waits for records, so each is handled at once instead of batched."""
        ...

    async def close(self) -> None:
        """Stop following; no more records are handled."""
        ...


class Broker(Protocol):
    """Kafka. Errors: `StoreUnavailable`; after it, a record may have been appended, or may still be appended later."""

    partitions: int  # of all topics but `groups`

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        """Append a record durably; returns its offset. Records of one caller keep the order of its calls."""
        ...

    async def append_many(self, topic: Topic, records: Sequence[tuple[int, bytes]]) -> list[int]:
        """Like `append`, for several (partition, value) at once."""
        ...

    async def starts(self, topic: Topic) -> list[int]:
        """For each partition, the offset of the oldest record that is kept."""
        ...

    async def ends(self, topic: Topic) -> list[int]:
        """For each partition, the offset of the next record."""
        ...

    async def fetch(self, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
        """Some of the records from `first` on and before `end`, in order; at least one, if there is any."""
        ...

    async def forget(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records with offsets below `before`."""
        ...

    def follower(self, topic: Topic, handle: Handle) -> TopicFollower:
        """A task that follows partitions of a topic, at first none. It resumes by itself after errors."""
        ...


async def fetch_all(broker: Broker, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
    """All stored records from `first` on and before `end`; StoreUnavailable if the last ones cannot be read."""
    all_records: list[BrokerRecord] = []
    while first < end and (records := await broker.fetch(topic, partition, first, end)):
        all_records += records
        first = records[-1].offset + 1
    if first < end:
        raise StoreUnavailable("Kafka did not return all records; try again")
    return all_records


def in_parts(items: Sequence[_Item], size_of: Callable[[_Item], tuple[int, int]]) -> list[list[_Item]]:
    """Split items into parts that each fit into a record; an item that is too large is a part of its own.

    Returns at least one part, which is empty if there are no items. `size_of`: rows and approximate bytes of an item.
    """
    parts: list[list[_Item]] = [[]]
    rows = size = 0
    for item in items:
        more_rows, more_bytes = size_of(item)
        if parts[-1] and (rows + more_rows > PART_ROWS_MAX or size + more_bytes > PART_BYTES_MAX):
            parts.append([])
            rows = size = 0
        parts[-1].append(item)
        rows, size = rows + more_rows, size + more_bytes
    return parts
