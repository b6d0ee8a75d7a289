"""A fan-out worker over a store and timelines in memory, for tests of whom it delivers to."""

from __future__ import annotations

import random
from typing import Any, Self

import numpy as np
from blocking_timelines import BlockingTimelines
from reference_fanout_state import ReferenceFanoutState
from reference_leases import own_leases
from reference_timelines import ReferenceTimelines
from services import Services
from store_wrappers import RemoteStore

from kith.core.ids import NodeId
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.deliveries import Chunks
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.fanout.state import Delivery, FanoutState
from kith.home.skeleton.sources import Sources
from kith.leases.holding import Leases


class FanoutScene:
    """A fan-out worker over stores without follows and timelines."""

    worker: Fanout

    def __init__(self, services: Services, *, distant: bool = False) -> None:
        """`distant`: the worker uses all stores as if across a network."""
        self.graph, self.clock = services.graph, services.clock
        self.sources, self.timelines = Sources(self.graph), BlockingTimelines(ReferenceTimelines(100, self.clock))
        self.state: FanoutState = ReferenceFanoutState()
        self._written: Any = self.timelines.store
        if distant:
            chance = random.Random(1)
            self.sources._store = RemoteStore(self.graph.store, chance)  # type: ignore[assignment]
            self.state, self._written = RemoteStore(self.state, chance), RemoteStore(self._written, chance)  # type: ignore[assignment]

    @classmethod
    async def begun(cls, policy: Thresholds | ByRates, *, distant: bool) -> Self:
        """A scene over a store of its own, with a started worker."""
        scene = cls(await Services.in_memory(), distant=distant)
        scene.start(policy)
        return scene

    def start(self, policy: Thresholds | ByRates, chunks: Chunks | None = None, leases: Leases | None = None) -> Fanout:
        """Start a new worker process. `leases`: shared with other workers; without them, earlier workers are dead."""
        self.worker = Fanout(
            self.sources,
            self._written,
            self.state,
            leases or own_leases(),
            graphs=self.graph.graphs,
            policy=policy,
            chunks=chunks,
            now_ms=self.clock,
            now_s=lambda: self.clock.ms / 1_000,
        )
        return self.worker

    async def deliveries(self) -> list[Delivery]:
        """The deliveries in progress, next one first."""
        return [one._replace(failures=0, after=None) for one in (await self.state.snapshot()).deliveries]

    async def lacked(self, reader: NodeId, lowest: int) -> list[int]:
        """The withheld authors, at the rate `lowest` or a higher one, whom the reader follows."""
        withheld = (await self.state.snapshot()).withheld
        return await self.sources.followed_of(reader, withheld.at_least(lowest).tolist())

    async def follow(self, reader: NodeId, *authors: int) -> None:
        """Have the reader follow authors, then give the reader an empty timeline."""
        for author in authors:
            await self.graph.people.follow(reader, NodeId(author))
        self.timelines.put(reader, np.array([], np.int64))
