"""The port behind moves and comparisons: all that a store holds, some at a time.

Implemented by `engines/embedded` and `engines/cassandra`, and held to `tests/reference_contents.py` by the conformance
suite.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from kith.core.errors import StoreMismatch
from kith.core.events import Event
from kith.graph.edge import Edge
from kith.graph.shapes import Node
from kith.notifications.inbox import InboxRow
from kith.records.store import Record, RecordKind

T = TypeVar("T")


class SomeRows(NamedTuple, Generic[T]):
    """Some rows, and where those that follow begin: what an engine makes of it; None where there are no more."""

    rows: list[T]
    after: bytes | None


class NodeRow(NamedTuple):
    """A node, and what is stored about it."""

    id: int
    node: Node


class ClaimRow(NamedTuple):
    """A claim (`records.store.Claim`), and when it is over, in ms since the epoch; some are over already."""

    key: bytes
    until_ms: int
    value: bytes


def kind_of(number: int) -> RecordKind:
    """The kind of a record; StoreMismatch for one of a newer Kith."""
    try:
        return RecordKind(number)
    except ValueError:
        raise StoreMismatch(f"there are records of a newer Kith (kind {number}); upgrade this one first") from None


class Contents(Protocol):
    """All that a store holds, but for what is made again, or stands for a moment only.

    A part begins where another ended (`after`; None: the first), after a restart, too. Order: any. If the store changes
    meanwhile, what stays throughout comes once at least; what is added or removed may come or not. Errors:
    `StoreUnavailable`.
    """

    async def edges(self, after: bytes | None, limit: int) -> SomeRows[Edge]:
        """Edges of all graphs, as they are stored: one that has expired may come as it was."""
        ...

    async def records(self, after: bytes | None, limit: int) -> SomeRows[Record]:
        """Records of all kinds."""
        ...

    async def nodes(self, after: bytes | None, limit: int) -> SomeRows[NodeRow]:
        """What is stored about nodes themselves."""
        ...

    async def claims(self, after: bytes | None, limit: int) -> SomeRows[ClaimRow]:
        """Claims of keys."""
        ...

    async def inbox_rows(self, after: bytes | None, limit: int) -> SomeRows[InboxRow]:
        """Rows of all inboxes."""
        ...

    async def notes(self) -> dict[str, bytes]:
        """All notes of `graph.store.Notes`; there are only a few."""
        ...

    async def secrets(self) -> dict[str, bytes]:
        """The secrets of `access.credentials` that were made."""
        ...

    async def put_secret(self, name: str, secret: bytes) -> None:
        """Have this secret, in place of one that there may be."""
        ...

    def claimed_by(self, event: Event) -> ClaimRow | None:
        """The claim that an event of this engine's log tells; None where it tells none."""
        ...
