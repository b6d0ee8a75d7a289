"""A process's filter: loaded from a snapshot, updated from the log, and replaced once a newer one has caught up.

It answers only while it is known to lag at most FILTER_LAG_MAX_S behind the log, and never a reader whose token is
ahead of it. Until a usable snapshot is loaded there is no filter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from kith.checks.filter import Filter
from kith.checks.snapshots import Snapshot, SnapshotHead, Snapshots
from kith.core.errors import KithError
from kith.core.events import BULK_LOADED, NOWHERE, Event, LogPosition
from kith.core.stopping import stop
from kith.graph.edge import State
from kith.log.store import LogStore

FILTER_LAG_MAX_S = 2.0
"""Longest lag, in seconds, with which a filter may still answer."""
LOG_END_POLL_S = 0.5
"""How often the end of the log is queried, in seconds; in between, events are read without that query."""
READ_PAUSE_MIN_S = 0.01
"""Shortest pause between two reads, in seconds, so that events close together are read together."""
_SNAPSHOT_POLL_S, _REST_S = 30.0, 0.5
_READ_MAX = 2_000
_log = structlog.get_logger("kith.checks")


class _LiveSnapshot:
    """A filter and its position in the log."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.head: SnapshotHead = snapshot.head
        self.filter, self.at = snapshot.filter, snapshot.head.at
        self._graphs = frozenset(snapshot.head.graphs.values())

    def add_edges_of(self, events: Sequence[Event]) -> bool:
        """Add the edges of events. False if an event stands for edges that only the store knows."""
        for event in events:
            if event.graph in self._graphs and event.state < State.REMOVED:
                self.filter.add(event.graph, event.source, event.destination)
            elif event.state == BULK_LOADED:
                return False
        return True


class LiveFilter:
    """The filter of this process. `graphs`: their current numbers, by name. `now_s`: a monotonic clock."""

    def __init__(
        self,
        snapshots: Snapshots,
        log: LogStore,
        graphs: Mapping[str, int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._snapshots, self._log, self._graphs, self._now_s = snapshots, log, dict(graphs), now_s
        self._serving: _LiveSnapshot | None = None  # the filter that answers
        self._shadow: _LiveSnapshot | None = None  # a newer one that is catching up with the log
        self._loaded: _LiveSnapshot | None = None  # loaded; the next step takes it
        self._end, self._end_read_s = NOWHERE, float("-inf")  # the end of the log when last queried, and when that was
        self._fresh_until_s = 0.0
        self._newest_made_ms = 0  # when the newest loaded snapshot was made
        self.covered = frozenset(self._graphs.values())

    def for_reader(self, position: LogPosition) -> Filter | None:
        """The filter, if it may answer a reader who must see the log up to `position`; else None."""
        serving = self._serving
        if serving is None or self._now_s() >= self._fresh_until_s:
            return None
        return serving.filter if position == NOWHERE or self._log.covers(serving.at, position) else None

    @property
    def newest(self) -> Filter | None:
        """The filter, whether or not it may answer."""
        return None if self._serving is None else self._serving.filter

    async def run(self) -> None:
        """Follow the log, and look for newer snapshots, until cancelled."""
        reloading = asyncio.create_task(self._reload_regularly())
        try:
            with self._log.bell() as bell:
                while True:
                    try:
                        has_more = await self.step()
                    except KithError as error:
                        _log.warning("the filter of checks waits", error=error.message)
                        has_more = False
                    if not has_more:
                        await bell.rung(_REST_S)
                    await asyncio.sleep(READ_PAUSE_MIN_S)
        finally:
            await stop(reloading)

    async def _reload_regularly(self) -> None:
        while True:
            try:
                await self.reload()
            except KithError as error:
                _log.warning("could not look for a newer filter of checks", error=error.message)
            await asyncio.sleep(_SNAPSHOT_POLL_S)

    async def step(self) -> bool:
        """Read the log further; whether there is more to read now."""
        if self._loaded is not None:
            self._shadow, self._loaded = self._loaded, None
        if self._serving is None and self._shadow is None:
            return False
        now_s = self._now_s()
        if now_s >= self._end_read_s + LOG_END_POLL_S:
            self._end, self._end_read_s = await self._log.end(), now_s
        positions_before = [live and live.at for live in (self._serving, self._shadow)]
        self._serving, self._shadow = [live and await self._update(live) for live in (self._serving, self._shadow)]
        if self._shadow is not None and self._log.covers(self._shadow.at, self._end):
            self._serving, self._shadow = self._shadow, None
        if self._serving is not None and self._log.covers(self._serving.at, self._end):
            self._fresh_until_s = self._end_read_s + FILTER_LAG_MAX_S
        return positions_before != [live and live.at for live in (self._serving, self._shadow)]

    async def reload(self) -> None:
        """Let the next step start from the newest snapshot, if there is a new one."""
        snapshot = await asyncio.to_thread(self._snapshots.newest, self._newest_made_ms)
        if snapshot is None:
            return
        self._newest_made_ms = snapshot.head.made_ms
        if snapshot.head.graphs == self._graphs:
            self._loaded = _LiveSnapshot(snapshot)

    async def _update(self, live: _LiveSnapshot) -> _LiveSnapshot | None:
        """Read the log further; None if the filter can no longer be updated."""
        batch = await self._log.read(live.at, _READ_MAX)
        if batch.lost or not live.add_edges_of(batch.events):
            _log.warning("a filter of checks is dropped: the log does not have every change", made=live.head.made_ms)
            return None
        live.at = batch.next
        return live
