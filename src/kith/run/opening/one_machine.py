"""Opens the stores of one machine: a data folder of the embedded engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from kith.core.clock import HybridClock
from kith.core.errors import NotConfirmed
from kith.engines.embedded.activity_store import EmbeddedActivity
from kith.engines.embedded.commits import CommitObserver, CommitQueue
from kith.engines.embedded.committer import Committer, ReceivedJobs, run_committer
from kith.engines.embedded.confirmations import Confirmations
from kith.engines.embedded.contents import EmbeddedContents
from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.fanout_state import EmbeddedFanoutState
from kith.engines.embedded.file_leases import FileLeases
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.retention import LogBounds
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.graph.graph import Graph
from kith.graph.graphs import Graphs
from kith.home.fanout import consumer as fanout
from kith.leases.holding import Leases
from kith.log.runner import begin
from kith.notifications.activity import Activity
from kith.run.backups.schedule import NAME as BACKUPS
from kith.run.config import Settings
from kith.run.consumers import CONSUMERS
from kith.run.machines import peers
from kith.run.measures.gauges import gauges
from kith.run.measures.metrics import Metrics
from kith.run.measures.observed import observed
from kith.run.opening.folders import metrics_folder, open_environment, refuse_unfinished
from kith.run.opening.stores import Folder, OpenStores


@contextlib.asynccontextmanager
async def open_stores(
    settings: Settings,
    process: str,
    *,
    create: bool,
    on_fatal: Callable[[], None],
    follows: bool = False,
    committer: Committer | None = None,
) -> AsyncIterator[OpenStores]:
    """Open a data folder, and drain its commit queue at the end. See `wiring.open_stores`.

    `follows`: open a folder that is closed to writes, and write to it. `committer`: a process that commits for this
    one, not opened yet.
    """
    with _environment(settings, create=create, follows=follows) as environment:
        metrics = Metrics(metrics_folder(settings), lambda: commits.depth, lambda: gauges(settings, stores), process)
        commits = _queue(settings, environment, process, metrics, on_fatal, committer=committer)
        metrics.start()
        leases = FileLeases(environment.folder)
        inboxes = EmbeddedInboxes(environment.folder / "inboxes", bytes_max=settings.store_bytes_max)
        activity = EmbeddedActivity(environment.folder)
        folder = Folder(environment, commits, EmbeddedLog(environment, commits))
        try:
            stores = _stores(settings, folder, Leases(leases), inboxes, activity, metrics)
            if create and not environment.is_closed():
                with contextlib.suppress(NotConfirmed):  # no standby yet, and these writes need none
                    await begin(stores.log, [name for name, consumer in CONSUMERS.items() if consumer.has_position])
            if committer is not None:
                await committer.open(environment.graph_numbers().values(), metrics, on_fatal, settings.hang_timeout_s)
            yield stores
        finally:
            if committer is not None:
                await committer.close()
            await asyncio.to_thread(inboxes.close)
            activity.close()
            leases.close()
            await asyncio.to_thread(commits.close)
            metrics.close()


def commit_for(settings: Settings, process: str, received: ReceivedJobs) -> None:
    """Commit what another process asks for, until that process ends. `process`: its kind."""
    with _environment(settings, create=False, follows=False) as environment:
        commits = _queue(settings, environment, process, received, partial(os._exit, os.EX_IOERR), source=received)
        run_committer(commits, received)


def _queue(
    settings: Settings,
    environment: Environment,
    process: str,
    observer: CommitObserver,
    on_fatal: Callable[[], None],
    *,
    committer: Committer | None = None,
    source: ReceivedJobs | None = None,
) -> CommitQueue:
    return CommitQueue(
        environment,
        writes_max=settings.commit_writes_max,
        wait_ms=settings.commit_wait_ms,
        queue_max=settings.commit_queue_max,
        log_bounds=log_bounds(settings),
        observer=observer,
        on_fatal=on_fatal,
        confirmations=_confirmations(settings, environment, process),
        on_pause=partial(peers.ask, settings, environment),
        committer=committer,
        source=source,
    )


def _stores(
    settings: Settings, folder: Folder, leases: Leases, inboxes: EmbeddedInboxes, activity: Activity, metrics: Metrics
) -> OpenStores:
    """The stores of an open folder."""
    environment, commits = folder.environment, folder.commits
    clock, numbers = HybridClock(), Graphs(environment.graph_numbers(), lambda: environment.declare([]))
    edges = EmbeddedEdges(environment, commits)
    edges.restore_clock(clock)
    store = observed(edges, "edges", metrics)
    return OpenStores(
        store=store,
        checked=store,
        records=observed(EmbeddedRecords(environment, commits), "records", metrics),
        log=observed(folder.log, "log", metrics),
        graph=Graph(store, numbers, clock, walk_max=settings.walk_max),
        suggestions=observed(EmbeddedSuggestions(environment, commits), "suggestions", metrics),
        fanout_state=observed(EmbeddedFanoutState(environment, commits, fanout.NAME), "fanout", metrics),
        inboxes=inboxes,
        activity=activity,
        leases=leases,
        credentials=EmbeddedCredentials(environment),
        contents=EmbeddedContents(environment, inboxes),
        metrics=metrics,
        folder=folder,
    )


@contextlib.contextmanager
def _environment(settings: Settings, *, create: bool, follows: bool) -> Iterator[Environment]:
    environment = open_environment(settings, create=create, follows=follows)
    try:
        refuse_unfinished(environment)
        yield environment
    finally:
        environment.close()


def _confirmations(settings: Settings, environment: Environment, process: str) -> Confirmations | None:
    """Where writes wait for a standby; None where they do not. Workers acknowledge nothing, so theirs never wait."""
    if settings.standby_mode != "one" or {*process.split("+")} <= {*CONSUMERS, BACKUPS}:
        return None
    return Confirmations(environment.folder, environment.history().name, settings.standby_timeout_ms / 1000)


def log_bounds(settings: Settings) -> LogBounds:
    """Bounds of the log: events, bytes and age that it keeps."""
    hour_ms = 3_600_000
    return LogBounds(
        settings.log_events_max,
        settings.log_bytes_max,
        settings.log_keep_hours * hour_ms or None,
        settings.log_lease_hours * hour_ms,
        settings.log_leased_bytes_max,
    )
