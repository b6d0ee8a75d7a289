"""Which users are notified of what: each act once, and nothing that is hidden elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from desk import Desk

from kith.boards.collaborators import Collaborators
from kith.core.clock import Hlc
from kith.core.ids import ID_MAX, NodeId
from kith.core.paging import Window
from kith.engines.cassandra.partitions import Partitions
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import FOLLOWS, LIKES, MENTIONED, SHARES
from kith.notifications.inbox import PERIOD_MS
from kith.notifications.intake import FRESH_MS, NAME, begin
from kith.notifications.marks import NO_MARKS, read_marks
from kith.notifications.notice import NoticeDraft, NoticeType
from kith.notifications.outcomes import Outcomes
from kith.notifications.preferences import Preferences
from kith.notifications.rings import Rings
from kith.notifications.tiers import Tier
from kith.notifications.walks import EndedWalk, Walk
from kith.people.profiles import Profile
from kith.posts.post import PostEdit
from kith.records.store import RecordKind

Act = Callable[[Desk], Awaitable[None]]


async def like(desk: Desk, post: NodeId, user: NodeId = BOB) -> None:
    await desk.services.engagement.add(LIKES, user, post)


async def post_of(desk: Desk, author: NodeId = ALICE, **fields: object) -> NodeId:
    return NodeId((await desk.services.write(author, **fields)).id)


def test_acts_notify_the_users_whom_they_concern(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await desk.services.profiles.change(ALICE, lambda _: Profile(username="alice"))
        post = await post_of(desk)
        await like(desk, post)
        await desk.services.engagement.add(SHARES, BOB, post)
        comment, _ = await desk.comments.create(BOB, post, "well")
        reply, _ = await desk.comments.create(ALICE, post, "well?", NodeId(comment.id))
        await desk.comments.create(CAROL, post, "see @Alice", NodeId(reply.id))
        await desk.comments.like(CAROL, NodeId(comment.id))
        await desk.people.follow(CAROL, BOB)
        await post_of(desk, CAROL, text="hello", mentions=(BOB,))
        await desk.handle(times=3)
        # one of each, however often its event came; a mention comes before a reply to the same user
        assert sorted(await desk.told(ALICE)) == [("comment", BOB), ("like", BOB), ("mention", CAROL), ("share", BOB)]
        assert sorted(await desk.told(BOB)) == [
            ("follow", CAROL),
            ("like", CAROL),
            ("mention", CAROL),
            ("reply", ALICE),
        ]
        assert await desk.told(CAROL) == []

    run(scenario())


def test_a_request_and_its_acceptance_notify_once(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await desk.services.edges.change_node(ALICE, private=True)
        await desk.people.follow(BOB, ALICE)
        await desk.handle()
        assert await desk.told(ALICE) == [("follow_request", BOB)]
        await desk.people.accept(ALICE, BOB)
        await desk.handle(times=2)
        assert await desk.told(ALICE) == []  # the request is answered, and Alice knows of the follow
        assert await desk.told(BOB) == [("follow_accepted", ALICE)]

    run(scenario())


def test_an_account_that_becomes_public_notifies_nobody(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await desk.services.edges.change_node(ALICE, private=True)
        await desk.people.follow(BOB, ALICE)
        await desk.handle()
        await desk.services.edges.change_node(ALICE, private=False)
        await desk.people.accept_all(ALICE, [BOB])
        await desk.handle(times=2)
        assert (await desk.told(ALICE), await desk.told(BOB)) == ([], [])
        await desk.people.unfollow(BOB, ALICE)
        await desk.people.follow(BOB, ALICE)  # no request this time
        await desk.handle()
        assert await desk.told(ALICE) == [("follow", BOB)]

    run(scenario())


def test_like_unlike_like_notifies_once_and_is_hidden_in_between(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        post = await post_of(desk)
        await like(desk, post)
        await desk.handle()
        (first,) = await desk.listed(ALICE)
        await desk.services.engagement.drop(LIKES, BOB, post)
        await desk.handle()
        assert await desk.listed(ALICE) == []
        desk.services.clock.ms += 5_000
        await like(desk, post)
        await desk.handle(times=2)
        assert await desk.listed(ALICE) == [first]

    run(scenario())


async def _block(desk: Desk) -> None:
    await desk.people.block(ALICE, BOB)


async def _be_blocked(desk: Desk) -> None:
    await desk.people.block(BOB, ALICE)


async def _mute(desk: Desk) -> None:
    await desk.people.mute(ALICE, BOB)


async def _label(desk: Desk) -> None:
    await desk.services.edges.change_node(BOB, labels=1)


async def _remove(desk: Desk) -> None:
    await desk.services.edges.change_node(BOB, state=State.REMOVED)


async def _edit_out(desk: Desk) -> None:
    (post,), _ = await desk.posts.outbox(BOB, BOB, Window(1))
    await desk.posts.edit(BOB, NodeId(post.id), PostEdit(mentions=()))


async def _delete(desk: Desk) -> None:
    (post,), _ = await desk.posts.outbox(BOB, BOB, Window(1))
    await desk.posts.delete(BOB, NodeId(post.id))


async def _hide_from(desk: Desk) -> None:
    (post,), _ = await desk.posts.outbox(BOB, BOB, Window(1))
    await desk.posts.edit(BOB, NodeId(post.id), PostEdit(visibility="private"))


HIDING = [_block, _be_blocked, _mute, _label, _remove, _edit_out, _delete, _hide_from]


@pytest.mark.parametrize("hide", HIDING)
@pytest.mark.parametrize("late", [False, True], ids=["before it is told", "after"])
def test_a_mention_is_hidden_at_once(run: Run, desk: Desk, hide: Act, late: bool) -> None:
    async def scenario() -> None:
        await post_of(desk, BOB, text="hello", mentions=(ALICE,))
        desk.whole.settle()
        if late:
            await desk.handle()
            assert await desk.told(ALICE) == [("mention", BOB)]
        desk.whole.settle()
        await hide(desk)
        await desk.handle()
        assert await desk.told(ALICE) == []
        assert (await desk.notifications.unread(ALICE)).number == 0
        if not late and hide is not _mute:
            assert not desk.rows.rows, "a mention that must not be seen is not written"

    run(scenario())


def test_a_page_is_rebuilt_after_a_change_and_else_comes_from_the_cache(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        post = await post_of(desk, text="before")
        await like(desk, post)
        await desk.handle()
        first = await desk.page(ALICE)
        assert await desk.page(ALICE) is first
        await desk.posts.edit(ALICE, post, PostEdit(text="after"))
        edited = await desk.page(ALICE)
        assert edited.posts[post].text == "after"
        await like(desk, post, CAROL)
        await desk.handle()
        assert len((await desk.page(ALICE)).entries[0].notices) == 2
        await desk.notifications.read_up_to(ALICE, ID_MAX)
        read = await desk.page(ALICE)
        assert (read.entries[0].read, read.unread.number) == (True, 0)
        assert await desk.page(ALICE) is read
        await desk.preferences.put(ALICE, Preferences(off=("like",)))
        assert not (await desk.page(ALICE)).entries

    run(scenario())


def test_mentions_of_other_systems_are_told_apart_by_their_events(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        drafts = [
            NoticeDraft("mention", BOB, ALICE, desk.services.clock.ms, event=event) for event in ("first", "second")
        ]
        told = await desk.notices.notify(drafts)
        assert len({*told}) == 2
        assert await desk.notices.notify(drafts) == told
        assert len(await desk.listed(ALICE)) == 2

    run(scenario())


def test_mentions_of_a_user_in_texts_are_in_one_partition_of_the_log(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        mentioned = desk.services.graph.graphs.number(MENTIONED)
        for author in (BOB, CAROL, BOB, DANA):
            await post_of(desk, author, text="hello", mentions=(ALICE,))
        desk.whole.settle()
        events = (await desk.whole.log.read(desk.began, 100)).events
        sources = [event.source for event in events if event.graph == mentioned]
        assert sources == [ALICE] * 4
        assert {Partitions(16).of_node(source) for source in sources} == {Partitions(16).of_node(ALICE)}

    run(scenario())


def test_a_notice_of_a_type_of_a_newer_kith_is_left_out(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        of_tomorrow = cast(NoticeType, "birthday")
        types: tuple[NoticeType, ...] = (of_tomorrow, "mention")
        await desk.notices.notify([NoticeDraft(one, BOB, ALICE, desk.services.clock.ms, event="1") for one in types])
        assert await desk.told(ALICE) == [("mention", BOB)]

    run(scenario())


def test_a_removed_account_gets_no_notice_and_keeps_none(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await post_of(desk, BOB, text="hello", mentions=(ALICE,))
        await desk.handle()
        assert len(await desk.listed(ALICE)) == 1
        await post_of(desk, BOB, text="again", mentions=(ALICE,))
        await desk.services.edges.change_node(ALICE, state=State.REMOVED)
        await desk.notifications.read_up_to(ALICE, ID_MAX)
        for _ in range(2):
            await desk.notifications.forget(ALICE)
        await desk.handle(times=2)
        assert not desk.rows.rows
        (marks,) = await desk.whole.records.get_many(RecordKind.NOTICE_MARKS, [ALICE])
        assert read_marks(marks) == NO_MARKS

    run(scenario())


def test_notices_are_forgotten_with_the_rows_of_their_week(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        clock, made = desk.services.clock, list[int]()
        clock.ms += PERIOD_MS - clock.ms % PERIOD_MS  # the first moment of a week
        for user in (BOB, CAROL, DANA):  # one a week
            await desk.people.follow(user, ALICE)
            await desk.handle()
            made = [one.id for one in await desk.listed(ALICE)]
            clock.ms += PERIOD_MS
        last_week = clock.ms - PERIOD_MS
        assert await desk.notices.expire(last_week - 1) == (1, 1)
        assert [one.id for one in await desk.listed(ALICE)] == made[:2]
        assert await desk.notices.read(made) == [*(await desk.listed(ALICE)), None]
        assert await desk.notices.expire(last_week) == (1, 1)
        assert await desk.notices.expire(last_week) == (0, 0)
        assert await desk.notices.read(made[1:]) == [None, None]
        assert await desk.told(ALICE) == [("follow", DANA)]

    run(scenario())


def test_outcomes_and_rings_of_a_mention_are_forgotten_with_it(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        clock, records = desk.services.clock, desk.whole.records
        clock.ms += PERIOD_MS - clock.ms % PERIOD_MS
        outcomes, rings = Outcomes(records, desk.services.graph.clock), Rings(records, desk.services.graph.clock)
        told = list[int]()
        for actor in (BOB, CAROL):  # one a week
            told += await desk.notices.notify([NoticeDraft("mention", actor, ALICE, clock.ms)])
            await outcomes.note(EndedWalk(Walk(told[-1], ALICE, Tier.ALL, 1, told=3)))
            await rings.ring(told[-1], np.array([CAROL], np.int64), devices=False)
            clock.ms += PERIOD_MS
        await desk.notices.expire(clock.ms - PERIOD_MS)
        assert [len(one) for one in await outcomes.of(told)] == [0, 1]
        kept = await records.get_many(RecordKind.MENTION_RING, told)
        assert [record is not None for record in kept] == [False, True]

    run(scenario())


def test_acts_of_long_ago_notify_nobody(run: Run, desk: Desk) -> None:
    """An import edge by edge brings the versions that the edges had elsewhere."""

    async def scenario() -> None:
        follows, clock = desk.services.graph.graphs.number(FOLLOWS), desk.services.clock
        for user, age_ms in ((BOB, FRESH_MS), (CAROL, FRESH_MS - 1)):
            version = Hlc((clock.ms - age_ms) << 16)
            edge = Edge(follows, user, ALICE, State.NORMAL, clock.ms - age_ms, version)
            await desk.services.edges.apply([EdgeWrite(edge)])
        await desk.handle()
        assert await desk.told(ALICE) == [("follow", CAROL)]

    run(scenario())


def test_intake_starts_with_the_first_event_after_it_was_begun(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        await begin(desk.whole.log)
        await desk.people.follow(BOB, ALICE)
        await begin(desk.whole.log)  # another process starts
        desk.whole.settle()
        share = await desk.whole.log.subscribe(NAME)
        batch = await share.read(100)
        assert not batch.lost
        await desk.intake.handle(batch.events)
        assert await desk.told(ALICE) == [("follow", BOB)]

    run(scenario())


def test_a_follow_of_a_board_and_an_invitation_notify_while_they_hold(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        boards, following = desk.services.boards, desk.services.board_following
        board = (await boards.create(ALICE, "Recipes")).board
        await following.follow(CAROL, board.id)
        await Collaborators(boards).invite(ALICE, board.id, BOB)
        await desk.handle(times=3)
        (followed,) = (await desk.page(ALICE)).entries
        assert (followed.notices[0].type, [one.actor for one in followed.notices]) == ("board_follow", [CAROL])
        found = await desk.page(BOB)
        assert [(one.notices[0].type, one.notices[0].actor) for one in found.entries] == [("board_invite", ALICE)]
        assert found.boards[board.id].name == "Recipes"
        await boards.change(ALICE, board.id, secret=True)  # a secret board has members, no followers
        assert (await desk.told(ALICE), await desk.told(BOB)) == ([], [("board_invite", ALICE)])
        await Collaborators(boards).dismiss(ALICE, board.id, BOB)
        assert await desk.told(BOB) == []
        await Collaborators(boards).invite(ALICE, board.id, BOB)
        await desk.handle()
        assert await desk.told(BOB) == [("board_invite", ALICE)], "the earlier notice"
        await Collaborators(boards).dismiss(ALICE, board.id, BOB)
        await Collaborators(boards).invite(ALICE, board.id, CAROL)
        await boards.move(ALICE, board.id, CAROL)
        await Collaborators(boards).invite(CAROL, board.id, BOB)
        await desk.handle()
        assert await desk.told(BOB) == [("board_invite", CAROL)], "not the one that the earlier owner withdrew"
        await boards.delete(CAROL, board.id)
        assert await desk.told(BOB) == []

    run(scenario())


def test_followers_that_come_with_a_merged_board_do_not_notify(run: Run, desk: Desk) -> None:
    async def scenario() -> None:
        boards, following = desk.services.boards, desk.services.board_following
        one, other = [(await boards.create(ALICE, name)).board.id for name in ("Recipes", "Soups")]
        await following.follow(CAROL, one)
        await desk.handle()
        desk.services.clock.ms += 1_000
        await boards.merge(ALICE, one, other)
        await desk.handle()
        assert await desk.told(ALICE) == []
        await following.follow(BOB, other)
        await desk.handle()
        assert await desk.told(ALICE) == [("board_follow", BOB)]
        await Collaborators(boards).invite(ALICE, other, DANA)
        await boards.move(ALICE, other, DANA)
        assert await desk.told(ALICE) == [], "it is Dana's board now"

    run(scenario())
