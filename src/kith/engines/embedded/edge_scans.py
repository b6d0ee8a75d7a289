"""Scans of whole graphs on LMDB: edges with their list entries, counts and strays, and the repair of these.

Used by audits, exports and jobs over all users. The rest of the EdgeStore is in `edge_store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import lmdb

from kith.engines.embedded import runs
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.driver_errors import translate, translate_errors
from kith.engines.embedded.edge_rows import entries_of, stored_edge
from kith.engines.embedded.environment import Environment, Txn
from kith.engines.embedded.keys import EDGE_KEY, after_lists, list_prefixes, node_key, read_edge, read_prefix
from kith.engines.embedded.strays import Stray, find_strays, unlist_strays
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import Edge, State
from kith.graph.shapes import Degrees, DegreesPage, EdgeEnds, Listing, Pair

T = TypeVar("T")
_SCAN_ROWS = 2_000
_SCAN_LISTS = 2_000
"""Lists whose lengths are read in one transaction."""
_INLINE_NODES_MAX = 20
"""Up to this many nodes, some 3 us each, are counted in the event loop: a thread would cost more."""


class EmbeddedScans:
    """See `graph.store.Scans`."""

    def __init__(self, environment: Environment, commits: CommitQueue) -> None:
        self._environment, self._commits = environment, commits
        self._graph_db = environment.graph_db

    def _begin(self, db: lmdb._Database | None = None) -> Txn:
        """A read transaction: a snapshot, without locks."""
        try:
            return self._environment.lmdb.begin(db)
        except lmdb.Error as error:
            raise translate(error, "read") from error

    async def edges(self, graph: int) -> AsyncIterator[list[EdgeEnds]]:
        async for chunk in self._scan(graph, _ends_of):
            yield chunk

    async def stored(self, graph: int) -> AsyncIterator[list[Edge]]:
        async for chunk in self._scan(graph, _row_alone):
            yield chunk

    async def ends(self, graph: int, pairs: Sequence[Pair]) -> list[EdgeEnds | None]:
        db = self._graph_db(graph)
        with self._begin(db) as txn:
            cursor = txn.cursor()
            rows = [stored_edge(txn, db, graph, *pair) for pair in pairs]
            return [None if edge is None else _ends_of(cursor, edge) for edge in rows]

    async def degrees(self, graph: int, after: bytes | None, limit: int) -> DegreesPage:
        if limit <= _INLINE_NODES_MAX:
            return self._degrees(graph, after or b"", limit)
        return await asyncio.to_thread(self._degrees, graph, after or b"", limit)

    async def check_counts(self, graph: int, repair: bool) -> list[tuple[Listing, int, int]]:
        def check() -> list[runs.Length]:
            return [run for run in _lengths(self._environment, graph) if run.stored != run.real]

        def correct(batch: Transaction) -> None:
            cursor = batch.cursor(graph)
            for prefix, _, _ in wrong:
                now = runs.length_at(cursor, prefix)
                if now.stored != now.real:
                    batch.skip_journal()
                    runs.set_length(cursor, prefix, now.real)

        wrong = await asyncio.to_thread(check)  # writes continue meanwhile, so `correct` checks again
        if repair and wrong:
            await self._commits.run(correct)
        return [(read_prefix(graph, prefix), stored, real) for prefix, stored, real in wrong]

    async def strays(self, graph: int, repair: bool) -> int:
        count = 0
        start: bytes | None = b""
        while start is not None:
            entries, start = await asyncio.to_thread(self._find_strays, graph, start)
            count += len(entries)
            if repair and entries:
                await self._commits.run(partial(unlist_strays, graph=graph, entries=entries), len(entries))
        return count

    async def repair(self, edges: Sequence[Edge]) -> None:
        def relist(batch: Transaction) -> None:
            for edge in edges:
                _relist(batch, edge)

        await self._commits.run(relist, len(edges))

    def _degrees(self, graph: int, start: bytes, limit: int) -> DegreesPage:
        db = self._graph_db(graph)
        degrees: list[Degrees] = []
        with self._begin(db) as txn:
            cursor = txn.cursor()
            while len(degrees) < limit and (cursor.set_range(start) if start else cursor.first()):
                node = int.from_bytes(cursor.key()[:8], "big")
                prefixes = list_prefixes(node, node, State.NORMAL)
                degrees.append(Degrees(node, *(runs.length(txn, db, prefix) for prefix in prefixes)))
                start = node_key(node + 1)
        return DegreesPage(degrees, start if len(degrees) == limit else None)

    def _find_strays(self, graph: int, start: bytes) -> tuple[list[Stray], bytes | None]:
        db = self._graph_db(graph)
        with self._begin(db) as txn:
            return find_strays(txn, db, graph, start, _SCAN_ROWS)

    async def _scan(self, graph: int, convert: Callable[[runs.RunCursor, Edge], T]) -> AsyncIterator[list[T]]:
        """`convert` of every edge of a graph, in chunks. The cursor that it gets reads lists as of the same moment."""
        start: bytes | None = b""
        while start is not None:
            chunk, start = self._chunk(graph, start, convert)
            if chunk:
                yield chunk
            await asyncio.sleep(0)

    def _chunk(
        self, graph: int, start: bytes, convert: Callable[[runs.RunCursor, Edge], T]
    ) -> tuple[list[T], bytes | None]:
        """The chunk that begins at key `start`, and the key to continue at; None at the end."""
        chunk: list[T] = []
        with self._begin() as txn:
            db = self._graph_db(graph)
            rows, lists = txn.cursor(db), txn.cursor(db)
            has_row = rows.set_range(start) if start else rows.first()
            while has_row and len(chunk) < _SCAN_ROWS:
                key = rows.key()
                if len(key) != EDGE_KEY:
                    has_row = rows.set_range(after_lists(key))
                    continue
                edge = read_edge(graph, int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big"), rows.value())
                chunk.append(convert(lists, edge))
                has_row = rows.next()
            return chunk, rows.key() if has_row else None


def list_lengths(environment: Environment, graph: int) -> Iterator[tuple[Listing, int]]:
    """Every list of a graph with its length; reads the whole graph."""
    for prefix, length, _ in _lengths(environment, graph):
        yield read_prefix(graph, prefix), length


def _lengths(environment: Environment, graph: int) -> Iterator[runs.Length]:
    """The length of every run of a graph. Each run is read in one transaction; the whole graph is not."""
    start = b"\0"
    while start:
        with translate_errors("read", environment.folder), environment.lmdb.begin() as txn:
            cursor = txn.cursor(environment.graph_db(graph))
            lengths = list(islice(runs.lengths(cursor), _SCAN_LISTS)) if cursor.set_range(start) else []
        yield from lengths
        start = runs.after(lengths[-1].prefix) if lengths else b""


def _ends_of(lists: runs.RunCursor, edge: Edge) -> EdgeEnds:
    out_entry, in_entry = entries_of(edge)
    return EdgeEnds(edge, runs.contains(lists, *out_entry), runs.contains(lists, *in_entry))


def _row_alone(_: runs.RunCursor, edge: Edge) -> Edge:
    return edge


def _relist(batch: Transaction, edge: Edge) -> None:
    """Add the edge to both lists, at the place that its row says. Does nothing if the edge has no row."""
    db = batch.environment.graph_db(edge.graph)
    current = stored_edge(batch.txn, db, edge.graph, edge.source, edge.destination)
    if current is not None:
        batch.skip_journal()
        for entry in entries_of(current):
            runs.insert(batch.cursor(edge.graph), *entry)
