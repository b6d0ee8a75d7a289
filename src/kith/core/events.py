"""Events of the log: each says what happened to one edge.

New posts, likes and comments are edges too (an author's outbox is a list), so this one shape carries them all.
"""

from __future__ import annotations

from struct import Struct
from typing import NewType

import msgspec

from kith.core.clock import Hlc

LogPosition = NewType("LogPosition", bytes)
"""How far a log is, as its engine notes it: one number, or one for each partition. Only the engine compares two of them
(`log.store.LogStore.covers`)."""
NOWHERE = LogPosition(b"")
"""Before every event of any log."""
NORMAL = 0
"""The state of an edge that holds; equals `graph.edge.State.NORMAL`, which core must not import."""
BULK_LOADED = 254
"""Not an edge: a whole graph was loaded at once. `source` is the number of its edges; consumers read the graph."""
TIMELINE_WANTED = 253
"""Not an edge: the user `source` asked for their home feed and has no timeline."""
USER_CHANGED = 252
"""Not an edge: the app labelled the user `source`, or they became private or public. So who may see their posts
changed. `destination`: SHOWN if the app hid them until then, else 0. (A label on a post is an edit of the post.)"""
RECORD_CHANGED, RECORD_FORGOTTEN, EDGE_FORGOTTEN, NODE_CHANGED, CLAIM_TAKEN, NOTE_CHANGED = 251, 250, 249, 248, 247, 246
RECORDS_FORGOTTEN = 245
"""Not an edge: any other change, so that the log holds everything. The engine decides how it is written."""
SHOWN = 1
_END = Struct(">Q")


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of an edge. `before`: its state until then, None if there was no edge.

    `logged_ms`: when it was logged, in ms since the epoch, independent of its version; 0 until then. `log_position`:
    how far a log is that ends with this event; no other event has the same. The log gives both. `data`: what else it
    says, where it is not about an edge.
    """

    graph: int
    before: int | None
    state: int
    source: int
    destination: int
    position: int
    updated_at: Hlc
    logged_ms: int = 0
    log_position: LogPosition = msgspec.field(default=NOWHERE, name="mark")  # by its old name where it is stored
    data: bytes = b""

    @property
    def began(self) -> bool:
        """Whether the edge holds now and did not before."""
        return self.state == NORMAL and self.before != NORMAL

    @property
    def ended(self) -> bool:
        """Whether the edge held before and does not now."""
        return self.before == NORMAL and self.state != NORMAL


def ends_ms(event: Event) -> int:
    """When the edge of an event ends, in ms since the epoch; 0: never."""
    return int(_END.unpack_from(event.data)[0]) if event.data else 0


def changed_node(event: Event) -> tuple[int, bool, int]:
    """What a NODE_CHANGED says of its node: state, whether it is private, labels."""
    return (event.data[0], bool(event.data[1]), event.data[2]) if event.data else (NORMAL, False, 0)


def user_changed(user: int, version: Hlc, *, shown: bool = False) -> Event:
    """The event USER_CHANGED of a user. `shown`: the app hides them no more."""
    return Event(0, None, USER_CHANGED, user, SHOWN if shown else 0, 0, version)
