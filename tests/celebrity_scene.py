"""A mention by Alice, who has 60 followers, and the stores that outlive the workers that notify them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cast import ALICE, FakeClock
from reference_activity import ReferenceActivity
from reference_inbox import ReferenceInboxes
from reference_leases import ReferenceLeases
from services import Services

from kith.core.clock import hlc_of
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.leases.holding import Leases
from kith.notifications.activity import Users
from kith.notifications.coordinator import Coordinator
from kith.notifications.router import Router
from kith.notifications.tiers import DAY_MS, MONTH_MS, Tier
from kith.notifications.walks import EndedWalk

FOLLOWERS = range(100, 160)
ONLINE, TODAY, THIS_MONTH, INACTIVE = range(100, 103), range(103, 115), range(115, 140), range(140, 160)
UNWILLING = {101, 110, 120}
CHUNK = 7
HOUR_MS = 3_600_000
TIERS = (Tier.ONLINE, Tier.DAY, Tier.MONTH)
NOTIFIED = {*ONLINE, *TODAY, *THIS_MONTH} - UNWILLING


class CelebrityScene:
    """Alice, her followers, and the stores that outlive a worker."""

    def __init__(self, services: Services, threshold: int = 10) -> None:
        self.services, self.clock, self.threshold = services, services.clock, threshold
        self.inboxes, self.activity = ReferenceInboxes(), ReferenceActivity()
        self.ended: list[EndedWalk] = []
        self.rung: list[tuple[int, bool]] = []
        self.kept: list[tuple[int, int]] = []
        self.leases = ReferenceLeases(self.clock)
        self.notice = (self.clock.ms - EPOCH_MS) << TIME_SHIFT
        self.wrap: Any = lambda store: store

    @classmethod
    async def set_up(cls, **more: int) -> CelebrityScene:
        clock = FakeClock()
        stage = cls(await Services.in_memory(clock=clock), **more)
        number, version = stage.services.graph.graphs.number(FOLLOWS), hlc_of(clock.ms)
        edges = [Edge(number, NodeId(one), ALICE, State.NORMAL, clock.ms + one, version) for one in FOLLOWERS]
        await stage.services.edges.apply([EdgeWrite(edge) for edge in edges])
        now = clock.ms
        await stage.activity.set_online("api", np.array(ONLINE, np.int64), now + HOUR_MS)
        await stage.activity.seen(np.array(TODAY, np.int64), now - HOUR_MS)
        await stage.activity.seen(np.array(THIS_MONTH, np.int64), now - DAY_MS - HOUR_MS)
        await stage.activity.seen(np.array(INACTIVE, np.int64), now - MONTH_MS - HOUR_MS)
        return stage

    def worker(self, **more: Any) -> Coordinator:
        """A new worker process over the same stores."""

        async def wanted(notice: int, account: int, users: Users) -> Any:
            assert (notice, account) == (self.notice, ALICE)
            return np.array([user not in UNWILLING for user in users.tolist()], np.bool_)

        async def count(account: int) -> int:
            return len(FOLLOWERS)

        graph = self.services.graph
        there = type(graph)(self.wrap(graph.store), graph.graphs, graph.clock)
        return Coordinator(
            there,
            self.wrap(self.inboxes),
            self.wrap(self.activity),
            Router(count, self.threshold, self.clock),
            wanted,
            Leases(self.leases),
            self.clock,
            self.end,
            self.ring,
            self.keep,
            **{"chunk_ids": CHUNK, **more},
        )

    async def end(self, ended: EndedWalk) -> None:
        self.ended.append(ended)

    async def keep(self, mentions: Sequence[tuple[int, int]]) -> None:
        self.kept += mentions

    async def ring(self, notice: int, users: Users, *, devices: bool) -> None:
        assert {(user, notice) for user in users.tolist()} <= set(self.inboxes.rows), "rows come first"
        self.rung += [(user, devices) for user in users.tolist()]

    def notified(self) -> set[int]:
        """The users who have an inbox row of the notice."""
        assert {notice for _, notice in self.inboxes.rows} <= {self.notice}
        return {user for user, _ in self.inboxes.rows}


async def drain(worker: Coordinator) -> None:
    for _ in range(200):
        if not await worker.work():
            return
    raise AssertionError("it never ends")
