"""Copies a table of a store into another one, page by page; after a stop, the caller resumes from its saved `after`.

The store may be written to meanwhile. Changes to rows that were already copied are found in the log, which is replayed
afterwards from a position before the copy began.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kith.moving.contents import RowPage
from kith.moving.store_writer import StoreSide, StoreWriter

ROWS = 1_000
"""Rows of a step: held in memory, and repeated after a kill."""
TABLES = ("nodes", "edges", "records", "claims", "inboxes")
"""The tables that are copied, in this order."""


class TableCopy:
    """Copies a table of `source`, from `after` on (None: from its beginning). `wanted`: selects rows."""

    def __init__(
        self,
        source: StoreSide,
        writer: StoreWriter,
        table: str,
        after: bytes | None = None,
        *,
        wanted: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        contents = source.contents
        tables: dict[str, tuple[Callable[[bytes | None, int], Awaitable[RowPage[Any]]], Any]] = {
            "nodes": (contents.nodes, writer.nodes),
            "edges": (contents.edges, writer.edges),
            "records": (contents.records, writer.records),
            "claims": (contents.claims, writer.claims),
            "inboxes": (contents.inbox_rows, writer.inbox_rows),
        }
        self._read_page, self._write = tables[table]
        self._wanted, self.after, self.is_done = wanted, after, False

    async def step(self) -> int:
        """Copy the next rows; returns how many were read. Idempotent."""
        page = await self._read_page(self.after, ROWS)
        rows = list(filter(self._wanted, page.rows))
        if rows:
            await self._write(rows)
        self.after, self.is_done = page.after, page.after is None
        return len(page.rows)
