"""Makes a store from the log of another: what the other had when each event was logged, this one has in the end.

The log goes on from what the target has, so a target may be empty, or a backup that is brought up to date. See
`segments` for how, and for what is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from kith.engines.embedded import segments
from kith.engines.embedded.environment import Environment

BYTES_A_SEGMENT = 1 << 20
"""Of the log, in a commit: some 80,000 edges, since the more are done together, the fewer pages are written twice."""


def rebuild(source: Environment, target: Environment, progress: Callable[[int], None] = lambda _: None) -> int:
    """Do all that the log of `source` holds beyond that of `target`; how many events that were. May be repeated.

    `progress`: told of the events done so far. Errors: Conflict; StoreFull, StoreUnavailable, after which it goes on
    where it was when it is called again.
    """
    began = at = segments.last_event(target)
    end: int | None = None
    while end is None or at < end:
        segment = segments.take(source, at, BYTES_A_SEGMENT)
        end = segment.end if end is None else end
        at = segments.do(target, segment)
        progress(at - began)
    return at - began
