"""The EdgeStore on Cassandra: it reads rows itself, and sends writes as commands to the owners of the sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from kith.core.events import NOWHERE, Event, LogPosition
from kith.core.gathering import gather
from kith.core.tokens import WriteMark
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.edge_commands import EndEdges, ForgetEdges, WriteEdges
from kith.engines.cassandra.edge_reads import EdgeReads
from kith.engines.cassandra.edge_scans import EdgeScans
from kith.engines.cassandra.metadata import Metadata
from kith.engines.cassandra.row_commands import ChangeNode, PutNote, note_row
from kith.engines.cassandra.rows import CassandraRows
from kith.engines.cassandra.schema import SHELF
from kith.graph.edge import REFUSED, EdgeChange, EdgeWrite, Outcome, State
from kith.graph.shapes import ANY_NOTE, AnyNote, EdgeKey, ExpiringEdge, Node, NodeChange, Pair

WRITES_A_COMMAND = 200
EXPIRED_PER_CALL_MAX = 500
_SKIPPED = EdgeChange(Outcome.UNCHANGED, None, None)
_LAST = "\U0010ffff"
_NOTES = f"SELECT name, note FROM notes WHERE shelf = {SHELF}"
_NOTES_OF = f"{_NOTES} AND name >= ? AND name < ?"
_ENDING = "SELECT expires_ms, graph, source, destination FROM expiring WHERE partition = ? AND expires_ms <= ? LIMIT ?"


class CassandraEdges(EdgeReads, EdgeScans):
    """See `graph.store.EdgeStore`; this engine is not transactional."""

    transactional = immediate = False
    logs_every_change = True

    def __init__(self, rows: CassandraRows, owners: Owners, now_ms: Callable[[], int]) -> None:
        EdgeReads.__init__(self, rows, now_ms)
        EdgeScans.__init__(self, rows, owners)
        self._metadata = Metadata(rows.session)

    async def last_logged_commit(self) -> int:
        return 0  # unknown: rows and log are not written in one transaction

    async def expiring_by(self, until_ms: int, limit: int) -> list[ExpiringEdge]:
        owners = range(self._owners.partitions.count)
        rows_of_owners = await gather(False, *(self._session.rows(_ENDING, owner, until_ms, limit) for owner in owners))
        return sorted(ExpiringEdge(*row) for rows in rows_of_owners for row in rows)[:limit]

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        return await self._metadata.declare(list(names))

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        changes: list[EdgeChange] = []
        position, refused = NOWHERE, False
        while len(changes) < len(writes):
            index = len(changes)
            if writes[index].chained and refused:
                changes.append(_SKIPPED)
                continue
            stage = [msgspec.structs.replace(writes[index], chained=False), *self._rest_of_stage(writes, index)]
            results = await self._write(stage)
            for change, reached in results:
                position = self._owners.joined(position, reached)
                result = _SKIPPED if change is None else change
                if result.outcome is Outcome.APPLIED:
                    result = msgspec.structs.replace(result, log_position=position)
                changes.append(result)
            last_change = results[-1][0]
            refused = last_change is None or last_change.outcome in REFUSED
        return changes

    async def barrier(self) -> None:
        await self._owners.drain_batches()

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        return self._owners.joined(position, other)

    def _rest_of_stage(self, writes: Sequence[EdgeWrite], index: int) -> Iterable[EdgeWrite]:
        """The writes after the one at `index` that can be sent together with it.

        They end before a write that is chained to a write of another owner, and before one with a condition on an edge
        that was written earlier in the stage.
        """
        owner, written_keys = self._owner_of(writes[index]), {_key_of(writes[index])}
        for write in writes[index + 1 :]:
            previous_owner, owner = owner, self._owner_of(write)
            if (write.chained and owner != previous_owner) or not written_keys.isdisjoint(write.condition_edges):
                return
            written_keys.add(_key_of(write))
            yield write

    def _owner_of(self, write: EdgeWrite) -> int:
        return self._owners.partitions.of_node(write.edge.source)

    async def _write(self, writes: Sequence[EdgeWrite]) -> list[tuple[EdgeChange | None, LogPosition]]:
        """Send each owner its writes; returns one answer per write, in the order of `writes`."""
        parts: dict[int, list[list[int]]] = defaultdict(list)
        for index, write in enumerate(writes):
            part = parts[self._owner_of(write)]
            if not part or (len(part[-1]) >= WRITES_A_COMMAND and not write.chained):
                part.append([])
            part[-1].append(index)
        requests = [(owner, indexes) for owner, part in parts.items() for indexes in part]
        commands = [(owner, WriteEdges([writes[index] for index in indexes])) for owner, indexes in requests]
        answers = await self._owners.ask_many(commands, list[EdgeChange | None])
        results: dict[int, tuple[EdgeChange | None, LogPosition]] = {}
        for (_, indexes), (changes, position) in zip(requests, answers, strict=True):
            results |= {index: (change, position) for index, change in zip(indexes, changes, strict=True)}
        return [results[index] for index in range(len(writes))]

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        pairs_by_owner: dict[int, list[Pair]] = defaultdict(list)
        for pair in dict.fromkeys(pairs):
            pairs_by_owner[self._owners.partitions.of_node(pair[0])].append(pair)
        await self._owners.ask_many(
            [(owner, ForgetEdges(graph, pairs_of_owner)) for owner, pairs_of_owner in pairs_by_owner.items()],
            type(None),
        )

    async def end_expired(self) -> int:
        """Have each owner remove up to EXPIRED_PER_CALL_MAX expired edges; returns how many were removed.

        A serving process calls it every second.
        """
        now_ms = self._now_ms()
        owners = range(self._owners.partitions.count)
        rows_of_owners = await gather(
            False, *(self._session.rows(_ENDING, owner, now_ms, EXPIRED_PER_CALL_MAX) for owner in owners)
        )
        commands = [
            (owner, EndEdges([_key(*key) for _, *key in rows], [expires_ms for expires_ms, *_ in rows]))
            for owner, rows in zip(owners, rows_of_owners, strict=True)
            if rows
        ]
        return sum(count for count, _ in await self._owners.ask_many(commands, int))

    async def change_node(
        self,
        node: int,
        *,
        state: State | None = None,
        private: bool | None = None,
        labels: int | None = None,
        only_from: State | None = None,
        tell: Event | None = None,
    ) -> NodeChange:
        command = ChangeNode(node, state, private, labels, only_from, tell)
        changed, position = await self._owners.ask(self._owners.partitions.of_node(node), command, Node)
        return NodeChange(changed, WriteMark(position, 0 if tell is None else tell.updated_at))

    async def get_note(self, key: str) -> bytes | None:
        (values,) = await self._rows.get([note_row(key)])
        return None if values is None else values[0]

    async def put_note(self, key: str, value: bytes | None, *, only_if: bytes | AnyNote | None = ANY_NOTE) -> bool:
        expected = None if only_if is ANY_NOTE else only_if
        command = PutNote(key, value, only_if is not ANY_NOTE, expected)
        written, _ = await self._owners.ask(self._owners.partitions.of_note(key), command, bool)
        return written

    async def notes(self, prefix: str) -> dict[str, bytes]:
        rows = self._session.rows(*((_NOTES_OF, prefix, prefix + _LAST) if prefix else (_NOTES,)))
        return dict(await rows)


def _key_of(write: EdgeWrite) -> EdgeKey:
    return write.edge.graph, write.edge.source, write.edge.destination


def _key(graph: int, source: int, destination: int) -> EdgeKey:
    return graph, source, destination
