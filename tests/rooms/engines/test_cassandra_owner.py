"""Owners of partitions of commands: stopped between any two of their steps, replaced, and resumed late.

Rows are in memory (`memory_rows`), and each write of one row is a step. At the end the rows of edges, both lists and
all counts must agree. Each command must have been published once, with the events that match the rows. With one
partition, the result must also equal that of in-memory references which decide one command after the other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import pytest
from cassandra_commands import NODES, owner_of, some_command
from cast import START_MS
from coroutines import run_without_loop
from edges import edge_of
from memory_rows import MemoryRows, advance
from reference_edges import ReferenceEdges
from reference_records import ReferenceRecords

from kith.core.errors import StoreUnavailable
from kith.core.events import NOWHERE, RECORD_CHANGED, Event
from kith.engines.cassandra.commands import AnyCommand
from kith.engines.cassandra.edge_commands import ForgetEdges, WriteEdges
from kith.engines.cassandra.owner import CassandraOwner, JournaledBatch
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.parts import UNDIVIDED, read_parts
from kith.engines.cassandra.row_batch import entry_row, listings_of, read_edge
from kith.engines.cassandra.row_commands import (
    ChangeNode,
    Conditional,
    ForgetRecords,
    PutNote,
    ReleaseClaim,
    TakeClaim,
    TakeClaims,
    WriteRecords,
)
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import RowChange, listed, of_node
from kith.graph.edge import REFUSED, Edge, EdgeChange, EdgeLimit, EdgeWrite, State, as_of
from kith.graph.graph import PRESENT
from kith.graph.shapes import ANY_NOTE, Node
from kith.log.commands import Command, DecidedCommand
from kith.log.store import Fenced
from kith.records.store import AtVersion, RecordKind

COMMANDS = 30
HISTORIES = 80


class Process:
    """An owner in a process: it becomes the only one that may publish, takes over, and decides what waits."""

    def __init__(self, world: World, partition: int) -> None:
        self._world, self._partition = world, partition
        self._owner = CassandraOwner(world.rows, world.partitions)
        self.call: Coroutine[Any, Any, None] = self._run()

    async def _run(self) -> None:
        part = self._world.parts[self._partition]
        part.publisher = self
        with suppress(Fenced, StoreUnavailable):
            self._publish(await self._owner.take(self._partition, part.place))
            while part.publisher is self and part.place < len(part.commands):
                self._publish(await self._owner.decide(self._partition, self._world.batch(part)))

    def _publish(self, decisions: Sequence[DecidedCommand]) -> None:
        """Append events and move the place, both or neither, unless another process became the publisher."""
        part = self._world.parts[self._partition]
        if part.publisher is not self:
            raise Fenced
        if decisions:
            assert decisions[0].offset == part.place
            part.published += decisions
            part.place = decisions[-1].offset + 1


class Part:
    """A partition of the log of commands."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, AnyCommand]] = []
        self.place = 0
        self.published: list[DecidedCommand] = []
        self.publisher: Process | None = None


class World:
    """Commands of some partitions, their rows, and the processes that decide them. All follows from the seed."""

    def __init__(self, seed: int, partitions: int) -> None:
        self.chance = random.Random(seed)
        self.rows, self.partitions = MemoryRows(), Partitions(partitions)
        self.parts = [Part() for _ in range(partitions)]
        now_ms = START_MS
        for _ in range(COMMANDS):
            now_ms += self.chance.random() < 0.2
            source = self.chance.choice(NODES)
            command = some_command(self.chance, source)
            self.parts[owner_of(command, source, self.partitions)].commands.append((now_ms, command))
        self.now_ms = now_ms

    def batch(self, part: Part) -> list[Command]:
        """Some of the waiting commands, all of one millisecond."""
        count, first_ms = self.chance.randint(1, 6), part.commands[part.place][0]
        numbered = list(enumerate(part.commands))[part.place : part.place + count]
        return [Command(n, ms, msgspec.msgpack.encode(command)) for n, (ms, command) in numbered if ms == first_ms]

    def run(self) -> None:
        """Start, pause and resume processes until everything is published."""
        asleep: list[Process] = []
        for number, part in enumerate(self.parts):
            for _ in range(self.chance.randint(1, 6)):  # each takes over from the last, which stops at some step
                process = Process(self, number)
                for _ in range(self.chance.randint(0, 60)):
                    if self.chance.random() < 0.05 and asleep:
                        self._wake(asleep)
                    if not advance(process.call):
                        break
                else:
                    asleep.append(process)  # killed, or only paused: it may resume later, or never
            while part.place < len(part.commands):  # a process that resumes before its first step takes over too
                process = Process(self, number)
                while advance(process.call):
                    if self.chance.random() < 0.05:
                        self._wake(asleep)
        while asleep:
            self._wake(asleep)

    def _wake(self, asleep: list[Process]) -> None:
        """Let a process that was replaced continue for some steps, or to its end."""
        if asleep:
            process = self.chance.choice(asleep)
            for _ in range(self.chance.randint(1, 40)):
                if not advance(process.call):
                    asleep.remove(process)
                    return


def stored_edges(rows: MemoryRows) -> dict[tuple[int, int, int], Edge]:
    return {
        (graph, source, destination): read_edge(graph, source, destination, values)
        for (source, graph, destination), values in rows.table("edges").items()
    }


def check_lists(rows: MemoryRows, partitions: Partitions) -> None:
    """Lists, counts and expiry rows follow from the rows of edges. Entries may stand in any part that is read."""
    divided = {key: read_parts(values) for key, values in rows.table("divisions").items()}
    entries, ending, expiring, counts = dict(rows.table("list_entries")), set(), set(), Counter[Any]()
    for edge in stored_edges(rows).values():
        owner = partitions.of_node(edge.source)
        for listing, end in listings_of(edge):
            places = divided.get(of_node(listing), UNDIVIDED).places(edge.position)
            values = [entries.pop(entry_row(listing, part, edge.position, end).key, None) for part in places]
            assert {value for value in values if value is not None} == {(edge.expires_ms,)}
            counts[(*of_node(listing), owner), 0] += 1
            if edge.expires_ms:
                ending.add((*listed(listing), edge.expires_ms, end))
                counts[(*of_node(listing), owner), 1] += 1
        if edge.expires_ms:
            expiring.add((owner, edge.expires_ms, edge.graph, edge.source, edge.destination))
    assert not entries
    assert set(rows.table("ending")) == ending
    assert set(rows.table("expiring")) == expiring
    stored = Counter({(key, i): n for key, values in rows.table("counts").items() for i, n in enumerate(values)})
    assert +stored == counts
    assert min(stored.values(), default=0) >= 0


def check_published(world: World) -> None:
    """Each command was published once, and the last published event of an edge matches its row."""
    forgotten = {
        (command.graph, *pair)
        for part in world.parts
        for _, command in part.commands
        if isinstance(command, ForgetEdges)
        for pair in command.pairs
    }
    for part in world.parts:
        assert [decision.offset for decision in part.published] == list(range(len(part.commands)))
        last: dict[tuple[int, int, int], Event] = {}
        for event in (event for item in part.published for event in item.events if event.state <= State.REMOVED):
            key = (event.graph, event.source, event.destination)
            before = last.get(key)
            assert key in forgotten or event.before == (None if before is None else before.state)
            last[key] = event
        stored = stored_edges(world.rows)
        for key, event in last.items():
            if key not in forgotten:
                edge = stored[key]
                assert (edge.state, edge.position, edge.updated_at) == (event.state, event.position, event.updated_at)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_rows_lists_counts_and_events_agree_whichever_process_stops(seed: int) -> None:
    world = World(seed, partitions=3)
    world.run()
    check_lists(world.rows, world.partitions)
    check_published(world)


class Model:
    """The result of one command after the other, by the references."""

    def __init__(self) -> None:
        self.edges = ReferenceEdges()
        self.edges.events.now_ms = lambda: self.now_ms
        self.records = ReferenceRecords(self.edges)
        self.now_ms = START_MS

    def answers(self, now_ms: int, command: AnyCommand) -> Any:
        self.now_ms = now_ms
        match command:
            case WriteEdges(writes, first_decides):
                return list(self._changes(writes, first_decides))
            case ForgetEdges(graph, pairs):
                return run_without_loop(self.edges.forget(graph, pairs))
            case ChangeNode(node, state, private, labels, only_from):
                changed = self.edges.change_node(node, state=state, private=private, labels=labels, only_from=only_from)
                return run_without_loop(changed).node
            case PutNote(name, note, conditional, only_if):
                return run_without_loop(self.edges.put_note(name, note, only_if=only_if if conditional else ANY_NOTE))
            case WriteRecords(records):
                return self._written(records)
            case ForgetRecords(kind, ids, _, versions):
                return run_without_loop(self.records.forget(kind, ids, versions))
            case TakeClaim(claim):
                return run_without_loop(self.records.put([], claim=claim)).claimed
            case TakeClaims(claims):
                return [run_without_loop(self.records.put([], claim=claim)).claimed for claim in claims]
            case ReleaseClaim(claim):
                if run_without_loop(self.records.claimed([claim])) == [claim.value]:
                    del self.records._claims[claim.key]
                return None
        run_without_loop(self.edges.count_many([]))  # removes what has expired by now
        return ...

    def _changes(self, writes: Sequence[EdgeWrite], first_decides: bool) -> Iterator[EdgeChange | None]:
        is_refused = False
        for index, write in enumerate(writes):
            if write.chained and is_refused:
                yield None
                continue
            (change,) = run_without_loop(self.edges.apply([write]))
            yield msgspec.structs.replace(change, log_position=NOWHERE)
            is_refused = change.outcome in REFUSED
            if first_decides and index == 0 and is_refused:
                return

    def _written(self, records: Sequence[Conditional]) -> int:
        for index, (record, version) in enumerate(records):
            only_if = [] if version is None else [AtVersion(record.kind, record.id, version)]
            if not run_without_loop(self.records.put([record], only_if=only_if)).stored:
                return index
        return len(records)


class Expected(NamedTuple):
    """What is stored; expired edges count as removed."""

    edges: dict[tuple[int, int, int], Edge]
    records: dict[tuple[int, int], tuple[int, bytes]]
    nodes: dict[int, Node]
    notes: dict[str, bytes]
    published_records: list[tuple[int, int, bytes]]


def left(world: World) -> Expected:
    rows = world.rows
    records = {key: (values[0], values[1]) for key, values in rows.table("records").items()}
    ids = {(kind, id_) for kind, _, _, id_ in rows.table("record_ids")}
    assert ids == {key for key in records if key[0] == RecordKind.NOTICE}
    return Expected(
        {key: as_of(edge, world.now_ms) for key, edge in stored_edges(rows).items()},
        records,
        {key[0]: Node(State(values[0]), *values[1:]) for key, values in rows.table("nodes").items()},
        {key[1]: values[0] for key, values in rows.table("notes").items()},
        [
            (event.source, event.destination, event.data)
            for decision in world.parts[0].published
            for event in decision.events
            if event.state == RECORD_CHANGED
        ],
    )


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_one_partition_equals_commands_decided_in_order_whichever_process_stops(seed: int) -> None:
    world = World(seed, partitions=1)
    world.run()
    check_lists(world.rows, world.partitions)
    check_published(world)
    model = Model()
    (part,) = world.parts
    for (now_ms, command), published in zip(part.commands, part.published, strict=True):
        answer = model.answers(now_ms, command)
        if isinstance(command, WriteEdges):
            assert msgspec.msgpack.decode(published.outcome, type=list[EdgeChange | None]) == answer
        elif answer is not ...:
            assert published.outcome == msgspec.msgpack.encode(answer), command
    nodes = {node: stored_node for node in NODES if (stored_node := model.edges._nodes.get(node, Node())) != Node()}
    result = left(world)
    assert {node: stored_node for node, stored_node in result.nodes.items() if stored_node != Node()} == nodes
    assert result.edges == {key: as_of(edge, world.now_ms) for key, edge in model.edges.rows.items()}
    assert result.notes == model.edges._notes
    rows = {(int(key[0]), key[1]): (record.updated_at, record.data) for key, record in model.records.records.items()}
    assert result.records == rows
    logged = [event for event in model.edges.events.all if event.state == RECORD_CHANGED]
    assert result.published_records == [(event.source, event.destination, event.data) for event in logged]


def test_a_command_of_a_newer_kith_changes_nothing_and_gets_an_empty_answer() -> None:
    world = World(0, partitions=1)
    owner = CassandraOwner(world.rows, world.partitions)
    run(owner.take(0, 0))
    known_command = msgspec.msgpack.encode(WriteEdges([EdgeWrite(edge_of(1, 2))]))
    commands = [b"\xc1", msgspec.msgpack.encode({"type": "of tomorrow"}), known_command]
    decisions = run(owner.decide(0, [Command(offset, START_MS, data) for offset, data in enumerate(commands)]))
    assert [bool(decision.outcome) for decision in decisions] == [False, False, True]
    assert set(stored_edges(world.rows)) == {(1, 1, 2)}


def test_a_batch_of_a_newer_kith_is_left_to_an_owner_who_knows_its_tables() -> None:
    """Nothing of the batch is written or published, so that owner finds it whole."""
    world = World(0, partitions=1)
    owner = CassandraOwner(world.rows, world.partitions)
    run(owner.take(0, 0))
    known_change = RowChange("edges", (1, 1, 2), (0, 3, 4, 0), 1)
    newer = JournaledBatch([DecidedCommand(0, b"done", [])], [known_change, RowChange("of_tomorrow", (5, 6), (7,), 1)])
    assert run(world.rows.write_journal(0, 1, msgspec.msgpack.encode(newer)))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"of a newer Kith.*of_tomorrow"):
            run(CassandraOwner(world.rows, world.partitions).take(0, 0))
        assert stored_edges(world.rows) == {}
    assert run(CassandraOwner(world.rows, world.partitions).take(0, 1)) == [], "it was published, so it was written"


class CountedRows(MemoryRows):
    """Records which rows are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.times = list[Key](), 0

    async def get(self, keys: Sequence[Key]) -> list[Values | None]:
        self.read += keys
        self.times += 1
        return await super().get(keys)


def test_one_read_gets_what_most_follows_need_and_a_second_the_rest() -> None:
    rows, partitions = CountedRows(), Partitions(1)

    def decided(offset: int, *writes: EdgeWrite) -> set[str]:
        """The tables that a new owner reads for these writes."""
        owner = CassandraOwner(rows, partitions)
        run(owner.take(0, 0))
        rows.read, rows.times = [], 0
        run(owner.decide(0, [Command(offset, START_MS, msgspec.msgpack.encode(WriteEdges(list(writes))))]))
        check_lists(rows, partitions)
        return {key.table for key in rows.read}

    follow = EdgeWrite(edge_of(1, 2, version=1), limit=EdgeLimit(10), unless=((2, 1, 2), (2, 2, 1)), if_active=True)
    no_request = EdgeWrite(
        msgspec.structs.replace(edge_of(1, 2, state=State.REMOVED), graph=3), only_from=PRESENT, chained=True
    )
    decided(0, follow, no_request)
    assert Counter(key.table for key in rows.read) == {
        "closed": 1, "edges": 4, "nodes": 2, "counts": 2, "divisions": 2
    }  # fmt: skip
    assert rows.times == 1
    unfollow = EdgeWrite(edge_of(1, 2, state=State.REMOVED, version=2), only_from=PRESENT)
    decided(1, unfollow, no_request)
    assert Counter(key.table for key in rows.read) == {
        "closed": 1, "edges": 2, "nodes": 2, "counts": 4, "divisions": 4
    }, "the lists that held the edge, and those that hold it now"  # fmt: skip
    assert rows.times == 1
    archived, removed = (
        edge_of(1, 2, state=state, version=3 + index) for index, state in enumerate((State.ARCHIVED, State.REMOVED))
    )
    decided(2, EdgeWrite(archived))
    decided(3, EdgeWrite(removed, only_from=PRESENT))
    assert rows.times == 2, "an edge from other lists needs a second read"
    assert stored_edges(rows)[1, 1, 2].state is State.REMOVED


def run(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call to its end without interruption; return its answer."""
    while True:
        try:
            call.send(None)
        except StopIteration as ended:
            return ended.value
