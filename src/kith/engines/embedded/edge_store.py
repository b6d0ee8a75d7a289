"""The EdgeStore on LMDB: one row per edge, and one run of packed entries per list.

Each read opens its own transaction (a snapshot, no locks). Writes go through the commit queue. The row, both lists, the
counts and the event of a write are one transaction, so they always agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat

import lmdb
import numpy as np
from numpy.typing import NDArray

from kith.core.clock import HybridClock
from kith.core.events import Event, LogPosition
from kith.core.paging import Page, Window
from kith.core.tokens import WriteMark
from kith.engines.embedded import changes, event_log, expiries, runs
from kith.engines.embedded.edge_scans import EmbeddedScans
from kith.engines.embedded.environment import Txn
from kith.engines.embedded.keys import (
    STATE_BYTE,
    STATE_MASK,
    ids_of,
    list_prefix,
    node_key,
    pair_key,
    read_edge,
    read_node,
    states_of,
    tail_keys,
)
from kith.engines.embedded.merging import MergeEdges
from kith.engines.embedded.pages import newest_page, page_of
from kith.engines.embedded.runs import tail_key
from kith.engines.embedded.transaction import Transaction
from kith.graph.edge import (
    Direction,
    Edge,
    EdgeChange,
    EdgeWrite,
    Outcome,
    State,
)
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import (
    ANY_NOTE,
    AnyNote,
    Chunk,
    ExpiringEdge,
    IdLists,
    Ids,
    Listing,
    Node,
    NodeChange,
    Pair,
    Side,
)

_SKIPPED = EdgeChange(Outcome.UNCHANGED, None, None)
_PLAIN_NODE = Node()
_UNBOUNDED = Window(1)[1:5]
_EMPTY_CHECK_LOOKUPS = 12
"""This many lookups cost as much as checking whether a database is empty."""
_BULK_LOOKUPS_MIN, _ROWS_PER_LOOKUP_MAX = 20, 8
"""To look up _BULK_LOOKUPS_MIN ids or more, a list of at most _ROWS_PER_LOOKUP_MAX rows for each id is read whole."""
_IN_LOOP_MAX = 20_000
"""Entries or lookups; beyond this a read runs in a thread, so that it does not block other requests."""


Flags = NDArray[np.bool_]


class EmbeddedEdges(EmbeddedScans):
    """See `graph.store.EdgeStore`; this engine is transactional."""

    transactional = immediate = logs_every_change = True
    _first_expiry: tuple[int, int | None] = (0, None)
    """A transaction number, and when the edge that expires first does so, as of that transaction (None: no edge)."""

    async def declare(self, names: Iterable[str]) -> Mapping[str, int]:
        return self._environment.declare(list(names))

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        return await self._commits.run(MergeEdges(writes), len(writes))

    async def barrier(self) -> None:
        """Do nothing: each write is one transaction, and visible when it is answered."""

    def joined(self, position: LogPosition, other: LogPosition) -> LogPosition:
        return self._environment.positions.joined(position, other)

    async def forget(self, graph: int, pairs: Sequence[Pair]) -> None:
        await self._commits.run(partial(_forget, graph=graph, pairs=pairs), len(pairs))

    async def exists_many(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        db = self._graph_db(graph)
        with self._begin(db) as txn:
            get, expired = txn.get, self._expired_edges(txn)
            rows = [get(pair_key(source, destination)) for source, destination in pairs]
            if expired is not None:
                return [row is not None and not expired.state(row) for row in rows]
            return [row is not None and not row[STATE_BYTE] & STATE_MASK for row in rows]

    async def get_many(self, graph: int, pairs: Sequence[Pair]) -> list[Edge | None]:
        with self._begin(self._graph_db(graph)) as txn:
            rows, expired = [txn.get(pair_key(*pair), None) for pair in pairs], self._expired_edges(txn)
        read = read_edge if expired is None else expired.edge
        return [
            None if row is None else read(graph, source, destination, row)
            for (source, destination), row in zip(pairs, rows, strict=True)
        ]

    async def answer(self, questions: Questions) -> Answers:
        graph_db = self._graph_db
        towards: list[list[State | None]] = []
        members: list[Flags] = []
        nodes: list[Node] = []
        counts: list[int] = []
        pages: list[Page] = []
        with self._begin() as txn:
            get, expired = txn.get, self._expired_edges(txn)
            rows = [get(pair_key(source, to), None, graph_db(graph)) for graph, source, to in questions.asked_states]
            for graph, source, ends in questions.asked_towards:
                db = graph_db(graph)
                towards.append(_states([get(pair_key(source, to), None, db) for to in ends], expired))
            if questions.asked_nodes:
                nodes = self._nodes(txn, questions.asked_nodes)
            if questions.asked_members:
                members = [self._contains(txn, listing, ids, expired) for listing, ids in questions.asked_members]
            if questions.asked_counts:
                counts = self._lengths(txn, questions.asked_counts, expired)
            for listing, window in questions.asked_pages:
                pages.append(self._page(txn, listing, window, expired))
        return Answers(_states(rows, expired), towards, members, nodes, counts, pages)

    async def last_logged_commit(self) -> int:
        commit, first_ms = self._first_expiry
        if commit == self._environment.last_commit():
            return commit if first_ms is None or first_ms > self._commits.now_ms() else 0
        with self._begin() as txn:
            return txn.id() if self._expired_edges(txn) is None else 0

    async def expiring_by(self, until_ms: int, limit: int) -> list[ExpiringEdge]:
        with self._begin() as txn:
            return expiries.expiring_by(txn, self._environment.rows, until_ms, limit)

    async def page(self, listing: Listing, window: Window) -> Page:
        with self._begin() as txn:
            return self._page(txn, listing, window, self._expired_edges(txn))

    async def count_many(self, listings: Sequence[Listing]) -> list[int]:
        with self._begin() as txn:
            return self._lengths(txn, listings, self._expired_edges(txn))

    def _expired_edges(self, txn: Txn) -> expiries.ExpiredEdges | None:
        """The edges that have expired and are not removed yet; None if there is none."""
        commit, first_ms = self._first_expiry
        if commit != txn.id():
            first_ms = expiries.first_expiry_ms(txn, self._environment.rows)
            self._first_expiry = txn.id(), first_ms
        return None if first_ms is None else expiries.expired_edges(txn, self._environment.rows, self._commits.now_ms)

    def _page(self, txn: Txn, listing: Listing, window: Window, expired: expiries.ExpiredEdges | None) -> Page:
        db, prefix = self._graph_db(listing.graph), list_prefix(listing)
        if expired is not None:
            return page_of(txn.cursor(db), prefix, window, expired.hides(listing, db))
        if window[1:5] == _UNBOUNDED and (page := newest_page(txn.get(tail_key(prefix), None, db), window.limit)):
            return page
        return page_of(txn.cursor(db), prefix, window)

    def _lengths(self, txn: Txn, listings: Sequence[Listing], expired: expiries.ExpiredEdges | None) -> list[int]:
        length, graph_db = runs.length, self._graph_db
        graphs = {listing.graph for listing in listings}
        if len(listings) > _EMPTY_CHECK_LOOKUPS:
            graphs = {graph for graph in graphs if txn.stat(graph_db(graph))["entries"]}
        lengths = [
            length(txn, graph_db(listing.graph), list_prefix(listing)) if listing.graph in graphs else 0
            for listing in listings
        ]
        if expired is None:
            return lengths
        return [length - expired.count(listing) for length, listing in zip(lengths, listings, strict=True)]

    def _rows(self, txn: Txn, listing: Listing, newest: int, expired: expiries.ExpiredEdges | None) -> bytes:
        """The newest entries of a list, ascending."""
        cursor, prefix = txn.cursor(self._graph_db(listing.graph)), list_prefix(listing)
        if expired is None:
            return runs.rows_newest(cursor, prefix, newest)
        entries = expired.entries(listing)
        rows = expiries.without(runs.rows_newest(cursor, prefix, newest + len(entries)), entries)
        return rows[max(0, len(rows) - newest * runs.ROW) :]

    async def counts(self, sides: Sequence[Side], nodes: Ids) -> Ids:
        def read() -> Ids:
            keys = {direction: tail_keys(direction, nodes) for direction in {direction for _, direction in sides}}
            with self._begin() as txn:
                get, expired = txn.get, self._expired_edges(txn)
                if expired is not None:
                    lists = [Listing(graph, node, direction) for graph, direction in sides for node in nodes.tolist()]
                    return np.array(self._lengths(txn, lists, expired), np.int64).reshape(len(sides), len(nodes))
                tails = [
                    None if is_empty(txn, db) else [get(key, None, db) for key in keys[direction]]
                    for db, direction in dbs
                ]
            lengths = [zeros if tails_of_side is None else _lengths_of(tails_of_side) for tails_of_side in tails]
            return np.array(lengths, np.int64).reshape(len(sides), len(nodes))

        def is_empty(txn: Txn, db: lmdb._Database) -> bool:
            return len(nodes) > _EMPTY_CHECK_LOOKUPS and not txn.stat(db)["entries"]

        dbs, zeros = [(self._graph_db(graph), direction) for graph, direction in sides], [0] * len(nodes)
        return read() if len(nodes) * len(sides) <= _IN_LOOP_MAX else await asyncio.to_thread(read)

    async def ids(self, listing: Listing, newest: int) -> Ids:
        def read() -> Ids:
            with self._begin() as txn:
                return ids_of(self._rows(txn, listing, newest, self._expired_edges(txn)))[::-1]

        if newest <= _IN_LOOP_MAX:
            return read()
        (count,) = await self.count_many([listing])
        return read() if count <= _IN_LOOP_MAX else await asyncio.to_thread(read)

    async def chunk(self, listing: Listing, after: bytes | None, limit: int) -> Chunk:
        def read() -> tuple[bytes, bytes]:
            with self._begin() as txn:
                expired = self._expired_edges(txn)
                rows = runs.rows_newest(txn.cursor(self._graph_db(listing.graph)), list_prefix(listing), limit, after)
                return rows, rows if expired is None else expiries.without(rows, expired.entries(listing))

        rows, shown = read() if limit <= _IN_LOOP_MAX else await asyncio.to_thread(read)
        return Chunk(ids_of(shown), rows[: runs.ROW] if len(rows) == limit * runs.ROW else None)

    async def ids_many(self, listings: Sequence[Listing], newest: int) -> IdLists:
        def read() -> IdLists:
            with self._begin() as txn:
                expired, cursor = self._expired_edges(txn), txn.cursor(self._graph_db(listings[0].graph))
                # a run is oldest first: read the lists backwards and reverse all ids once, so each list is newest first
                if expired is None:
                    rows = [runs.rows_newest(cursor, list_prefix(listing), newest) for listing in reversed(listings)]
                else:
                    rows = [self._rows(txn, listing, newest, expired) for listing in reversed(listings)]
            lengths = np.fromiter((len(run) // runs.ROW for run in reversed(rows)), np.int64, len(rows))
            return IdLists(ids_of(b"".join(rows))[::-1], lengths)

        if not listings:
            return IdLists(np.empty(0, np.int64), np.empty(0, np.int64))
        size = len(listings) * newest
        if size > _IN_LOOP_MAX:
            size = sum(min(count, newest) for count in await self.count_many(listings))
        return read() if size <= _IN_LOOP_MAX else await asyncio.to_thread(read)

    async def contains(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        def read() -> NDArray[np.bool_]:
            with self._begin() as txn:
                return self._contains(txn, listing, ids, self._expired_edges(txn))

        return read() if len(ids) <= _IN_LOOP_MAX else await asyncio.to_thread(read)

    def _contains(
        self, txn: Txn, listing: Listing, ids: Ids, expired: expiries.ExpiredEdges | None
    ) -> NDArray[np.bool_]:
        db = self._graph_db(listing.graph)
        rows = runs.short(txn, db, list_prefix(listing))
        if rows is not None:  # most lists of blocks, mutes and hides are short or empty
            if expired is not None:
                rows = expiries.without(rows, expired.entries(listing))
            if not rows:
                return np.zeros(len(ids), np.bool_)
            if len(ids) >= _BULK_LOOKUPS_MIN:
                return _are_among(ids, ids_of(rows))
            listed = set(ids_of(rows).tolist())
            return np.fromiter((id_ in listed for id_ in ids.tolist()), np.bool_, len(ids))
        if (
            expired is None
            and len(ids) >= _BULK_LOOKUPS_MIN
            and runs.length(txn, db, list_prefix(listing)) <= _ROWS_PER_LOOKUP_MAX * len(ids)
        ):
            return _are_among(ids, ids_of(runs.rows_newest(txn.cursor(db), list_prefix(listing), None)))
        state, node, other_ends = listing.state, repeat(listing.node), ids.tolist()
        keys = (
            map(pair_key, node, other_ends) if listing.direction is Direction.OUT else map(pair_key, other_ends, node)
        )
        states = _states(list(map(txn.get, keys, repeat(None), repeat(db))), expired)
        return np.array([state_of_edge is state for state_of_edge in states], np.bool_)

    async def nodes(self, nodes: Sequence[int]) -> list[Node]:
        with self._begin() as txn:
            return self._nodes(txn, nodes)

    def _nodes(self, txn: Txn, nodes: Sequence[int]) -> list[Node]:
        db = self._environment.nodes
        if len(nodes) > _EMPTY_CHECK_LOOKUPS and not txn.stat(db)["entries"]:
            return [_PLAIN_NODE] * len(nodes)
        rows = [txn.get(node_key(node), None, db) for node in nodes]
        return [_PLAIN_NODE if row is None else read_node(row) for row in rows]

    async def change_node(
        self,
        node: int,
        *,
        state: State | None = None,
        private: bool | None = None,
        labels: int | None = None,
        only_from: State | None = None,
        tell: Event | None = None,
    ) -> NodeChange:
        version = 0 if tell is None else tell.updated_at

        def change(batch: Transaction) -> Node:
            before = batch.node(node)
            if only_from is not None and before.state != only_from:
                return before
            after = Node(
                before.state if state is None else state,
                before.private if private is None else private,
                before.labels if labels is None else labels,
            )
            if after == before:
                return before
            batch.nodes_known = True
            if tell is not None:
                batch.append(changes.announced(tell))
            batch.apply(changes.node_changed(node, after))
            return after

        return await self._commits.run(
            lambda batch: NodeChange(change(batch), WriteMark(batch.log_position(), version))
        )

    async def get_note(self, key: str) -> bytes | None:
        return self._environment.get_note(key)

    async def put_note(self, key: str, value: bytes | None, *, only_if: bytes | AnyNote | None = ANY_NOTE) -> bool:
        def write(batch: Transaction) -> bool:
            if only_if is not ANY_NOTE and batch.note(key) != only_if:
                return False
            batch.apply(changes.note_changed(key, value))
            return True

        return await self._commits.run(write)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return {prefix + suffix: value for suffix, value in self._environment.notes(prefix).items()}

    def restore_clock(self, clock: HybridClock) -> None:
        """Make `clock` continue above the newest version in the log, even if the machine's clock went back."""
        with self._begin() as txn:
            clock.restore(event_log.newest_version(txn, self._environment.log))


def _lengths_of(tails: Sequence[bytes | None]) -> list[int]:
    """The lengths of the runs with these tails."""
    length_of = runs.length_of
    return [0 if tail is None else length_of(tail) for tail in tails]


def _are_among(ids: Ids, listed: Ids) -> NDArray[np.bool_]:
    """Which of many ids are in `listed`, which must not be empty."""
    listed = np.sort(listed)
    is_listed: NDArray[np.bool_] = listed.take(listed.searchsorted(ids), mode="clip") == ids
    return is_listed


def _forget(batch: Transaction, graph: int, pairs: Sequence[Pair]) -> None:
    """Delete edges without a trace, as if they had never existed."""
    for source, destination in pairs:
        batch.apply(changes.edge_forgotten(graph, source, destination))


def _states(rows: Sequence[bytes | None], expired: expiries.ExpiredEdges | None) -> list[State | None]:
    """The states of stored edges; None where there is no row. `expired`: the expired edges, if there are any."""
    return states_of(rows) if expired is None else [None if row is None else expired.state(row) for row in rows]
