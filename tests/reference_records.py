"""A small in-memory RecordStore over the in-memory EdgeStores: what engines are compared with.

Over `ScrambledEdges` it is an engine without transactions: records at once, what the edges list later.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_edges import ReferenceEdges

from kith.core.tokens import WriteMark
from kith.graph.edge import EdgeWrite
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, newer


class ReferenceRecords:
    """See `objects.store.RecordStore`."""

    immediate = True

    def __init__(self, edges: ReferenceEdges) -> None:
        self.transactional, self._edges = edges.transactional, edges
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
        mark = WriteMark(len(self._edges.log), max((record.updated_at for record in records), default=0))
        claimed = None if claim is None else await self.claimed(claim)
        if claimed is not None:
            return Put(False, [], mark, claimed)
        for kind, id_, version in only_if:
            stored = self.records.get((kind, id_))
            if (stored.updated_at if stored else 0) != version:
                return Put(False, [], mark)
        changes = await self._edges.apply(edges[:1]) if self.transactional else []
        put = Put(True, changes, mark)
        if put.refusal is not None:
            return put._replace(stored=False)
        if claim is not None:
            self._claims[claim.key] = (claim.now_ms + claim.keep_ms, claim.value)
        for record in records:
            at = record.kind, record.id
            self.records[at] = newer(self.records.get(at), record)
        changes += await self._edges.apply(edges[len(changes) :])
        return put._replace(changes=changes, mark=mark._replace(sequence=len(self._edges.log)))

    async def claimed(self, claim: Claim) -> bytes | None:
        until_ms, value = self._claims.get(claim.key, (0, b""))
        return value if until_ms > claim.now_ms else None

    async def forget(self, kind: RecordKind, ids: Sequence[int]) -> None:
        for id_ in ids:
            self.records.pop((kind, id_), None)

    async def get_many(self, kind: RecordKind, ids: Sequence[int]) -> list[Record | None]:
        return [self.records.get((kind, id_)) for id_ in ids]
