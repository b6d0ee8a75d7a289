"""Replays the log of one store into another, in order. Replaying a part of it again is harmless.

Changes between two events that forget rows are written in batches. The order within a batch does not matter for edges
and records, because the greater version wins; of a node's or a claim's changes, only the last is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from kith.core.clock import Hlc
from kith.core.errors import TokenTooOld
from kith.core.events import (
    BULK_LOADED,
    EDGE_FORGOTTEN,
    NODE_CHANGED,
    RECORD_CHANGED,
    RECORD_FORGOTTEN,
    RECORDS_FORGOTTEN,
    USER_CHANGED,
    Event,
    LogPosition,
    changed_node,
    ends_ms,
)
from kith.core.ids import NodeId
from kith.graph.edge import Edge, State
from kith.graph.shapes import Node
from kith.moving.contents import NodeRow
from kith.moving.store_writer import StoreSide, StoreWriter
from kith.notifications.inbox import PERIOD_MS, InboxRow, period_of
from kith.notifications.notice import read_notice
from kith.records.store import Record, RecordKind

EVENTS = 2_000
"""Events of a step."""
_FORGET = (EDGE_FORGOTTEN, RECORD_FORGOTTEN, RECORDS_FORGOTTEN)
_FORGET_BATCH = 1_000


class BulkLoaded(Exception):
    """A graph was bulk-loaded: its edges are not in the log one by one, and must be copied again."""


class LogReplay:
    """Replays the log of `source` into `target`, from a position on.

    `at`: the position up to which all events are replayed. `newest`: the greatest version among them.
    `mentions_to_copy`: the notices of mentions whose inbox rows were written to followers meanwhile.
    """

    def __init__(self, source: StoreSide, target: StoreSide, writer: StoreWriter, position: LogPosition) -> None:
        self._source, self._target, self._writer, self.at = source, target, writer, position
        self.mentions_to_copy: set[int] = set()
        self.newest = Hlc(0)

    async def step(self) -> int:
        """Replay the next events after `at`; returns how many they were, 0 at the end of the log.

        Errors: TokenTooOld if events were forgotten before they were read; BulkLoaded.
        """
        batch = await self._source.log.read(self.at, EVENTS)
        if batch.lost:
            raise TokenTooOld(
                "the log forgot events before they were moved; restart the move into an empty keyspace, with a "
                "greater `log_lease_hours` or `log_leased_bytes_max`"
            )
        for run in _runs(batch.events):
            await (self._forget(run) if run[0].state in _FORGET else self._write(run))
        self.newest = max([self.newest, *(event.updated_at for event in batch.events)])
        if any(event.state == BULK_LOADED for event in batch.events):
            self.at = batch.next
            raise BulkLoaded
        self.at = batch.next
        return len(batch.events)

    async def _write(self, events: Sequence[Event]) -> None:
        """Replay events that forget nothing."""
        edges = [edge_of(event) for event in events if event.state <= State.REMOVED]
        records = [_record_of(event) for event in events if event.state == RECORD_CHANGED]
        nodes = {event.source: _node_of(event) for event in events if event.state == NODE_CHANGED}
        claims = {claim.key: claim for claim in map(self._source.contents.claimed_by, events) if claim is not None}
        await self._writer.edges(edges)
        await self._writer.inbox_rows([row for record in records for row in _inbox_rows_of(record)])
        await self._writer.records(records)
        await self._writer.claims(list(claims.values()))
        await self._writer.nodes(list(nodes.values()))
        for node in nodes.values():
            if node.node.state == State.REMOVED:
                await self._target.inboxes.remove_all(node.id)
        for event in events:
            if event.state == USER_CHANGED:
                await self._target.log.announce(event)
        self.mentions_to_copy |= {record.id for record in records if record.kind is RecordKind.MENTION_OUTCOME}

    async def _forget(self, events: Sequence[Event]) -> None:
        """Replay events of one kind that forget rows."""
        kind, records = events[0].state, self._target.records
        if kind == EDGE_FORGOTTEN:
            by_graph = sorted(events, key=attrgetter("graph"))
            for graph, group in groupby(by_graph, attrgetter("graph")):
                await self._target.edges.forget(graph, [(event.source, event.destination) for event in group])
        elif kind == RECORD_FORGOTTEN:
            for number, group in groupby(sorted(events, key=attrgetter("source")), attrgetter("source")):
                await records.forget(RecordKind(number), [event.destination for event in group])
        else:
            for event in events:
                below = event.destination
                if event.source == RecordKind.NOTICE:  # notices expire by whole periods, after their inbox rows
                    await self._target.inboxes.expire((period_of(below - 1) + 1) * PERIOD_MS)
                while await records.forget_below(
                    RecordKind(event.source), below, _FORGET_BATCH
                ) == _FORGET_BATCH:  # fmt: skip
                    pass


def edge_of(event: Event) -> Edge:
    """The edge that an event records."""
    return Edge(
        event.graph,
        NodeId(event.source),
        NodeId(event.destination),
        State(event.state),
        event.position,
        event.updated_at,
        ends_ms(event),
    )


def _runs(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Split events, in order, into runs that can each be replayed as one batch."""
    for _, run in groupby(events, lambda event: event.state if event.state in _FORGET else None):
        yield list(run)


def _record_of(event: Event) -> Record:
    return Record(RecordKind(event.source), event.destination, event.updated_at, event.data)


def _node_of(event: Event) -> NodeRow:
    state, private, labels = changed_node(event)
    return NodeRow(event.source, Node(State(state), private, labels))


def _inbox_rows_of(record: Record) -> list[InboxRow]:
    """The inbox row of a notice's recipient. Rows of followers (of a mention) are looked up later, see
    `mentions_to_copy`.
    """
    if record.kind is not RecordKind.NOTICE:
        return []
    notice = read_notice(record.data)
    return [] if notice is None else [InboxRow(notice.recipient, record.id)]  # None: written by a newer Kith
