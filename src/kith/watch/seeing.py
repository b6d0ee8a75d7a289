"""Which changes a user is told, and how: as the API would show them at that moment. Decided in batches.

So a later change replaces the earlier ones: a reader of the past is told how things are now, and not what was taken
back since. Users are told of a deletion if they could see the record before. Kinds that only the app may know of
(accounts, media, imports) are not told to users at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from kith.core.errors import BadRequest, Forbidden
from kith.core.events import Event
from kith.core.ids import NodeId
from kith.core.labels import shown
from kith.graph.edge import State
from kith.graph.graphs import Graphs
from kith.graph.questions import Questions
from kith.graph.store import EdgeStore
from kith.people.privacy import Privacy, is_there
from kith.records.store import RecordKind, RecordStore
from kith.watch.told import Change, EdgeTold, PostTold, RecordTold

KINDS_OF_USERS = ("edge", "post", "story", "comment", "profile", "board")
_GONE = State.REMOVED.name.lower()


class EdgePolicy(Protocol):
    """Which edges a user reads: see `access.policy`."""

    def owns(self, user: NodeId, graph: int, source: int, destination: int) -> bool:
        """Whether a user may read this edge at all."""
        ...

    def tells(self, state: State) -> bool:
        """Whether a user is told that an edge has this state; else it is gone."""
        ...


class Visible(Protocol):
    """Which of some records a viewer may see: each as it is read for them, None for others."""

    def __call__(self, viewer: NodeId, ids: Sequence[int], *, deleted_too: bool) -> Awaitable[Sequence[Any]]:
        """`deleted_too`: as if none was deleted."""
        ...


class Pending(NamedTuple):
    """A change that a user asked for, before it is decided whether they are told."""

    event: Event
    change: Change


class Seeing:
    """Decides what users are told. `visible`: how each kind of record is read for a viewer, but for profiles."""

    def __init__(
        self,
        edges: EdgeStore,
        records: RecordStore,
        privacy: Privacy,
        policy: EdgePolicy,
        visible: Mapping[RecordKind, Visible],
    ) -> None:
        self._edges, self._records, self._privacy, self._policy = edges, records, privacy, policy
        self._visible = {**visible, RecordKind.USER: self._profiles}

    def may_see(self, user: NodeId, event: Event) -> bool:
        """Whether an event may be told to a user, as far as it says by itself."""
        if event.state <= State.REMOVED:
            return self._policy.owns(user, event.graph, event.source, event.destination)
        return True

    async def seen(self, user: NodeId, pending: Sequence[Pending], graphs: Graphs) -> list[Pending]:
        """The changes that a user may see, in their order, as this user is told them."""
        edges = [one for one in pending if isinstance(one.change, EdgeTold)]
        told: dict[int, Change] = {id(one): change for one, change in await self._of_edges(user, edges, graphs)}
        for kind in self._visible:
            ours = [one for one in pending if isinstance(one.change, RecordTold) and one.event.source == kind]
            if ours:
                told |= {id(one): change for one, change in await self._of_records(user, kind, ours)}
        return [Pending(one.event, told[id(one)]) for one in pending if id(one) in told]

    async def _of_edges(
        self, user: NodeId, pending: Sequence[Pending], graphs: Graphs
    ) -> Iterable[tuple[Pending, Change]]:
        """Edges as they are now, whose other end the app does not hide."""
        current: set[tuple[int, int, int, int]] = set()
        for graph in {one.event.graph for one in pending}:
            pairs = [(one.event.source, one.event.destination) for one in pending if one.event.graph == graph]
            rows = await self._edges.get_many(graph, list(dict.fromkeys(pairs)))
            current |= {(graph, row.source, row.destination, row.updated_at) for row in rows if row is not None}
        people = [one.event for one in pending if one.event.graph not in graphs.to_objects]
        others = list({event.destination if event.source == user else event.source for event in people})
        hidden = {other for other, hid in zip(others, await self._privacy.hidden(others), strict=True) if hid}
        return [
            (one, self._edge_as_told(one.change, one.event))
            for one in pending
            if (one.event.graph, one.event.source, one.event.destination, one.event.updated_at) in current
            and (one.event.graph in graphs.to_objects or not hidden & {one.event.source, one.event.destination})
        ]

    def _edge_as_told(self, change: Change, event: Event) -> Change:
        """The edge as the user is told it: not whether somebody took it back or left."""
        if not self._policy.tells(State(event.state)):
            change = msgspec.structs.replace(change, state=_GONE)
        if event.before is not None and not self._policy.tells(State(event.before)):
            change = msgspec.structs.replace(change, before=_GONE)
        return change

    async def _of_records(
        self, user: NodeId, kind: RecordKind, pending: Sequence[Pending]
    ) -> list[tuple[Pending, Change]]:
        """Records as they are now, that the user may see."""
        found: dict[int, Any] = {}
        for deleted_too in (False, True):
            ids = {one.event.destination for one in pending if _is_deleted(one) is deleted_too}
            found |= await self._visible_records(user, kind, ids, deleted_too=deleted_too)
        there = sorted(found)
        # read last: versions grow, so what was decided on above is what the event tells
        versions = {row.id: row.updated_at for row in await self._records.get_many(kind, there) if row}
        return [
            (one, _record_as_told(one.change, user, found[one.event.destination]))
            for one in pending
            if versions.get(one.event.destination) == one.event.updated_at
        ]

    async def _visible_records(
        self, user: NodeId, kind: RecordKind, ids: Collection[int], *, deleted_too: bool
    ) -> dict[int, Any]:
        asked = sorted(ids)
        read = await self._visible[kind](user, asked, deleted_too=deleted_too) if asked else ()
        return {id_: one for id_, one in zip(asked, read, strict=True) if one is not None}

    async def _profiles(self, viewer: NodeId, ids: Sequence[int], *, deleted_too: bool) -> Sequence[bool | None]:
        """True for users who are there for the viewer, and do not block them."""
        questions = Questions()
        nodes = questions.nodes(ids)
        bars = self._privacy.ask_blocks(questions, [(user, viewer) for user in ids])
        answers = await self._edges.answer(questions)
        rows = zip(ids, answers.nodes[nodes], bars(answers), strict=True)
        return [
            True if is_there(node, user, viewer) and (user == viewer or not bar) else None for user, node, bar in rows
        ]


def check_wish(kinds: Collection[str], nodes: Collection[int]) -> Collection[str]:
    """The kinds that a user watches, given those they asked for; by default edges of their own.

    Errors: Forbidden for kinds that users are not told; BadRequest where nobody is named whose posts are watched.
    """
    kinds = kinds or ("edge",)
    strange = [kind for kind in kinds if kind not in KINDS_OF_USERS]
    if strange:
        raise Forbidden(f"a user token watches {', '.join(KINDS_OF_USERS)}; for {strange[0]} use a server key")
    if not nodes and any(kind != "edge" for kind in kinds):
        raise BadRequest(
            "name in `nodes` whose posts, stories, comments, profiles or boards you watch; all take a server key"
        )
    return kinds


def _is_deleted(one: Pending) -> bool:
    return isinstance(one.change, RecordTold) and one.change.deleted


def _record_as_told(change: Change, user: NodeId, read: Any) -> Change:
    """Without what only its author is told. `read`: the record as it is read for the user."""
    if not isinstance(change, PostTold):
        return change
    own = change.author == str(user)
    return msgspec.structs.replace(change, audience=change.audience if own else [], labels=shown(read.labels, own=own))
