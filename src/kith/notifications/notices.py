"""Stores notices and whom they tell, and reads them.

The row in the inbox is written first, then the notice with its claim in one `put`: the log tells the notice, and
whoever reads that finds the row. A process that stops in between leaves a row of a notice that there never is, which
every reader leaves out and which goes with its period; the event comes again and is told under another id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kith.core.ids import Snowflakes
from kith.graph.graph import Graph
from kith.graph.together import together
from kith.notifications.inbox import InboxRow, InboxStore
from kith.notifications.notice import Draft, Notice, claim_of, first_of, notice_from, notice_record, read_notice
from kith.records.store import Claim, Record, RecordKind, RecordStore

AT_ONCE_MAX = 100
"""Notices that are written at the same time."""


class Notices:
    """The notices of all users."""

    def __init__(self, records: RecordStore, inbox: InboxStore, graph: Graph, snowflakes: Snowflakes) -> None:
        self.records, self.inbox, self._clock, self._snowflakes = records, inbox, graph.clock, snowflakes

    async def tell(self, drafts: Sequence[Draft]) -> None:
        """Tell each of these once, however often it is repeated."""
        for at in range(0, len(drafts), AT_ONCE_MAX):
            await self._tell(list(dict.fromkeys(drafts[at : at + AT_ONCE_MAX])))

    async def _tell(self, drafts: Sequence[Draft]) -> None:
        claims = [claim_of(draft, self._snowflakes.next(), self._clock.next()) for draft in drafts]
        claimed = await together(self.records.immediate, *map(self.records.claimed, claims))
        known = [(draft, value) for draft, value in zip(drafts, claimed, strict=True) if value is not None]
        new = [(draft, claim) for draft, claim, value in zip(drafts, claims, claimed, strict=True) if value is None]
        if new:
            await self.inbox.add([InboxRow(draft.recipient, first_of(claim.value)[0]) for draft, claim in new])
        stored = await asyncio.gather(*(self.store(draft, claim) for draft, claim in new))
        lost = [(draft, claim, value) for (draft, claim), value in zip(new, stored, strict=True) if value is not None]
        for draft, claim, _ in lost:  # another worker told it meanwhile
            await self.inbox.remove(draft.recipient, [first_of(claim.value)[0]])
        if not self.records.transactional:
            await self._finish([*known, *((draft, value) for draft, _, value in lost)])

    async def store(self, draft: Draft, claim: Claim) -> bytes | None:
        """Store a notice under a claim; the value of an earlier claim of the same key, if there is one."""
        put = await self.records.put([self._record(draft, claim.value)], claim=claim)
        return put.claimed

    async def _finish(self, told: Sequence[tuple[Draft, bytes]]) -> None:
        """Store the notices of those claims that a process left without one."""
        ids = [first_of(value)[0] for _, value in told]
        there = await self.records.get_many(RecordKind.NOTICE, ids) if ids else []
        missing = [one for one, record in zip(told, there, strict=True) if record is None]
        if missing:
            await self.records.put([self._record(draft, value) for draft, value in missing])

    def _record(self, draft: Draft, value: bytes) -> Record:
        id_, version = first_of(value)
        return notice_record(notice_from(id_, draft), version)

    async def read(self, ids: Sequence[int]) -> list[Notice | None]:
        """The notice of each id, whoever may see it; None where there is none (any more)."""
        records = await self.records.get_many(RecordKind.NOTICE, ids) if ids else []
        return [None if record is None else read_notice(record.data) for record in records]
