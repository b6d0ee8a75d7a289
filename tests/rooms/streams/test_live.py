"""CacheGeneration in which a stream could miss a change, or get it twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL
from hall import Ear, Hall, Play

from kith.core.errors import StoreUnavailable
from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.graph.graphs import LIKES
from kith.graph.questions import Answers, Questions
from kith.log.store import Batch
from kith.notifications.notice import NoticeDraft
from kith.posts.post import Draft, PostEdit
from kith.records.store import Record, RecordKind
from kith.streams import readers, rounds
from kith.streams.positions import StreamPosition


async def nothing_new(after: LogPosition, limit: int) -> Batch:
    """Replaces a read of the log."""
    return Batch((), after)


@pytest.mark.parametrize(
    "place", [str(StreamPosition(NOWHERE, NOWHERE)), None], ids=["with a place", "without a place"]
)
def test_a_stream_that_joins_while_changes_are_half_sent_gets_each_once(
    play: Play, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    async def scene(hall: Hall) -> None:
        late = Ear(CAROL)
        joins: list[asyncio.Task[None]] = []
        early = Ear(BOB, lambda: joins.append(asyncio.ensure_future(hall.live.join(late.stream, place, []))))
        await hall.live.join(early.stream, None, [])
        with monkeypatch.context() as patch:
            patch.setattr(hall.log, "read", nothing_new)
            made = await hall.posts(5)  # they are then read in one batch
        await hall.until(lambda: len(early.posts()) == 5)
        made += await hall.posts(1)
        await hall.until(lambda: len(early.posts()) == 6 and made[-1] in late.posts())
        assert early.posts() == made
        assert late.posts() == (made if place else made[-1:]), "without a position it begins after what was read before"
        assert sorted(late.places) == late.places

    play(scene)


def test_a_store_that_fails_half_way_through_the_readers_sends_nothing_twice(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "PART", 1)

    async def scene(hall: Hall) -> None:
        ears = [Ear(BOB), Ear(CAROL), Ear(ALICE)]
        for ear in ears:
            await hall.live.join(ear.stream, None, [])
        store = hall.objects.graph.store
        real, calls = store.answer, [0]

        async def flaky(questions: Questions) -> Answers:
            if questions.asked_nodes and questions.asked_states:  # the check of who may see a post
                calls[0] += 1
                if calls[0] in (2, 4):
                    raise StoreUnavailable("not now")
            return await real(questions)

        monkeypatch.setattr(store, "answer", flaky)
        made = await hall.posts(1)
        await hall.until(lambda: all(ear.posts() for ear in ears))
        assert [ear.posts() for ear in ears] == [made] * 3
        assert calls[0] > 4

    play(scene)


def test_a_bug_in_one_change_resets_everybody_and_later_changes_are_sent(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(hall: Hall) -> None:
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])

        async def broken(*_: Any) -> Any:
            raise ValueError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(hall.store, "get_many", broken)
            await hall.posts(1)
            await hall.until(lambda: ear.ended)
        assert (ear.heard[-1], ear.ended) == (("reset", {"reason": "changed"}), "reset")
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[-1]), [])
        made = await hall.posts(1)
        await hall.until(lambda: again.posts() == made)

    play(scene)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01"], ids=["empty", "no msgpack", "cut off"])
def test_a_notice_that_cannot_be_read_resets_nobody(play: Play, data: bytes) -> None:
    async def scene(hall: Hall) -> None:
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        await hall.store.put([Record(RecordKind.NOTICE, 1 << 40, hall.graph.clock.next(), data)])
        made = await hall.posts(1)
        await hall.until(lambda: ear.posts() == made or ear.ended)
        assert (ear.posts(), ear.ended) == (made, "")
        hall.live.leave(ear.stream)
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[0]), [])
        assert again.posts() == made

    play(scene)


def test_the_unread_count_is_sent_when_something_is_hidden_and_when_it_is_shown_again(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        post = NodeId((await hall.objects.create(ALICE, Draft(text="x"))).post.id)
        await hall.engagement.add(LIKES, BOB, post)
        hall.settle()
        await hall.telling.notices.notify([NoticeDraft("like", BOB, ALICE, 1, post)])
        ear = Ear(ALICE)
        await hall.live.join(ear.stream, None, [])

        async def heard(number: int) -> None:
            await hall.pass_seconds(3)
            told = [data for name, data in ear.heard if name == "unread"]
            assert told[-1:] == [{"count": number, "partial": False}]

        await hall.pass_seconds(2)
        assert "unread" not in ear.names(), "it was loaded with the page"
        await hall.engagement.drop(LIKES, BOB, post)
        await heard(0)
        await hall.engagement.add(LIKES, BOB, post)  # this makes no new notification
        await heard(1)
        await hall.graph.people.block(BOB, ALICE)
        await heard(0)
        await hall.posts(1)
        await hall.pass_seconds(3)
        assert ear.names().count("unread") == 3, "nothing is sent while it is the same"

    play(scene)


def test_counts_wait_for_a_second_and_hold_the_position_back_until_they_are_sent(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        (post,) = await hall.posts(1)
        await hall.until(ear.posts)
        for user in range(100, 110):
            await hall.engagement.add(LIKES, NodeId(user), NodeId(int(post)))
        (later,) = await hall.posts(1)
        await hall.until(lambda: later in ear.posts())
        held = ear.places[-1]
        hall.seconds += 1.0
        await hall.until(lambda: ear.heard[-1][0] == "engagement_update")
        assert [data["likeCount"] for name, data in ear.heard if name == "engagement_update"] == [10]
        other = hall.opened()  # another process
        resumed = Ear(BOB)
        await other.join(resumed.stream, str(held), [int(post)])
        assert [data["likeCount"] for name, data in resumed.heard if name == "engagement_update"] == [10]
        assert resumed.posts() == []
        await other.close()

    play(scene)


def test_counts_beyond_one_round_come_with_the_next(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PAIRS_MAX", 2)

    async def scene(hall: Hall) -> None:
        ears = [Ear(BOB), Ear(CAROL)]
        for ear in ears:
            await hall.live.join(ear.stream, None, [])
        posts = await hall.posts(3)
        await hall.until(lambda: all(len(ear.posts()) == 3 for ear in ears))
        for post in posts:
            await hall.engagement.add(LIKES, NodeId(100), NodeId(int(post)))

        def told(ear: Ear) -> list[str]:
            return [data["postId"] for name, data in ear.heard if name == "engagement_update"]

        for round_ in range(1, 4):
            hall.seconds += 1.0
            await hall.until(lambda round_=round_: all(len(told(ear)) >= round_ for ear in ears))  # type: ignore[misc]
            for _ in range(100):
                await asyncio.sleep(0)
            assert [len(told(ear)) for ear in ears] == [round_, round_]
        assert [sorted(told(ear)) for ear in ears] == [sorted(posts)] * 2

    play(scene)


def test_a_quiet_stream_gets_a_heartbeat_that_advances_its_position(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        for user in range(100, 120):
            await hall.objects.graph.people.follow(NodeId(user), NodeId(user + 1))
        before, beats = ear.places[-1], ear.beats
        for _ in range(20):
            hall.seconds += 1.0
            await hall.until(lambda: True)
            for _ in range(10):
                await asyncio.sleep(0)
        await hall.until(lambda: ear.beats > beats)
        assert ear.beats == beats + 1
        behind = await hall.log.behind(before.posts)
        assert (behind.events, ear.places[-1].posts) == (20, behind.end)

    play(scene)


def test_without_a_stream_the_log_is_not_read(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        ears = [Ear(BOB), Ear(CAROL)]
        for ear in ears:
            await hall.live.join(ear.stream, None, [])
        await hall.until(lambda: hall.lags)
        for ear in ears:
            hall.live.leave(ear.stream)
        read = len(hall.lags)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(hall.lags) == read
        again = Ear(BOB)
        made = await hall.posts(2)
        await hall.live.join(again.stream, str(ears[0].places[-1]), [])
        assert again.posts() == made

    play(scene)


def test_events_that_the_log_forgot_are_reported_as_lost(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        first = Ear(BOB)
        await hall.live.join(first.stream, None, [])
        hall.live.leave(first.stream)
        await hall.posts(500)  # the log keeps 200
        late = Ear(BOB)
        await hall.live.join(late.stream, str(first.places[-1]), [])
        assert (late.heard, late.ended) == ([("reset", {"reason": "expired"})], "reset")

    play(scene)


async def unfollowed(hall: Hall, _: NodeId) -> None:
    await hall.objects.graph.people.unfollow(ALICE, BOB)


async def let_go(hall: Hall, _: NodeId) -> None:
    await hall.objects.graph.store.change_node(ALICE, private=True)
    await hall.objects.graph.people.remove_follower(ALICE, BOB)


async def closed(hall: Hall, post: NodeId) -> None:
    await hall.objects.edit(ALICE, post, PostEdit(visibility="private"))


@pytest.mark.parametrize("lost", [unfollowed, let_go, closed])
def test_a_reader_who_lost_sight_of_a_post_does_not_learn_that_it_was_deleted(
    play: Play, lost: Callable[[Hall, NodeId], Awaitable[None]]
) -> None:
    async def scene(hall: Hall) -> None:
        for user in (BOB, CAROL):
            await hall.objects.graph.people.follow(ALICE, user)
        ears = {user: Ear(user) for user in (ALICE, BOB, CAROL)}
        for ear in ears.values():
            await hall.live.join(ear.stream, None, [])
        post = (await hall.objects.create(ALICE, Draft(text="x", visibility="friends"))).post.id
        await hall.until(lambda: all(ear.posts() for ear in ears.values()))
        await lost(hall, post)
        await hall.objects.delete(ALICE, post)
        await hall.until(lambda: all(ear.gone() for ear in ears.values()))
        told = {user: [why for _, why in ear.gone()] for user, ear in ears.items()}
        of_carol = "unavailable" if lost is closed else "author_deleted"
        assert told == {ALICE: ["author_deleted"], BOB: ["unavailable"], CAROL: [of_carol]}

    play(scene)


def test_a_round_that_finds_a_post_deleted_says_so_only_to_readers_who_could_see_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(hall: Hall) -> None:
        ears = {user: Ear(user) for user in (ALICE, BOB)}
        for ear in ears.values():
            await hall.live.join(ear.stream, None, [])
        (post,) = await hall.posts(1)
        await hall.until(lambda: all(ear.posts() for ear in ears.values()))
        await closed(hall, NodeId(int(post)))
        (later,) = await hall.posts(1)
        await hall.until(lambda: later in ears[BOB].posts())
        monkeypatch.setattr(hall.log, "read", nothing_new)
        await hall.objects.delete(ALICE, NodeId(int(post)))
        hall.seconds += 1.0
        await hall.until(lambda: all(ear.gone() for ear in ears.values()))
        assert [ear.gone() for ear in ears.values()] == [[(post, "author_deleted")], [(post, "unavailable")]]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_reader_who_muted_an_author_gets_no_deletions_of_posts_they_never_got(play: Play, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        await hall.objects.graph.people.mute(CAROL, ALICE)
        (post,) = await hall.posts(1)
        ears = {user: Ear(user) for user in (BOB, CAROL)}
        for ear in ears.values():
            await hall.live.join(ear.stream, None, [])
            if away:
                hall.live.leave(ear.stream)
        await hall.objects.delete(ALICE, NodeId(int(post)))
        own = str((await hall.objects.create(CAROL, Draft(text="x"))).post.id)
        if away:
            for ear in ears.values():
                await hall.live.join(ear.stream, str(ear.places[-1]), [])
        await hall.until(lambda: ears[BOB].gone() and ears[CAROL].posts())
        assert ears[BOB].gone() == [(post, "author_deleted")]
        new = {"postId": own, "authorId": str(CAROL), "preview": "x", "labels": []}
        assert ears[CAROL].heard == [("new_post", new)]

    play(scene)


def test_the_task_that_follows_the_log_ends_when_stopped_though_the_store_fails_then(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two tasks follow it once a reader comes, and one skips a change that the other is handling."""

    async def scene(hall: Hall) -> None:
        reading = asyncio.Event()

        async def hides(*_: Any) -> Any:
            reading.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise StoreUnavailable("not now") from None

        ear = Ear(ALICE)
        await hall.live.join(ear.stream, None, [])
        following = hall.live._follow_task
        assert following is not None
        with monkeypatch.context() as patched:
            patched.setattr(hall.live._tail, "read", hides)
            await reading.wait()
            hall.live.leave(ear.stream)
            await asyncio.wait([following], timeout=10)
        assert following.done()

    play(scene)
