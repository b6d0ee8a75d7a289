"""Mentions that other systems report come in order for each mentioned user, whichever workers handle them.

Nothing is partitioned for that: the id of a notice is its position in every inbox, and is made within the request. So
its events may come to any worker, in any order, as they do from a log of many partitions. Over each engine.
"""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run, answer
from notification_world import NotificationWorld
from reference_activity import ReferenceActivity
from reference_leases import ReferenceLeases

from kith.core.errors import IdempotencyKeyReused
from kith.core.ids import NodeId
from kith.leases.holding import Leases
from kith.notifications.coordinator import Coordinator
from kith.notifications.mention_consumer import MentionConsumer, coordinator_over
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import Preferences
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk

MENTIONED = (ALICE, CAROL, DANA)
ACTORS = [NodeId(actor) for actor in range(50, 56)]
WORKERS = 3


async def reported(world: NotificationWorld, mentioned: NodeId) -> None:
    """Report mentions one after the other, as a queue in front of the API does for one key."""
    for actor in ACTORS:
        assert await world.external_mentions.accept(f"{actor} mentions {mentioned}", actor, mentioned, None, None)


def workers(world: NotificationWorld, activity: ReferenceActivity, worked: list[list[int]]) -> list[Coordinator]:
    """Workers of all tiers. Each adds to its list in `worked` the accounts whose walks it ended."""
    graph, leases = world.services.graph, Leases(ReferenceLeases(world.services.clock))

    def worker(accounts: list[int]) -> Coordinator:
        async def end(ended: EndedWalk) -> None:
            accounts.append(ended.walk.account)

        return coordinator_over(
            graph, world.whole.records, world.inbox, activity, leases, world.services.clock, end,
            celebrity_followers_min=1, tiers=tuple(Tier),
        )  # fmt: skip

    return [worker(accounts) for accounts in worked]


@pytest.mark.parametrize("seed", range(3))
def test_mentions_of_each_user_keep_their_order_however_workers_divide_them(
    run: Run, world: NotificationWorld, seed: int
) -> None:
    """Bob follows everybody who is mentioned. Three systems report; three workers get the events in any order."""
    activity, worked = ReferenceActivity(), [list[int]() for _ in range(WORKERS)]

    async def scenario() -> None:
        for mentioned in MENTIONED:
            await world.people.follow(BOB, mentioned)
        await world.preferences.put(BOB, Preferences(mentions="followed"))
        await activity.seen(np.array([BOB], np.int64), world.services.clock.ms)
        await asyncio.gather(*(reported(world, mentioned) for mentioned in MENTIONED))
        world.whole.settle()
        notices = [[*reversed(await world.listed(mentioned))] for mentioned in MENTIONED]
        assert [[notice.actor for notice in told] for told in notices] == [ACTORS] * len(MENTIONED)
        events = list((await world.whole.log.read(world.log_start, 1_000)).events)
        random.Random(seed).shuffle(events)
        group = workers(world, activity, worked)
        await asyncio.gather(*(MentionConsumer(one).handle(events[at::WORKERS]) for at, one in enumerate(group)))
        while any(await asyncio.gather(*(worker.work() for worker in group))):
            pass
        ids = {notice.id for told in notices for notice in told}
        assert {notice for user, notice in world.rows.rows if user == BOB} == ids, (
            "workers notified him of all, without a pull"
        )
        told = [*reversed(await world.listed(BOB))]
        assert [[one.actor for one in told if one.recipient == mentioned] for mentioned in MENTIONED] == [ACTORS] * 3
        outcomes = await Outcomes(world.whole.records, world.services.graph.clock).of([*ids])
        assert sum(one.told for tiers in outcomes for one in tiers) == len(ids), "each row was new once"
        assert all(worked), "each had its share"

    run(scenario())


@pytest.mark.parametrize("wait", range(6))
def test_of_two_mentions_under_one_id_at_once_only_one_is_accepted(
    run: Run, world: NotificationWorld, wait: int
) -> None:
    async def report(mentioned: NodeId) -> object:
        return await answer(world.external_mentions.accept("an event", DANA, mentioned, None, None))

    async def late() -> object:
        for _ in range(wait):
            await asyncio.sleep(0)
        return await report(CAROL)

    async def scenario() -> None:
        answers = await asyncio.gather(report(ALICE), late())
        assert sorted(map(str, answers)) == sorted(map(str, (True, IdempotencyKeyReused)))
        listed = [await world.types_and_actors(user) for user in (ALICE, CAROL)]
        assert listed == [[("mention", DANA)] if accepted is True else [] for accepted in answers]
        rows = [await world.inbox.page(user, limit=5) for user in (ALICE, CAROL)]
        assert list(map(bool, rows)) == list(map(bool, listed))

    run(scenario())
