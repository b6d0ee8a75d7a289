"""The auditor of timelines finds those that lack a post, or have one too many, and drops them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from home_scene import HomeScene, alices_home
from store_types import EngineStores

from kith.core.errors import Conflict
from kith.core.ids import NodeId
from kith.home.audit import TimelineAudit, TimelineAuditor
from kith.home.fanout.state import Delivery
from kith.home.timelines import RATE_MAX

STRANGER = NodeId(77_777)
ONE_IS_RIGHT = TimelineAudit(timelines=1)


def auditor(home: HomeScene, settle_s: float = 0) -> TimelineAuditor:
    return TimelineAuditor(home.graph, home.timelines.store, home.fanout, home.log, settle_s)


async def posts_of(home: HomeScene) -> tuple[list[int], int]:
    """Posts of Bob, Carol and Dana, whom Alice follows, and of a stranger; fan-out fills timelines from now on."""
    await home.fanout.reset(home.timelines.name())
    found = [(await home.post(author)).id for author in (BOB, CAROL, DANA)]
    return found, (await home.post(STRANGER)).id


def give(home: HomeScene, *posts: int) -> None:
    """Make these posts Alice's timeline; fan-out knows of nothing more."""
    home.timelines.put(ALICE, np.array(sorted(posts, reverse=True), np.int64))


def test_a_timeline_that_has_what_the_outboxes_have_is_right(run: Run, whole: EngineStores, clock: FakeClock) -> None:
    home = alices_home(run, whole, clock)

    async def scene() -> None:
        assert await auditor(home).audit() is None, "fan-out fills no timelines yet"
        posts, _ = await posts_of(home)
        assert await auditor(home).audit() == TimelineAudit()
        give(home, *posts)
        await home.catch_up_fanout()
        assert await auditor(home).audit() == ONE_IS_RIGHT
        await home.posts.delete(BOB, posts[0])
        await home.catch_up_fanout()
        assert await auditor(home).audit() == ONE_IS_RIGHT, "a deleted post stays in it"
        assert await auditor(home).audit(sample=0) == TimelineAudit()

    run(scene())


def test_a_timeline_with_lacking_or_stray_posts_is_found_and_with_repair_dropped(
    run: Run, whole: EngineStores, clock: FakeClock
) -> None:
    home = alices_home(run, whole, clock)

    async def scene() -> None:
        (first, middle, last), strange = await posts_of(home)
        await home.catch_up_fanout()
        give(home, first, last)
        found = await auditor(home).audit()
        lacks = f"the timeline of user {ALICE} lacks post {middle}"
        assert found == TimelineAudit(timelines=1, lacking=1, wrong=1, examples=[lacks])
        give(home, first, middle, last, strange)
        found = await auditor(home).audit()
        has = f"that of user {ALICE} has post {strange}, of nobody they follow"
        assert found == TimelineAudit(timelines=1, strays=1, wrong=1, examples=[has])
        assert found.right_share == 0
        give(home, first, last, strange)
        found = await auditor(home).audit(repair=home.timelines.store)
        assert found == TimelineAudit(timelines=1, lacking=1, strays=1, wrong=1, repaired=1, examples=[lacks, has])
        assert home.timelines.read(ALICE) is None

    run(scene())


def test_posts_that_homes_look_up_beside_a_timeline_are_not_missing(
    run: Run, whole: EngineStores, clock: FakeClock
) -> None:
    home = alices_home(run, whole, clock)

    async def scene() -> None:
        (first, middle, last), _ = await posts_of(home)
        give(home, first, middle)
        assert await auditor(home).audit() == ONE_IS_RIGHT, "fan-out has not handled the last post"
        await home.catch_up_fanout()
        seen = await auditor(home).audit()
        assert seen is not None
        assert seen.lacking == 1
        await home.fanout.deliver(Delivery(last, DANA))
        assert await auditor(home).audit() == ONE_IS_RIGHT, "it is being delivered"
        await home.fanout.end_delivery(last)
        await home.fanout.withhold({DANA: RATE_MAX})
        assert await auditor(home).audit() == ONE_IS_RIGHT, "it is withheld from everybody"
        give(home, first, middle, last)
        await home.graph.people.unfollow(ALICE, BOB)
        assert await auditor(home).audit() == ONE_IS_RIGHT, (
            "homes do without the timeline until fan-out has handled the unfollow"
        )

    run(scene())


def test_a_push_that_comes_a_moment_later_is_late_and_not_wrong(
    run: Run, whole: EngineStores, clock: FakeClock
) -> None:
    home = alices_home(run, whole, clock)

    async def scene() -> None:
        (first, middle, last), _ = await posts_of(home)
        await home.catch_up_fanout()
        give(home, first, middle)
        auditing = asyncio.create_task(auditor(home, 0.2).audit())
        await asyncio.sleep(0.1)
        home.timelines.push(last, np.array([ALICE], np.int64))
        assert await auditing == TimelineAudit(timelines=1, late=1)

    run(scene())


def test_far_behind_the_log_it_says_that_timelines_are_not_used(
    run: Run, whole: EngineStores, clock: FakeClock
) -> None:
    home = alices_home(run, whole, clock)

    async def scene() -> None:
        posts, _ = await posts_of(home)
        give(home, *posts)
        found = auditor(home)
        found._unhandled.follow = never  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="audit when it is not"):
            await found.audit()

    run(scene())


async def never(_: object) -> bool:
    return False
