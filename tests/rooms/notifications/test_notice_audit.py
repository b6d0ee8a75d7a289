"""The audit of inboxes finds exactly the missing rows; a repair restores them as they were."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from notification_world import NotificationWorld
from reference_activity import ReferenceActivity

from kith.core.clock import hlc_of
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.notifications import audit, mention_consumer
from kith.notifications.activity import Activity
from kith.notifications.audit import Auditor, NoticeAudit
from kith.notifications.inbox import InboxRow
from kith.notifications.notice import Notice, NoticeDraft
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import CACHED_MS, Preferences
from kith.notifications.tiers import DAY_MS, MONTH_MS, Tier
from kith.notifications.walks import EndedWalk, Walk
from kith.records.store import RecordKind
from kith.run.audits import MADE_BEFORE_LOGGED_MS, begun_until_ms

WANTING, OTHERS, LATE = range(100, 400), range(400, 450), range(500, 510)
NOTICES = 20


async def _mentions(world: NotificationWorld) -> list[Notice]:
    """Mentions of Alice. Her followers WANTING asked for them: each has a row, and so has she."""
    clock, follows = world.services.clock, world.services.graph.graphs.number(FOLLOWS)

    async def follow(users: range) -> None:
        await world.services.edges.apply(
            [EdgeWrite(Edge(follows, NodeId(user), ALICE, State.NORMAL, user, hlc_of(clock.ms))) for user in users]
        )

    await follow(WANTING)
    await follow(OTHERS)
    for user in (*WANTING, *LATE):
        await world.preferences.put(NodeId(user), Preferences(mentions="followed"))
    clock.ms += 2 * CACHED_MS
    drafts = [NoticeDraft("mention", BOB, ALICE, clock.ms, event=f"e{at}") for at in range(NOTICES)]
    drafts += [NoticeDraft("mention", actor, BOB, clock.ms, event=f"f{actor}") for actor in (CAROL, DANA)]
    told: list[int] = []
    for at, draft in enumerate(drafts):
        told += await world.notices.notify([draft._replace(post=at)])
    for notice in told[:NOTICES]:
        world.rows.rows |= {(user, notice) for user in WANTING}
    clock.ms += 1_000
    world.whole.settle()
    await follow(LATE)  # after the mentions, so these followers are owed none of them
    await world.preferences.put(NodeId(OTHERS[0]), Preferences(mentions="followed"))
    world.whole.settle()
    return [one for one in await world.notices.read(told) if one is not None]


def _auditor(world: NotificationWorld, threshold: int = 10**6, activity: Activity | None = None) -> Auditor:
    return Auditor(world.services.graph, world.whole.records, world.inbox, activity or ReferenceActivity(), threshold)


def test_rows_deleted_at_random_are_found_and_no_other(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        notices, chosen = await _mentions(world), random.Random(7)
        whole = {*world.rows.rows}
        kept = len(OTHERS) + len(LATE)
        sound = NoticeAudit(
            len(notices), len(whole) + NOTICES * kept, len(whole), NOTICES * kept, pull=0, dead=0, missing=0, repaired=0
        )
        assert await _auditor(world).audit(notices) == sound
        gone = {*chosen.sample(sorted(whole), len(whole) // 1_000), (ALICE, notices[0].id), (BOB, notices[-1].id)}
        world.rows.rows -= gone
        found = await _auditor(world).audit(notices)
        assert (found.missing, found.expected, found.repaired) == (len(gone), sound.expected, 0)
        assert {*found.examples} == {f"{user} of {notice}" for user, notice in gone}
        assert world.rows.rows == whole - gone, "an audit without repair changes nothing"
        repaired = await _auditor(world).audit(notices, repair=True)
        assert (repaired.missing, repaired.repaired, world.rows.rows) == (len(gone), len(gone), whole)
        assert await _auditor(world).audit(notices) == sound

    run(scenario())


def test_no_row_is_owed_for_a_removed_actor_or_during_a_walk(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        notices = await _mentions(world)
        world.rows.rows = {(user, notice) for user, notice in world.rows.rows if user == ALICE}
        await world.services.edges.change_node(BOB, state=State.REMOVED)
        under_way = await _auditor(world).audit(notices, {one.id for one in notices})
        assert (under_way.missing, under_way.delivered, under_way.suppressed) == (0, NOTICES, 2)
        some = await _auditor(world).audit(notices, sample=0.5)
        assert 0 < some.notices < len(notices)
        assert some.missing % len(WANTING) == 0 < some.missing

    run(scenario())


def test_no_follower_is_owed_a_row_of_a_mention_that_the_worker_has_not_read_yet(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        log, clock = world.whole.log, world.services.clock
        before = await log.end()
        notices = await _mentions(world)
        world.rows.rows = {(user, notice) for user, notice in world.rows.rows if user == ALICE}
        clock.ms += 10 * MADE_BEFORE_LOGGED_MS
        for position, missing in ((before, 0), (await log.end(), NOTICES * len(WANTING))):
            await log.save(mention_consumer.NAME, position, {})
            begun_ms = await begun_until_ms(log, clock.ms)
            found = await _auditor(world).audit(notices[:NOTICES], begun_until_ms=begun_ms)
            assert (found.missing, found.delivered) == (missing, NOTICES)

    run(scenario())


HERE, SINCE, AWAY = WANTING[:200], WANTING[200:250], WANTING[250:]


async def _tiers(world: NotificationWorld, notices: list[Notice], left: int = 0) -> ReferenceActivity:
    """Alice is a celebrity. HERE were last here before the mentions, SINCE after them, AWAY months ago."""
    activity, outcomes = ReferenceActivity(), Outcomes(world.whole.records, world.services.graph.clock)
    made_ms = world.services.clock.ms
    await activity.seen(np.array(HERE, np.int64), made_ms - DAY_MS)
    await activity.seen(np.array(SINCE, np.int64), made_ms + DAY_MS)
    await activity.seen(np.array(AWAY, np.int64), made_ms - MONTH_MS)
    for notice in notices[:NOTICES]:
        await outcomes.note(EndedWalk(Walk(notice.id, ALICE, Tier.MONTH, 1, told=250), left=left))
    away = {(user, notice.id) for user in AWAY for notice in notices}
    world.rows.rows -= away
    return activity


def test_of_a_celebritys_rows_only_those_that_a_tier_surely_wrote_can_be_missing(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        notices, chosen = await _mentions(world), random.Random(7)
        auditor, others = _auditor(world, 100, await _tiers(world, notices)), len(OTHERS) + len(LATE)
        sound = await auditor.audit(notices)
        assert (sound.missing, sound.dead, sound.delivered) == (0, 0, len(world.rows.rows))
        assert (sound.pull, sound.suppressed) == (NOTICES * len(AWAY), NOTICES * others)
        whole = {*world.rows.rows}
        here = sorted(row for row in whole if row[0] in HERE)
        gone, unsure = {*chosen.sample(here, len(here) // 1_000)}, {(SINCE[0], notices[0].id)}
        world.rows.rows -= gone | unsure
        found = await auditor.audit(notices, repair=True)
        assert (found.missing, found.repaired, found.expected) == (len(gone), len(gone), sound.expected)
        assert {*found.examples} == {f"{user} of {notice}" for user, notice in gone}
        assert found.pull == sound.pull + 1, "a follower who came since pulls it when they look"
        assert world.rows.rows == whole - unsure

    run(scenario())


def test_how_followers_were_notified_counts_though_the_account_has_fewer_or_more_of_them_now(
    run: Run, world: NotificationWorld
) -> None:
    async def scenario() -> None:
        notices, outcomes = await _mentions(world), Outcomes(world.whole.records, world.services.graph.clock)
        whole = {*world.rows.rows}
        activity = await _tiers(world, notices)
        was_celebrity = await _auditor(world, 10**6, activity).audit(notices)
        assert (was_celebrity.missing, was_celebrity.pull) == (0, NOTICES * len(AWAY))
        for notice in notices[:NOTICES]:
            await world.whole.records.forget(RecordKind.MENTION_OUTCOME, [notice.id])
            await outcomes.note(EndedWalk(Walk(notice.id, ALICE, Tier.ALL, 1, told=300)))
        is_celebrity = await _auditor(world, 100, activity).audit(notices)
        assert (is_celebrity.missing, is_celebrity.pull) == (len(whole) - len(world.rows.rows), 0)

    run(scenario())


def test_where_the_last_tier_yielded_its_followers_are_left_to_pull(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        notices = await _mentions(world)
        auditor = _auditor(world, 100, await _tiers(world, notices, left=1))
        world.rows.rows -= {(HERE[0], notice.id) for notice in notices}
        found = await auditor.audit(notices)
        assert (found.missing, found.pull) == (0, NOTICES * (len(AWAY) + 1))

    run(scenario())


def test_followers_whom_a_walk_gave_up_on_are_dead_and_notified_by_a_repair(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        notices = await _mentions(world)
        outcomes = Outcomes(world.whole.records, world.services.graph.clock)
        await outcomes.note(EndedWalk(Walk(notices[0].id, ALICE, Tier.ALL, 3, told=200), dead=1))
        lost = {(user, notices[0].id) for user in AWAY}
        world.rows.rows -= lost
        found = await _auditor(world).audit(notices, repair=True)
        assert (found.dead, found.missing, found.repaired) == (len(AWAY), 0, len(AWAY))
        assert lost <= world.rows.rows
        assert (await _auditor(world).audit(notices)).dead == 0

    run(scenario())


def test_a_repair_writes_a_chunk_of_followers_at_a_time(
    run: Run, world: NotificationWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many followers lost their rows, no call has more rows than an inbox takes."""
    monkeypatch.setattr(audit, "CHUNK", 40)
    sizes = list[int]()

    async def scenario() -> None:
        notices = await _mentions(world)
        whole = {*world.rows.rows}
        world.rows.rows = {(user, notice) for user, notice in whole if user == BOB}
        add = world.inbox.add

        async def counted(rows: Sequence[InboxRow]) -> list[bool]:
            sizes.append(len(rows))
            return await add(rows)

        monkeypatch.setattr(world.inbox, "add", counted)
        found = await _auditor(world).audit(notices, repair=True)
        assert (found.missing, found.repaired, world.rows.rows) == (len(whole) - 2, len(whole) - 2, whole)
        assert max(sizes) <= 40

    run(scenario())
