"""A process's cache of what it read from the stores. Events in the log invalidate it.

The log reports a change before its write is acknowledged. So a refresh, which reads the log to its end, finds every
acknowledged change, and a cached value that it did not invalidate is as good as read again, whichever process wrote.
How this works depends on the engine:

- Rows and log change in one transaction: the number of the last transaction says whether there is anything to read
  (`Edges.last_logged_commit`).
- Engines across a network write the rows first and then the log (`Edges.logs_every_change`). A value that was read in
  between is not kept, because the log reports its change later.
- Other engines: nothing is cached, and everything is read. The same holds while the log is unavailable, and between the
  expiry of an edge and its event in the log.

Each request refreshes once, before it reads. So blocks, deletions, labels and counts show on the next page, as if
nothing had been cached.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from kith.core.clock import wall_ms
from kith.core.errors import StoreMismatch, Unavailable
from kith.core.events import (
    CLAIM_TAKEN,
    EDGE_FORGOTTEN,
    NODE_CHANGED,
    NOTE_CHANGED,
    NOWHERE,
    RECORD_CHANGED,
    RECORD_FORGOTTEN,
    RECORDS_FORGOTTEN,
    TIMELINE_REQUESTED,
    USER_CHANGED,
    Event,
    LogPosition,
)
from kith.graph.edge import State
from kith.graph.store import Edges
from kith.log.store import Batch, LogStore
from kith.records.cache_tables import (
    CachedResults,
    CachedValues,
    CacheGeneration,
    CacheTable,
    ChangedIds,
    ChangeHistory,
)
from kith.records.store import RecordKind
from kith.records.upcoming_expiries import UpcomingExpiries

EVENTS_MAX = 2_000
"""Events that one refresh reads, 2 us each. If there are more, the whole cache is dropped."""
CACHED_S = 60.0
"""How often the whole cache is dropped, in seconds, so that a repair of counts (`kith audit`) shows: the log does not
report repairs. A `ChangedIds` gets changes only.
"""
_CHANGES_NOTHING_CACHED = frozenset({TIMELINE_REQUESTED, USER_CHANGED, CLAIM_TAKEN, NOTE_CHANGED})
_REFRESH_MAX_S, _UNAVAILABLE_S = 0.5, 1.0
"""How long a refresh may take, and for how long a log that did not answer by then is not queried again, in seconds."""
_SLOW_FROM_S, _SLOW_FOR_S = 0.03, 10.0
"""A refresh that takes longer than the first is slow; refreshes then count as slow for the second, in seconds."""
V = TypeVar("V")


class ReadCache(CacheGeneration):
    """Makes and invalidates cache tables, following the log."""

    def __init__(
        self,
        store: Edges,
        log: LogStore,
        now_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = time.monotonic,
        *,
        share: float = 1.0,
    ) -> None:
        """`share`: scales the size of all tables to the memory of this process."""
        self._store, self._log, self._now_ms, self._now_s, self._share = store, log, now_ms, now_s, share
        self._by_record: dict[int, list[CacheTable]] = defaultdict(list)
        self._by_graph: dict[int, list[CacheTable]] = defaultdict(list)
        self._by_node: list[CacheTable] = []
        self._tables: list[CacheTable] = []
        self._values: list[CachedValues[Any] | ChangeHistory] = []  # all but the `ChangedIds`
        self._at, self._begun_s = NOWHERE, 0.0
        self._read_to = 0  # the last transaction whose events were read
        self._expiries = UpcomingExpiries(store, now_ms)
        self._refreshing, self._requested, self._completed = (
            asyncio.Lock(),
            0,
            0,
        )  # lock, requests and completions of remote refreshes
        self._unavailable_until_s = self._slow_until_s = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether refreshes are quick, as far as known: not if the log is in another region."""
        return self._now_s() >= self._slow_until_s

    def of_records(self, kind: RecordKind, size_max: int) -> CachedValues[V]:
        """A cache by record id, of the contents of records of this kind."""
        table = self._table(size_max)
        self._by_record[kind].append(table)
        return table

    def of_edges(self, graphs: Collection[int], size_max: int) -> CachedValues[V]:
        """A cache by id, of what the edges of these graphs with this id at either end say."""
        table = self._table(size_max)
        for graph in graphs:
            self._by_graph[graph].append(table)
        return table

    def of_nodes(self, size_max: int) -> CachedValues[V]:
        """A cache by node, of what is stored about the node itself."""
        table = self._table(size_max)
        self._by_node.append(table)
        return table

    def of_users(self, graphs: Collection[int], size_max: int) -> CachedValues[V]:
        """A cache by user: their records, their edges in these graphs, and what is stored about their node."""
        table: CachedValues[V] = self.of_edges(graphs, size_max)
        self._by_record[RecordKind.USER].append(table)
        self._by_node.append(table)
        return table

    def changed_ids(self, kinds: Collection[RecordKind] = (), graphs: Collection[int] = ()) -> ChangedIds:
        """Collects ids of changed records of these kinds, and both ends of changed edges in these graphs."""
        touched = ChangedIds(self)
        self._tables.append(touched)
        for kind in kinds:
            self._by_record[kind].append(touched)
        for graph in graphs:
            self._by_graph[graph].append(touched)
        return touched

    def changed_nodes(self) -> ChangedIds:
        """Collects nodes whose own data changed."""
        touched = ChangedIds(self)
        self._tables.append(touched)
        self._by_node.append(touched)
        return touched

    def changes(
        self, kinds: Collection[RecordKind] = (), graphs: Collection[int] = (), *, of_nodes: bool = False
    ) -> ChangeHistory:
        """A history of changed ids: records of these kinds, both ends of edges in these graphs, and nodes if
        `of_nodes`.
        """
        changes = ChangeHistory(self)
        for kind in kinds:
            self._by_record[kind].append(changes)
        for graph in graphs:
            self._by_graph[graph].append(changes)
        if of_nodes:
            self._by_node.append(changes)
        self._tables.append(changes)
        self._values.append(changes)
        return changes

    def cached_results(self, size_max: int) -> CachedResults[V]:
        """A cache by id, of results made from several sources."""
        return CachedResults(self, self.room(size_max))

    def room(self, entries: int) -> int:
        """How many of this many entries this process has room for."""
        return max(1, int(entries * self._share))

    def _table(self, size_max: int) -> CachedValues[Any]:
        table: CachedValues[Any] = CachedValues(self, self.room(size_max))
        self._tables.append(table)
        self._values.append(table)
        return table

    async def refresh(self) -> None:
        """Read the log to its end and drop what changed. What is cached afterwards is current."""
        if self._store.immediate:
            await self._refresh_local()
        elif self._store.logs_every_change:
            await self._refresh_remote()

    async def _refresh_local(self) -> None:
        """Refresh from a local log, which takes no time."""
        last_commit = (
            await self._store.last_logged_commit()
        )  # queried first: later changes are found by the next refresh
        if not last_commit:
            self.generation = 0
            return
        is_old = self._is_old()
        if last_commit != self._read_to or is_old:
            await self._catch_up(self._log.read, is_old=is_old)
            self._read_to = last_commit
        self.generation = self.next_generation

    async def _refresh_remote(self) -> None:
        """Refresh across a network. All callers that arrive during a refresh share the next one."""
        self._requested += 1
        mine = self._requested
        async with self._refreshing:
            if self._completed >= mine:
                return
            asked, began_s = self._requested, self._now_s()
            if began_s >= self._unavailable_until_s:
                try:
                    async with asyncio.timeout(_REFRESH_MAX_S):
                        await self._read_to_end()
                except (Unavailable, TimeoutError):
                    self.generation, self._unavailable_until_s = 0, self._now_s() + _UNAVAILABLE_S
                if self._now_s() - began_s > _SLOW_FROM_S:
                    self._slow_until_s = self._now_s() + _SLOW_FOR_S
            self._completed = asked

    async def _read_to_end(self) -> None:
        await self._catch_up(self._log.latest, is_old=self._is_old() or self._now_ms() >= self._expiries.known_ms)
        if not self._expiries.known_ms:
            await self._expiries.read()
        now_ms, next_generation = self._now_ms(), self.next_generation + 1
        for ended in self._expiries.expired(
            now_ms
        ):  # as if the log had reported it; later reads see the edge as expired
            self.next_generation = next_generation
            self._edge_changed(ended.graph, ended.source, ended.destination)
        self.generation = self.next_generation if now_ms < self._expiries.known_ms else 0

    def _is_old(self) -> bool:
        return self._at == NOWHERE or abs(self._now_s() - self._begun_s) > CACHED_S

    async def _catch_up(self, read: Callable[[LogPosition, int], Awaitable[Batch]], *, is_old: bool) -> None:
        """Read the log to its end. Drop everything if that fails or the cache `is_old`."""
        followed = self._at != NOWHERE and await self._follow(read)
        if is_old or not followed:
            self.generation = self._expiries.known_ms = 0  # results of reads that are under way are not kept
            if not followed:
                self._at = await self._log.end()
            self._begun_s, self.next_generation = self._now_s(), self.next_generation + 1
            for table in self._values if followed else self._tables:
                table.all_changed()

    async def _follow(self, read: Callable[[LogPosition, int], Awaitable[Batch]]) -> bool:
        """Read the log to its end. False if events in between were deleted, there are too many, or one is damaged."""
        try:
            found = await read(self._at, EVENTS_MAX)
        except StoreMismatch:  # the cache is made from rows, not from events
            return False
        if found.lost or len(found.events) == EVENTS_MAX:
            return False
        if found.events:
            self.next_generation += 1
            for event in found.events:
                self._invalidate(event)
            self._at = found.next
        return True

    def _invalidate(self, event: Event) -> None:
        """Invalidate what an event changed."""
        state = event.state
        if state <= State.REMOVED or state == EDGE_FORGOTTEN:
            self._edge_changed(event.graph, event.source, event.destination)
            if event.data:
                self._expiries.add(event)
        elif state in (RECORD_CHANGED, RECORD_FORGOTTEN):
            for table in self._by_record.get(event.source, ()):
                table.changed(event.destination)
        elif state == NODE_CHANGED:
            for table in self._by_node:
                table.changed(event.source)
        elif state == RECORDS_FORGOTTEN:
            for table in self._by_record.get(event.source, ()):
                table.all_changed()
        elif state not in _CHANGES_NOTHING_CACHED:  # a bulk load, or an event unknown to this version
            self._expiries.known_ms = 0
            for table in self._tables:
                table.all_changed()

    def _edge_changed(self, graph: int, source: int, destination: int) -> None:
        for table in self._by_graph.get(graph, ()):
            table.changed(source, destination)
