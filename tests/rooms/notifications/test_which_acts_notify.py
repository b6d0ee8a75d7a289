"""Which users are notified of what: each act once, and nothing that is hidden elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from notification_world import NotificationWorld

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

Act = Callable[[NotificationWorld], Awaitable[None]]


async def like(world: NotificationWorld, post: NodeId, user: NodeId = BOB) -> None:
    await world.services.engagement.add(LIKES, user, post)


async def post_of(world: NotificationWorld, author: NodeId = ALICE, **fields: object) -> NodeId:
    return NodeId((await world.services.write(author, **fields)).id)


def test_acts_notify_the_users_whom_they_concern(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await world.services.profiles.change(ALICE, lambda _: Profile(username="alice"))
        post = await post_of(world)
        await like(world, post)
        await world.services.engagement.add(SHARES, BOB, post)
        comment, _ = await world.comments.create(BOB, post, "well")
        reply, _ = await world.comments.create(ALICE, post, "well?", NodeId(comment.id))
        await world.comments.create(CAROL, post, "see @Alice", NodeId(reply.id))
        await world.comments.like(CAROL, NodeId(comment.id))
        await world.people.follow(CAROL, BOB)
        await post_of(world, CAROL, text="hello", mentions=(BOB,))
        await world.handle(times=3)
        # one of each, however often its event came; a mention comes before a reply to the same user
        assert sorted(await world.types_and_actors(ALICE)) == [
            ("comment", BOB),
            ("like", BOB),
            ("mention", CAROL),
            ("share", BOB),
        ]
        assert sorted(await world.types_and_actors(BOB)) == [
            ("follow", CAROL),
            ("like", CAROL),
            ("mention", CAROL),
            ("reply", ALICE),
        ]
        assert await world.types_and_actors(CAROL) == []

    run(scenario())


def test_a_request_and_its_acceptance_notify_once(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await world.services.edges.change_node(ALICE, private=True)
        await world.people.follow(BOB, ALICE)
        await world.handle()
        assert await world.types_and_actors(ALICE) == [("follow_request", BOB)]
        await world.people.accept(ALICE, BOB)
        await world.handle(times=2)
        assert await world.types_and_actors(ALICE) == []  # the request is answered, and Alice knows of the follow
        assert await world.types_and_actors(BOB) == [("follow_accepted", ALICE)]

    run(scenario())


def test_an_account_that_becomes_public_notifies_nobody(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await world.services.edges.change_node(ALICE, private=True)
        await world.people.follow(BOB, ALICE)
        await world.handle()
        await world.services.edges.change_node(ALICE, private=False)
        await world.people.accept_all(ALICE, [BOB])
        await world.handle(times=2)
        assert (await world.types_and_actors(ALICE), await world.types_and_actors(BOB)) == ([], [])
        await world.people.unfollow(BOB, ALICE)
        await world.people.follow(BOB, ALICE)  # no request this time
        await world.handle()
        assert await world.types_and_actors(ALICE) == [("follow", BOB)]

    run(scenario())


def test_like_unlike_like_notifies_once_and_is_hidden_in_between(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        post = await post_of(world)
        await like(world, post)
        await world.handle()
        (first,) = await world.listed(ALICE)
        await world.services.engagement.drop(LIKES, BOB, post)
        await world.handle()
        assert await world.listed(ALICE) == []
        world.services.clock.ms += 5_000
        await like(world, post)
        await world.handle(times=2)
        assert await world.listed(ALICE) == [first]

    run(scenario())


async def _block(world: NotificationWorld) -> None:
    await world.people.block(ALICE, BOB)


async def _be_blocked(world: NotificationWorld) -> None:
    await world.people.block(BOB, ALICE)


async def _mute(world: NotificationWorld) -> None:
    await world.people.mute(ALICE, BOB)


async def _label(world: NotificationWorld) -> None:
    await world.services.edges.change_node(BOB, labels=1)


async def _remove(world: NotificationWorld) -> None:
    await world.services.edges.change_node(BOB, state=State.REMOVED)


async def _edit_out(world: NotificationWorld) -> None:
    (post,), _ = await world.posts.outbox(BOB, BOB, Window(1))
    await world.posts.edit(BOB, NodeId(post.id), PostEdit(mentions=()))


async def _delete(world: NotificationWorld) -> None:
    (post,), _ = await world.posts.outbox(BOB, BOB, Window(1))
    await world.posts.delete(BOB, NodeId(post.id))


async def _hide_from(world: NotificationWorld) -> None:
    (post,), _ = await world.posts.outbox(BOB, BOB, Window(1))
    await world.posts.edit(BOB, NodeId(post.id), PostEdit(visibility="private"))


HIDING = [_block, _be_blocked, _mute, _label, _remove, _edit_out, _delete, _hide_from]


@pytest.mark.parametrize("hide", HIDING)
@pytest.mark.parametrize("late", [False, True], ids=["before it is told", "after"])
def test_a_mention_is_hidden_at_once(run: Run, world: NotificationWorld, hide: Act, late: bool) -> None:
    async def scenario() -> None:
        await post_of(world, BOB, text="hello", mentions=(ALICE,))
        world.whole.settle()
        if late:
            await world.handle()
            assert await world.types_and_actors(ALICE) == [("mention", BOB)]
        world.whole.settle()
        await hide(world)
        await world.handle()
        assert await world.types_and_actors(ALICE) == []
        assert (await world.notifications.unread(ALICE)).number == 0
        if not late and hide is not _mute:
            assert not world.rows.rows, "a mention that must not be seen is not written"

    run(scenario())


def test_a_page_is_rebuilt_after_a_change_and_else_comes_from_the_cache(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        post = await post_of(world, text="before")
        await like(world, post)
        await world.handle()
        first = await world.page(ALICE)
        assert await world.page(ALICE) is first
        await world.posts.edit(ALICE, post, PostEdit(text="after"))
        edited = await world.page(ALICE)
        assert edited.posts[post].text == "after"
        await like(world, post, CAROL)
        await world.handle()
        assert len((await world.page(ALICE)).entries[0].notices) == 2
        await world.notifications.read_up_to(ALICE, ID_MAX)
        read = await world.page(ALICE)
        assert (read.entries[0].read, read.unread.number) == (True, 0)
        assert await world.page(ALICE) is read
        await world.preferences.put(ALICE, Preferences(off=("like",)))
        assert not (await world.page(ALICE)).entries

    run(scenario())


def test_mentions_of_other_systems_are_told_apart_by_their_events(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        drafts = [
            NoticeDraft("mention", BOB, ALICE, world.services.clock.ms, event=event) for event in ("first", "second")
        ]
        told = await world.notices.notify(drafts)
        assert len({*told}) == 2
        assert await world.notices.notify(drafts) == told
        assert len(await world.listed(ALICE)) == 2

    run(scenario())


def test_mentions_of_a_user_in_texts_are_in_one_partition_of_the_log(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        mentioned = world.services.graph.graphs.number(MENTIONED)
        for author in (BOB, CAROL, BOB, DANA):
            await post_of(world, author, text="hello", mentions=(ALICE,))
        world.whole.settle()
        events = (await world.whole.log.read(world.log_start, 100)).events
        sources = [event.source for event in events if event.graph == mentioned]
        assert sources == [ALICE] * 4
        assert {Partitions(16).of_node(source) for source in sources} == {Partitions(16).of_node(ALICE)}

    run(scenario())


def test_a_notice_of_a_type_of_a_newer_kith_is_left_out(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        of_tomorrow = cast(NoticeType, "birthday")
        types: tuple[NoticeType, ...] = (of_tomorrow, "mention")
        await world.notices.notify([NoticeDraft(one, BOB, ALICE, world.services.clock.ms, event="1") for one in types])
        assert await world.types_and_actors(ALICE) == [("mention", BOB)]

    run(scenario())


def test_a_removed_account_gets_no_notice_and_keeps_none(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await post_of(world, BOB, text="hello", mentions=(ALICE,))
        await world.handle()
        assert len(await world.listed(ALICE)) == 1
        await post_of(world, BOB, text="again", mentions=(ALICE,))
        await world.services.edges.change_node(ALICE, state=State.REMOVED)
        await world.notifications.read_up_to(ALICE, ID_MAX)
        for _ in range(2):
            await world.notifications.forget(ALICE)
        await world.handle(times=2)
        assert not world.rows.rows
        (marks,) = await world.whole.records.get_many(RecordKind.NOTICE_MARKS, [ALICE])
        assert read_marks(marks) == NO_MARKS

    run(scenario())


def test_notices_are_forgotten_with_the_rows_of_their_week(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        clock, made = world.services.clock, list[int]()
        clock.ms += PERIOD_MS - clock.ms % PERIOD_MS  # the first moment of a week
        for user in (BOB, CAROL, DANA):  # one a week
            await world.people.follow(user, ALICE)
            await world.handle()
            made = [one.id for one in await world.listed(ALICE)]
            clock.ms += PERIOD_MS
        last_week = clock.ms - PERIOD_MS
        assert await world.notices.expire(last_week - 1) == (1, 1)
        assert [one.id for one in await world.listed(ALICE)] == made[:2]
        assert await world.notices.read(made) == [*(await world.listed(ALICE)), None]
        assert await world.notices.expire(last_week) == (1, 1)
        assert await world.notices.expire(last_week) == (0, 0)
        assert await world.notices.read(made[1:]) == [None, None]
        assert await world.types_and_actors(ALICE) == [("follow", DANA)]

    run(scenario())


def test_outcomes_and_rings_of_a_mention_are_forgotten_with_it(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        clock, records = world.services.clock, world.whole.records
        clock.ms += PERIOD_MS - clock.ms % PERIOD_MS
        outcomes, rings = Outcomes(records, world.services.graph.clock), Rings(records, world.services.graph.clock)
        told = list[int]()
        for actor in (BOB, CAROL):  # one a week
            told += await world.notices.notify([NoticeDraft("mention", actor, ALICE, clock.ms)])
            await outcomes.note(EndedWalk(Walk(told[-1], ALICE, Tier.ALL, 1, told=3)))
            await rings.ring(told[-1], np.array([CAROL], np.int64), devices=False)
            clock.ms += PERIOD_MS
        await world.notices.expire(clock.ms - PERIOD_MS)
        assert [len(one) for one in await outcomes.of(told)] == [0, 1]
        kept = await records.get_many(RecordKind.MENTION_RING, told)
        assert [record is not None for record in kept] == [False, True]

    run(scenario())


def test_acts_of_long_ago_notify_nobody(run: Run, world: NotificationWorld) -> None:
    """An import edge by edge brings the versions that the edges had elsewhere."""

    async def scenario() -> None:
        follows, clock = world.services.graph.graphs.number(FOLLOWS), world.services.clock
        for user, age_ms in ((BOB, FRESH_MS), (CAROL, FRESH_MS - 1)):
            version = Hlc((clock.ms - age_ms) << 16)
            edge = Edge(follows, user, ALICE, State.NORMAL, clock.ms - age_ms, version)
            await world.services.edges.apply([EdgeWrite(edge)])
        await world.handle()
        assert await world.types_and_actors(ALICE) == [("follow", CAROL)]

    run(scenario())


def test_intake_starts_with_the_first_event_after_it_was_begun(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        await begin(world.whole.log)
        await world.people.follow(BOB, ALICE)
        await begin(world.whole.log)  # another process starts
        world.whole.settle()
        share = await world.whole.log.subscribe(NAME)
        batch = await share.read(100)
        assert not batch.lost
        await world.intake.handle(batch.events)
        assert await world.types_and_actors(ALICE) == [("follow", BOB)]

    run(scenario())


def test_a_follow_of_a_board_and_an_invitation_notify_while_they_hold(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        boards, following = world.services.boards, world.services.board_following
        board = (await boards.create(ALICE, "Recipes")).board
        await following.follow(CAROL, board.id)
        await Collaborators(boards).invite(ALICE, board.id, BOB)
        await world.handle(times=3)
        (followed,) = (await world.page(ALICE)).entries
        assert (followed.notices[0].type, [one.actor for one in followed.notices]) == ("board_follow", [CAROL])
        found = await world.page(BOB)
        assert [(one.notices[0].type, one.notices[0].actor) for one in found.entries] == [("board_invite", ALICE)]
        assert found.boards[board.id].name == "Recipes"
        await boards.change(ALICE, board.id, secret=True)  # a secret board has members, no followers
        assert (await world.types_and_actors(ALICE), await world.types_and_actors(BOB)) == (
            [],
            [("board_invite", ALICE)],
        )
        await Collaborators(boards).dismiss(ALICE, board.id, BOB)
        assert await world.types_and_actors(BOB) == []
        await Collaborators(boards).invite(ALICE, board.id, BOB)
        await world.handle()
        assert await world.types_and_actors(BOB) == [("board_invite", ALICE)], "the earlier notice"
        await Collaborators(boards).dismiss(ALICE, board.id, BOB)
        await Collaborators(boards).invite(ALICE, board.id, CAROL)
        await boards.move(ALICE, board.id, CAROL)
        await Collaborators(boards).invite(CAROL, board.id, BOB)
        await world.handle()
        assert await world.types_and_actors(BOB) == [("board_invite", CAROL)], (
            "not the one that the earlier owner withdrew"
        )
        await boards.delete(CAROL, board.id)
        assert await world.types_and_actors(BOB) == []

    run(scenario())


def test_followers_that_come_with_a_merged_board_do_not_notify(run: Run, world: NotificationWorld) -> None:
    async def scenario() -> None:
        boards, following = world.services.boards, world.services.board_following
        one, other = [(await boards.create(ALICE, name)).board.id for name in ("Recipes", "Soups")]
        await following.follow(CAROL, one)
        await world.handle()
        world.services.clock.ms += 1_000
        await boards.merge(ALICE, one, other)
        await world.handle()
        assert await world.types_and_actors(ALICE) == []
        await following.follow(BOB, other)
        await world.handle()
        assert await world.types_and_actors(ALICE) == [("board_follow", BOB)]
        await Collaborators(boards).invite(ALICE, other, DANA)
        await boards.move(ALICE, other, DANA)
        assert await world.types_and_actors(ALICE) == [], "it is Dana's board now"

    run(scenario())
