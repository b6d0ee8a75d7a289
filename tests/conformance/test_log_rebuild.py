"""A store rebuilt from the log of any engine alone gives the same answers as the original.

An engine with rows and log in one place does this with less work (`engines/embedded/rebuild.py`). It also rebuilds
notes
and claims, whose events only it can read.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from cast import START_MS, FakeClock
from coroutines import Run
from edges import G, all_pages, edge_in, edge_of, writes_of
from engines import Engine
from store_types import EngineStores

from kith.core.clock import hlc_of
from kith.core.events import (
    NODE_CHANGED,
    NOWHERE,
    RECORD_CHANGED,
    RECORD_FORGOTTEN,
    RECORDS_FORGOTTEN,
    Event,
    changed_node,
)
from kith.core.paging import Mark
from kith.graph.edge import Direction, State
from kith.graph.shapes import Listing
from kith.records.store import AtVersion, Record, RecordKind

PORT = "whole"
NODES, IDS = range(1, 8), range(1, 13)
KINDS = (RecordKind.POST, RecordKind.COMMENT, RecordKind.STORY)
PAIRS = [pair for pair in product(NODES, repeat=2) if pair[0] != pair[1]]


class History:
    """Random writes through the ports. Each has its own version, and some are late."""

    def __init__(self, stores: EngineStores, seed: int) -> None:
        self._whole, self._chosen, self._made = stores, random.Random(seed), 0

    async def step(self) -> None:
        chosen, edges, records = self._chosen, self._whole.edges, self._whole.records
        self._made += 1
        version = self._made - (chosen.randrange(30) if chosen.random() < 0.2 else 0)
        kind, id_ = chosen.choice(KINDS), chosen.choice(IDS)
        match chosen.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                state = chosen.choice((State.NORMAL, State.NORMAL, State.REMOVED, State.ARCHIVED))
                edge = edge_of(*chosen.choice(PAIRS), START_MS + chosen.randrange(50), state, version)
                await edges.apply(writes_of(edge))
            case 5 | 6 | 7 | 8:
                record = Record(kind, id_, hlc_of(START_MS + version), f"{self._made}".encode())
                (stored,) = await records.get_many(kind, [id_])
                was = AtVersion(kind, id_, 0 if stored is None else stored.updated_at)
                edge = edge_of(*chosen.choice(PAIRS), version=version)
                await records.put([record], writes_of(edge), only_if=[was] if chosen.random() < 0.5 else [])
            case 9:
                await records.forget(kind, [id_])
            case 10:
                await records.forget_below(RecordKind.STORY, id_, 100)
            case 11:
                state = chosen.choice((State.NORMAL, State.ARCHIVED))
                await edges.change_node(chosen.choice(NODES), state=state, private=chosen.random() < 0.5)


async def rebuild(source: EngineStores, target: EngineStores, chosen: random.Random) -> None:
    """Apply a log through the ports of another store. Sometimes it stops, and repeats events that it had not noted."""
    position, nodes = NOWHERE, dict[int, tuple[int, bool, int]]()
    while True:
        batch = await source.log.read(position, chosen.randint(1, 20))
        assert not batch.lost
        for event in batch.events:
            await do(target, event)
            if event.state == NODE_CHANGED:
                nodes[event.source] = changed_node(event)
        if len(batch.events) == 0:
            break
        if chosen.random() < 0.8:
            position = batch.next
    for node, (state, private, labels) in nodes.items():  # last: a node decides the state of written edges
        await target.edges.change_node(node, state=State(state), private=private, labels=labels)


async def do(target: EngineStores, event: Event) -> None:
    """Apply an event of an edge or a record."""
    if event.state <= State.REMOVED:
        await target.edges.apply(writes_of(edge_in(event)))
    elif event.state == RECORD_CHANGED:
        record = Record(RecordKind(event.source), event.destination, event.updated_at, event.data)
        await target.records.put([record])
    elif event.state == RECORD_FORGOTTEN:
        await target.records.forget(RecordKind(event.source), [event.destination])
    elif event.state == RECORDS_FORGOTTEN:
        while await target.records.forget_below(RecordKind(event.source), event.destination, 100):
            pass


async def answers(stores: EngineStores) -> dict[str, Any]:
    """The answers of the store to every kind of read."""
    stores.settle()

    async def paged(listing: Listing) -> list[Mark]:
        return await all_pages(lambda window: stores.edges.page(listing, window), 3)

    lists = [Listing(G, node, end, state) for node in NODES for end in Direction for state in State]
    return {
        "edges": await stores.edges.get_many(G, PAIRS),
        "counts": await stores.edges.count_many(lists),
        "nodes": await stores.edges.nodes(NODES),
        **{
            f"{listing}": await all_pages(lambda window, of=listing: stores.edges.page(of, window), 3)
            for listing in lists
        },
        **{f"{kind}": await stores.records.get_many(kind, IDS) for kind in KINDS},
    }


@pytest.mark.parametrize("number", range(4))
def test_a_store_rebuilt_from_the_log_alone_gives_the_same_answers(
    engine: Engine, tmp_path: Path, clock: FakeClock, run: Run, number: int
) -> None:
    async def scene(source: EngineStores, target: EngineStores) -> None:
        for stores in (source, target):
            await stores.edges.declare(["follows"])
        history, chosen = History(source, number), random.Random(number)
        for _ in range(chosen.randrange(40, 160)):
            await history.step()
        source.settle()
        await rebuild(source, target, chosen)
        assert await answers(target) == await answers(source)

    assert engine.whole
    with (
        engine.whole(tmp_path / "source", now_ms=clock) as source,
        engine.whole(tmp_path / "target", now_ms=clock, slots=50) as target,
    ):
        run(scene(source, target))
