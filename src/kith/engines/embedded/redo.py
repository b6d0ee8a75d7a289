"""What a transaction changed, written so that it can be done again on the state before it.

    payload   MessagePack [logged at ms, [change, ...]]
    change    bytes                       an event of the log; that of an edge stands for the edge and both its lists
              [0, database, key, value]   a row; without a value it is deleted
              [1, graph, source, destination]   an edge is forgotten, as if it had never been

Doing changes again that were done already would log their events twice, so a payload is applied once, to the state that
it was made for (see `journal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import lmdb
import msgspec

from kith.engines.embedded import event_log
from kith.engines.embedded.edge_rows import forget_edge, write_edge
from kith.engines.embedded.event_log import LogWriter

ROW, FORGOTTEN = 0, 1
Change: TypeAlias = bytes | tuple[Any, ...]
Databases: TypeAlias = "dict[str, lmdb._Database]"
GraphDatabase: TypeAlias = "Callable[[int], lmdb._Database]"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[Any]]).decode


def row(database: str, key: bytes, value: bytes | None) -> Change:
    """A row that was put, or deleted (None)."""
    return (ROW, database, key, value)


def forgotten(graph: int, source: int, destination: int) -> Change:
    """An edge that was forgotten."""
    return (FORGOTTEN, graph, source, destination)


def encode(now_ms: int, changes: list[Change]) -> bytes:
    """The payload of a transaction."""
    return _encode((now_ms, changes))


def replay(
    txn: lmdb.Transaction[bytes], payloads: Iterable[bytes], log: lmdb._Database, rows: Databases, graph: GraphDatabase
) -> None:
    """Do the changes of consecutive transactions again, in one transaction."""
    for payload in payloads:
        now_ms, changes = _decode(payload)
        writer = LogWriter(txn, log, now_ms)
        for change in changes:
            if isinstance(change, bytes):
                edge = event_log.edge_of(change)
                if edge is not None:
                    write_edge(txn, txn.cursor(graph(edge.graph)), graph(edge.graph), edge)
                writer.append(change)
            elif change[0] == FORGOTTEN:
                _, number, source, destination = change
                forget_edge(txn, txn.cursor(graph(number)), graph(number), source, destination)
            else:
                _, name, key, value = change
                if value is None:
                    txn.delete(key, db=rows[name])
                else:
                    txn.put(key, value, db=rows[name])
        writer.flush(events_max=1 << 62)
