"""Events and changes of edges, as other processes and earlier versions write them."""

from __future__ import annotations

import msgspec

from kith.core.clock import Hlc
from kith.core.events import Event, LogPosition
from kith.graph.edge import EdgeChange, Outcome
from kith.log.store import Failure


def test_positions_are_stored_and_sent_under_their_first_name() -> None:
    """Failures that are kept, and answers of an owner of another version, have it as `mark`."""
    event = Event(1, None, 0, 7, 8, 9, Hlc(10), 11, LogPosition(b"here"))
    change = EdgeChange(Outcome.APPLIED, None, None, LogPosition(b"here"))
    for known in (Failure("fanout", event, 1, "a bug", 0, 0), change):
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(known))
        assert stored.get("event", stored)["mark"] == b"here"
        assert msgspec.convert(stored, type(known)) == known
