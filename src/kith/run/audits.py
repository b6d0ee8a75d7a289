"""Audits over the stores of the settings: edges, inboxes, and the caches in front of the graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from kith.checks.audit import SetAudit, audit_sets
from kith.core.clock import wall_ms
from kith.core.errors import Conflict
from kith.core.ids import NODES_MAX, made_at_ms
from kith.engines.embedded.record_store import every_record
from kith.graph.audit import Audit, audit
from kith.home.audit import TimelineAudit, TimelineAuditor
from kith.leases.node_numbers import node_number
from kith.log.store import LogStore
from kith.notifications import intake, mention_consumer
from kith.notifications.audit import Auditor, NoticeAudit
from kith.notifications.inbox import PERIOD_MS, base_of
from kith.notifications.missing_notices import EventAudit, EventAuditor
from kith.notifications.notice import NOTICE_KEPT_MS, read_notice
from kith.notifications.tiers import Tier
from kith.notifications.walks import Walks
from kith.posts.comment_reader import CommentReader
from kith.records.store import RecordKind
from kith.run.config import Settings
from kith.run.opening import timelines, wiring
from kith.run.opening.stores import OpenStores
from kith.run.posts_and_notices import notice_services, posts_over

MADE_BEFORE_LOGGED_MS = 60_000
"""How much earlier than it is logged a notice may have got its id, as while a store was away."""


class CacheAudit(NamedTuple):
    """Findings about the caches. None: no request is answered from that cache now.

    `conflicts`: why a cache could not be audited.
    """

    sets: SetAudit | None
    timelines: TimelineAudit | None
    conflicts: list[str]


def audit_edges(settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]) -> list[Audit]:
    """Audit every graph. `sample`: the share of edges that is checked, 0 to 1."""

    async def run() -> list[Audit]:
        async with wiring.open_graph(settings, create=False) as graphs:
            return [
                await audit(
                    graphs.store, name, graphs.graphs.number(name), repair=repair, sample=sample, progress=progress
                )
                for name in graphs.graphs.names()
            ]

    return asyncio.run(run())


def audit_caches(settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]) -> CacheAudit:
    """Compare cached sets and home timelines with the graph. `sample`: the share of each that is checked, 0 to 1.

    `repair`: drop wrong ones; they are rebuilt when needed.
    """

    async def run() -> CacheAudit:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            sets, timeline_audit, conflicts = None, None, list[str]()
            if stores.keeping is not None:
                try:
                    sets = await audit_sets(
                        stores.keeping.sets, stores.store, repair=repair, sample=sample, progress=progress
                    )
                except Conflict as error:
                    conflicts.append(error.message)
            before = 0 if sets is None else sets.sets
            try:
                timeline_audit = await _timelines(
                    settings, stores, repair, sample, lambda checked: progress(before + checked)
                )
            except Conflict as error:
                conflicts.append(error.message)
            return CacheAudit(sets, timeline_audit, conflicts)

    return asyncio.run(run())


async def _timelines(
    settings: Settings, stores: OpenStores, repair: bool, sample: float, progress: Callable[[int], None]
) -> TimelineAudit | None:
    if not repair:
        async with timelines.open_reader(settings) as reading:
            auditor = TimelineAuditor(stores.graph, reading, stores.fanout_state, stores.log)
            return await auditor.audit(sample=sample, progress=progress)
    async with timelines.open_existing(settings) as writing:
        if writing is None:
            return None
        auditor = TimelineAuditor(stores.graph, writing, stores.fanout_state, stores.log)
        return await auditor.audit(repair=writing, sample=sample, progress=progress)


def audit_notifications(
    settings: Settings, *, repair: bool, sample: float, progress: Callable[[int], None]
) -> tuple[EventAudit, NoticeAudit]:
    """Audit notices against the log's events, then inbox rows against notices.

    `sample`: the share of events and of notices that is checked, 0 to 1.
    """

    async def run() -> tuple[EventAudit, NoticeAudit]:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            environment = stores.of_folder("this audit").environment
            events = await _audit_events(settings, stores, repair=repair, sample=sample)
            auditor = Auditor(
                stores.graph, stores.records, stores.inboxes, stores.activity, settings.celebrity_followers_min
            )
            begun_ms = await begun_until_ms(stores.log, wall_ms())  # before the walks: what begins in between is a walk
            walked_notices = {walk.notice for walk in await Walks(stores.store).of(Tier)}
            oldest_id = base_of(
                (wall_ms() - NOTICE_KEPT_MS) // PERIOD_MS
            )  # rows of older notices may be deleted already
            notices = (
                notice
                for record in every_record(environment, RecordKind.NOTICE)
                if record.id >= oldest_id and (notice := read_notice(record.data)) is not None
            )
            rows = await auditor.audit(
                notices, walked_notices, begun_until_ms=begun_ms, repair=repair, sample=sample, progress=progress
            )
            return events, rows

    return asyncio.run(run())


async def begun_until_ms(log: LogStore, now_ms: int) -> int:
    """All mentions made before this time have begun to be delivered to followers."""
    progress = await log.progress(mention_consumer.NAME)
    oldest_ms = None if progress is None else progress.behind.oldest_ms
    return (now_ms if oldest_ms is None else oldest_ms) - MADE_BEFORE_LOGGED_MS


async def _audit_events(settings: Settings, stores: OpenStores, *, repair: bool, sample: float) -> EventAudit:
    """Audit events since the first notice; the intake worker may not have read the log before it."""
    first = next(every_record(stores.of_folder("this audit").environment, RecordKind.NOTICE), None)
    if first is None:
        return EventAudit()
    async with node_number(stores.leases, NODES_MAX) as number:
        posts = posts_over(stores, number)
        comments = CommentReader(posts)
        services = notice_services(settings, stores, posts)
        reader = intake.Intake(services.notices, services.recipients, services.recent, posts, comments)
        auditor = EventAuditor(
            stores.log, stores.graph, reader, services.notices, services.recipients, made_at_ms(first.id), wall_ms
        )  # fmt: skip
        return await auditor.audit(repair=repair, sample=sample)
