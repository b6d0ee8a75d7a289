"""What this engine asks of Kafka: append, read, follow, forget. `connecting` asks a real one.

Topics, each name behind the prefix of the cluster and a dash:

    writes    commands, a partition for each owner (see `commands`)
    events    what happened and what is answered, by the same partitions (see `commits`)
    groups    one partition: what groups save, who works, what is leased and forgotten (see `book`)

No topic has transactions, nor is any compacted. So the offsets of a partition have no gaps: that of the next record is
known before it is appended, and `commits` and `book` rest on that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeVar

from kith.core.errors import StoreUnavailable

Topic = Literal["writes", "events", "groups"]
RECORD_BYTES_MAX = 8 << 20
"""The largest record."""
PART_ROWS_MAX, PART_BYTES_MAX = 20_000, RECORD_BYTES_MAX // 2
"""Rows of a record, and about their bytes, where more are written in several."""
ANSWERED_S = 5.0
"""How long Kafka may take to answer; then it counts as away."""


_Item = TypeVar("_Item")


class BrokerRecord(NamedTuple):
    """A record of a partition. `at_ms`: when it was appended, by the clock of the broker."""

    offset: int
    at_ms: int
    value: bytes


Handle = Callable[[int, Sequence[BrokerRecord]], Awaitable[None]]
"""Is given records of a partition, in their order; the next are read once it returns."""


class Following(Protocol):
    """A task that reads partitions of a topic as they grow."""

    def follow(self, offsets: Mapping[int, int]) -> None:
        """Go on with these partitions and no others. One that is new is read from its offset on."""
        ...

    def awaited(self) -> AbstractContextManager[None]:
        """While it is entered somebody waits for what comes, and each record is handled at once."""
        ...

    async def close(self) -> None:
        """Handle nothing any more."""
        ...


class Broker(Protocol):
    """Kafka. Errors: `StoreUnavailable`; what was to be appended then may be there, or come to be there later."""

    partitions: int  # of all topics but `groups`

    async def append(self, topic: Topic, partition: int, value: bytes) -> int:
        """Append a record, durably; its offset. Those of one caller come in the order of the calls."""
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
        """Some of the records from `first` on and before `end`, in order; at least one, if any is left."""
        ...

    async def forget(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records of lesser offsets."""
        ...

    def following(self, topic: Topic, handle: Handle) -> Following:
        """A task that follows partitions of a topic; none yet. It goes on by itself after errors."""
        ...


async def fetch_all(broker: Broker, topic: Topic, partition: int, first: int, end: int) -> list[BrokerRecord]:
    """All records from `first` on and before `end` that are kept; StoreUnavailable if the last do not come."""
    found: list[BrokerRecord] = []
    while first < end and (some := await broker.fetch(topic, partition, first, end)):
        found += some
        first = some[-1].offset + 1
    if first < end:
        raise StoreUnavailable("Kafka does not give all that it has; try again")
    return found


def in_parts(items: Sequence[_Item], size_of: Callable[[_Item], tuple[int, int]]) -> list[list[_Item]]:
    """Items in parts that fit into a record, or of one item; one part at least, which is empty where there are none.

    `size_of`: how many rows one is, and about how many bytes.
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
