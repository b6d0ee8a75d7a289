"""/console/...: shows stored data as it is stored: records, edges with both of their lists, consumers of the log, dead
events and jobs.

Server keys only. Nothing is hidden for privacy, except secrets that are part of addresses.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kith.api.answers import Time
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import GraphName, Id
from kith.api.presenter import time_of
from kith.core.clock import ms_of, wall_ms
from kith.core.errors import NotFound
from kith.core.ids import NodeId
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.node_jobs import NodeJobs
from kith.graph.shapes import EdgeEnds, Listing
from kith.log.runner import dead, drop, lag_of, replay
from kith.log.store import Failure, LogStore
from kith.media.media import Media
from kith.people.profiles import Profile
from kith.posts.comment import Comment
from kith.posts.labels import Labels
from kith.posts.post import Post
from kith.records.store import Record, RecordKind, RecordStore

DEAD_SHOWN_MAX = 200
"""Most dead events of a consumer in one answer; `dead` of its `GroupAnswer` is the full number."""
JOBS_SHOWN_MAX = 200
_SAFE_MAX = 2**53
_SECRETS = {"secret"}
"""Fields whose values are never shown."""
_TYPES: dict[RecordKind, Any] = {
    RecordKind.USER: Profile,
    RecordKind.POST: Post,
    RecordKind.COMMENT: Comment,
    RecordKind.MEDIA: Media,
    RecordKind.POST_LABELS: Labels,
    RecordKind.USER_LABELS: Labels,
    RecordKind.STORY: Post,
}
"""The type of the data in records whose key is an id. Records of usernames are missing: their key is a hash."""


class StoredRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A record. `version`: its hybrid clock value. `data`: its fields by name."""

    kind: str
    version: str
    changed_at: Time
    data: dict[str, Any]


class StoredList(msgspec.Struct, frozen=True):
    """A list of the node that is not empty. `count`: the stored count."""

    graph: str
    direction: str
    state: str
    count: int


class StoredAnswer(msgspec.Struct, frozen=True):
    """Everything stored under an id: the node, records of all kinds, lists of all graphs."""

    id: str
    state: str
    private: bool
    labels: int
    records: list[StoredRecord]
    lists: list[StoredList]


class StoredEdge(msgspec.Struct, frozen=True, rename="camel"):
    """The row of an edge, and whether the list at each end has the same edge."""

    graph: str
    source: str
    destination: str
    state: str
    position: str
    updated_at: str
    changed_at: Time
    in_out_list: bool
    in_in_list: bool


class StoredEdges(msgspec.Struct, frozen=True):
    """An edge and the edge in the opposite direction; null if there is no row."""

    edge: StoredEdge | None
    opposite: StoredEdge | None


class GroupAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A consumer: its lag, and the numbers of events that it is retrying (`failing`) and has given up (`dead`).
    `oldest_s`: null if the age of the oldest unread event is unknown.
    """

    name: str
    started: bool
    lag_events: int
    oldest_s: float | None
    failing: int
    dead: int


class LeaseAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A lease of the log: it keeps all events after some position until a time. `behind_events`: how many events that
    is.
    """

    name: str
    until: Time
    lost: bool
    behind_events: int


class DeadEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An event that a consumer gave up. Its `group` and `mark` identify it."""

    group: str
    mark: str
    tries: int
    error: str
    failed_at: Time
    event: dict[str, Any]


class LogAnswer(msgspec.Struct, frozen=True):
    """The consumers of the log, its leases, and the dead events."""

    groups: list[GroupAnswer]
    leases: list[LeaseAnswer]
    dead: list[DeadEvent]


class ShownJob(msgspec.Struct, frozen=True):
    """A bulk operation on a node's edges."""

    id: str
    operation: str
    node: str
    edges: int
    done: bool


class JobsAnswer(msgspec.Struct, frozen=True):
    """Running jobs come first. `count`: all jobs, also those not listed."""

    items: list[ShownJob]
    count: int


class StoredResource:
    """Reads of stored data. `groups`: the names of the registered consumers."""

    def __init__(
        self, graph: Graph, records: RecordStore, log: LogStore, jobs: NodeJobs, groups: Sequence[str]
    ) -> None:
        self._graph, self._records, self._log, self._jobs, self._groups = graph, records, log, jobs, groups

    @get("/console/stored/{object_id}", "An id as stored", absolute=True, callers="server", documented=False)
    async def stored(self, call: Call, object_id: Id) -> StoredAnswer:
        """An id may be a user, a post, a comment or several of these at once."""
        (node,) = await self._graph.store.nodes([object_id])
        records = [(await self._records.get_many(kind, [object_id]))[0] for kind in _TYPES]
        return StoredAnswer(
            str(object_id),
            node.state.name.lower(),
            node.private,
            node.labels,
            [_record(record) for record in records if record is not None],
            await self._lists(object_id),
        )

    @get(
        "/console/stored/{graph}/{source}/{destination}",
        "An edge as stored",
        absolute=True,
        callers="server",
        documented=False,
    )
    async def stored_edge(self, call: Call, graph: GraphName, source: Id, destination: Id) -> StoredEdges:
        """The row and both list entries of the edge, and the same for the edge in the opposite direction."""
        pairs = [(source, destination), (destination, source)]
        forward, back = await self._graph.store.ends(self._graph.graphs.number(graph), pairs)
        return StoredEdges(_edge(graph, forward), _edge(graph, back))

    @get(
        "/console/log",
        "Consumers of the log, leases and dead events",
        absolute=True,
        callers="server",
        documented=False,
    )
    async def log_readers(self, call: Call) -> LogAnswer:
        """Consumers with their lag, leases, dead events."""
        groups, dead_events = [], []
        for name in self._groups:
            failures = await self._log.failures(name)
            progress = await self._log.progress(name)
            lag = None if progress is None else lag_of(progress.behind, wall_ms())
            dead_failures = [failure for failure in failures if failure.dead]
            dead_events += [self._dead(failure) for failure in dead_failures[:DEAD_SHOWN_MAX]]
            groups.append(
                GroupAnswer(
                    name,
                    lag is not None,
                    lag.events if lag else 0,
                    lag.oldest_s if lag and math.isfinite(lag.oldest_s) else None,
                    len(failures) - len(dead_failures),
                    len(dead_failures),
                )
            )
        leases = [
            LeaseAnswer(lease.name, time_of(lease.until_ms), lease.lost, (await self._log.behind(lease.at)).events)
            for lease in await self._log.leases()
        ]
        return LogAnswer(groups, leases, dead_events)

    @post(
        "/console/dead/{group}/{mark}/replay",
        "Replay",
        absolute=True,
        callers="server",
        status=204,
        documented=False,
    )
    async def replay_dead(self, call: Call, group: str, mark: str) -> None:
        """Retries a dead event. A running worker picks it up within seconds."""
        await replay(self._log, await self._chosen(group, mark))

    @delete("/console/dead/{group}/{mark}", "Drop", absolute=True, callers="server", status=204, documented=False)
    async def drop_dead(self, call: Call, group: str, mark: str) -> None:
        """Deletes a dead event for good."""
        await drop(self._log, await self._chosen(group, mark))

    @get("/console/jobs", "Bulk operations", absolute=True, callers="server", documented=False)
    async def jobs(self, call: Call) -> JobsAnswer:
        """Running jobs, and jobs that finished within the last day."""
        jobs = sorted(await self._jobs.known(), key=lambda job: (job.done, -job.finished_at, job.id))
        items = [
            ShownJob(job.id, job.operation.value, str(job.node), job.edges, job.done) for job in jobs[:JOBS_SHOWN_MAX]
        ]
        return JobsAnswer(items, len(jobs))

    async def _chosen(self, group: str, mark: str) -> Failure:
        failure = (await dead(self._log, group)).get(f"{group}/{mark}") if group in self._groups else None
        if failure is None:
            raise NotFound("there is no such dead event; it was replayed or dropped, or it is handled by now")
        return failure

    async def _lists(self, node: NodeId) -> list[StoredList]:
        """The lists of a node that are not empty, in every graph, direction and state."""
        graphs = self._graph.graphs
        listings = [
            Listing(graphs.number(name), node, direction, state)
            for name in graphs.names()
            for direction in Direction
            for state in State
        ]
        counts = await self._graph.store.count_many(listings)
        return [
            StoredList(graphs.name(listing.graph), listing.direction.name.lower(), listing.state.name.lower(), count)
            for listing, count in zip(listings, counts, strict=True)
            if count
        ]

    def _dead(self, failure: Failure) -> DeadEvent:
        event, graphs = failure.event, self._graph.graphs
        fields = _plain({name: getattr(event, name) for name in ("source", "destination", "position", "updated_at")})
        states = {state.value: state.name.lower() for state in State}
        fields["graph"] = graphs.name(event.graph) if graphs.knows([event.graph]) else str(event.graph)
        fields["state"] = states.get(event.state, f"kind {event.state}")
        return DeadEvent(
            failure.group, event.log_position.hex(), failure.tries, failure.error, time_of(failure.failed_at_ms), fields
        )


def _record(record: Record) -> StoredRecord:
    value = msgspec.msgpack.decode(record.data, type=_TYPES[record.kind])
    changed_at = time_of(ms_of(record.updated_at))
    return StoredRecord(record.kind.name.lower(), str(record.updated_at), changed_at, _plain(value))


def _edge(graph: str, ends: EdgeEnds | None) -> StoredEdge | None:
    if ends is None:
        return None
    edge = ends.edge
    return StoredEdge(
        graph, str(edge.source), str(edge.destination), edge.state.name.lower(), str(edge.position),
        str(edge.updated_at), time_of(ms_of(edge.updated_at)), ends.in_out_list, ends.in_in_list,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """A stored value as JSON: fields by name, integers above 2^53 as strings because JavaScript would round them, no
    secrets.
    """
    match value:
        case msgspec.Struct():
            return _plain({name: getattr(value, name) for name in value.__struct_fields__})
        case tuple() if hasattr(value, "_asdict"):
            return _plain(value._asdict())
        case Mapping():
            return {str(name): "(hidden)" if name in _SECRETS else _plain(part) for name, part in value.items()}
        case enum.Enum():
            return value.name.lower()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case int() if not isinstance(value, bool) and abs(value) >= _SAFE_MAX:
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(part) for part in value]
    return value
