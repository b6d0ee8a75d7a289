"""The encoded form of events and edge changes is stable across processes and versions."""

from __future__ import annotations

import msgspec

from kith.core.clock import Hlc
from kith.core.events import Event, LogPosition
from kith.graph.edge import EdgeChange, Outcome
from kith.log.store import Failure


def test_log_positions_are_encoded_under_their_first_name_mark() -> None:
    """Stored failures, and answers of owners of another version, call the log position `mark`."""
    event = Event(1, None, 0, 7, 8, 9, Hlc(10), 11, LogPosition(b"here"))
    change = EdgeChange(Outcome.APPLIED, None, None, LogPosition(b"here"))
    for known in (Failure("fanout", event, 1, "a bug", 0, 0), change):
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(known))
        assert stored.get("event", stored)["mark"] == b"here"
        assert msgspec.convert(stored, type(known)) == known
