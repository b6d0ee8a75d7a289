"""Random commands of every kind for owners of partitions in Cassandra."""

from __future__ import annotations

import random

import msgspec
from cast import START_MS
from edges import edge_of

from kith.core.clock import Hlc, hlc_of
from kith.engines.cassandra.commands import AnyCommand
from kith.engines.cassandra.edge_commands import DivideList, EndEdges, ForgetEdges, ListEdges, WriteEdges
from kith.engines.cassandra.partitions import Partitions
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
from kith.graph.edge import Direction, Edge, EdgeLimit, EdgeWrite, State
from kith.graph.shapes import Listing
from kith.records.store import Claim, Record, RecordKind

NODES = range(1, 6)


def some_limit(chance: random.Random) -> EdgeLimit:
    states = chance.sample(list(State), chance.randint(1, 2))
    return EdgeLimit(chance.randint(0, 3), chance.choice(list(Direction)), tuple(states))


def some_edge(chance: random.Random, source: int | None = None) -> Edge:
    ends = chance.choice(NODES) if source is None else source, chance.choice(NODES)
    edge = edge_of(*ends, chance.randint(-2, 2), chance.choice([*State, State.NORMAL]), chance.randint(0, 9))
    expires_ms = START_MS + chance.randint(0, 10) if edge.state != State.REMOVED and chance.random() < 0.3 else 0
    return msgspec.structs.replace(edge, expires_ms=expires_ms)


def some_write(chance: random.Random, source: int) -> EdgeWrite:
    def maybe() -> bool:
        return chance.random() < 0.3

    return EdgeWrite(
        some_edge(chance, source),
        supersede=maybe(),
        keep_place=maybe(),
        keep_expiry=maybe(),
        chained=maybe(),
        if_active=maybe(),
        keep_live=maybe(),
        only_from=frozenset(chance.sample(list(State), 2)) if maybe() else None,
        if_public=maybe(),
        while_node=(chance.choice(NODES), chance.choice(list(State))) if chance.random() < 0.1 else None,
        unless=((1, chance.choice(NODES), chance.choice(NODES)),) if maybe() else (),
        limit=some_limit(chance) if maybe() else None,
        counted=chance.choice(list(Direction)) if maybe() else None,
        while_edge=(1, source, chance.choice(NODES), maybe()) if maybe() else None,
    )


def some_record(chance: random.Random) -> Record:
    kind = chance.choice([RecordKind.POST, RecordKind.NOTICE])
    return Record(
        kind, chance.randint(1, 3), Hlc(hlc_of(START_MS) + chance.randint(1, 3)), bytes([chance.randint(0, 2)])
    )


def some_claim(chance: random.Random) -> Claim:
    return Claim(b"%016d" % chance.randint(0, 1), bytes([chance.randint(0, 2)]), START_MS + chance.randint(0, 4), 3)


def some_command(chance: random.Random, source: int) -> AnyCommand:
    pairs = [(source, chance.choice(NODES)) for _ in range(2)]
    match chance.randint(0, 15):
        case 0:
            return ForgetEdges(1, pairs[:1])
        case 1:
            return EndEdges([(1, *pair) for pair in pairs])
        case 2:
            return ListEdges([(1, *pair) for pair in pairs])
        case 3 | 4:
            state = chance.choice([None, *State])
            return ChangeNode(
                source, state, chance.choice([None, True, False]), only_from=chance.choice([None, *State])
            )
        case 5:
            return PutNote("n", chance.choice([None, b"a", b"b"]), chance.random() < 0.5, chance.choice([None, b"a"]))
        case 6 | 7:
            versions = [None, 0, hlc_of(START_MS) + 1, hlc_of(START_MS) + 2]
            record = some_record(chance)
            next_one = msgspec.structs.replace(some_record(chance), kind=record.kind, id=record.id)
            return WriteRecords([Conditional(one, chance.choice(versions)) for one in (record, next_one)])
        case 8:
            claim, more = some_claim(chance), some_claim(chance)
            several = TakeClaims([claim, more._replace(key=claim.key)])
            return chance.choice([TakeClaim(claim), ReleaseClaim(claim), several])
        case 9:
            return ForgetRecords(RecordKind.NOTICE, [chance.randint(1, 3)])
        case 10:
            listing = Listing(1, source, chance.choice(list(Direction)), chance.choice([State.NORMAL, State.REMOVED]))
            return DivideList(listing, chance.randint(-1, 2))
        case _:
            writes = [some_write(chance, source) for _ in range(chance.randint(1, 3))]
            return WriteEdges(writes, first_decides=chance.random() < 0.2)


def owner_of(asked: AnyCommand, source: int, partitions: Partitions) -> int:
    match asked:
        case WriteRecords([(record, _), *_]):
            return partitions.of_record(record.kind, record.id)
        case ForgetRecords(kind, [id_, *_]):
            return partitions.of_record(kind, id_)
        case PutNote(name):
            return partitions.of_note(name)
        case TakeClaim(claim) | ReleaseClaim(claim):
            return partitions.of_claim(claim.key)
        case TakeClaims([claim, *_]):
            return partitions.of_claim(claim.key)
    return partitions.of_node(source)
