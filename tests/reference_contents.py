"""The simplest Contents, over the stores in memory. Engines are compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from reference_credentials import ReferenceCredentials
from reference_edges import ReferenceEdges
from reference_inbox import ReferenceInboxes
from reference_records import ReferenceRecords

from kith.core.events import Event
from kith.graph.edge import Edge
from kith.moving.contents import ClaimRow, NodeRow, RowPage
from kith.notifications.inbox import InboxRow
from kith.records.store import Record

T = TypeVar("T")


class ReferenceContents:
    """See `moving.contents.Contents`. A cursor is the name of the last row."""

    def __init__(
        self,
        edges: ReferenceEdges,
        records: ReferenceRecords,
        inboxes: ReferenceInboxes,
        credentials: ReferenceCredentials,
    ) -> None:
        self._edges, self._records, self._inboxes, self._credentials = edges, records, inboxes, credentials

    async def edges(self, after: bytes | None, limit: int) -> RowPage[Edge]:
        rows = self._edges.rows
        return _some([(repr(key), edge) for key, edge in rows.items()], after, limit)

    async def records(self, after: bytes | None, limit: int) -> RowPage[Record]:
        return _some([(repr(key), record) for key, record in self._records.records.items()], after, limit)

    async def nodes(self, after: bytes | None, limit: int) -> RowPage[NodeRow]:
        return _some([(str(id_), NodeRow(id_, node)) for id_, node in self._edges._nodes.items()], after, limit)

    async def claims(self, after: bytes | None, limit: int) -> RowPage[ClaimRow]:
        claims = self._records._claims.items()
        return _some([(key.hex(), ClaimRow(key, *claim)) for key, claim in claims], after, limit)

    async def inbox_rows(self, after: bytes | None, limit: int) -> RowPage[InboxRow]:
        return _some([(repr(row), InboxRow(*row)) for row in self._inboxes.rows], after, limit)

    async def notes(self) -> dict[str, bytes]:
        return dict(self._edges._notes)

    async def secrets(self) -> dict[str, bytes]:
        return dict(self._credentials._secrets)

    async def put_secret(self, name: str, secret: bytes) -> None:
        self._credentials._secrets[name] = secret

    def claimed_by(self, event: Event) -> ClaimRow | None:
        return None


def _some(rows: Iterable[tuple[str, T]], after: bytes | None, limit: int) -> RowPage[T]:
    """The next rows in order of their names, from `after` on."""
    found = sorted((row for row in rows if after is None or row[0] > after.decode()), key=lambda row: row[0])
    more = len(found) > limit
    return RowPage([row for _, row in found[:limit]], found[limit - 1][0].encode() if more else None)
