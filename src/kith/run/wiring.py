"""Wires engines to services: what every process needs over an open data folder.

On top of it `services` and `api` wire an API process, `consumers` the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial

from kith.boards.settling import Settling
from kith.core.clock import HybridClock
from kith.core.errors import NotConfirmed, StoreMismatch
from kith.engines.embedded.activity_store import EmbeddedActivity
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.confirmations import Confirmations
from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.file_leases import FileLeases
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.retention import Keep
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.leases.holding import Leases
from kith.log.runner import begin
from kith.people.privacy import Privacy
from kith.people.relations import RelationLimits, Relations
from kith.run import peers
from kith.run.backups.schedule import NAME as BACKUPS
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.folders import (
    Opened,
    metrics_folder,
    open_environment,
    refuse_unfinished_import,
)
from kith.run.gauges import gauges
from kith.run.metrics import Metrics
from kith.run.observed import observed
from kith.suggestions.suggestions import Suggestions


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, process: str, *, create: bool = True, on_fatal: Callable[[], None] = lambda: None
) -> AsyncIterator[Opened]:
    """Open a data folder, and drain its commit queue at the end. `process`: the kind of this process, for the metrics.

    `on_fatal` is called when the store refuses everything. Errors: StoreMismatch where an import was cut short.
    """
    environment = open_environment(settings, create=create)
    try:
        refuse_unfinished_import(environment)
    except StoreMismatch:
        environment.close()
        raise
    clock = HybridClock()
    metrics = Metrics(
        metrics_folder(settings), lambda: commits.depth, lambda: gauges(settings, environment, log), process
    )
    commits = CommitQueue(
        environment,
        writes_max=settings.commit_writes_max,
        wait_ms=settings.commit_wait_ms,
        queue_max=settings.commit_queue_max,
        keep=keep(settings),
        observer=metrics,
        on_fatal=on_fatal,
        confirmations=_confirmations(settings, environment, process),
        after_pause=partial(peers.ask, settings, environment),
    )
    metrics.start()
    store = observed(EmbeddedEdges(environment, commits), "edges", metrics)
    log = observed(EmbeddedLog(environment, commits), "log", metrics)
    store.restore_clock(clock)
    service = Graph(
        store, Graphs(environment.graph_numbers(), lambda: environment.declare([])), clock, walk_max=settings.walk_max
    )
    leases = FileLeases(environment.folder)
    inboxes = EmbeddedInboxes(environment.folder / "inboxes", bytes_max=settings.store_bytes_max)
    activity = EmbeddedActivity(environment.folder)
    try:
        if create and not environment.is_closed():
            with contextlib.suppress(NotConfirmed):  # there is no standby yet, and this asks for none
                await begin(log, [name for name, one in CONSUMERS.items() if one.has_place])
        yield Opened(
            environment, commits, store, log, service, metrics, Leases(leases),
            EmbeddedCredentials(environment), inboxes, activity,
        )  # fmt: skip
    finally:
        await asyncio.to_thread(inboxes.close)
        activity.close()
        leases.close()
        await asyncio.to_thread(commits.close)
        metrics.close()
        environment.close()


def _confirmations(settings: Settings, environment: Environment, process: str) -> Confirmations | None:
    """Where writes wait for a standby. Workers acknowledge nothing to anybody, so theirs do not."""
    if settings.standby_mode != "one" or {*process.split("+")} <= {*CONSUMERS, BACKUPS}:
        return None
    return Confirmations(environment.folder, environment.history().name, settings.standby_timeout_ms / 1000)


@contextlib.asynccontextmanager
async def opened_graph(settings: Settings, *, create: bool = True) -> AsyncIterator[Graph]:
    """The graph of a data folder alone, for a command."""
    async with opened(settings, "chore", create=create) as parts:
        yield parts.graph


def keep(settings: Settings) -> Keep:
    """How long the log keeps events."""
    hour_ms = 3_600_000
    return Keep(
        settings.log_events_max,
        settings.log_bytes_max,
        settings.log_keep_hours * hour_ms or None,
        settings.log_lease_hours * hour_ms,
        settings.log_leased_bytes_max,
    )


def relations(settings: Settings, graph: Graph, settling: Settling) -> Relations:
    """The rules of people, over an open folder. `settling`: what their follows mean for boards."""
    limits = RelationLimits(settings.follows_max, settings.batch_max)
    return Relations(graph, Privacy(graph), limits, ties=settling)


def suggestions(settings: Settings, parts: Opened) -> Suggestions:
    """People to follow, over an open folder."""
    store = observed(EmbeddedSuggestions(parts.environment, parts.commits), "suggestions", parts.metrics)
    return Suggestions(parts.graph, store, keep_ms=settings.suggestions_minutes * 60_000)
