"""The audit of inboxes finds the rows that are missing, and no other; what it repairs is as it was."""

from __future__ import annotations

import random

from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from desk import Desk

from kith.core.clock import hlc_of
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS
from kith.notifications.audit import Auditor, NoticeAudit
from kith.notifications.notice import Draft, Notice
from kith.notifications.preferences import CACHED_MS, Preferences

WANTING, OTHERS, LATE = range(100, 400), range(400, 450), range(500, 510)
NOTICES = 20


async def _mentions(desk: Desk) -> list[Notice]:
    """Mentions of Alice, whose followers WANTING asked for them: a row each, and her own."""
    clock, follows = desk.services.clock, desk.services.graph.graphs.number(FOLLOWS)

    async def follow(users: range) -> None:
        await desk.services.edges.apply(
            [EdgeWrite(Edge(follows, NodeId(user), ALICE, State.NORMAL, user, hlc_of(clock.ms))) for user in users]
        )

    await follow(WANTING)
    await follow(OTHERS)
    for user in (*WANTING, *LATE):
        await desk.preferences.put(NodeId(user), Preferences(mentions="followed"))
    clock.ms += 2 * CACHED_MS
    drafts = [Draft("mention", BOB, ALICE, clock.ms, event=f"e{at}") for at in range(NOTICES)]
    drafts += [Draft("mention", actor, BOB, clock.ms, event=f"f{actor}") for actor in (CAROL, DANA)]
    told: list[int] = []
    for at, draft in enumerate(drafts):
        told += await desk.notices.tell([draft._replace(post=at)])
    for notice in told[:NOTICES]:
        desk.rows.rows |= {(user, notice) for user in WANTING}
    clock.ms += 1_000
    desk.whole.settle()
    await follow(LATE)  # after the mentions: they are owed none of them
    await desk.preferences.put(NodeId(OTHERS[0]), Preferences(mentions="followed"))
    desk.whole.settle()
    return [one for one in await desk.notices.read(told) if one is not None]


def _auditor(desk: Desk, threshold: int = 10**6) -> Auditor:
    return Auditor(desk.services.graph, desk.whole.records, desk.inbox, threshold)


def test_rows_deleted_at_random_are_found_and_no_other(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        notices, chosen = await _mentions(desk), random.Random(7)
        whole = {*desk.rows.rows}
        kept = len(OTHERS) + len(LATE)
        sound = NoticeAudit(
            len(notices), len(whole) + NOTICES * kept, len(whole), NOTICES * kept, pull=0, missing=0, repaired=0
        )
        assert await _auditor(desk).audit(notices) == sound
        gone = {*chosen.sample(sorted(whole), len(whole) // 1_000), (ALICE, notices[0].id), (BOB, notices[-1].id)}
        desk.rows.rows -= gone
        found = await _auditor(desk).audit(notices)
        assert (found.missing, found.expected, found.repaired) == (len(gone), sound.expected, 0)
        assert {*found.examples} == {f"{user} of {notice}" for user, notice in gone}
        assert desk.rows.rows == whole - gone, "looking changes nothing"
        repaired = await _auditor(desk).audit(notices, repair=True)
        assert (repaired.missing, repaired.repaired, desk.rows.rows) == (len(gone), len(gone), whole)
        assert await _auditor(desk).audit(notices) == sound

    run(scenario())


def test_nobody_is_owed_a_row_who_is_gone_is_being_told_or_pulls(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        notices = await _mentions(desk)
        desk.rows.rows = {(user, notice) for user, notice in desk.rows.rows if user == ALICE}
        await desk.services.edges.change_node(BOB, state=State.REMOVED)
        under_way = await _auditor(desk).audit(notices, {one.id for one in notices})
        assert (under_way.missing, under_way.delivered, under_way.suppressed) == (0, NOTICES, 2)
        celebrity = await _auditor(desk, threshold=len(WANTING)).audit(notices)
        assert celebrity.missing == 0
        assert celebrity.pull == NOTICES * (len(WANTING) + len(OTHERS) + len(LATE))
        some = await _auditor(desk).audit(notices, sample=0.5)
        assert 0 < some.notices < len(notices)
        assert some.missing % len(WANTING) == 0 < some.missing

    run(scenario())
