"""A second worker handles events while a timeline is built: nothing is lost, between whichever calls an event comes.

The lists of the store lag behind its rows. An event is handled once both lists show it, as the log promises.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from fanout_scene import FanoutScene
from reference_leases import own_leases
from services import Services

from kith.core.clock import hlc_of
from kith.core.events import TIMELINE_REQUESTED, Event
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeChange, EdgeWrite, State
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.skeleton.sources import Sources

Step = Callable[[], Awaitable[None]]


class Interleaved:
    """A store that runs a step of a script before its n-th call. Stores with one script count their calls together."""

    def __init__(self, store: object, script: Script) -> None:
        self._store, self._script = store, script

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._script.next()
            return await found(*arguments, **named)

        return call


class Script:
    """`steps`: what runs before the call of each number."""

    def __init__(self, steps: dict[int, list[Step]]) -> None:
        self._steps, self.calls = steps, 0

    async def next(self) -> None:
        self.calls += 1
        for step in self._steps.pop(self.calls, []):
            await step()


class BuildScene(FanoutScene):
    """Alice follows Carol and Dana, who have posts; Dana's are withheld from all timelines. Bob has posts too."""

    async def populate(self) -> None:
        self.start(Thresholds(push_max=5, pull_min=10))
        for author in (CAROL, DANA):
            await self.write(FOLLOWS, ALICE, author)
        for author in (BOB, CAROL, DANA):
            await self.post(author)
        self.settle()

    def settle(self) -> None:
        self.graph.store.settle()  # type: ignore[attr-defined]

    async def write(self, graph: str, source: NodeId, destination: int, state: State = State.NORMAL) -> EdgeChange:
        """Write an edge; its lists show it later."""
        self.clock.ms += 1
        edge = Edge(
            self.graph.graphs.number(graph), source, NodeId(destination), state, self.clock.ms, hlc_of(self.clock.ms)
        )
        (change,) = await self.graph.store.apply([EdgeWrite(edge)])
        return change

    async def post(self, author: NodeId) -> EdgeChange:
        self.clock.ms += 1
        return await self.write(AUTHORED, author, (self.clock.ms - EPOCH_MS) << TIME_SHIFT)

    async def handle(self, change: EdgeChange) -> None:
        """Let the worker handle an event, which it can read once both lists show it."""
        self.settle()
        before, edge = change.before, change.after
        assert edge is not None
        event = Event(
            edge.graph, before and before.state, edge.state, edge.source, edge.destination, edge.position,
            edge.updated_at,
        )  # fmt: skip
        await self.worker.handle([event])

    async def built(self, steps: dict[int, list[Step]]) -> int:
        """Let another worker build Alice's timeline, with steps before its n-th store call; return how many it made."""
        script = Script(steps)
        sources = Sources(self.graph)
        sources._store = Interleaved(self.graph.store, script)  # type: ignore[assignment]
        timelines: Any = Interleaved(self.timelines.store, script)
        other = Fanout(
            sources, timelines, self.state, own_leases(), graphs=self.graph.graphs, policy=Thresholds(push_max=5)
        )
        await other.handle([Event(0, None, TIMELINE_REQUESTED, ALICE, 0, 0, self.graph.clock.next())])
        return script.calls


CHANGES: dict[str, Callable[[BuildScene], Awaitable[EdgeChange]]] = {
    "she follows": lambda scene: scene.write(FOLLOWS, ALICE, BOB),
    "she unfollows": lambda scene: scene.write(FOLLOWS, ALICE, CAROL, State.REMOVED),
    "a post": lambda scene: scene.post(CAROL),
    "her own post": lambda scene: scene.post(ALICE),
}


@pytest.mark.parametrize("had", [True, False], ids=["had one", "had none"])
@pytest.mark.parametrize("happens", CHANGES.values(), ids=CHANGES)
def test_a_timeline_has_what_happens_while_it_is_built(
    run: Run, happens: Callable[[BuildScene], Awaitable[EdgeChange]], had: bool
) -> None:
    there: list[bool] = []

    async def play(written: int, handled: int) -> int:
        scene = BuildScene(await Services.in_memory(transactional=False))
        await scene.populate()
        if had:
            scene.timelines.put(ALICE, np.arange(1, 101)[::-1])
            for _ in range(490):
                scene.timelines.push(0, np.array([ALICE], np.int64))  # so that it needs a rebuild
        changes: list[EdgeChange] = []

        async def write() -> None:
            changes.append(await happens(scene))

        async def handle() -> None:
            await scene.handle(changes[0])

        steps: dict[int, list[Step]] = {written: [write]}
        steps.setdefault(handled, []).append(handle)
        calls = await scene.built(steps)
        for step in itertools.chain.from_iterable(steps.values()):  # those that were not reached
            await step()
        timeline = scene.timelines.read(ALICE)
        whole = {mark.id for mark in await scene.sources.outboxes(await scene.sources.authors(ALICE), 500)}
        assert timeline is None or set(timeline.ids.tolist()) == whole, (written, handled)
        there.append(timeline is not None)
        return calls

    async def check() -> None:
        for written in itertools.count(1):
            for handled in itertools.count(written):
                calls = await play(written, handled)
                if calls < handled:
                    break
            if calls < written:
                break
        assert sum(there) > 10

    run(check())
