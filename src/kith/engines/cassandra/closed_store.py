"""Closes a store to writes, and opens it again: the client's side. `closing` is the owners' side."""

from __future__ import annotations

from kith.core.errors import StoreMismatch
from kith.engines.cassandra.closing import ClosedRow, CloseStore, closed_row
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.rows import Rows


class CassandraClosing:
    """See `run.opening.stores.Closing`. Commands that `owners` sends with the store's permit are still executed."""

    def __init__(self, rows: Rows, owners: Owners) -> None:
        self._rows, self._owners = rows, owners

    async def close(self, moved_to: str = "") -> None:
        await self._ask(CloseStore(ClosedRow(self._owners.permit, moved_to)))

    async def open(self) -> None:
        await self._ask(CloseStore(None))

    async def permit(self) -> int:
        closed = await self._closed()
        return 0 if closed is None else closed.permit

    async def refuse_closed(self) -> None:
        """Raise StoreMismatch if the store is closed to writes."""
        closed = await self._closed()
        if closed is not None:
            raise StoreMismatch(closed.refusal().message)

    async def _ask(self, command: CloseStore) -> None:
        partitions = range(self._owners.partitions.count)
        await self._owners.ask_many([(partition, command) for partition in partitions], type(None))

    async def _closed(self) -> ClosedRow | None:
        """The `closed` row of the first partition that has one; None while all are open."""
        rows = await self._rows.get([closed_row(partition) for partition in range(self._owners.partitions.count)])
        return next((ClosedRow(*row) for row in rows if row is not None), None)
