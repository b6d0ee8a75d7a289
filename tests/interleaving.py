"""Services of three hosts over one store, with randomly interleaved steps."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import Any
from unittest.mock import patch

import msgspec
from cast import ALICE, START_MS, FakeClock
from coroutines import answer, run_coroutine, without_waits
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from services import service_over

from kith.core.ids import NodeId
from kith.graph.edge import REFUSED, EdgeChange, EdgeWrite, Outcome, State
from kith.graph.graph import Graph
from kith.graph.node_jobs import NodeJobs, NodeOperation
from kith.graph.shapes import Node
from kith.people.removal import account_jobs

REMOVED = State.REMOVED
SEEDS = range(300)
SKEWS_MS = (0, -7_000, 30_000)
_YIELDS = {"operate": 100}  # about how often such a step yields; 8 times if not named
Step = Coroutine[Any, Any, Any]


class InterleavedStore:
    """An EdgeStore that yields to other tasks before and after each operation, a random number of times.

    Once, at a point chosen by the seed, the task that yields is paused until the other tasks are done.
    """

    def __init__(self, chance: random.Random, transactional: bool) -> None:
        self.inner, self._chance, self.transactional = ReferenceEdges(), chance, transactional
        self._yields, self._pause_at = 0, -1
        self._in_progress: set[asyncio.Event] = set()

    def begin(self, yields: int) -> None:
        """Pause the task of one of the next `yields` yields."""
        self._pause_at = self._yields + self._chance.randrange(yields)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(operation):
            return operation

        async def yielding(*args: Any, **named: Any) -> Any:
            await self._yield()
            answered = await operation(*args, **named)
            await self._yield()
            return answered

        return yielding

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        await self._yield()
        if self.transactional:
            changes = await self._merge(writes)
        else:
            done = asyncio.Event()
            self._in_progress.add(done)
            try:
                changes = await self._merge_by_source(writes)
            finally:
                self._in_progress.remove(done)
                done.set()
        await self._yield()
        return changes

    async def barrier(self) -> None:
        for done in list(self._in_progress):
            await done.wait()

    async def _merge_by_source(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge the writes of each source concurrently with those of other sources, as owners of partitions do.

        A chained write waits for all writes before it.
        """
        changes: dict[int, EdgeChange] = {}

        async def merge(of_source: Sequence[int]) -> None:
            merged = await self._merge([writes[at] for at in of_source])
            changes.update(zip(of_source, merged, strict=True))

        asked: dict[int, list[int]] = {}
        for at, write in enumerate(writes):
            if write.chained and at - 1 not in asked.get(write.edge.source, ()):
                await asyncio.gather(*map(merge, asked.values()))
                asked = {}
            asked.setdefault(write.edge.source, []).append(at)
        await asyncio.gather(*map(merge, asked.values()))
        return [changes[at] for at in range(len(writes))]

    async def _merge(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        """Merge writes together. Without transactions, other tasks may run between reading the conditions on rows of
        other sources and the writes.
        """
        if self.transactional:
            return await self.inner.apply(writes)
        seen, asked = (
            [self._other_nodes(write) for write in writes],
            [self._with_conditions_decided(write) for write in writes],
        )
        await self._yield()
        changes: list[EdgeChange] = []
        for write, nodes in zip(asked, seen, strict=True):
            if write.chained and changes and changes[-1].outcome in REFUSED:
                changes.append(EdgeChange(Outcome.UNCHANGED, None, None))
            else:
                with patch.dict(self.inner._nodes, nodes):
                    changes += await self.inner.apply([write])
        return changes

    def _with_conditions_decided(self, write: EdgeWrite) -> EdgeWrite:
        """A write with its conditions on edges of other sources decided now: a condition that is met is removed."""
        write = msgspec.structs.replace(write, unless=write.unless if self.inner._barred(write) else ())
        if write.while_edge is None or write.while_edge[1] == write.edge.source or self.inner._lapsed(write):
            return write
        return msgspec.structs.replace(write, while_edge=None)

    def _other_nodes(self, write: EdgeWrite) -> dict[int, Node]:
        """The current nodes, other than the source, that a write's conditions read."""
        others = {write.edge.destination, *(write.while_node or ())[:1]} - {write.edge.source}
        return {node: self.inner._nodes.get(node, Node()) for node in others}

    async def _yield(self) -> None:
        self._yields += 1
        if self._yields == self._pause_at:
            seen = 0
            while seen != self._yields:
                seen = self._yields
                await _let_run(12)
        await _let_run(self._chance.choice((0, 0, 1, 2, 4, 9)))


@coroutine
def _let_run(turns: int) -> Generator[None, None, None]:
    """Let every other task run, `turns` times. As `asyncio.sleep(0)`, but cheaper."""
    for _ in range(turns):
        yield


class Hosts:
    """Three services over one store, each with a clock of its own."""

    def __init__(self, seed: int, transactional: bool) -> None:
        self.chance = random.Random(seed)
        self.store = InterleavedStore(self.chance, transactional)
        self.services: list[Graph] = []

    async def start(self) -> Hosts:
        for skew_ms in SKEWS_MS:
            self.services.append(await service_over(self.store, FakeClock(START_MS + skew_ms)))  # type: ignore[arg-type]
        return self

    def any(self) -> Graph:
        """A random host."""
        return self.chance.choice(self.services)

    async def together(self, steps: Sequence[Step]) -> list[Any]:
        """Run steps concurrently, each from a random moment on; returns their results."""
        yields = sum(_YIELDS.get(step.__name__, 8) for step in steps)
        self.store.begin(yields)

        async def begun(step: Step) -> Any:
            await _let_run(self.chance.randrange(yields))
            return await answer(step)

        return await asyncio.gather(*map(begun, steps))

    async def operate(self, operation: NodeOperation, user: int) -> None:
        jobs = account_jobs(self.any(), own_leases())
        await jobs.start(operation, user)  # type: ignore[arg-type]
        await jobs.wait()

    def state(self, graph: str, a: int, b: int) -> State:
        row = self.store.inner.rows.get((self.services[0].graphs.number(graph), a, b))
        return REMOVED if row is None else row.state


async def hosts(seed: int, transactional: bool = True) -> Hosts:
    return await Hosts(seed, transactional).start()


def for_all_seeds(check: Callable[[int], Step]) -> None:
    """Run `check` for every seed; a failure names its seed."""
    with without_waits():
        failed = [seed for seed in SEEDS if not run_coroutine(check(seed))]
    assert not failed, f"{len(failed)} of {len(SEEDS)} interleavings, the first with seed {failed[0]}"


async def finished(jobs: NodeJobs, operation: NodeOperation, user: NodeId = ALICE) -> None:
    await jobs.start(operation, user)
    await jobs.wait()
