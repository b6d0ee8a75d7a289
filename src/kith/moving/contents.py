"""The port behind moves and comparisons: all data of a store, page by page.

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


class RowPage(NamedTuple, Generic[T]):
    """A page of rows. `after`: the engine's opaque cursor of the next page; None: there is none."""

    rows: list[T]
    after: bytes | None


class NodeRow(NamedTuple):
    """A node, and what is stored about it."""

    id: int
    node: Node


class ClaimRow(NamedTuple):
    """A claim (`records.store.Claim`), with its expiry in ms since the epoch; it may have expired already."""

    key: bytes
    until_ms: int
    value: bytes


def kind_of(number: int) -> RecordKind:
    """The kind of a record; StoreMismatch for a kind of a newer Kith."""
    try:
        return RecordKind(number)
    except ValueError:
        raise StoreMismatch(f"there are records of a newer Kith (kind {number}); upgrade this one first") from None


class Contents(Protocol):
    """All data of a store, except what can be rebuilt or is short-lived.

    A page starts where the one before ended (`after`; None: the first page), even after a restart. Order: any. If the
    store changes meanwhile, a row that stays throughout comes at least once; an added or removed row may come or not.
    Errors: `StoreUnavailable`.
    """

    async def edges(self, after: bytes | None, limit: int) -> RowPage[Edge]:
        """Edges of all graphs as stored: one that has expired may still have its old state."""
        ...

    async def records(self, after: bytes | None, limit: int) -> RowPage[Record]:
        """Records of all kinds."""
        ...

    async def nodes(self, after: bytes | None, limit: int) -> RowPage[NodeRow]:
        """The stored state, privacy and labels of nodes."""
        ...

    async def claims(self, after: bytes | None, limit: int) -> RowPage[ClaimRow]:
        """Claims of keys."""
        ...

    async def inbox_rows(self, after: bytes | None, limit: int) -> RowPage[InboxRow]:
        """Rows of all inboxes."""
        ...

    async def notes(self) -> dict[str, bytes]:
        """All notes of `graph.store.Notes`; there are only a few."""
        ...

    async def secrets(self) -> dict[str, bytes]:
        """The secrets of `access.credentials` that exist."""
        ...

    async def put_secret(self, name: str, secret: bytes) -> None:
        """Store a secret; replaces one of the same name."""
        ...

    def claimed_by(self, event: Event) -> ClaimRow | None:
        """The claim that an event of this engine's log records; None if it records none."""
        ...
