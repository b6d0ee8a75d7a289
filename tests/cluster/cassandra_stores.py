"""Edges and records on a real Cassandra, over a log of commands in this process.

KITH_TEST_CASSANDRA: nodes, as HOST:PORT,HOST:PORT, in which tests may make and drop keyspaces. All stores of a process
share one keyspace: a store in a new folder begins by deleting what the last one wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from engines import FANOUT
from local_commands import LocalCommands
from reference_edges import ReferenceEdges
from reference_logs import Partitions as Events
from reference_logs import ReferenceLog
from store_types import Clock, EngineStores, Logged, Opens, Stores

from kith.core.clock import wall_ms
from kith.core.events import LogPosition
from kith.engines.cassandra import row_batch
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.connecting import Session, connect
from kith.engines.cassandra.contents import CassandraContents
from kith.engines.cassandra.divider import Divider
from kith.engines.cassandra.edge_store import CassandraEdges
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.record_store import CassandraRecords
from kith.engines.cassandra.row_reader import Key
from kith.engines.cassandra.rows import CassandraRows, RowChange
from kith.engines.cassandra.schema import TABLES, create
from kith.engines.cassandra.small_stores import (
    SMALL_TABLES,
    CassandraCredentials,
    CassandraFanoutState,
    CassandraInboxes,
    CassandraLeases,
    CassandraSuggestions,
)
from kith.graph.graphs import UserEnds
from kith.home.timelines import TimelineStore
from kith.leases.store import LeaseStore
from kith.moving.store_writer import StoreSide

T = TypeVar("T")
NODES = os.environ.get("KITH_TEST_CASSANDRA", "127.0.0.1:19042")
KEYSPACE = f"kith_tests_{os.environ.get('PYTEST_XDIST_WORKER', 'one')}"
PARTITIONS = 4
PART_MAX = 7
"""Most entries of a part in tests of divided lists: so few that most lists are divided."""
_used: dict[str, Path] = {}
"""{table: folder of the store that used it last}."""


class Thread:
    """A thread with an event loop. The driver needs one loop for all its work, and each test has its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(300)


class OnThread:
    """A store whose calls run in a `Thread`."""

    def __init__(self, store: Any, thread: Thread) -> None:
        self._store, self._thread = store, thread

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if inspect.isasyncgenfunction(attribute):
            return lambda *arguments: self._listed(attribute(*arguments))
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*arguments: Any, **keywords: Any) -> Any:
            return await self._run(attribute(*arguments, **keywords))

        return call

    async def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._thread.loop))

    async def _listed(self, generator: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async def read_all() -> list[Any]:
            return [item async for item in generator]

        for item in await self._run(read_all()):
            yield item


class RecordingRows(CassandraRows):
    """Rows that record the keys of all rows written."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.written: set[Key] = set()

    async def write(self, changes: Sequence[RowChange]) -> None:
        self.written.update(Key(change.table, change.key) for change in changes)
        await super().write(changes)

    async def delete_all(self) -> None:
        await super().write([RowChange(*key, None, offset_of_now()) for key in self.written])
        await self.session.conditional("DELETE FROM metadata WHERE name = 'graphs' IF EXISTS")
        self.written.clear()


class Shared(NamedTuple):
    """The thread, the rows and the folders that all stores of a process share."""

    thread: Thread
    rows: RecordingRows
    folders: list[Path]


@cache
def shared() -> Shared:
    thread = Thread()

    async def opened() -> RecordingRows:
        first = await connect(NODES, KEYSPACE, replicas=1)
        await first.define(f"DROP KEYSPACE {KEYSPACE}")
        await first.close()
        session = await connect(NODES, KEYSPACE, replicas=1)
        await create(session, KEYSPACE, (*TABLES, *SMALL_TABLES))
        return RecordingRows(session)

    return Shared(thread, thread.call(opened()), [])


def offset_of_now() -> int:
    """An offset greater than those of all earlier commands."""
    return time.time_ns() // 1_000


def joined(position: LogPosition, other: LogPosition) -> LogPosition:
    return ReferenceLog.joined(None, position, other)  # type: ignore[arg-type]


class Opened:
    """Stores over a log of commands in this process, and the events that they emitted."""

    def __init__(self, rows: CassandraRows, now_ms: Clock = wall_ms) -> None:
        self.partitions, self.events = Partitions(PARTITIONS), Events()
        self.events.now_ms = now_ms
        self._owner = CassandraOwner(rows, self.partitions)
        self.commands = LocalCommands(self._owner, PARTITIONS, self.events, now_ms)
        self.commands.begin(offset_of_now())
        owners = Owners(self.commands, joined)
        self.edges = CassandraEdges(rows, owners, now_ms)
        self._declare, self.edges.declare = self.edges.declare, self._declared  # type: ignore[method-assign]
        self.records = CassandraRecords(rows, owners, self.edges)
        self.divider = Divider(rows, owners, part_max=PART_MAX, settle_s=0)

    async def _declared(self, names: Iterable[str]) -> Mapping[str, int]:
        """Declare graphs and tell the owner, as happens when a process opens the stores."""
        numbers = await self._declare(names)
        self._owner.user_ends = UserEnds(numbers)
        return numbers

    def next_offset(self) -> int:
        """The offset for the first command of another process."""
        return offset_of_now()

    def take_over(self) -> None:
        """Take the partitions over from other owners, whose commands are all done."""
        self.commands.begin(offset_of_now())


@contextlib.contextmanager
def opened_in(folder: Path, now_ms: Clock = wall_ms) -> Iterator[tuple[Opened, Thread]]:
    thread, rows, folders = shared()
    if folders[-1:] != [folder]:
        thread.call(rows.delete_all())
        folders.append(folder)
    yield Opened(rows, now_ms), thread


def open_small(kind: type, *tables: str, **settings: Any) -> Opens[Any]:
    """An opener for a store that needs no owner. It truncates these tables for each new folder."""

    @contextlib.contextmanager
    def opened(folder: Path) -> Iterator[Any]:
        thread, rows, _ = shared()
        for table in tables:
            if _used.get(table) != folder:
                thread.call(rows.session.define(f"TRUNCATE {table}"))
                _used[table] = folder
        yield OnThread(kind(rows.session, **settings), thread)

    return opened


@contextlib.contextmanager
def open_leases(folder: Path, now_ms: Clock) -> Iterator[LeaseStore]:
    with open_small(CassandraLeases, "leases", now_ms=now_ms)(folder) as store:
        yield store


open_fanout_state = open_small(
    CassandraFanoutState, "fanout_state", log=ReferenceLog(ReferenceEdges(), 100), group="fanout"
)
open_credentials = open_small(CassandraCredentials, "server_keys", "secrets")
open_inboxes = open_small(CassandraInboxes, "inbox_periods")  # the index without which no row is found


@contextlib.contextmanager
def open_edges(folder: Path) -> Iterator[Any]:
    with opened_in(folder) as (opened, thread):
        yield OnThread(opened.edges, thread)


class _Dividing(OnThread):
    """Edges whose long lists are divided after each change."""

    def __init__(self, store: Any, thread: Thread, divider: Divider) -> None:
        super().__init__(store, thread)
        self._divider = divider

    async def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        result = await super()._run(coroutine)
        if coroutine.__name__ == "apply":
            await super()._run(self._divider.divide_long())
        return result


@contextlib.contextmanager
def open_divided(folder: Path) -> Iterator[Any]:
    """Edges whose long lists are divided into short parts."""
    with patch.object(row_batch, "PART_MAX", 1), opened_in(folder) as (opened, thread):
        yield _Dividing(opened.edges, thread, opened.divider)


@contextlib.contextmanager
def open_stores(folder: Path) -> Iterator[Stores]:
    with opened_in(folder) as (opened, thread):
        edges: Any = OnThread(opened.edges, thread)
        records: Any = OnThread(opened.records, thread)
        with open_small(CassandraSuggestions, "suggestions")(folder) as suggestions:
            yield Stores(edges, records, suggestions)


class _Ending(OnThread):
    """Edges whose expired ones are removed before every call, as processes do every second."""

    async def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        await super()._run(self._store.end_expired())
        return await super()._run(coroutine)


@contextlib.contextmanager
def open_logs(
    folder: Path, *, events_max: int, leased_little: bool = False, now_ms: Clock = wall_ms
) -> Iterator[Logged]:
    """Edges, and a log in memory of the events that their owners emit."""
    with opened_in(folder, now_ms) as (opened, thread):
        edges: Any = _Ending(opened.edges, thread)
        log = ReferenceLog(opened, events_max, 800 if leased_little else 10**9)  # type: ignore[arg-type]
        yield Logged(edges, log)


@contextlib.contextmanager
def open_side(folder: Path) -> Iterator[StoreSide]:
    """Everything that `kith move` copies. The log is in memory."""
    with opened_in(folder) as (opened, thread), open_inboxes(folder) as inboxes, open_credentials(folder):
        edges: Any = OnThread(opened.edges, thread)
        records: Any = OnThread(opened.records, thread)
        contents: Any = OnThread(CassandraContents(shared().rows.session), thread)
        log = ReferenceLog(opened)  # type: ignore[arg-type]
        yield StoreSide(edges, records, log, inboxes, contents)


@contextlib.contextmanager
def open_whole(folder: Path, timelines: TimelineStore, now_ms: Clock) -> Iterator[EngineStores]:
    """Everything that services need of an engine, with timelines elsewhere than in Cassandra. The log is in memory."""
    with opened_in(folder, now_ms) as (opened, thread):
        edges: Any = _Ending(opened.edges, thread)
        records: Any = OnThread(opened.records, thread)
        log = ReferenceLog(opened)  # type: ignore[arg-type]
        state = open_small(CassandraFanoutState, "fanout_state", log=log, group=FANOUT)
        with open_small(CassandraSuggestions, "suggestions")(folder) as suggestions, state(folder) as fanout_state:
            yield EngineStores(edges, records, suggestions, log, fanout_state, timelines)
