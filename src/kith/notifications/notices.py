"""Stores notices with the inbox rows of their recipients, and reads notices.

The inbox row is written first, then the notice with its claim in one `put`. So a consumer that reads the notice's event
in the log finds the row.

A process that stops in between leaves a row without a notice. Readers skip such a row, and it is deleted with its
period; the event is repeated and gets a notice under another id. If the store fails but the process lives, the
repetition uses the same id, and so the same row, however often.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.clock import Hlc
from kith.core.ids import NodeId, Snowflakes
from kith.graph.graph import Graph
from kith.notifications.inbox import PERIOD_MS, InboxRow, InboxStore, base_of
from kith.notifications.notice import Notice, NoticeDraft, claim_of, notice_from, notice_record, read_notice
from kith.records.claims import first_of, is_same_request
from kith.records.store import Claim, RecordKind, RecordStore, Write

AT_ONCE_MAX = 200
"""Notices that one call writes. On an embedded store other writers wait meanwhile."""
FORGOTTEN_AT_ONCE = 1_000
"""Notices that one call deletes, so that other writes get their turns in between."""
UNFINISHED_MAX = 10_000
"""Claims of failed calls that are remembered, so that a repeated call writes the same rows."""
NO_NOTICE = NodeId(0)
"""The notice id in a claim for something that nobody is notified of."""


class Notices:
    """The notices of all users."""

    def __init__(self, records: RecordStore, inbox: InboxStore, graph: Graph, snowflakes: Snowflakes) -> None:
        self.records, self.inbox, self._clock, self._snowflakes = records, inbox, graph.clock, snowflakes
        self._unfinished: dict[bytes, Claim] = {}

    def next(self) -> tuple[NodeId, Hlc]:
        """The id and version of a new notice."""
        return self._snowflakes.next(), self._clock.next()

    async def claimed(self, drafts: Sequence[NoticeDraft]) -> list[bytes | None]:
        """For each draft, the value of the claim under which its notice was made; None if none was."""
        return await self.records.claimed([claim for _, claim in self._claims(drafts)])

    async def notify(self, drafts: Sequence[NoticeDraft]) -> list[NodeId]:
        """Make a notice of each draft, once however often this is repeated; returns the ids of the notices."""
        ids: list[NodeId] = []
        for start in range(0, len(drafts), AT_ONCE_MAX):
            ids += await self.notify_under(self._claims(drafts[start : start + AT_ONCE_MAX]))
        return ids

    def _claims(self, drafts: Sequence[NoticeDraft]) -> list[tuple[NoticeDraft, Claim]]:
        """Each draft with its claim, under a new id; all with one version."""
        ids, version = self._snowflakes.next_many(len(drafts)), self._clock.next()
        return [(draft, claim_of(draft, id_, version)) for draft, id_ in zip(drafts, ids, strict=True)]

    async def notify_under(self, drafts: Sequence[tuple[NoticeDraft, Claim]]) -> list[NodeId]:
        """Make a notice of each draft under its claim, unless the key is claimed already; returns the notices' ids.

        A claim for NO_NOTICE, or one whose key is claimed for NO_NOTICE already, notifies nobody.
        """
        drafts = [(draft, self._begun_before(claim)) for draft, claim in drafts]
        claimed = await self.records.claimed([claim for _, claim in drafts])
        versions = [first_of(value or claim.value, claim) for (_, claim), value in zip(drafts, claimed, strict=True)]
        new = [index for index, value in enumerate(claimed) if value is None]
        begun = {drafts[index][1].key: drafts[index][1] for index in new}
        self._unfinished |= begun
        while len(self._unfinished) > UNFINISHED_MAX:
            del self._unfinished[next(iter(self._unfinished))]
        rows = [
            InboxRow(drafts[index][0].recipient, versions[index][0]) for index in new if versions[index][0] != NO_NOTICE
        ]
        if rows:
            await self.inbox.put(rows)
        puts = await self.records.put_many([_write(*drafts[index], *versions[index]) for index in new]) if new else []
        for index, put in zip(new, puts, strict=True):
            if put.claimed is not None:  # another call claimed the key meanwhile
                draft, claim = drafts[index]
                if put.claimed != claim.value:
                    await self.inbox.remove(draft.recipient, [versions[index][0]])
                versions[index] = first_of(put.claimed, claim)
        stored = {index for index, put in zip(new, puts, strict=True) if put.stored}
        unfinished = [(*drafts[index], *versions[index]) for index in range(len(drafts)) if index not in stored]
        if unfinished:
            await self._finish(unfinished)
        for key in begun:
            self._unfinished.pop(key, None)
        return [id_ for id_, _ in versions]

    def _begun_before(self, claim: Claim) -> Claim:
        """The claim of an earlier or concurrent call for the same notice that has not ended; without one, `claim`."""
        begun = self._unfinished.get(claim.key)
        return claim if begun is None or not is_same_request(begun.value, claim) else begun

    async def _finish(self, claims: Sequence[tuple[NoticeDraft, Claim, NodeId, Hlc]]) -> None:
        """Store the notices of claims that a stopped process left without one.

        That happens on an engine without transactions, or in a store that was moved here from one.
        """
        stored = await self.records.get_many(RecordKind.NOTICE, [id_ for _, _, id_, _ in claims])
        absent = [claim for claim, record in zip(claims, stored, strict=True) if record is None]
        missing = [record for claim in absent for record in _write(*claim).records]
        if missing:
            await self.records.put(missing)

    async def expire(self, before_ms: int) -> tuple[int, int]:
        """Delete the notices of periods that ended before a time, and their rows; returns how many periods and notices.

        Rows are deleted first: readers skip a row without its notice, and nobody reads a notice without rows. The
        outcome of a mention is deleted before its notice, so that no outcome remains without one.
        """
        periods, below = await self.inbox.expire(before_ms), max(0, base_of(before_ms // PERIOD_MS))
        for kind in (RecordKind.MENTION_OUTCOME, RecordKind.MENTION_RING):
            await self._forget_below(kind, below)
        return periods, await self._forget_below(RecordKind.NOTICE, below)

    async def _forget_below(self, kind: RecordKind, below: int) -> int:
        forgotten = 0
        while count := await self.records.forget_below(kind, below, FORGOTTEN_AT_ONCE):
            forgotten += count
        return forgotten

    async def read(self, ids: Sequence[int]) -> list[Notice | None]:
        """The notice of each id, whether or not anybody may see it; None if there is none (any more)."""
        records = await self.records.get_many(RecordKind.NOTICE, ids) if ids else []
        return [None if record is None else read_notice(record.data) for record in records]


def _write(draft: NoticeDraft, claim: Claim, id_: NodeId, version: Hlc) -> Write:
    """The claim, and the notice that it stands for; no notice for NO_NOTICE."""
    return Write([] if id_ == NO_NOTICE else [notice_record(notice_from(id_, draft), version)], claim)
