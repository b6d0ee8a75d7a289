"""Cassandra's rows in memory: of two values of a row, the one with the greater timestamp wins.

Each write of a row, and each read or write of a journal, is a step. Before each step the call suspends, so other calls
may run, or the process may die. Calls await nothing else, so a test can drive them by hand (`advance`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Sequence
from typing import Any

from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import JournalRow, RowChange, listed, of_node
from kith.graph.shapes import Listing

_EXPIRED_PER_PAGE = 3


class _Step:
    def __await__(self) -> Generator[None, None, None]:
        yield


def advance(call: Coroutine[Any, Any, Any]) -> bool:
    """Do the next step of a call. Returns false once the call has ended; raises the call's errors."""
    try:
        call.send(None)
    except StopIteration:
        return False
    return True


class MemoryRows:
    """See `rows.Rows`."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[int, Values | None]] = {}
        self._journals: dict[int, JournalRow] = {}

    def table(self, name: str) -> dict[Values, Values]:
        """The rows of a table: key to values."""
        return {key: values for (table, key), (_, values) in self._rows.items() if table == name and values is not None}

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        await _Step()
        return [self._rows.get(key, (0, None))[1] for key in keys]

    async def cells(self, listings: Sequence[Listing]) -> list[list[tuple[int, int, int]]]:
        await _Step()
        counts = self.table("counts")
        return [
            [(key[4], length, expiring) for key, (length, expiring) in counts.items() if key[:4] == of_node(listing)]
            for listing in listings
        ]

    async def expired_entries(self, listing: Listing, now_ms: int) -> AsyncIterator[Sequence[int]]:
        await _Step()
        over = [key[5] for key in self.table("ending") if key[:4] == listed(listing) and key[4] <= now_ms]
        for at in range(0, len(over), _EXPIRED_PER_PAGE):
            yield over[at : at + _EXPIRED_PER_PAGE]

    async def write(self, changes: Sequence[RowChange]) -> None:
        for table, key, values, timestamp, _ in changes:
            await _Step()
            before = self._rows.get(Key(table, key), (-1, None))
            assert before[0] != timestamp or before[1] == values, f"two values of one timestamp of {table} {key}"
            if timestamp > before[0]:
                self._rows[Key(table, key)] = timestamp, values

    async def journal(self, partition: int) -> JournalRow | None:
        await _Step()
        return self._journals.get(partition)

    async def take_over(self, partition: int, before: int, epoch: int) -> bool:
        await _Step()
        stored = self._journals.get(partition, JournalRow(0, b""))
        if stored.epoch == before:
            self._journals[partition] = stored._replace(epoch=epoch)
        return stored.epoch == before

    async def write_journal(self, partition: int, epoch: int, batch: bytes) -> bool:
        await _Step()
        stored = self._journals.get(partition)
        if stored is None or stored.epoch != epoch:
            return False
        self._journals[partition] = JournalRow(epoch, batch)
        return True
