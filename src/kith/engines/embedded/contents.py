"""Reads all rows of a data folder, in pages, to move a store. See `moving.contents.Contents`.

A place in a listing is the key of the last row read. For edges, the number of the graph comes before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import lmdb

from kith.core.clock import Hlc
from kith.core.events import CLAIM_TAKEN, Event
from kith.engines.embedded.changes import CLAIM_BYTES, claim_key
from kith.engines.embedded.credential_store import SECRET_NOTE
from kith.engines.embedded.driver_errors import translate_errors
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.inbox_store import EmbeddedInboxes
from kith.engines.embedded.keys import EDGE_KEY, after_lists, read_edge, read_node
from kith.graph.edge import Edge
from kith.moving.contents import ClaimRow, NodeRow, RowPage, kind_of
from kith.notifications.inbox import InboxRow
from kith.records.store import Record

T = TypeVar("T")
_NUMBER = struct.Struct(">Q")
_CLAIMS_BEGIN = claim_key(b"")
_CLAIMS_END = bytes([_CLAIMS_BEGIN[0] + 1])
_ENGINE_NOTES = (
    "closed", "failure/", "fanout/", "format", "graphs", "group/", "history", "loading/", "log-lease/", "log/",
    "owner/", "promoting", "rebuilding", "secret/", "server-key/", "standby/", "tell",
)  # fmt: skip
"""Key prefixes of the notes that belong to this engine, and are not moved with a store."""


class EmbeddedContents:
    """See `moving.contents.Contents`."""

    def __init__(self, environment: Environment, inboxes: EmbeddedInboxes) -> None:
        self._environment, self._inboxes = environment, inboxes

    async def edges(self, after: bytes | None, limit: int) -> RowPage[Edge]:
        graphs = sorted(self._environment.graph_numbers().values())
        first_graph = after[0] if after else 0
        edges: list[Edge] = []
        for graph in (graph for graph in graphs if graph >= first_graph):
            start_key = after[1:] + b"\0" if after and graph == first_graph else b""
            with self._reading(self._environment.graph_db(graph)) as txn:
                for key, row in _edge_rows(txn, start_key):
                    edges.append(read_edge(graph, _id(key[:8]), _id(key[8:]), row))
                    if len(edges) == limit:
                        return RowPage(edges, bytes([graph]) + key)
        return RowPage(edges, None)

    async def records(self, after: bytes | None, limit: int) -> RowPage[Record]:
        def read(key: bytes, row: bytes) -> Record:
            return Record(kind_of(key[0]), _id(key[1:]), Hlc(_id(row[:8])), row[8:])

        return self._rows(self._environment.records, after, limit, read, end=_CLAIMS_BEGIN)

    async def nodes(self, after: bytes | None, limit: int) -> RowPage[NodeRow]:
        return self._rows(
            self._environment.nodes, after, limit, lambda key, row: NodeRow(_id(key), read_node(row)), end=b"\xff" * 9
        )

    async def claims(self, after: bytes | None, limit: int) -> RowPage[ClaimRow]:
        def read(key: bytes, row: bytes) -> ClaimRow:
            return ClaimRow(key[1:], _id(row[:8]), row[8:])

        return self._rows(self._environment.records, after, limit, read, begin=_CLAIMS_BEGIN, end=_CLAIMS_END)

    async def inbox_rows(self, after: bytes | None, limit: int) -> RowPage[InboxRow]:
        return RowPage(*self._inboxes.rows(after, limit))

    async def notes(self) -> dict[str, bytes]:
        return {key: note for key, note in self._environment.notes("").items() if not key.startswith(_ENGINE_NOTES)}

    async def secrets(self) -> dict[str, bytes]:
        return self._environment.notes(SECRET_NOTE)

    async def put_secret(self, name: str, secret: bytes) -> None:
        self._environment.put_note(SECRET_NOTE + name, secret)

    def claimed_by(self, event: Event) -> ClaimRow | None:
        if event.state != CLAIM_TAKEN:
            return None
        return ClaimRow(event.data[:CLAIM_BYTES], event.source, event.data[CLAIM_BYTES:])

    @contextmanager
    def _reading(self, db: lmdb._Database) -> Iterator[lmdb.Transaction[bytes]]:
        with translate_errors("read", self._environment.folder), self._environment.lmdb.begin(db) as txn:
            yield txn

    def _rows(
        self,
        db: lmdb._Database,
        after: bytes | None,
        limit: int,
        decode: Callable[[bytes, bytes], T],
        *,
        begin: bytes = b"\0",
        end: bytes,
    ) -> RowPage[T]:
        """Rows of a database after the key `after`, or from `begin` on, up to `end`."""
        rows: list[T] = []
        with self._reading(db) as txn:
            cursor = txn.cursor()
            has_row = cursor.set_range(begin if after is None else after + b"\0")
            while has_row and cursor.key() < end:
                rows.append(decode(cursor.key(), cursor.value()))
                if len(rows) == limit:
                    return RowPage(rows, cursor.key())
                has_row = cursor.next()
        return RowPage(rows, None)


def _edge_rows(txn: lmdb.Transaction[bytes], begin: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Rows of edges from a key on. Skips the lists that stand between them."""
    cursor = txn.cursor()
    has_row = cursor.set_range(begin) if begin else cursor.first()
    while has_row:
        key = cursor.key()
        if len(key) == EDGE_KEY:
            yield key, cursor.value()
            has_row = cursor.next()
        else:
            has_row = cursor.set_range(after_lists(key))


def _id(raw: bytes) -> int:
    return int(_NUMBER.unpack(raw)[0])
