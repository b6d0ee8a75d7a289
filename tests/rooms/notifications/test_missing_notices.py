"""The audit of events finds those whose notice was never made, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from notification_world import NotificationWorld

from kith.core.ids import NodeId
from kith.graph.graphs import LIKES
from kith.log.store import Failure
from kith.notifications.intake import NAME
from kith.notifications.missing_notices import EventAudit, EventAuditor
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.posts.post import PostEdit

LIKERS = range(100, 140)


def auditor(world: NotificationWorld, since_ms: int = 0) -> EventAuditor:
    graph, clock = world.services.graph, world.services.clock
    recipients = world.intake._recipients
    return EventAuditor(world.whole.log, graph, world.intake, world.notices, recipients, since_ms, clock)


async def liked(world: NotificationWorld, likers: range | list[int] = LIKERS) -> NodeId:
    """Let users like a post of Alice."""
    post = NodeId((await world.services.write(ALICE)).id)
    for liker in likers:
        await world.services.engagement.add(LIKES, NodeId(liker), post)
    return post


async def handled(world: NotificationWorld, leaves_out: set[int] | None = None, fails: str = "") -> None:
    """Let intake handle the log except acts of some users, which `fails` makes dead or waiting failures."""
    log = world.whole.log
    world.whole.settle()
    batch = await log.read(world.log_start, 1_000)
    lost = [event for event in batch.events if event.source in (leaves_out or ()) and event.began]
    await world.intake.handle([event for event in batch.events if event not in lost])
    failures = {one.log_position: Failure(NAME, one, 9, "a bug", 0, 0, fails == "dead") for one in lost if fails}
    await log.save(NAME, batch.next, failures)
    world.services.clock.ms += 2 * CACHED_MS


def test_notices_that_were_never_made_are_found_and_no_other(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await liked(world)
        await world.people.follow(BOB, ALICE)
        likes = len(LIKERS)
        lost = {*random.Random(7).sample(LIKERS, 3)}
        await handled(world, lost)
        found = await auditor(world).audit()
        assert (found.expected, found.told, found.missing) == (likes + 1, likes - 2, 3)
        assert sorted(found.examples) == sorted(f"{ALICE}, of the like by {liker}" for liker in lost)
        assert (await auditor(world).audit(repair=True)).repaired == 3
        assert {actor for type_, actor in await world.types_and_actors(ALICE) if type_ == "like"} == {*LIKERS}
        assert (await auditor(world).audit()).missing == 0

    run(scenario())


@pytest.mark.parametrize("fails", ["dead", "waits"])
def test_events_that_failed_are_dead_or_still_being_tried(run: Run, world: NotificationWorld, fails: str) -> None:
    async def scenario() -> None:
        await liked(world)
        await handled(world, {LIKERS[0], LIKERS[1]}, fails)
        found = await auditor(world).audit(repair=True)
        dead = 2 if fails == "dead" else 0
        assert found == EventAudit(len(LIKERS) - 2 + dead, len(LIKERS) - 2, dead=dead)

    run(scenario())


Act = Callable[[NotificationWorld, NodeId], Awaitable[Any]]


async def _blocked_for_a_while(world: NotificationWorld, _: NodeId) -> None:
    await world.people.block(ALICE, BOB)
    world.services.clock.ms += 1_000
    await world.people.unblock(ALICE, BOB)


async def _muted_for_a_while(world: NotificationWorld, _: NodeId) -> None:
    await world.people.mute(ALICE, BOB)
    world.services.clock.ms += 1_000
    await world.people.unmute(ALICE, BOB)


async def _asked_for_nothing_for_a_while(world: NotificationWorld, _: NodeId) -> None:
    for off in (("like",), ()):
        await world.preferences.put(ALICE, Preferences(off=off))


async def _edited(world: NotificationWorld, post: NodeId) -> None:
    await world.posts.edit(ALICE, post, PostEdit(text="anew"))


async def _taken_back(world: NotificationWorld, post: NodeId) -> None:
    await world.services.engagement.drop(LIKES, BOB, post)


async def _deleted(world: NotificationWorld, post: NodeId) -> None:
    await world.posts.delete(ALICE, post)


@pytest.mark.parametrize(
    "act",
    [_blocked_for_a_while, _muted_for_a_while, _asked_for_nothing_for_a_while, _edited, _taken_back, _deleted],
)
def test_notices_that_may_have_been_forbidden_then_are_not_missing(
    run: Run, world: NotificationWorld, act: Act
) -> None:
    async def scenario() -> None:
        post = await liked(world, [BOB])
        world.services.clock.ms += 1_000
        await act(world, post)
        await handled(world, {BOB})
        found = await auditor(world).audit()
        assert (found.missing, found.suppressed) == (0, found.expected)
        assert found.expected >= 1

    run(scenario())


def test_an_answered_request_and_earlier_events_are_not_missing(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await world.services.edges.change_node(ALICE, private=True)
        await world.people.follow(CAROL, ALICE)
        await world.people.accept(ALICE, CAROL)
        await handled(world)
        await world.people.follow(DANA, BOB)
        found = await auditor(world).audit()
        assert found == EventAudit(2, told=1, suppressed=1), "events that were not handled yet are skipped"
        assert (await auditor(world, world.services.clock.ms).audit()).expected == 0

    run(scenario())


def test_nothing_is_expected_of_a_log_that_intake_never_read(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await liked(world, [BOB])
        assert await auditor(world).audit() == EventAudit()

    run(scenario())
