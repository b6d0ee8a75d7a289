"""The payload of a journal entry: the changes of one transaction, so that recovery can replay them.

    payload   MessagePack [logged at ms, [change, ...]]
    change    bytes                       an event of the log, which says what it changes (see `changes`)
              [0, database, key, value]   a row that is not in the log; without a value it is deleted
              [1, graph, source, destination]   an edge is forgotten; written by versions that did not log that
              [2, event]                  an event of another store's log, as it was logged there

Replaying a payload twice would log its events twice. So a payload is replayed once, on the state that its transaction
began with (see `journal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import lmdb
import msgspec

from kith.engines.embedded import changes, event_rows
from kith.engines.embedded.changes import Databases, GraphDatabase
from kith.engines.embedded.event_log import LogRows, LogWriter

ROW, FORGOTTEN, SHIPPED = 0, 1, 2
RedoEntry: TypeAlias = bytes | tuple[Any, ...]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[Any]]).decode


def row(database: str, key: bytes, value: bytes | None) -> RedoEntry:
    """The change of a row that was put, or deleted (None)."""
    return (ROW, database, key, value)


def shipped(event: bytes) -> RedoEntry:
    """The change of an event of another store's log. `event` includes the time at which it was logged there."""
    return (SHIPPED, event)


def encode(now_ms: int, changes_made: list[RedoEntry]) -> bytes:
    """The payload of a transaction."""
    return _encode((now_ms, changes_made))


def replay(
    txn: lmdb.Transaction[bytes], payloads: Iterable[bytes], log: LogRows, rows: Databases, graph: GraphDatabase
) -> None:
    """Replay the changes of consecutive transactions, in one transaction."""
    for payload in payloads:
        now_ms, entries = _decode(payload)
        writer = LogWriter(txn, log, now_ms)
        for change in entries:
            if isinstance(change, bytes):
                changes.apply(txn, change, rows, graph)
                writer.append(change)
            elif change[0] == SHIPPED:
                changes.apply(txn, event_rows.change_of(change[1]), rows, graph)
                writer.append_logged(change[1])
            elif change[0] == FORGOTTEN:
                changes.apply(txn, changes.edge_forgotten(*change[1:]), rows, graph)
            else:
                _, name, key, value = change
                if value is None:
                    txn.delete(key, db=rows[name])
                else:
                    txn.put(key, value, db=rows[name])
        writer.flush()
