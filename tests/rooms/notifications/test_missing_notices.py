"""The audit of events finds those whose notice was never made, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from desk import Desk

from kith.core.ids import NodeId
from kith.graph.graphs import LIKES
from kith.log.store import Failure
from kith.notifications.intake import NAME
from kith.notifications.missing_notices import EventAudit, EventAuditor
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.posts.post import PostEdit

LIKERS = range(100, 140)


def auditor(desk: Desk, since_ms: int = 0) -> EventAuditor:
    graph, clock = desk.services.graph, desk.services.clock
    recipients = desk.intake._recipients
    return EventAuditor(desk.whole.log, graph, desk.intake, desk.notices, recipients, since_ms, clock)


async def liked(desk: Desk, likers: range | list[int] = LIKERS) -> NodeId:
    """Let users like a post of Alice."""
    post = NodeId((await desk.services.write(ALICE)).id)
    for liker in likers:
        await desk.services.engagement.add(LIKES, NodeId(liker), post)
    return post


async def handled(desk: Desk, leaves_out: set[int] | None = None, fails: str = "") -> None:
    """Let intake handle the log except acts of some users, which `fails` makes dead or waiting failures."""
    log = desk.whole.log
    desk.whole.settle()
    batch = await log.read(desk.began, 1_000)
    lost = [event for event in batch.events if event.source in (leaves_out or ()) and event.began]
    await desk.intake.handle([event for event in batch.events if event not in lost])
    failures = {one.log_position: Failure(NAME, one, 9, "a bug", 0, 0, fails == "dead") for one in lost if fails}
    await log.save(NAME, batch.next, failures)
    desk.services.clock.ms += 2 * CACHED_MS


def test_notices_that_were_never_made_are_found_and_no_other(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await liked(desk)
        await desk.people.follow(BOB, ALICE)
        likes = len(LIKERS)
        lost = {*random.Random(7).sample(LIKERS, 3)}
        await handled(desk, lost)
        found = await auditor(desk).audit()
        assert (found.expected, found.told, found.missing) == (likes + 1, likes - 2, 3)
        assert sorted(found.examples) == sorted(f"{ALICE}, of the like by {liker}" for liker in lost)
        assert (await auditor(desk).audit(repair=True)).repaired == 3
        assert {actor for type_, actor in await desk.told(ALICE) if type_ == "like"} == {*LIKERS}
        assert (await auditor(desk).audit()).missing == 0

    run(scenario())


@pytest.mark.parametrize("fails", ["dead", "waits"])
def test_events_that_failed_are_dead_or_still_being_tried(run: Run, desk: Desk, fails: str) -> None:
    async def scenario() -> None:
        await liked(desk)
        await handled(desk, {LIKERS[0], LIKERS[1]}, fails)
        found = await auditor(desk).audit(repair=True)
        dead = 2 if fails == "dead" else 0
        assert found == EventAudit(len(LIKERS) - 2 + dead, len(LIKERS) - 2, dead=dead)

    run(scenario())


Act = Callable[[Desk, NodeId], Awaitable[Any]]


async def _blocked_for_a_while(desk: Desk, _: NodeId) -> None:
    await desk.people.block(ALICE, BOB)
    desk.services.clock.ms += 1_000
    await desk.people.unblock(ALICE, BOB)


async def _muted_for_a_while(desk: Desk, _: NodeId) -> None:
    await desk.people.mute(ALICE, BOB)
    desk.services.clock.ms += 1_000
    await desk.people.unmute(ALICE, BOB)


async def _asked_for_nothing_for_a_while(desk: Desk, _: NodeId) -> None:
    for off in (("like",), ()):
        await desk.preferences.put(ALICE, Preferences(off=off))


async def _edited(desk: Desk, post: NodeId) -> None:
    await desk.posts.edit(ALICE, post, PostEdit(text="anew"))


async def _taken_back(desk: Desk, post: NodeId) -> None:
    await desk.services.engagement.drop(LIKES, BOB, post)


async def _deleted(desk: Desk, post: NodeId) -> None:
    await desk.posts.delete(ALICE, post)


@pytest.mark.parametrize(
    "act",
    [_blocked_for_a_while, _muted_for_a_while, _asked_for_nothing_for_a_while, _edited, _taken_back, _deleted],
)
def test_notices_that_may_have_been_forbidden_then_are_not_missing(run: Run, desk: Desk, act: Act) -> None:
    async def scenario() -> None:
        post = await liked(desk, [BOB])
        desk.services.clock.ms += 1_000
        await act(desk, post)
        await handled(desk, {BOB})
        found = await auditor(desk).audit()
        assert (found.missing, found.suppressed) == (0, found.expected)
        assert found.expected >= 1

    run(scenario())


def test_an_answered_request_and_earlier_events_are_not_missing(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await desk.services.edges.change_node(ALICE, private=True)
        await desk.people.follow(CAROL, ALICE)
        await desk.people.accept(ALICE, CAROL)
        await handled(desk)
        await desk.people.follow(DANA, BOB)
        found = await auditor(desk).audit()
        assert found == EventAudit(2, told=1, suppressed=1), "events that were not handled yet are skipped"
        assert (await auditor(desk, desk.services.clock.ms).audit()).expected == 0

    run(scenario())


def test_nothing_is_expected_of_a_log_that_intake_never_read(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await liked(desk, [BOB])
        assert await auditor(desk).audit() == EventAudit()

    run(scenario())
