"""The transaction in which jobs of the commit queue (see `commits`) change the store. It also records each change, for
the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import lmdb

from kith.core.events import LogPosition
from kith.engines.embedded import changes, expiries, redo, runs
from kith.engines.embedded.edge_rows import replace_edge, stored_edge
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.event_log import LogWriter, first_number
from kith.engines.embedded.keys import list_prefix, node_key, read_node
from kith.graph.edge import Direction, Edge, EdgeWrite, State, as_of
from kith.graph.shapes import Node

_EXPIRED_PER_COMMIT = 500
"""How many expired edges a commit removes beside its own work."""


class Transaction:
    """One write transaction in progress. `now_ms`: the time at which its events are logged."""

    def __init__(self, environment: Environment, txn: lmdb.Transaction[bytes], now_ms: int) -> None:
        self.environment, self.txn = environment, txn
        self.log = LogWriter(txn, environment.log, now_ms)
        self.now_ms = now_ms
        self._changes: list[redo.RedoEntry] | None = []
        self._cursors: dict[int, lmdb.Cursor[bytes]] = {}
        self.nodes_known = bool(txn.stat(environment.nodes)["entries"])
        """Whether any node has a row of its own (see `keys`), rows that this transaction wrote included."""

    def put(self, database: str, key: bytes, value: bytes | None) -> None:
        """Put a row of one of `Environment.rows`, or delete it (None). The change is in the journal, not in the log."""
        db = self.environment.rows[database]
        if value is not None:
            self.txn.put(key, value, db=db)
        elif not self.txn.delete(key, db=db):
            return  # no such row, so this changes nothing
        self._describe(redo.row(database, key, value))

    def note(self, key: str) -> bytes | None:
        """A note, with the changes of this transaction; None if there is none."""
        return self.txn.get(key.encode(), None, self.environment.notes_db)

    def put_note(self, key: str, value: bytes | None) -> None:
        """Write a note, or remove it (None), without an event in the log."""
        self.put("meta", key.encode(), value)

    def apply(self, event: bytes) -> None:
        """Make the change of an event (see `changes`), and log it."""
        changes.apply(self.txn, event, self.environment.rows, self.environment.graph_db)
        self.append(event)

    def write_edge(self, stored: Edge | None, edge: Edge) -> LogPosition:
        """Replace `stored`, the edge as it is stored now, by `edge`, and log that. Returns the event's log position."""
        db, rows = self.environment.graph_db(edge.graph), self.environment.rows
        replace_edge(self.txn, self.cursor(edge.graph), db, rows, stored, edge)
        self.append(changes.edge_changed(None if stored is None else stored.state, edge))
        return self.log_position()

    def expired_edges(self) -> expiries.ExpiredEdges | None:
        """The expired edges that are not removed yet; None if there is none."""
        return expiries.expired_edges(self.txn, self.environment.rows, lambda: self.now_ms)

    def any_listed(self, listings: Iterable[tuple[int, int, Direction, State]]) -> bool:
        """Whether any of these lists has an entry. Expired entries count, too."""
        txn, graph_db, exists = self.txn, self.environment.graph_db, runs.exists
        for listing in listings:  # noqa: SIM110 - called by every follow, and a generator takes half as long again
            if exists(txn, graph_db(listing[0]), list_prefix(listing)):
                return True
        return False

    def remove_expired(self) -> int:
        """Remove up to 500 expired edges. Returns how many were removed."""
        expired = self.expired_edges()
        edges = [] if expired is None else expired.first(_EXPIRED_PER_COMMIT)
        for graph, source, destination in edges:
            stored = stored_edge(self.txn, self.environment.graph_db(graph), graph, source, destination)
            if stored is not None:
                self.write_edge(stored, as_of(stored, self.now_ms))
        return len(edges)

    def append(self, event: bytes) -> None:
        """Log an event of `changes` whose change has been made already."""
        self._describe(event)
        self.log.append(event)

    def append_all(self, events: Sequence[bytes]) -> None:
        """Log events of `changes`, in this order, whose changes have been made already."""
        if self._changes is not None:
            self._changes += events
        self.log.append_all(events)

    def log_position(self) -> LogPosition:
        """The log position after the newest event of this transaction."""
        return self.environment.positions.of(self.log.last)

    def skip_journal(self) -> None:
        """Note that the job changes more than is recorded here. The commit has no journal entry then, and the whole
        store is synced instead.
        """
        self._changes = None

    @property
    def count(self) -> int:
        """How many changes are recorded."""
        return len(self._changes or ())

    def journal_payload(self) -> bytes | None:
        """All changes, as the payload for `Environment.commit`; None if not all are recorded."""
        if not self._changes:
            return None if self._changes is None else b""
        return redo.encode(self.now_ms, self._changes)

    def _describe(self, change: redo.RedoEntry) -> None:
        if self._changes is not None:
            self._changes.append(change)

    def node(self, node: int) -> Node:
        """What is stored about a node itself."""
        row = self.txn.get(node_key(node), None, self.environment.nodes)
        return Node() if row is None else read_node(row)

    def ends(self, edge: Edge) -> State:
        """The greater state of the users at the ends of an edge. Reads nothing while no node has a row of its own."""
        if not self.nodes_known:
            return State.NORMAL
        users = self.environment.user_ends.of(edge)
        return max((self.node(user).state for user in users), default=State.NORMAL)

    def inactive_users(self, writes: Iterable[EdgeWrite]) -> dict[int, State]:
        """The state of each user at an end of these edges whose state is not NORMAL. Reads nothing while no node has a
        row of its own.
        """
        if not self.nodes_known:
            return {}
        ends_of = self.environment.user_ends.of
        nodes = {node for write in writes for node in ends_of(write.edge)}
        rows = self.txn.cursor(self.environment.nodes).getmulti([node_key(node) for node in sorted(nodes)])
        states = {first_number(key): read_node(row).state for key, row in rows}
        return {node: state for node, state in states.items() if state is not State.NORMAL}

    def cursor(self, graph: int) -> lmdb.Cursor[bytes]:
        """A cursor over a graph, shared by the whole batch."""
        cursor = self._cursors.get(graph)
        if cursor is None:
            cursor = self._cursors[graph] = self.txn.cursor(self.environment.graph_db(graph))
        return cursor
