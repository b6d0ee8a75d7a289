"""The owner of partitions of the command log: decides their commands, and writes the resulting rows.

A batch is decided by rows read from Cassandra, or cached from an earlier batch: only the owner writes them, so the
cache stays current.

The decided batch is written to the partition's journal before any row. That write is conditional on the owner's epoch:
it fails for a former owner (fencing), and the next owner finds the batch whole or not at all. The rows are written
after it. A former owner that writes rows late writes those of the journal with their old timestamps, so newer writes
win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from kith.core.errors import StoreUnavailable
from kith.engines.cassandra.closing import closed_by, closed_row, refusal_to
from kith.engines.cassandra.commands import read_command
from kith.engines.cassandra.owner_command import FAILED, OwnerCommand
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.recount import Recount
from kith.engines.cassandra.row_batch import RowBatch
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import RowChange, Rows, cell_row
from kith.engines.cassandra.schema import TABLES_BY_NAME
from kith.graph.edge import Direction
from kith.graph.graphs import NO_OBJECTS, UserEnds
from kith.graph.shapes import EdgeKey, Listing
from kith.log.commands import Command, DecidedCommand
from kith.log.store import Fenced

CACHED_ROWS_MAX = 20_000
"""Rows of one partition that are cached."""
_UNREAD: Final[Any] = object()
_log = structlog.get_logger("kith.log")
_TAKES_MAX = 20
_RECOUNTS_MAX = 1_000
"""Recounts of one partition in progress; beyond that, the oldest is dropped."""
_EXPIRED_PER_BATCH_MAX = 500
"""Expired edges that a batch removes besides its own work."""


class JournaledBatch(msgspec.Struct, frozen=True, array_like=True):
    """A decided batch as the journal stores it."""

    decided: list[DecidedCommand]
    changes: list[RowChange]


class _BatchInput(NamedTuple):
    """What a batch is decided by; see `RowBatch`. `expired`: this partition's expired edges, to be removed first."""

    rows: dict[Key, Values | None]
    lengths: Mapping[Listing, int]
    expired: Sequence[EdgeKey]


class _CommandFailed(Exception):
    """The command at this index of a batch raised, so the batch must be discarded and decided again."""

    def __init__(self, index: int) -> None:
        self.index = index


class _FailedCommand(OwnerCommand, frozen=True):
    """Stands in for a command that raised: it changes nothing and answers FAILED."""

    def reads(self, partition: int) -> Iterable[Key]:
        return []

    def run(self, batch: RowBatch) -> msgspec.Raw:
        return msgspec.Raw(FAILED)


class CassandraOwner:
    """See `log.commands.Owner`."""

    def __init__(self, rows: Rows, partitions: Partitions, user_ends: UserEnds = NO_OBJECTS) -> None:
        self._rows, self._partitions, self.user_ends = rows, partitions, user_ends
        self._epochs: dict[int, int] = {}
        self._cache: dict[int, dict[Key, Values | None]] = {}
        self._recounts: dict[int, dict[Listing, Recount]] = {}

    async def take(self, partition: int, next_write: int) -> Sequence[DecidedCommand]:
        self._drop_state(partition)
        epoch = await self._take_over(partition)
        journal = await self._rows.journal(partition)
        if journal is None or journal.epoch != epoch:
            raise StoreUnavailable(f"another owner took over partition {partition} of the commands just now")
        decided: Sequence[DecidedCommand] = []
        if journal.batch:
            batch = msgspec.msgpack.decode(journal.batch, type=JournaledBatch)
            decided = [command for command in batch.decided if command.offset >= next_write]
            if decided:
                _check_known(partition, batch.changes)
                await self._rows.write(batch.changes)
        self._epochs[partition], self._cache[partition], self._recounts[partition] = epoch, {}, {}
        return decided

    async def _take_over(self, partition: int) -> int:
        """Become the owner under the next epoch, which is returned."""
        for _ in range(_TAKES_MAX):
            journal = await self._rows.journal(partition)
            former_epoch = 0 if journal is None else journal.epoch
            if await self._rows.take_over(partition, former_epoch, former_epoch + 1):
                return former_epoch + 1
        raise StoreUnavailable(f"many processes compete to own partition {partition} of the commands; try again")

    async def decide(self, partition: int, commands: Sequence[Command]) -> Sequence[DecidedCommand]:
        epoch = self._epochs.get(partition)
        if epoch is None:
            raise StoreUnavailable(f"partition {partition} of the commands is not taken")
        if not commands:
            return []
        try:
            batch, decided = await self._decide_batch(partition, commands)
            if batch.changes:
                await self._write_journal(partition, epoch, JournaledBatch(decided, batch.changes))
                await self._rows.write(batch.changes)
        except BaseException:
            self._drop_state(partition)  # the cache may differ from what is stored
            raise
        self._update_cache(partition, batch)
        return decided

    async def _decide_batch(self, partition: int, commands: Sequence[Command]) -> tuple[RowBatch, list[DecidedCommand]]:
        """Decide commands. If they needed rows that were not read, read these and decide again.

        If a command raises, the others are decided without it: it would raise again at every owner, and block the
        partition for good.
        """
        decoded: list[OwnerCommand | None] = [read_command(command.data) for command in commands]
        batch_input = await self._read(
            partition, [command for command in decoded if command is not None], commands[-1].at_ms
        )
        while True:
            recounts = self._recounts[partition]
            batch = RowBatch(
                partition, self._partitions, batch_input.rows, batch_input.lengths, recounts, self.user_ends
            )
            try:
                decided = _decide(batch, commands, decoded, batch_input.expired)
            except _CommandFailed as failed:
                if not batch.missing:  # otherwise a row that was not read may be the reason
                    offset, kind = commands[failed.index].offset, type(decoded[failed.index]).__name__
                    _log.exception("a write failed, and changed nothing", partition=partition, offset=offset, kind=kind)
                    decoded[failed.index] = _FailedCommand()
            else:
                if not batch.missing:
                    return batch, decided
            if batch.missing:
                batch_input.rows.update(await self._cached_or_read(partition, batch.missing))

    async def _write_journal(self, partition: int, epoch: int, batch: JournaledBatch) -> None:
        if not await self._rows.write_journal(partition, epoch, msgspec.msgpack.encode(batch)):
            raise Fenced

    async def _read(self, partition: int, commands: Sequence[OwnerCommand], now_ms: int) -> _BatchInput:
        """Read what the commands need, as far as they know it beforehand."""
        lists = list(dict.fromkeys(listing for command in commands for listing in command.lengths()))
        keys = (key for command in commands for key in command.reads(partition))
        cells_of_lists = (cell_row(listing, partition) for listing in lists)
        rows = await self._cached_or_read(partition, chain((closed_row(partition),), keys, cells_of_lists))
        into = [listing for listing in lists if listing.direction is Direction.IN]  # one owner writes a whole OUT list
        cells = dict(zip(into, await self._rows.cells(into) if into else [], strict=True))
        other_cells = {listing: [cell for cell in counts if cell[0] != partition] for listing, counts in cells.items()}
        lengths = {listing: sum(length for _, length, _ in counts) for listing, counts in other_cells.items()}
        expiring = [
            listing
            for listing in lists
            if any(ending for *_, ending in other_cells.get(listing, ()))
            or (rows[cell_row(listing, partition)] or (0, 0))[1]
        ]
        expired = await self._expired_edges(partition, expiring, lengths, now_ms)
        return _BatchInput(rows, lengths, expired)

    async def _expired_edges(
        self, partition: int, expiring: Sequence[Listing], lengths: dict[Listing, int], now_ms: int
    ) -> Sequence[EdgeKey]:
        """Up to _EXPIRED_PER_BATCH_MAX of this partition's expired edges in these lists.

        All other expired edges, of other partitions or beyond that bound, are subtracted from `lengths` instead.
        """
        expired: dict[EdgeKey, None] = {}
        for listing in expiring:
            async for other_ends in self._rows.expired_entries(listing, now_ms):
                for other_end in other_ends:
                    edge = _edge(listing, other_end)
                    if len(expired) < _EXPIRED_PER_BATCH_MAX and self._partitions.of_node(edge[1]) == partition:
                        expired[edge] = None
                    else:
                        lengths[listing] = lengths.get(listing, 0) - 1
        return list(expired)

    async def _cached_or_read(self, partition: int, keys: Iterable[Key]) -> dict[Key, Values | None]:
        """Rows from the cache, or else read. Rows that only this owner writes are then cached."""
        cache = self._cache[partition]
        rows = {key: cache.get(key, _UNREAD) for key in keys}
        missing = [key for key, values in rows.items() if values is _UNREAD]
        if missing:
            read_rows = dict(zip(missing, await self._rows.get(missing), strict=True))
            rows |= read_rows
            cache.update((key, values) for key, values in read_rows.items() if self._is_cacheable(partition, key))
        return rows

    def _is_cacheable(self, partition: int, key: Key) -> bool:
        """Whether a row may be cached: only this owner writes it, and it is worth keeping."""
        if key.table == "closed":
            return True
        if key.table == "counts":
            return bool(key.key[-1] == partition)
        return key.table in ("edges", "nodes") and self._partitions.of_node(key.key[0]) == partition

    def _update_cache(self, partition: int, batch: RowBatch) -> None:
        recounts = self._recounts[partition] = batch.recounts
        too_many = len(recounts) - _RECOUNTS_MAX
        for listing in list(islice(recounts, max(0, too_many))):
            del recounts[listing]
        cache = self._cache[partition]
        for change in batch.changes:
            if change.table in ("edges", "counts", "nodes", "closed"):
                cache[Key(change.table, change.key)] = change.values
        for key in list(islice(cache, max(0, len(cache) - CACHED_ROWS_MAX))):  # no full copy
            del cache[key]

    def _drop_state(self, partition: int) -> None:
        self._epochs.pop(partition, None)
        self._cache.pop(partition, None)
        self._recounts.pop(partition, None)


def _check_known(partition: int, changes: Iterable[RowChange]) -> None:
    """Raise StoreUnavailable for rows of tables that this version does not know: a newer process must take over."""
    unknown = {change.table for change in changes} - TABLES_BY_NAME.keys()
    if unknown:
        raise StoreUnavailable(
            f"the last batch of partition {partition} of the commands is of a newer Kith, which has to finish it:"
            f" it writes {', '.join(sorted(unknown))}"
        )


def _decide(
    batch: RowBatch,
    commands: Sequence[Command],
    decoded_commands: Sequence[OwnerCommand | None],
    expired: Sequence[EdgeKey],
) -> list[DecidedCommand]:
    """Decide commands in order, after removing `expired` edges with the first. Raises _CommandFailed if one raises."""
    batch.begin(commands[0].offset, commands[-1].at_ms)
    for edge in expired:
        batch.current_edge(edge)
    removed = batch.events
    decisions = []
    for index, (command, decoded) in enumerate(zip(commands, decoded_commands, strict=True)):
        batch.begin(command.offset, command.at_ms)
        closed = closed_by(batch)
        if decoded is None:
            outcome = b""
        elif closed is not None and closed.permit != decoded.permit:
            outcome = refusal_to(closed)
        else:
            try:
                outcome = msgspec.msgpack.encode(decoded.run(batch))
            except Exception as error:
                raise _CommandFailed(index) from error
        decisions.append(DecidedCommand(command.offset, outcome, [*removed, *batch.events]))
        removed = []
    return decisions


def _edge(listing: Listing, other_end: int) -> EdgeKey:
    """The edge that an entry of a list shows."""
    graph, node, direction, _ = listing
    return (graph, node, other_end) if direction is Direction.OUT else (graph, other_end, node)
