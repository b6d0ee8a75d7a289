"""Stores notices and whom they tell, and reads them.

The row in the inbox is written first, then the notice with its claim in one `put`: the log tells the notice, and
whoever reads that finds the row. A process that stops in between leaves a row of a notice that there never is, which
every reader leaves out and which goes with its period; the event comes again and is told under another id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kith.core.clock import Hlc
from kith.core.ids import NodeId, Snowflakes
from kith.graph.graph import Graph
from kith.graph.together import together
from kith.notifications.inbox import PERIOD_MS, InboxRow, InboxStore, base_of
from kith.notifications.notice import Draft, Notice, claim_of, notice_from, notice_record, read_notice
from kith.records.claims import first_of
from kith.records.store import Claim, Record, RecordKind, RecordStore

AT_ONCE_MAX = 100
"""Notices that are written at the same time."""
FORGOTTEN_AT_ONCE = 1_000
"""Notices that are forgotten in one call, so that other writes have their turns in between."""
NOBODY = NodeId(0)
"""The id in a claim of what nobody is told."""


class Notices:
    """The notices of all users."""

    def __init__(self, records: RecordStore, inbox: InboxStore, graph: Graph, snowflakes: Snowflakes) -> None:
        self.records, self.inbox, self._clock, self._snowflakes = records, inbox, graph.clock, snowflakes

    def next(self) -> tuple[NodeId, Hlc]:
        """The id and version of a new notice."""
        return self._snowflakes.next(), self._clock.next()

    async def tell(self, drafts: Sequence[Draft]) -> list[NodeId]:
        """Tell each of these once, however often it is repeated; the ids of their notices."""
        told: list[NodeId] = []
        for at in range(0, len(drafts), AT_ONCE_MAX):
            part = drafts[at : at + AT_ONCE_MAX]
            told += await self.tell_under([(one, claim_of(one, *self.next())) for one in part])
        return told

    async def tell_under(self, drafts: Sequence[tuple[Draft, Claim]]) -> list[NodeId]:
        """Tell each draft under its claim, unless another of the same key was first; the ids of what was told.

        Where a claim, or the first of its key, is for NOBODY, it is taken and nobody is told.
        """
        claimed = await together(self.records.immediate, *(self.records.claimed(claim) for _, claim in drafts))
        new = [(draft, claim) for (draft, claim), value in zip(drafts, claimed, strict=True) if value is None]
        rows = [InboxRow(draft.recipient, id_) for draft, claim in new if (id_ := _id_of(claim.value, claim)) != NOBODY]
        if rows:
            await self.inbox.add(rows)
        puts = iter(await asyncio.gather(*(self._put(draft, claim) for draft, claim in new)))
        values = [next(puts) if value is None else value for value in claimed]
        for (draft, claim), value in zip(drafts, values, strict=True):
            if value != claim.value and (draft, claim) in new:  # another process told it meanwhile
                await self.inbox.remove(draft.recipient, [_id_of(claim.value, claim)])
        if not self.records.transactional:
            await self._finish([(draft, claim, value) for (draft, claim), value in zip(drafts, values, strict=True)])
        return [_id_of(value, claim) for (_, claim), value in zip(drafts, values, strict=True)]

    async def _put(self, draft: Draft, claim: Claim) -> bytes:
        """Store a notice under a claim; the value that the claim has."""
        told = _id_of(claim.value, claim) != NOBODY
        put = await self.records.put([_record(draft, claim, claim.value)] if told else [], claim=claim)
        return claim.value if put.claimed is None else put.claimed

    async def _finish(self, told: Sequence[tuple[Draft, Claim, bytes]]) -> None:
        """Store the notices of claims that a process left without one."""
        there = await self.records.get_many(RecordKind.NOTICE, [_id_of(value, claim) for _, claim, value in told])
        missing = [
            _record(draft, claim, value)
            for (draft, claim, value), record in zip(told, there, strict=True)
            if record is None and _id_of(value, claim) != NOBODY
        ]
        if missing:
            await self.records.put(missing)

    async def expire(self, before_ms: int) -> tuple[int, int]:
        """Forget the notices of periods that ended before then, and their rows; how many periods and notices.

        Rows go first: one without its notice is left out by every reader, a notice without rows is read by nobody. What
        became of a mention goes before its notice, so that nothing is left of which nobody knows what it was.
        """
        periods, below = await self.inbox.expire(before_ms), max(0, base_of(before_ms // PERIOD_MS))
        for kind in (RecordKind.MENTION_OUTCOME, RecordKind.MENTION_RING):
            await self._forget_below(kind, below)
        return periods, await self._forget_below(RecordKind.NOTICE, below)

    async def _forget_below(self, kind: RecordKind, below: int) -> int:
        forgotten = 0
        while some := await self.records.forget_below(kind, below, FORGOTTEN_AT_ONCE):
            forgotten += some
        return forgotten

    async def read(self, ids: Sequence[int]) -> list[Notice | None]:
        """The notice of each id, whoever may see it; None where there is none (any more)."""
        records = await self.records.get_many(RecordKind.NOTICE, ids) if ids else []
        return [None if record is None else read_notice(record.data) for record in records]


def _id_of(value: bytes, claim: Claim) -> NodeId:
    return first_of(value, claim)[0]


def _record(draft: Draft, claim: Claim, value: bytes) -> Record:
    id_, version = first_of(value, claim)
    return notice_record(notice_from(id_, draft), version)
