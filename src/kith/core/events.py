"""What happened to an edge, as every consumer of the log sees it.

Posts, likes and comments are edges too (an author's outbox is a list), so this one shape carries them all.
"""

from __future__ import annotations

import msgspec

from kith.core.clock import Hlc

NORMAL = 0
"""The state of an edge that holds (`graph.edge.State`, which this room does not know)."""
BULK_LOADED = 254
"""Not an edge: a whole graph was loaded at once. `source` is the number of its edges; read the graph itself."""
TIMELINE_WANTED = 253
"""Not an edge: the user `source` was here and has no timeline."""
USER_CHANGED = 252
"""Not an edge: the user `source` was labelled by the app, or made private or public, and so others may see their posts.
(A label of a post is an edit of the post.)"""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change, in the order of the log. `before` is the state before it, None if there was no edge. `logged_ms` is
    when the log took it, in ms since the epoch, whatever its version says; 0 until then.
    """

    sequence: int
    graph: int
    before: int | None
    state: int
    source: int
    destination: int
    position: int
    updated_at: Hlc
    logged_ms: int = 0

    @property
    def began(self) -> bool:
        """Whether the edge holds now and did not before."""
        return self.state == NORMAL and self.before != NORMAL

    @property
    def ended(self) -> bool:
        """Whether the edge held before and does not now."""
        return self.before == NORMAL and self.state != NORMAL


def user_changed(user: int, version: Hlc) -> Event:
    """The event that others may see a user's posts now, or no more."""
    return Event(0, 0, None, USER_CHANGED, user, 0, 0, version)
