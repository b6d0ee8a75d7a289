"""A list is recounted while its owners write to it, stop, and are replaced."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from cast import DANA, START_MS
from coroutines import Run
from edges import FOLLOWERS_OF_DANA, edge_of, writes_of
from local_commands import LocalCommands
from memory_rows import MemoryRows
from reference_logs import Partitions as Events

from kith.core.errors import StoreUnavailable
from kith.core.events import LogPosition
from kith.core.paging import Mark
from kith.engines.cassandra.commands import Owners
from kith.engines.cassandra.edge_commands import ForgetEdges, WriteEdges
from kith.engines.cassandra.owner import CassandraOwner
from kith.engines.cassandra.partitions import Partitions
from kith.engines.cassandra.parts import HIGHEST, Span
from kith.engines.cassandra.recounter import Recounter
from kith.engines.cassandra.rows import RowChange, listed, of_node
from kith.graph.edge import Edge, State
from kith.graph.shapes import Listing

PARTITIONS = 3
FOLLOWERS = range(100, 140)
SOON = 1_000_000


def later(position: LogPosition, other: LogPosition) -> LogPosition:
    return max(position, other)


class Scene:
    """Owners over rows in memory; a command's offset is greater than the timestamps of all earlier rows."""

    def __init__(self, seed: int) -> None:
        self.chance, self.rows, self.partitions = random.Random(seed), MemoryRows(), Partitions(PARTITIONS)
        self._offset, self._version = 0, 0
        self._owner = CassandraOwner(self.rows, self.partitions)
        self.commands = LocalCommands(self._owner, PARTITIONS, Events(), lambda: START_MS)
        self.owners = Owners(self.commands, later)
        self.stop = False

    def take_over(self) -> None:
        """Other processes become the owners, with nothing in memory."""
        self._offset += 100_000
        self.commands.begin(self._offset)

    async def write(self, followers: Sequence[int]) -> None:
        """Add, remove, move and forget followers."""
        for follower in followers:
            owner, pair = self.partitions.of_node(follower), (follower, DANA)
            if self.chance.random() < 0.1:
                await self.owners.ask(owner, ForgetEdges(1, [pair]), type(None))
            else:
                await self.owners.ask(owner, WriteEdges(writes_of(self._some_edge(follower))), list)
            if self.chance.random() < 0.3:
                await asyncio.sleep(0)

    def _some_edge(self, follower: int) -> Edge:
        self._version += 1
        state = State.REMOVED if self.chance.random() < 0.3 else State.NORMAL
        edge = edge_of(follower, DANA, self.chance.randint(0, 30), state, self._version)
        expires_ms = START_MS + SOON if state is State.NORMAL and self.chance.random() < 0.3 else 0
        return msgspec.structs.replace(edge, expires_ms=expires_ms)

    async def spoil(self) -> None:
        """Make counts wrong, and replace the owners that have them in memory."""
        self.take_over()
        counts = [
            RowChange("counts", (*of_node(FOLLOWERS_OF_DANA), partition), (self.chance.randint(0, 50), 7), self._offset)
            for partition in range(PARTITIONS)
        ]
        await self.rows.write(self.chance.sample(counts, 2))

    async def newest(self, listing: Listing, span: Span, limit: int) -> list[tuple[Mark, int]]:
        await self.rows.get([])
        entries = self.rows.table("list_entries").items()
        marks = [(Mark(*key[5:]), values[0]) for key, values in entries if key[:4] == listed(listing)]
        return sorted(((mark, ends) for mark, ends in marks if span.above < mark <= span.top), reverse=True)[:limit]

    def check(self) -> None:
        """Each owner's counts are those of its entries."""
        entries, expiring = Counter[int](), Counter[int]()
        for key, (ends,) in self.rows.table("list_entries").items():
            if key[:4] == listed(FOLLOWERS_OF_DANA):
                owner = self.partitions.of_node(key[6])
                entries[owner] += 1
                expiring[owner] += bool(ends)
        counts = self.rows.table("counts")
        for owner in range(PARTITIONS):
            stored = counts.get((*of_node(FOLLOWERS_OF_DANA), owner), (0, 0))
            assert stored == (entries[owner], expiring[owner])


@pytest.mark.parametrize("seed", range(60))
def test_writes_during_a_recount_are_counted_once(seed: int, run: Run) -> None:
    scene = Scene(seed)

    async def writing() -> None:
        while not scene.stop:
            await scene.write(scene.chance.sample(FOLLOWERS, 5))

    async def recounted() -> None:
        await scene.write(scene.chance.sample(FOLLOWERS, 30))
        await scene.spoil()
        writers = [asyncio.create_task(writing()) for _ in range(seed % 3)]
        await Recounter(scene.newest, scene.owners, stretch=scene.chance.randint(1, 9)).recount(FOLLOWERS_OF_DANA)
        scene.stop = True
        await asyncio.gather(*writers)
        scene.check()

    run(recounted())


def test_a_recount_restarts_under_new_owners(run: Run) -> None:
    scene = Scene(1)
    tops: list[Mark] = []

    async def newest(listing: Listing, span: Span, limit: int) -> list[tuple[Mark, int]]:
        tops.append(span.top)
        if len(tops) == 3:
            scene.take_over()
            await scene.write(FOLLOWERS[:5])
        return await scene.newest(listing, span, limit)

    async def recounted() -> None:
        await scene.write(FOLLOWERS)
        await scene.spoil()
        await Recounter(newest, scene.owners, stretch=4).recount(FOLLOWERS_OF_DANA)
        scene.check()
        assert tops.count(HIGHEST) == 2

    run(recounted())


def test_a_recount_fails_while_owners_keep_changing(run: Run) -> None:
    scene = Scene(2)

    async def newest(listing: Listing, span: Span, limit: int) -> list[tuple[Mark, int]]:
        scene.take_over()
        return await scene.newest(listing, span, limit)

    async def recounted() -> None:
        await scene.write(FOLLOWERS)
        with pytest.raises(StoreUnavailable, match="audit again"):
            await Recounter(newest, scene.owners, stretch=4).recount(FOLLOWERS_OF_DANA)

    run(recounted())
