"""Which changes a user is sent, and in which form: as the API would show them at that moment. Decided in batches.

So a change that was superseded is not sent: a user who reads the past gets the current state, and nothing that was
taken back since. Users are sent a deletion if they could see the record before it. Kinds that only the app may see
(accounts, media, imports) are never sent to users.
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
from kith.people.privacy import Privacy, is_visible_account
from kith.records.store import RecordKind, RecordStore
from kith.watch.changes import Change, EdgeChanged, PostChanged, RecordChanged

KINDS_OF_USERS = ("edge", "post", "story", "comment", "profile", "board")
_GONE = State.REMOVED.name.lower()


class EdgePolicy(Protocol):
    """Which edges a user may read: see `access.policy`."""

    def owns(self, user: NodeId, graph: int, source: int, destination: int) -> bool:
        """Whether a user may read this edge at all."""
        ...

    def shows_state(self, state: State) -> bool:
        """Whether a user may see that an edge has this state; if not, the edge is shown as removed."""
        ...


class ReadVisible(Protocol):
    """Reads records for a viewer: None for each that the viewer may not see."""

    def __call__(self, viewer: NodeId, ids: Sequence[int], *, deleted_too: bool) -> Awaitable[Sequence[Any]]:
        """`deleted_too`: read deleted records as if they were not deleted."""
        ...


class PendingChange(NamedTuple):
    """A change that a user asked for, before it is decided whether they may see it."""

    event: Event
    change: Change


class ChangeVisibility:
    """Decides which changes users are sent. `visible`: reads each kind of record for a viewer, except profiles."""

    def __init__(
        self,
        edges: EdgeStore,
        records: RecordStore,
        privacy: Privacy,
        policy: EdgePolicy,
        visible: Mapping[RecordKind, ReadVisible],
    ) -> None:
        self._edges, self._records, self._privacy, self._policy = edges, records, privacy, policy
        self._visible = {**visible, RecordKind.USER: self._profiles}

    def may_see(self, user: NodeId, event: Event) -> bool:
        """Whether a user may see an event, judged by the event alone; `visible_changes` decides in the end."""
        if event.state <= State.REMOVED:
            return self._policy.owns(user, event.graph, event.source, event.destination)
        return True

    async def visible_changes(
        self, user: NodeId, pending: Sequence[PendingChange], graphs: Graphs
    ) -> list[PendingChange]:
        """The changes that a user may see, in order, in the form for this user."""
        edges = [item for item in pending if isinstance(item.change, EdgeChanged)]
        visible: dict[int, Change] = {id(item): change for item, change in await self._of_edges(user, edges, graphs)}
        for kind in self._visible:
            record_changes = [
                item for item in pending if isinstance(item.change, RecordChanged) and item.event.source == kind
            ]
            if record_changes:
                visible |= {id(item): change for item, change in await self._of_records(user, kind, record_changes)}
        return [PendingChange(item.event, visible[id(item)]) for item in pending if id(item) in visible]

    async def _of_edges(
        self, user: NodeId, pending: Sequence[PendingChange], graphs: Graphs
    ) -> Iterable[tuple[PendingChange, Change]]:
        """The edge changes that are still current, and whose other end is not hidden."""
        current: set[tuple[int, ...]] = set()
        for graph in {item.event.graph for item in pending}:
            pairs = [(item.event.source, item.event.destination) for item in pending if item.event.graph == graph]
            rows = await self._edges.get_many(graph, list(dict.fromkeys(pairs)))
            current |= {(graph, row.source, row.destination, row.updated_at, row.state) for row in rows if row}
        person_events = [item.event for item in pending if item.event.graph not in graphs.to_objects]
        other_ids = list({event.destination if event.source == user else event.source for event in person_events})
        hidden = {
            id_ for id_, is_hidden in zip(other_ids, await self._privacy.hidden(other_ids), strict=True) if is_hidden
        }

        def is_shown(event: Event) -> bool:
            # the state, too: an edge that has expired keeps its version
            if (event.graph, event.source, event.destination, event.updated_at, event.state) not in current:
                return False
            return event.graph in graphs.to_objects or not hidden & {event.source, event.destination}

        return [(item, self._edge_for_user(item.change, item.event)) for item in pending if is_shown(item.event)]

    def _edge_for_user(self, change: Change, event: Event) -> Change:
        """The edge as the user may see it: states that the policy does not tell are shown as removed."""
        if not self._policy.shows_state(State(event.state)):
            change = msgspec.structs.replace(change, state=_GONE)
        if event.before is not None and not self._policy.shows_state(State(event.before)):
            change = msgspec.structs.replace(change, before=_GONE)
        return change

    async def _of_records(
        self, user: NodeId, kind: RecordKind, pending: Sequence[PendingChange]
    ) -> list[tuple[PendingChange, Change]]:
        """The record changes that are still current, and that the user may see."""
        records: dict[int, Any] = {}
        for deleted_too in (False, True):
            ids = {item.event.destination for item in pending if _is_deleted(item) is deleted_too}
            records |= await self._visible_records(user, kind, ids, deleted_too=deleted_too)
        readable_ids = sorted(records)
        # versions are read last and only grow, so a version equal to the event's is what was read above
        versions = {row.id: row.updated_at for row in await self._records.get_many(kind, readable_ids) if row}
        return [
            (item, _record_for_user(item.change, user, records[item.event.destination]))
            for item in pending
            if versions.get(item.event.destination) == item.event.updated_at
        ]

    async def _visible_records(
        self, user: NodeId, kind: RecordKind, ids: Collection[int], *, deleted_too: bool
    ) -> dict[int, Any]:
        sorted_ids = sorted(ids)
        records = await self._visible[kind](user, sorted_ids, deleted_too=deleted_too) if sorted_ids else ()
        return {id_: record for id_, record in zip(sorted_ids, records, strict=True) if record is not None}

    async def _profiles(self, viewer: NodeId, ids: Sequence[int], *, deleted_too: bool) -> Sequence[bool | None]:
        """True for users who exist for the viewer, and do not block them; else None."""
        questions = Questions()
        nodes = questions.nodes(ids)
        read_blocks = self._privacy.ask_blocks(questions, [(user, viewer) for user in ids])
        answers = await self._edges.answer(questions)
        rows = zip(ids, answers.nodes[nodes], read_blocks(answers), strict=True)
        return [
            True if is_visible_account(node, user, viewer) and (user == viewer or not is_blocked) else None
            for user, node, is_blocked in rows
        ]


def check_user_kinds(kinds: Collection[str], nodes: Collection[int]) -> Collection[str]:
    """The kinds that a user watches: those asked for, or by default only edges (their own).

    Errors: Forbidden for kinds that users may not watch; BadRequest for other kinds than edges without `nodes`.
    """
    kinds = kinds or ("edge",)
    refused = [kind for kind in kinds if kind not in KINDS_OF_USERS]
    if refused:
        raise Forbidden(f"a user token watches {', '.join(KINDS_OF_USERS)}; for {refused[0]} use a server key")
    if not nodes and any(kind != "edge" for kind in kinds):
        raise BadRequest(
            "name in `nodes` whose posts, stories, comments, profiles or boards you watch; all take a server key"
        )
    return kinds


def _is_deleted(item: PendingChange) -> bool:
    return isinstance(item.change, RecordChanged) and item.change.deleted


def _record_for_user(change: Change, user: NodeId, record: Any) -> Change:
    """A post without what only its author may see. `record`: as read for the user."""
    if not isinstance(change, PostChanged):
        return change
    own = change.author == str(user)
    return msgspec.structs.replace(
        change, audience=change.audience if own else [], labels=shown(record.labels, own=own)
    )
