"""Of several reasons to notify a user of a comment, the first that the user wants is used, and once."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from notification_world import NotificationWorld

from kith.core.ids import NodeId
from kith.notifications.intake import NAME
from kith.notifications.missing_notices import EventAudit, EventAuditor
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.people.profiles import Profile

NO_MENTIONS = Preferences(mentions="none")


async def named_below(world: NotificationWorld) -> None:
    """Bob names Alice in a reply to her, below her own post."""
    await world.services.profiles.change(ALICE, lambda _: Profile(username="alice"))
    post = NodeId((await world.services.write(ALICE)).id)
    own, _ = await world.comments.create(ALICE, post, "what do you say?")
    await world.comments.create(BOB, post, "well, @alice", NodeId(own.id))


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Preferences(), ["mention"]),
        (NO_MENTIONS, ["reply"]),
        (Preferences(off=("mention",)), ["reply"]),
        (Preferences(off=("mention", "reply")), ["comment"]),
        (Preferences(off=("reply",), mentions="none"), ["comment"]),
        (Preferences(off=("mention", "reply", "comment")), []),
        (Preferences(accounts_off=(BOB,)), []),
    ],
)
def test_a_user_who_refuses_one_reason_is_notified_for_the_next(
    run: Run, world: NotificationWorld, wanted: Preferences, told: list[str]
) -> None:
    async def scenario() -> None:
        await world.preferences.put(ALICE, wanted)
        await named_below(world)
        await world.handle(times=3)
        assert await world.types_and_actors(ALICE) == [(type_, BOB) for type_ in told]

    run(scenario())


@pytest.mark.parametrize(("before", "after"), [(NO_MENTIONS, Preferences()), (Preferences(), NO_MENTIONS)])
def test_a_repetition_after_another_choice_notifies_nobody_twice(
    run: Run, world: NotificationWorld, before: Preferences, after: Preferences
) -> None:
    async def scenario() -> None:
        await world.preferences.put(ALICE, before)
        await named_below(world)
        began = world._handled_to
        await world.handle()
        (first,) = await world.listed(ALICE)
        await world.preferences.put(ALICE, after)
        world._handled_to = began
        await world.handle(times=2)
        assert len(world.rows.rows) == 1
        await world.preferences.put(ALICE, before)
        assert await world.listed(ALICE) == [first]

    run(scenario())


def test_all_reasons_are_one_notice_for_the_audit(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await world.preferences.put(ALICE, NO_MENTIONS)
        world.services.clock.ms += 2 * CACHED_MS
        await named_below(world)
        await world.people.follow(CAROL, BOB)
        world.whole.settle()
        log, clock = world.whole.log, world.services.clock
        await log.save(NAME, (await log.read(world.log_start, 1_000)).next, {})
        graph, recipients = world.services.graph, world.intake._recipients
        auditor = EventAuditor(log, graph, world.intake, world.notices, recipients, 0, clock)
        assert await auditor.audit(repair=True) == EventAudit(
            2, missing=2, repaired=2, examples=[f"{ALICE}, of the reply by {BOB}", f"{BOB}, of the follow by {CAROL}"]
        )
        assert await world.types_and_actors(ALICE) == [("reply", BOB)]
        assert await auditor.audit() == EventAudit(2, told=2)

    run(scenario())
