"""All data stored in Cassandra, page by page; see `moving.contents.Contents`.

Rows come in the order of Cassandra's tokens. `after` is the driver's paging state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kith.core.clock import Hlc
from kith.core.events import Event
from kith.engines.cassandra.connecting import Row, Session
from kith.engines.cassandra.row_batch import read_edge, read_node
from kith.engines.cassandra.schema import SHELF
from kith.graph.edge import Edge
from kith.moving.contents import ClaimRow, NodeRow, RowPage, kind_of
from kith.notifications.inbox import InboxRow
from kith.records.store import Record

T = TypeVar("T")
_EDGES = "SELECT graph, source, destination, state, position, updated_at, expires_ms FROM edges"
_RECORDS = "SELECT kind, id, updated_at, data FROM records"
_NODES = "SELECT node, state, private, labels FROM nodes"
_CLAIMS = "SELECT claim, until_ms, value FROM claims"
_PERIODS = "SELECT generation FROM inbox_periods WHERE shelf = 0"
_INBOXES = "SELECT generation, user, notice FROM inbox_rows"
_NOTES = f"SELECT name, note FROM notes WHERE shelf = {SHELF}"
_SECRETS = "SELECT name, secret FROM secrets"
_PUT_SECRET = "INSERT INTO secrets (name, secret) VALUES (?, ?)"  # noqa: S105 - a statement


class CassandraContents:
    """See `moving.contents.Contents`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def edges(self, after: bytes | None, limit: int) -> RowPage[Edge]:
        return await self._rows(_EDGES, after, limit, lambda row: read_edge(row[0], row[1], row[2], row[3:]))

    async def records(self, after: bytes | None, limit: int) -> RowPage[Record]:
        def read(row: Row) -> Record:
            return Record(kind_of(row[0]), row[1], Hlc(row[2]), row[3])

        return await self._rows(_RECORDS, after, limit, read)

    async def nodes(self, after: bytes | None, limit: int) -> RowPage[NodeRow]:
        return await self._rows(_NODES, after, limit, lambda row: NodeRow(row[0], read_node(row[1:])))

    async def claims(self, after: bytes | None, limit: int) -> RowPage[ClaimRow]:
        return await self._rows(_CLAIMS, after, limit, lambda row: ClaimRow(*row))

    async def inbox_rows(self, after: bytes | None, limit: int) -> RowPage[InboxRow]:
        weeks = {generation for (generation,) in await self._session.rows(_PERIODS)}
        page = await self._rows(_INBOXES, after, limit, lambda row: row)
        return RowPage([InboxRow(user, notice) for week, user, notice in page.rows if week in weeks], page.after)

    async def notes(self) -> dict[str, bytes]:
        return dict(await self._session.rows(_NOTES))

    async def secrets(self) -> dict[str, bytes]:
        return dict(await self._session.rows(_SECRETS))

    async def put_secret(self, name: str, secret: bytes) -> None:
        await self._session.write(_PUT_SECRET, name, secret)

    def claimed_by(self, event: Event) -> ClaimRow | None:
        return None  # this engine's log holds no claims

    async def _rows(self, statement: str, after: bytes | None, limit: int, decode: Callable[[Row], T]) -> RowPage[T]:
        rows, next_page = await self._session.page(statement, size=limit, after=after)
        return RowPage([decode(row) for row in rows], next_page)
