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
        found, chosen = EventAudit(), random.Random()
        handled = await self._log.progress(NAME)
        if handled is None:
            return found
        failed = {failure.event.log_position: failure.dead for failure in await self._log.failures(NAME)}
        at, covers = NOWHERE, self._log.covers
        while True:
            batch = await self._log.read(at, READ_AT_ONCE)
            events = [
                one for one in batch.events if one.logged_ms >= self._since_ms and covers(handled.at, one.log_position)
            ]
            looked_at = [one for one in events if failed.get(one.log_position, True)]  # others are being retried
            looked_at = [one for one in looked_at if sample >= 1 or chosen.random() < sample]
            for first in range(0, len(looked_at), PART):
                await self._audit_part(looked_at[first : first + PART], {*failed}, found, repair=repair)
            if not batch.events or not covers(handled.at, batch.next):
                return found
            at = batch.next

    async def _audit_part(self, events: Sequence[Event], dead: set[bytes], found: EventAudit, *, repair: bool) -> None:
        pairs = await self._intake.drafts(events)
        claims = await self._notices.claimed([draft for _, draft in pairs])
        allowed = {*await self._recipients.worth_storing([draft for _, draft in pairs])}
        untold = [pair for pair, claim in zip(pairs, claims, strict=True) if claim is None]
        open_ = [(event, draft) for event, draft in untold if draft in allowed and event.log_position not in dead]
        changed = await self._changed(open_)
        missing = [draft for (_, draft), was_changed in zip(open_, changed, strict=True) if not was_changed]
        expected = sum(draft.instead_of is None for _, draft in pairs)  # each once, whatever the number of reasons
        untold_events = [event for event, draft in untold if draft.instead_of is None]
        gone = sum(event.log_position in dead for event in untold_events)
        found.expected += expected
        found.told += expected - len(untold_events)
        found.dead += gone
        found.missing += len(missing)
        found.suppressed += len(untold_events) - gone - len(missing)
        found.examples += [
            f"{one.recipient}, of the {one.type} by {one.actor}"
            for one in missing[: EXAMPLES_MAX - len(found.examples)]
        ]
        if repair and missing:
            await self._intake.notify(missing)
            found.repaired += len(missing)

    async def _changed(self, pairs: Sequence[tuple[Event, NoticeDraft]]) -> list[bool]:
        """For each: whether anything that the rules and preferences depend on changed after the event."""
        changed = [False] * len(pairs)
        asked = [(at, graph, ends) for at, (_, draft) in enumerate(pairs) for graph, ends in self._edges(draft)]
        for graph in {graph for _, graph, _ in asked}:
            of_graph = [(at, ends) for at, other, ends in asked if other == graph]
            rows = await self._store.get_many(graph, [ends for _, ends in of_graph])
            slack_ms = ANSWERED_MS if graph == self._number(FOLLOW_REQUESTS) else 0
            for (at, _), row in zip(of_graph, rows, strict=True):
                event = pairs[at][0]
                if row is not None and row.updated_at > event.updated_at:
                    changed[at] |= ms_of(row.updated_at) - ms_of(event.updated_at) >= slack_ms
        recipients = [draft.recipient for _, draft in pairs]
        wishes = await self._records(RecordKind.NOTICE_PREFERENCES, recipients)
        posts = await self._records(RecordKind.POST, [draft.post for _, draft in pairs])
        comments = await self._records(RecordKind.COMMENT, [draft.comment for _, draft in pairs])
        return [
            was
            or _changed_after(wish, event.logged_ms - CACHED_MS)
            or any(_changed_after(one, event.logged_ms) for one in content)
            for was, (event, _), wish, *content in zip(changed, pairs, wishes, posts, comments, strict=True)
        ]

    def _edges(self, one: NoticeDraft) -> list[tuple[int, tuple[NodeId, NodeId]]]:
        """The edges that decide whether the recipient is notified, as (graph, ends)."""
        actor, recipient = NodeId(one.actor), NodeId(one.recipient)
        there, back = (actor, recipient), (recipient, actor)
        both = [(self._number(name), ends) for name in (BLOCKS, FOLLOWS, FOLLOW_REQUESTS) for ends in (there, back)]
        hidden = [] if one.post is None else [(self._number(HIDES), (recipient, NodeId(one.post)))]
        return [*both, (self._number(MUTES), back), *hidden]

    async def _records(self, kind: RecordKind, ids: Sequence[int | None]) -> list[Record | None]:
        """The record of each id; None where there is none."""
        known = list({id_ for id_ in ids if id_ is not None})
        found = await self._notices.records.get_many(kind, known) if known else []
        by_id = dict(zip(known, found, strict=True))
        return [None if id_ is None else by_id[id_] for id_ in ids]


def _changed_after(record: Record | None, at_ms: int) -> bool:
    return record is not None and ms_of(record.updated_at) > at_ms
