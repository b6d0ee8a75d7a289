"""The filter of a watcher or webhook: which changes it asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kith.core.errors import BadRequest
from kith.core.events import Event
from kith.graph.edge import State
from kith.graph.graphs import Graphs
from kith.watch.changes import KINDS, Change, concerns, kind_of

NODES_MAX = 1_000
_REMOVED = int(State.REMOVED)


class ChangeFilter(NamedTuple):
    """A filter: changes of these kinds, edges of these graphs, changes about these nodes; None: any.

    A filter for edges also lets through that a graph was bulk-loaded (`GraphImported`).
    """

    kinds: frozenset[str]
    graphs: frozenset[int] | None = None
    nodes: frozenset[str] | None = None

    def candidates(self, events: Iterable[Event]) -> list[Event]:
        """The events that may be wanted; see `may_match`."""
        if self.nodes is not None or self.graphs is not None:
            return [event for event in events if self.may_match(event)]
        edges = "edge" in self.kinds  # a fast path: most events are edges, and the state alone tells
        return [event for event in events if (edges if event.state <= _REMOVED else self.may_match(event))]

    def may_match(self, event: Event) -> bool:
        """Whether an event may be wanted, judged by the event alone; `matches` decides by the change."""
        kind = kind_of(event)
        if kind is None or not (kind in self.kinds or (kind == "loaded" and "edge" in self.kinds)):
            return False
        if kind not in ("edge", "loaded"):
            return True
        if self.graphs is not None and event.graph not in self.graphs:
            return False
        if kind == "loaded" or self.nodes is None:
            return True
        return str(event.source) in self.nodes or str(event.destination) in self.nodes

    def matches(self, change: Change) -> bool:
        """Whether a change whose event may be wanted is wanted."""
        return self.nodes is None or concerns(change, self.nodes)


def filter_of(kinds: Collection[str], graphs: Collection[str], nodes: Collection[int], known: Graphs) -> ChangeFilter:
    """Build a filter from names. Without any names: everything. With graphs but no kinds: edges.

    Errors: UnknownGraph; BadRequest for an unknown kind, and for more than NODES_MAX nodes.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise BadRequest(f"there is no kind {kind!r}; there are {', '.join(KINDS)}", kinds=list(KINDS))
    if len(nodes) > NODES_MAX:
        raise BadRequest(f"nodes takes at most {NODES_MAX} ids; watch all, and choose", max=NODES_MAX)
    return ChangeFilter(
        frozenset(kinds or (("edge",) if graphs else KINDS)),
        frozenset(map(known.number, graphs)) if graphs else None,
        frozenset(map(str, nodes)) if nodes else None,
    )
