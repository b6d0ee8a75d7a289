"""The worker `checks`: drops cached sets whose source changed, and makes snapshots of the filter.

One process does this at a time. If it cannot tell what changed since the sets were last up to date, it starts a new
generation of sets. Its position in the log is stored beside the sets, so no process uses a set that should have been
dropped.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping

import structlog

from kith.checks.live_filter import FILTER_LAG_MAX_S, LOG_END_POLL_S
from kith.checks.sets import CachedSets, SetsProgress
from kith.checks.snapshots import Snapshots, build, growth_allowance
from kith.core.errors import KithError, Unavailable
from kith.core.events import BULK_LOADED, NOWHERE
from kith.graph.edge import State
from kith.graph.store import EdgeStore
from kith.leases.holding import HeldLease, Leases
from kith.log.runner import Lag, lag_of
from kith.log.stop_signal import StopSignal
from kith.log.store import LogStore

NAME = "checks"
FILTER_REBUILD_MS = 6 * 3_600_000
"""Age at which a filter is rebuilt; until then removed edges stay in it."""
_PROGRESS_VALID_MS = int(FILTER_LAG_MAX_S * 1000)
_READ_MAX, _REST_S, _LEASE_RETRY_S = 2_000, 0.5, 2.0
_GAP_S = 0.05
"""Shortest rest between two steps, in seconds. Each step queries Redis, so changes in between are dropped together."""
_LEASE = "filter of checks"  # of the log: keeps the events since the newest snapshot
_log = structlog.get_logger("kith.checks")


class SetInvalidator:
    """Drops changed sets until stopped; a `run.consumers.LogFollower`."""

    name = NAME

    def __init__(
        self,
        sets: CachedSets,
        log: LogStore,
        leases: Leases,
        graphs: Collection[int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_s`: a monotonic clock."""
        self._now_s, self._end_due_s = now_s, 0.0
        self._end, self._until_ms = NOWHERE, 0  # the log's end, and until when sets that reach it are up to date
        self._sets, self._log, self._leases, self._graphs = sets, log, leases, frozenset(graphs)
        self._stopping = StopSignal()
        self._progress: SetsProgress | None = None

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()

    async def run(self) -> None:
        """Keep sets up to date while no other process does, until stopped."""
        while not self._stopping.is_set:
            try:
                async with self._leases.hold(NAME) as lease:
                    if lease is not None:
                        await self._invalidate_while_held(lease)
            except Unavailable as error:
                _log.warning("cached sets are not kept up to date", error=error.message)
            await self._stopping.pause(_LEASE_RETRY_S)

    async def _invalidate_while_held(self, lease: HeldLease) -> None:
        self._progress, self._end_due_s = None, 0.0
        with self._log.bell() as bell:
            while lease.is_usable and not self._stopping.is_set:
                if not await self.step():
                    await bell.rung(_REST_S)
                await asyncio.sleep(_GAP_S)

    async def step(self) -> bool:
        """Drop the sets that the next events changed, and note the progress; whether there is more to read now."""
        progress = self._progress or await self._sets.last_progress()
        if progress is None:
            return await self._start_generation(None)
        if self._now_s() >= self._end_due_s:
            self._end_due_s = self._now_s() + LOG_END_POLL_S
            until_ms = await self._sets.now_ms() + _PROGRESS_VALID_MS
            self._end, self._until_ms = await self._log.end(), until_ms
        batch = await self._log.read(progress.at, _READ_MAX)
        if batch.lost or any(event.state == BULK_LOADED for event in batch.events):
            return await self._start_generation(progress.generation)
        changed = dict.fromkeys(
            (event.graph, event.source)
            for event in batch.events
            if event.graph in self._graphs and event.state <= State.REMOVED
        )
        if changed:
            await self._sets.drop(progress.generation, list(changed))
        is_caught_up = self._log.covers(batch.next, self._end)
        reached = SetsProgress(progress.generation, batch.next)
        noted = await self._sets.note_progress(progress.generation, reached, self._until_ms if is_caught_up else 0)
        self._progress = reached if noted else None
        return not is_caught_up or bool(batch.events)

    async def _start_generation(self, instead_of: bytes | None) -> bool:
        """Start a new generation, because nobody knows what changed."""
        until_ms = await self._sets.now_ms() + _PROGRESS_VALID_MS
        new_progress = SetsProgress(secrets.token_bytes(8), await self._log.end())
        noted = await self._sets.note_progress(instead_of, new_progress, until_ms)
        self._progress = new_progress if noted else None
        _log.info("a new generation of cached sets begins")
        return not noted


class SnapshotMaker:
    """Makes snapshots of the filter. `edges_max`: above this number of edges it makes none."""

    def __init__(
        self,
        snapshots: Snapshots,
        store: EdgeStore,
        log: LogStore,
        graphs: Mapping[str, int],
        *,
        edges_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._snapshots, self._store, self._log, self._graphs = snapshots, store, log, dict(graphs)
        self._edges_max, self._now_ms = edges_max, now_ms
        self._too_many_at_ms: int | None = None  # when there were more edges than a filter may hold

    async def make(self) -> bool:
        """Make a snapshot if the newest one is too old or too small, unusable, or cannot be followed from; whether one
        was made.

        If there were too many edges, they are counted again only after FILTER_REBUILD_MS, because that scans all of
        them.
        """
        newest = await asyncio.to_thread(self._snapshots.newest)
        now_ms = self._now_ms()
        if newest is not None and newest.head.graphs == self._graphs:
            is_fresh = now_ms - newest.head.made_ms < FILTER_REBUILD_MS
            events_since = (await self._log.behind(newest.head.at)).events
            if (
                is_fresh
                and events_since <= growth_allowance(newest.head.edges)
                and await self._log.lease(_LEASE, newest.head.at)
            ):
                return False
        if self._too_many_at_ms is not None and 0 <= now_ms - self._too_many_at_ms < FILTER_REBUILD_MS:
            return False
        position = await self._log.end()
        await self._log.lease(_LEASE, position)
        snapshot = await build(self._store, self._graphs, position, now_ms, self._edges_max)
        self._too_many_at_ms = now_ms if snapshot is None else None
        if snapshot is None:
            await self._log.release(_LEASE)
            return False
        await asyncio.to_thread(self._snapshots.save, snapshot)
        return True


async def lag(sets: CachedSets, log: LogStore, now_ms: int) -> Lag | None:
    """How far the sets lag behind the log. None if they were never up to date, or Redis does not answer."""
    try:
        progress = await sets.last_progress()
    except KithError:
        return None
    return None if progress is None else lag_of(await log.behind(progress.at), now_ms)
