"""A follow whose lists are late: why the log delivers an edge only once both lists show it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from reference_fanout_state import ReferenceFanoutState
from reference_leases import own_leases
from reference_logs import HostileLog, LoggedEvent, Partitions
from reference_timelines import ReferenceTimelines
from scrambled_edges import ScrambledEdges
from services import Services, home_over
from store_wrappers import RemoteStore

from kith.core.paging import Window
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.skeleton import skeleton
from kith.home.skeleton.sources import Sources
from kith.log.runner import Pace, Runner


class EarlyLog(HostileLog):
    """An engine that breaks the promise: events can be read while lists are late."""

    def readable(self) -> Sequence[LoggedEvent]:
        return self._logged.logged


@pytest.mark.parametrize(("log_kind", "comes_home"), [(HostileLog, True), (EarlyLog, False)], ids=["kept", "broken"])
def test_posts_of_a_followed_author_come_home_if_the_log_keeps_its_promise(
    log_kind: type[HostileLog], comes_home: bool
) -> None:
    async def live() -> None:
        chance, clock = random.Random(1), FakeClock()
        edges = ScrambledEdges(seed=1, late_max=10**6, events=Partitions(3, chance))  # late until they are settled
        edges.events.now_ms = clock
        log = log_kind(edges, chance)
        state, timelines = ReferenceFanoutState(log), RemoteStore(ReferenceTimelines(100, clock), chance)
        services = await Services.over(edges, clock=clock)
        home = home_over(services.graph, services.posts, timelines, state, log, now_ms=clock)
        fanout = Fanout(
            Sources(services.graph), timelines, state, own_leases(),
            graphs=services.graph.graphs, policy=Thresholds(), now_ms=clock,
        )  # fmt: skip
        runner = Runner(fanout, log, Pace(save_s=0.0), clock)

        async def work() -> None:
            while await runner.step():
                pass

        await work()
        posts = [(await services.write(author)).id for author in (CAROL, BOB)]
        await services.people.follow(ALICE, CAROL)
        edges.settle()
        await work()
        await home.latest(ALICE, Window(5))
        await work()
        assert await timelines.read(ALICE) is not None
        await services.people.follow(ALICE, BOB)
        await work()
        clock.ms += 60_000  # by then a timeline is requested again
        for _ in range(2):  # the first page relies on a slightly older snapshot
            home._skeletons._snapshot_at_s -= skeleton._SNAPSHOT_REFRESH_AGE_S
            await home.latest(ALICE, Window(5))
            if home._skeletons._refreshing is not None:
                await home._skeletons._refreshing
        await work()
        edges.settle()
        await work()
        for _ in range(3):
            clock.ms += 60_000
            page = await home.latest(ALICE, Window(5), must_reflect=await log.end())
            assert page.degraded == []
            await work()
        assert (posts[1] in [post.id for post in page.posts]) is comes_home
        assert await timelines.read(ALICE) is not None

    asyncio.run(live())
