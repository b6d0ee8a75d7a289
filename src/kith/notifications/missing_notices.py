"""Finds events that should have made a notice and did not: `kith audit notifications`.

It reads the log as far as `intake` has handled it, and examines each event as intake does. A notice was made if its
claim exists. It counts as suppressed if the rules or the recipient's preferences forbid it now, or if anything that
they depend on changed since, because their answer at that time is not known. An event that kept failing is dead and
waits for `kith dead`. The rest is missing; a repair makes the notice.

The time at which an account was made private, hidden or deactivated is not stored. So once such an account is back,
what happened meanwhile counts as missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from kith.core.clock import ms_of
from kith.core.events import NOWHERE, Event
from kith.core.ids import NodeId
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, HIDES, MUTES
from kith.log.store import LogStore
from kith.notifications.intake import NAME, PART, Intake
from kith.notifications.notice import NOTICE_KEPT_MS, NoticeDraft
from kith.notifications.notices import Notices
from kith.notifications.preferences import CACHED_MS
from kith.notifications.recipients import Recipients
from kith.records.store import Record, RecordKind

READ_AT_ONCE = 1_000
"""Events of the log that one call reads."""
EXAMPLES_MAX = 10
"""Missing notices that the result names."""
ANSWERED_MS = 60_000
"""How long after a follow the request that it answers may be removed."""


class EventAudit(msgspec.Struct, rename="camel"):
    """Notices that the log should have made: `expected` is the sum of the next four."""

    expected: int = 0
    told: int = 0
    suppressed: int = 0
    dead: int = 0
    missing: int = 0
    repaired: int = 0
    examples: list[str] = []


class EventAuditor:
    """Audits events logged since `since_ms`, which must not be before intake began to read the log."""

    def __init__(
        self,
        log: LogStore,
        graph: Graph,
        intake: Intake,
        notices: Notices,
        recipients: Recipients,
        since_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._log, self._store, self._intake = log, graph.store, intake
        self._notices, self._recipients = notices, recipients
        self._since_ms = max(since_ms, now_ms() - NOTICE_KEPT_MS)
        self._number = graph.graphs.number

    async def audit(self, *, repair: bool = False, sample: float = 1.0) -> EventAudit:
        """Audit a `sample` (0 to 1) of the events; with `repair`, make the missing notices."""
        result, rng = EventAudit(), random.Random()
        progress = await self._log.progress(NAME)
        if progress is None:
            return result
        failed = {failure.event.log_position: failure.dead for failure in await self._log.failures(NAME)}
        position, covers = NOWHERE, self._log.covers
        while True:
            batch = await self._log.read(position, READ_AT_ONCE)
            events = [
                event
                for event in batch.events
                if event.logged_ms >= self._since_ms and covers(progress.at, event.log_position)
            ]
            audited = [event for event in events if failed.get(event.log_position, True)]  # others are being retried
            audited = [event for event in audited if sample >= 1 or rng.random() < sample]
            for start in range(0, len(audited), PART):
                await self._audit_part(audited[start : start + PART], {*failed}, result, repair=repair)
            if not batch.events or not covers(progress.at, batch.next):
                return result
            position = batch.next

    async def _audit_part(self, events: Sequence[Event], dead: set[bytes], result: EventAudit, *, repair: bool) -> None:
        pairs = await self._intake.drafts(events)
        claims = await self._notices.claimed([draft for _, draft in pairs])
        allowed = {*await self._recipients.worth_storing([draft for _, draft in pairs])}
        unclaimed = [pair for pair, claim in zip(pairs, claims, strict=True) if claim is None]
        open_pairs = [
            (event, draft) for event, draft in unclaimed if draft in allowed and event.log_position not in dead
        ]
        changed = await self._changed(open_pairs)
        missing = [draft for (_, draft), was_changed in zip(open_pairs, changed, strict=True) if not was_changed]
        expected = sum(draft.instead_of is None for _, draft in pairs)  # each once, whatever the number of reasons
        unclaimed_events = [event for event, draft in unclaimed if draft.instead_of is None]
        dead_count = sum(event.log_position in dead for event in unclaimed_events)
        result.expected += expected
        result.told += expected - len(unclaimed_events)
        result.dead += dead_count
        result.missing += len(missing)
        result.suppressed += len(unclaimed_events) - dead_count - len(missing)
        result.examples += [
            f"{draft.recipient}, of the {draft.type} by {draft.actor}"
            for draft in missing[: EXAMPLES_MAX - len(result.examples)]
        ]
        if repair and missing:
            await self._intake.notify(missing)
            result.repaired += len(missing)

    async def _changed(self, pairs: Sequence[tuple[Event, NoticeDraft]]) -> list[bool]:
        """For each: whether anything that the rules and preferences depend on changed after the event."""
        changed = [False] * len(pairs)
        lookups = [(index, graph, ends) for index, (_, draft) in enumerate(pairs) for graph, ends in self._edges(draft)]
        for graph in {graph for _, graph, _ in lookups}:
            of_graph = [(index, ends) for index, edge_graph, ends in lookups if edge_graph == graph]
            rows = await self._store.get_many(graph, [ends for _, ends in of_graph])
            slack_ms = ANSWERED_MS if graph == self._number(FOLLOW_REQUESTS) else 0
            for (index, _), row in zip(of_graph, rows, strict=True):
                event = pairs[index][0]
                if row is not None and row.updated_at > event.updated_at:
                    changed[index] |= ms_of(row.updated_at) - ms_of(event.updated_at) >= slack_ms
        recipients = [draft.recipient for _, draft in pairs]
        preferences = await self._records(RecordKind.NOTICE_PREFERENCES, recipients)
        posts = await self._records(RecordKind.POST, [draft.post for _, draft in pairs])
        comments = await self._records(RecordKind.COMMENT, [draft.comment for _, draft in pairs])
        return [
            edge_changed
            or _changed_after(preference_record, event.logged_ms - CACHED_MS)
            or any(_changed_after(record, event.logged_ms) for record in content)
            for edge_changed, (event, _), preference_record, *content in zip(
                changed, pairs, preferences, posts, comments, strict=True
            )
        ]

    def _edges(self, draft: NoticeDraft) -> list[tuple[int, tuple[NodeId, NodeId]]]:
        """The edges that decide whether the recipient is notified, as (graph, ends)."""
        actor, recipient = NodeId(draft.actor), NodeId(draft.recipient)
        forward, back = (actor, recipient), (recipient, actor)
        edges = [(self._number(name), ends) for name in (BLOCKS, FOLLOWS, FOLLOW_REQUESTS) for ends in (forward, back)]
        hidden = [] if draft.post is None else [(self._number(HIDES), (recipient, NodeId(draft.post)))]
        return [*edges, (self._number(MUTES), back), *hidden]

    async def _records(self, kind: RecordKind, ids: Sequence[int | None]) -> list[Record | None]:
        """The record of each id; None where there is none."""
        distinct_ids = list({id_ for id_ in ids if id_ is not None})
        records = await self._notices.records.get_many(kind, distinct_ids) if distinct_ids else []
        by_id = dict(zip(distinct_ids, records, strict=True))
        return [None if id_ is None else by_id[id_] for id_ in ids]


def _changed_after(record: Record | None, at_ms: int) -> bool:
    return record is not None and ms_of(record.updated_at) > at_ms
