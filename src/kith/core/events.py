"""Events of the log. Each describes a change of one edge.

New posts, likes and comments are edges too (an author's outbox is a list), so this one shape carries them all.
"""

from __future__ import annotations

from struct import Struct
from typing import NewType

import msgspec

from kith.core.clock import Hlc

LogPosition = NewType("LogPosition", bytes)
"""A position in a log, in its engine's format: one number, or one per partition. Only the engine can compare two
positions (`log.store.LogStore.covers`).
"""
NOWHERE = LogPosition(b"")
"""The position before every event of any log."""
NORMAL = 0
"""The state of a live edge; equals `graph.edge.State.NORMAL`, which core must not import."""
BULK_LOADED = 254
"""Not an edge: a whole graph was loaded at once. `source` is its number of edges. Consumers must read the graph."""
TIMELINE_REQUESTED = 253
"""Not an edge: the user `source` requested their home feed and has no timeline."""
USER_CHANGED = 252
"""Not an edge: the app labelled the user `source`, or they became private or public, so who may see their posts
changed. `destination`: SHOWN if the app stopped hiding them, else 0. (A label on a post is an edit of the post.)
"""
RECORD_CHANGED, RECORD_FORGOTTEN, EDGE_FORGOTTEN, NODE_CHANGED, CLAIM_TAKEN, NOTE_CHANGED = 251, 250, 249, 248, 247, 246
RECORDS_FORGOTTEN = 245
"""Not edges: all other changes, so that the log holds everything. The engine decides how to encode them."""
SHOWN = 1
_END = Struct(">Q")


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of an edge. `before`: its previous state; None if the edge did not exist.

    `logged_ms`: when it was logged, in ms since the epoch, independent of its version; 0 before. `log_position`: the
    position of a log that ends with this event; unique. The log sets both. `data`: further content of events that are
    not about an edge, and the expiry of an edge.
    """

    graph: int
    before: int | None
    state: int
    source: int
    destination: int
    position: int
    updated_at: Hlc
    logged_ms: int = 0
    log_position: LogPosition = msgspec.field(default=NOWHERE, name="mark")  # stored under its old name
    data: bytes = b""

    @property
    def began(self) -> bool:
        """Whether this event made the edge live."""
        return self.state == NORMAL and self.before != NORMAL

    @property
    def ended(self) -> bool:
        """Whether this event ended a live edge."""
        return self.before == NORMAL and self.state != NORMAL


def ends_ms(event: Event) -> int:
    """When the edge of an event expires, in ms since the epoch; 0: never."""
    return int(_END.unpack_from(event.data)[0]) if event.data else 0


def changed_node(event: Event) -> tuple[int, bool, int]:
    """What a NODE_CHANGED event says about its node: state, whether it is private, labels."""
    return (event.data[0], bool(event.data[1]), event.data[2]) if event.data else (NORMAL, False, 0)


def user_changed(user: int, version: Hlc, *, shown: bool = False) -> Event:
    """The event USER_CHANGED for a user. `shown`: the app stopped hiding them."""
    return Event(0, None, USER_CHANGED, user, SHOWN if shown else 0, 0, version)
