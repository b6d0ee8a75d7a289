"""Opens the stores of the embedded engine, and blob stores in a folder or a bucket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

from store_types import Clock, EngineStores, Logged, Opens, Stores

from kith.access.credentials import CredentialStore
from kith.access.sliding_window import QuotaStore
from kith.core.clock import wall_ms
from kith.engines.embedded.activity_store import EmbeddedActivity
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.committer import Committer, ReceivedJobs, run_committer, start
from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.fanout_state import EmbeddedFanoutState
from kith.engines.embedded.file_leases import FileLeases
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.jobs import WriteJob
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.quota_store import FileQuotas
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.retention import LogBounds
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.engines.embedded.timeline_store import RingTimelines
from kith.graph.store import EdgeStore
from kith.home.fanout.consumer import NAME as FANOUT
from kith.home.fanout.state import FanoutState
from kith.home.timelines import TimelineStore
from kith.leases.store import LeaseStore
from kith.media.blobs import BlobStore
from kith.notifications.activity import Activity
from kith.notifications.inbox import InboxStore


@contextmanager
def open_embedded(folder: Path, **settings: Any) -> Iterator[tuple[Environment, EmbeddedEdges]]:
    """Open the embedded engine in a data folder, with a commit queue of its own."""
    with Environment(folder, durability="relaxed") as environment:
        commits = CommitQueue(environment, **settings)
        try:
            yield environment, EmbeddedEdges(environment, commits)
        finally:
            commits.close()


class _LazyCommitter:
    """A committer that the first job opens, in its event loop; see `jobs.RemoteCommitter`."""

    def __init__(self, committer: Committer, graphs: Callable[[], Collection[int]]) -> None:
        self._committer, self._graphs = committer, graphs
        self._opening: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return self._committer.waiting

    def ask(self, job: WriteJob, writes: int) -> asyncio.Future[Any] | None:
        async def ask(opening: asyncio.Task[None]) -> Any:
            await opening
            asked = self._committer.ask(job, writes)
            assert asked is not None, "it is done here, which is not what is tested"
            return await asked

        loop = asyncio.get_running_loop()
        if self._opening is None:
            self._opening = loop.create_task(self._committer.open(self._graphs(), Mock(), Mock(), 60))
        return loop.create_task(ask(self._opening)) if self._opening.get_loop() is loop else None


@contextmanager
def open_committed_stores(folder: Path) -> Iterator[Stores]:
    """As `open_embedded_stores`, but a committer process does the writes."""

    def commit(asked: ReceivedJobs) -> None:
        if asked.wait_for_first():
            with Environment(folder, durability="relaxed") as environment:
                run_committer(CommitQueue(environment, source=asked, observer=asked), asked)

    committer = start(commit)
    with Environment(folder, durability="relaxed") as environment:
        lazy = _LazyCommitter(committer, lambda: environment.graph_numbers().values())
        commits = CommitQueue(environment, committer=lazy)
        try:
            records, suggestions = EmbeddedRecords(environment, commits), EmbeddedSuggestions(environment, commits)
            yield Stores(EmbeddedEdges(environment, commits), records, suggestions)
        finally:
            commits.close()
            os.kill(committer.pid, signal.SIGKILL)
            os.waitpid(committer.pid, 0)


@contextmanager
def open_embedded_stores(folder: Path) -> Iterator[Stores]:
    """Open the edges, records and suggestions of the embedded engine."""
    with open_embedded(folder) as (environment, edges):
        records = EmbeddedRecords(environment, edges._commits)
        yield Stores(edges, records, EmbeddedSuggestions(environment, edges._commits))


@contextmanager
def _embedded_edges(folder: Path) -> Iterator[EdgeStore]:
    with open_embedded(folder) as (_, edges):
        yield edges


@contextmanager
def _embedded_log(
    folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
) -> Iterator[Logged]:
    keep = LogBounds(events_max, lease_ms=3_600_000, leased_bytes_max=1 << 14 if leased_little else 1 << 34)
    with open_embedded(folder, log_bounds=keep, now_ms=now_ms) as (environment, edges):
        yield Logged(edges, EmbeddedLog(environment, edges._commits))


@contextmanager
def _embedded(folder: Path, *, now_ms: Clock, slots: int = 100, events_max: int = 100_000) -> Iterator[EngineStores]:
    with contextlib.ExitStack() as opened:
        data = open_embedded(folder / "data", now_ms=now_ms, log_bounds=LogBounds(events_max))
        environment, edges = opened.enter_context(data)
        commits = edges._commits
        yield EngineStores(
            edges,
            EmbeddedRecords(environment, commits),
            EmbeddedSuggestions(environment, commits),
            EmbeddedLog(environment, commits),
            EmbeddedFanoutState(environment, commits, FANOUT),
            opened.enter_context(RingTimelines(folder / "timelines", slots=slots, now_ms=now_ms)),
        )


@contextmanager
def _embedded_timelines(folder: Path, *, slots: int, now_ms: Clock) -> Iterator[TimelineStore]:
    with RingTimelines(folder, slots=slots, now_ms=now_ms) as rings:
        yield rings


@contextmanager
def _embedded_fanout_state(folder: Path) -> Iterator[FanoutState]:
    with open_embedded(folder) as (environment, edges):
        yield EmbeddedFanoutState(environment, edges._commits, "fanout")


@contextmanager
def _embedded_quotas(folder: Path) -> Iterator[QuotaStore]:
    folder.mkdir(parents=True, exist_ok=True)
    store = FileQuotas(folder / "quotas")
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _embedded_inboxes(folder: Path) -> Iterator[InboxStore]:
    folder.mkdir(parents=True, exist_ok=True)
    store = EmbeddedInboxes(folder / "inboxes", bytes_max=1 << 30)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _embedded_activity(folder: Path) -> Iterator[Activity]:
    folder.mkdir(parents=True, exist_ok=True)
    store = EmbeddedActivity(folder)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _embedded_credentials(folder: Path) -> Iterator[CredentialStore]:
    with Environment(folder, durability="relaxed") as environment:
        yield EmbeddedCredentials(environment)


@contextmanager
def _embedded_leases(folder: Path, now_ms: Clock) -> Iterator[LeaseStore]:
    folder.mkdir(parents=True, exist_ok=True)
    store = FileLeases(folder)
    try:
        yield store
    finally:
        store.close()


def _folder_blobs(*, sync: bool) -> Opens[BlobStore]:
    @contextmanager
    def opened(folder: Path) -> Iterator[BlobStore]:
        from kith.engines.blobs.blob_store import FolderBlobs  # noqa: PLC0415  heavy, and needed by few tests

        folder.parent.mkdir(parents=True, exist_ok=True)
        yield FolderBlobs(folder, sync=sync)

    return opened


@contextmanager
def _s3_blobs(folder: Path) -> Iterator[BlobStore]:
    from small_s3 import small_s3  # noqa: PLC0415

    from kith.engines.blobs.blob_store import open_blobs  # noqa: PLC0415

    with small_s3() as server, patch.dict(os.environ, server.environment):
        yield open_blobs("s3://bucket/some/prefix", folder, sync=True)
