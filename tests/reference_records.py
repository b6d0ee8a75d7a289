"""Two small in-memory RecordStores over the in-memory EdgeStores. Engines are compared with them.

`ReferenceRecords` has transactions. `RowRecords` promises only what `RecordStore` asks of an engine without
transactions: conditions cover single rows, and other tasks may do anything between two of its steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from reference_edges import ReferenceEdges
from scrambled_edges import ScrambledEdges

from kith.core.clock import Hlc
from kith.core.events import RECORD_CHANGED, RECORD_FORGOTTEN, RECORDS_FORGOTTEN, Event
from kith.core.tokens import WriteMark
from kith.graph.edge import EdgeChange, EdgeWrite
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, Write, newer

Step = Callable[[], Awaitable[None]]
"""Awaited before each step. It may raise, as if the process died there, or let other tasks run first."""


class ReferenceRecords:
    """See `records.store.RecordStore`. Transactional, as no method yields to other tasks."""

    transactional = immediate = True

    def __init__(self, edges: ReferenceEdges) -> None:
        self._edges = edges
        self.records: dict[tuple[RecordKind, int], Record] = {}
        self._claims: dict[bytes, tuple[int, bytes]] = {}

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        mark = self._mark(records)
        claimed = None if claim is None else self._claimed(claim)
        if claimed is not None or not all(map(self._holds, only_if)):
            return Put(False, [], mark, claimed)
        changes = await self._edges.apply(edges[:1])
        put = Put(True, changes, mark)
        if put.refusal is not None:
            return put._replace(stored=False)
        if claim is not None:
            self._claims[claim.key] = (claim.now_ms + claim.keep_ms, claim.value)
        for record in records:
            self._write(record)
        changes += await self._edges.apply(edges[1:])
        return put._replace(mark=self._mark(records))

    async def put_many(self, writes: Sequence[Write]) -> list[Put]:
        return [await self.put(one.records, claim=one.claim) for one in writes]

    async def newest(self, kind: RecordKind, below: int, limit: int) -> list[int]:
        return sorted((id_ for one, id_ in self.records if one is kind and id_ < below), reverse=True)[:limit]

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        return [self._claimed(claim) for claim in claims]

    async def forget(self, kind: RecordKind, ids: Sequence[int], versions: Sequence[int] | None = None) -> None:
        at = await self.versions(kind, ids) if versions is None else versions
        for id_ in [one for one, version in zip(ids, at, strict=True) if self._holds(AtVersion(kind, one, version))]:
            if self.records.pop((kind, id_), None) is not None:
                self._edges.events.append(Event(0, None, RECORD_FORGOTTEN, kind, id_, 0, Hlc(0)))

    async def forget_below(self, kind: RecordKind, below: int, limit: int) -> int:
        over = sorted(key for key in self.records if key[0] is kind and key[1] < below)[:limit]
        for key in over:
            del self.records[key]
        if over:
            self._edges.events.append(Event(0, None, RECORDS_FORGOTTEN, kind, over[-1][1] + 1, 0, Hlc(0)))
        return len(over)

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        return [self.records.get((kind, id_)) for id_ in ids]

    async def versions(self, kind: RecordKind, ids: Sequence[int]) -> list[int]:
        return [0 if one is None else one.updated_at for one in await self.get_many(kind, ids)]

    def _mark(self, records: Sequence[Record]) -> WriteMark:
        return WriteMark(self._edges.events.end, max((record.updated_at for record in records), default=0))

    def _claimed(self, claim: Claim) -> bytes | None:
        until_ms, value = self._claims.get(claim.key, (0, b""))
        return value if until_ms > claim.now_ms else None

    def _holds(self, condition: AtVersion) -> bool:
        stored = self.records.get(condition[:2])
        return (stored.updated_at if stored else 0) == condition.version

    def _write(self, record: Record) -> None:
        at = record.kind, record.id
        stored = self.records.get(at)
        self.records[at] = newer(stored, record)
        if self.records[at] is not stored:
            event = Event(0, None, RECORD_CHANGED, record.kind, record.id, 0, record.updated_at, data=record.data)
            self._edges.events.append(event)


async def _undisturbed() -> None:
    """A step during which no other task runs."""


class RowRecords(ReferenceRecords):
    """See `records.store.RecordStore`. The code after each `step` reads or writes one row, atomically."""

    transactional = False

    def __init__(self, edges: ScrambledEdges, step: Step = _undisturbed) -> None:
        super().__init__(edges)
        self.step = step

    async def put(
        self,
        records: Sequence[Record],
        edges: Sequence[EdgeWrite] = (),
        *,
        only_if: Sequence[AtVersion] = (),
        claim: Claim | None = None,
    ) -> Put:
        written = {(record.kind, record.id) for record in records}
        await self.step()
        if not all(self._holds(one) for one in only_if if one[:2] not in written):
            return Put(False, [], self._mark(records))
        if claim is not None:
            await self.step()
            claimed = self._claimed(claim)
            if claimed is not None:
                return Put(False, [], self._mark(records), claimed)
            self._claims[claim.key] = (claim.now_ms + claim.keep_ms, claim.value)
        for record in records:
            await self.step()
            if not all(self._holds(one) for one in only_if if one[:2] == (record.kind, record.id)):
                if record is records[0]:
                    await self._release(claim)
                return Put(False, [], self._mark(records))
            self._write(record)
        changes: list[EdgeChange] = []
        put = Put(True, changes, self._mark(records))
        for write in edges:
            await self.step()
            changes += await self._edges.apply([write])
            if put.refusal is not None:
                await self._release(claim)
                return put._replace(stored=False)
        await self.step()
        return put._replace(mark=self._mark(records))

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        await self.step()
        return await super().get_many(kind, ids)

    async def claimed(self, claims: Sequence[Claim]) -> list[bytes | None]:
        await self.step()
        return await super().claimed(claims)

    async def _release(self, claim: Claim | None) -> None:
        await self.step()
        if claim is not None and self._claimed(claim) == claim.value:
            del self._claims[claim.key]


def records_over(edges: ReferenceEdges) -> ReferenceRecords:
    """Records beside these edges. They have transactions if the edges have."""
    return RowRecords(edges) if isinstance(edges, ScrambledEdges) else ReferenceRecords(edges)
