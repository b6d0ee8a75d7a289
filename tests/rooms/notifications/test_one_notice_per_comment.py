"""Of several reasons to notify a user of a comment, the first that the user wants is used, and once."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL
from coroutines import Run
from desk import Desk

from kith.core.ids import NodeId
from kith.notifications.intake import NAME
from kith.notifications.missing_notices import EventAudit, EventAuditor
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.people.profiles import Profile

NO_MENTIONS = Preferences(mentions="none")


async def named_below(desk: Desk) -> None:
    """Bob names Alice in a reply to her, below her own post."""
    await desk.services.profiles.change(ALICE, lambda _: Profile(username="alice"))
    post = NodeId((await desk.services.write(ALICE)).id)
    own, _ = await desk.comments.create(ALICE, post, "what do you say?")
    await desk.comments.create(BOB, post, "well, @alice", NodeId(own.id))


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
    run: Run, desk: Desk, wanted: Preferences, told: list[str]
) -> None:
    async def scenario() -> None:
        await desk.preferences.put(ALICE, wanted)
        await named_below(desk)
        await desk.handle(times=3)
        assert await desk.told(ALICE) == [(type_, BOB) for type_ in told]

    run(scenario())


@pytest.mark.parametrize(("before", "after"), [(NO_MENTIONS, Preferences()), (Preferences(), NO_MENTIONS)])
def test_a_repetition_after_another_choice_notifies_nobody_twice(
    run: Run, desk: Desk, before: Preferences, after: Preferences
) -> None:
    async def scenario() -> None:
        await desk.preferences.put(ALICE, before)
        await named_below(desk)
        began = desk._at
        await desk.handle()
        (first,) = await desk.listed(ALICE)
        await desk.preferences.put(ALICE, after)
        desk._at = began
        await desk.handle(times=2)
        assert len(desk.rows.rows) == 1
        await desk.preferences.put(ALICE, before)
        assert await desk.listed(ALICE) == [first]

    run(scenario())


def test_all_reasons_are_one_notice_for_the_audit(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await desk.preferences.put(ALICE, NO_MENTIONS)
        desk.services.clock.ms += 2 * CACHED_MS
        await named_below(desk)
        await desk.people.follow(CAROL, BOB)
        desk.whole.settle()
        log, clock = desk.whole.log, desk.services.clock
        await log.save(NAME, (await log.read(desk.began, 1_000)).next, {})
        graph, recipients = desk.services.graph, desk.intake._recipients
        auditor = EventAuditor(log, graph, desk.intake, desk.notices, recipients, 0, clock)
        assert await auditor.audit(repair=True) == EventAudit(
            2, missing=2, repaired=2, examples=[f"{ALICE}, of the reply by {BOB}", f"{BOB}, of the follow by {CAROL}"]
        )
        assert await desk.told(ALICE) == [("reply", BOB)]
        assert await auditor.audit() == EventAudit(2, told=2)

    run(scenario())
