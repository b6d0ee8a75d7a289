"""What a process keeps of what it read, until the log tells that it changed.

Where the log tells all that changes before a write is answered, one reading of its end finds all that was acknowledged
before. What was kept and is not touched by it is as good as read again, whichever process wrote. Where rows and log
change in one transaction, the number of the last one says if there is anything to look at (`Edges.last_told`). Engines
across a network write rows first and tell them then (`Edges.tells_all`); what was read in between is not kept, as the
log tells a change of it later. On others, while the log is away, and for a moment while something that expired is not
told yet, nothing is kept and all is read.

Each request refreshes once, before it reads. So blocks, deletions, labels and counts are on the next page, as if all of
it had been read for it.
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
    TIMELINE_WANTED,
    USER_CHANGED,
    Event,
    LogPosition,
)
from kith.graph.edge import State
from kith.graph.store import Edges
from kith.log.store import Batch, LogStore
from kith.records.endings import Endings
from kith.records.store import RecordKind
from kith.records.tables import LastMade, MemoryTable, Moments, Remembered, ToldChanges, Touched

EVENTS_MAX = 2_000
"""Events that a refresh reads, 2 us each; where there are more, all that was kept is forgotten."""
KEPT_S = 60.0
"""All that was kept is read again this often, so that a repair of counts (`kith audit`) shows, which the log does not
tell. A `Touched` is told of changes alone."""
_TOUCHES_NOTHING = frozenset({TIMELINE_WANTED, USER_CHANGED, CLAIM_TAKEN, NOTE_CHANGED})
_PATIENCE_S, _AWAY_S = 0.5, 1.0
"""How long a refresh may take, and how long a log that did not answer by then is not asked again."""
_QUICK_S, _SLOW_S = 0.03, 10.0
"""The longest that a quick refresh takes, and for how long refreshes count as slow after one that was."""
V = TypeVar("V")


class ReadMemory(Moments):
    """Tables whose values are forgotten as the log tells changes."""

    def __init__(
        self,
        store: Edges,
        log: LogStore,
        now_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = time.monotonic,
        *,
        share: float = 1.0,
    ) -> None:
        """`share`: of what tables may hold, as much as this process has room for."""
        self._store, self._log, self._now_ms, self._now_s, self._share = store, log, now_ms, now_s, share
        self._by_record: dict[int, list[MemoryTable]] = defaultdict(list)
        self._by_graph: dict[int, list[MemoryTable]] = defaultdict(list)
        self._by_node: list[MemoryTable] = []
        self._tables: list[MemoryTable] = []
        self._values: list[Remembered[Any] | ToldChanges] = []  # all but those of changes alone
        self._at, self._begun_s = NOWHERE, 0.0
        self._told_to = 0  # the transaction up to which all was read
        self._endings = Endings(store, now_ms)
        self._one, self._asked, self._done = asyncio.Lock(), 0, 0  # refreshes
        self._away_until_s = self._slow_until_s = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether a refresh takes little time, as far as is known: not where the log is in another region."""
        return self._now_s() >= self._slow_until_s

    def of_records(self, kind: RecordKind, size_max: int) -> Remembered[V]:
        """A table by the ids of records of this kind, of what they say."""
        table = self._table(size_max)
        self._by_record[kind].append(table)
        return table

    def of_edges(self, graphs: Collection[int], size_max: int) -> Remembered[V]:
        """A table by ids, of what the edges of these graphs say that one of them is an end of."""
        table = self._table(size_max)
        for graph in graphs:
            self._by_graph[graph].append(table)
        return table

    def of_nodes(self, size_max: int) -> Remembered[V]:
        """A table by nodes, of what is stored about them themselves."""
        table = self._table(size_max)
        self._by_node.append(table)
        return table

    def of_users(self, graphs: Collection[int], size_max: int) -> Remembered[V]:
        """A table by users, of what their records say, their edges in these graphs, and what is stored about them."""
        table: Remembered[V] = self.of_edges(graphs, size_max)
        self._by_record[RecordKind.USER].append(table)
        self._by_node.append(table)
        return table

    def touched(self, kinds: Collection[RecordKind] = (), graphs: Collection[int] = ()) -> Touched:
        """Ids of records of these kinds that changed, and both ends of edges of these graphs that did."""
        touched = Touched(self)
        self._tables.append(touched)
        for kind in kinds:
            self._by_record[kind].append(touched)
        for graph in graphs:
            self._by_graph[graph].append(touched)
        return touched

    def touched_nodes(self) -> Touched:
        """Nodes of which something changed that is stored about them themselves."""
        touched = Touched(self)
        self._tables.append(touched)
        self._by_node.append(touched)
        return touched

    def changes(
        self, kinds: Collection[RecordKind] = (), graphs: Collection[int] = (), *, of_nodes: bool = False
    ) -> ToldChanges:
        """Ids of records of these kinds that changed, both ends of edges of these graphs, and nodes if asked."""
        changes = ToldChanges(self)
        for kind in kinds:
            self._by_record[kind].append(changes)
        for graph in graphs:
            self._by_graph[graph].append(changes)
        if of_nodes:
            self._by_node.append(changes)
        self._tables.append(changes)
        self._values.append(changes)
        return changes

    def last_made(self, size_max: int) -> LastMade[V]:
        """A table by ids, of what is made of several things."""
        return LastMade(self, self.room(size_max))

    def room(self, entries: int) -> int:
        """How many of so many entries there is room for in this process."""
        return max(1, int(entries * self._share))

    def _table(self, size_max: int) -> Remembered[Any]:
        table: Remembered[Any] = Remembered(self, self.room(size_max))
        self._tables.append(table)
        self._values.append(table)
        return table

    async def refresh(self) -> None:
        """Read the log to its end, and forget what it says has changed. What is kept afterwards is current."""
        if self._store.immediate:
            await self._refresh_local()
        elif self._store.tells_all:
            await self._refresh_remote()

    async def _refresh_local(self) -> None:
        """Where it takes no time."""
        told = await self._store.last_told()  # asked first: what comes after this is told by the next refresh
        if not told:
            self.moment = 0
            return
        is_old = self._is_old()
        if told != self._told_to or is_old:
            await self._catch_up(self._log.read, is_old=is_old)
            self._told_to = told
        self.moment = self.coming

    async def _refresh_remote(self) -> None:
        """Across a network: all who come while one is under way share the next."""
        self._asked += 1
        mine = self._asked
        async with self._one:
            if self._done >= mine:
                return
            asked, began_s = self._asked, self._now_s()
            if began_s >= self._away_until_s:
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._read_to_end()
                except (Unavailable, TimeoutError):
                    self.moment, self._away_until_s = 0, self._now_s() + _AWAY_S
                if self._now_s() - began_s > _QUICK_S:
                    self._slow_until_s = self._now_s() + _SLOW_S
            self._done = asked

    async def _read_to_end(self) -> None:
        await self._catch_up(self._log.latest, is_old=self._is_old() or self._now_ms() >= self._endings.known_ms)
        if not self._endings.known_ms:
            await self._endings.read()
        now_ms, coming = self._now_ms(), self.coming + 1
        for ended in self._endings.over(now_ms):  # as if the log told it; what is read from then on leaves it out
            self.coming = coming
            self._edge_changed(ended.graph, ended.source, ended.destination)
        self.moment = self.coming if now_ms < self._endings.known_ms else 0

    def _is_old(self) -> bool:
        return self._at == NOWHERE or abs(self._now_s() - self._begun_s) > KEPT_S

    async def _catch_up(self, read: Callable[[LogPosition, int], Awaitable[Batch]], *, is_old: bool) -> None:
        """Read on to the end of the log, and forget all where that cannot be, or it `is_old`."""
        followed = self._at != NOWHERE and await self._follow(read)
        if is_old or not followed:
            self.moment = self._endings.known_ms = 0  # what is being read now is not kept
            if not followed:
                self._at = await self._log.end()
            self._begun_s, self.coming = self._now_s(), self.coming + 1
            for table in self._values if followed else self._tables:
                table.all_changed()

    async def _follow(self, read: Callable[[LogPosition, int], Awaitable[Batch]]) -> bool:
        """Read on to the end of the log; False where it forgot events in between, has too many, or one is damaged."""
        try:
            found = await read(self._at, EVENTS_MAX)
        except StoreMismatch:  # what is kept is made of rows, not of events
            return False
        if found.lost or len(found.events) == EVENTS_MAX:
            return False
        if found.events:
            self.coming += 1
            for event in found.events:
                self._told(event)
            self._at = found.next
        return True

    def _told(self, event: Event) -> None:
        """Have the tables forget what an event changed."""
        state = event.state
        if state <= State.REMOVED or state == EDGE_FORGOTTEN:
            self._edge_changed(event.graph, event.source, event.destination)
            if event.data:
                self._endings.told(event)
        elif state in (RECORD_CHANGED, RECORD_FORGOTTEN):
            for table in self._by_record.get(event.source, ()):
                table.changed(event.destination)
        elif state == NODE_CHANGED:
            for table in self._by_node:
                table.changed(event.source)
        elif state == RECORDS_FORGOTTEN:
            for table in self._by_record.get(event.source, ()):
                table.all_changed()
        elif state not in _TOUCHES_NOTHING:  # a bulk load, or what is not known here
            self._endings.known_ms = 0
            for table in self._tables:
                table.all_changed()

    def _edge_changed(self, graph: int, source: int, destination: int) -> None:
        for table in self._by_graph.get(graph, ()):
            table.changed(source, destination)
