"""CacheGeneration in which a stream could miss a change, or get it twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL
from stream_world import Play, StreamRecorder, StreamWorld

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
    async def scene(world: StreamWorld) -> None:
        late = StreamRecorder(CAROL)
        joins: list[asyncio.Task[None]] = []
        early = StreamRecorder(
            BOB, lambda: joins.append(asyncio.ensure_future(world.live.join(late.stream, place, [])))
        )
        await world.live.join(early.stream, None, [])
        with monkeypatch.context() as patch:
            patch.setattr(world.log, "read", nothing_new)
            made = await world.posts(5)  # they are then read in one batch
        await world.until(lambda: len(early.posts()) == 5)
        made += await world.posts(1)
        await world.until(lambda: len(early.posts()) == 6 and made[-1] in late.posts())
        assert early.posts() == made
        assert late.posts() == (made if place else made[-1:]), "without a position it begins after what was read before"
        assert sorted(late.places) == late.places

    play(scene)


def test_a_store_that_fails_half_way_through_the_readers_sends_nothing_twice(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "PART", 1)

    async def scene(world: StreamWorld) -> None:
        recorders = [StreamRecorder(BOB), StreamRecorder(CAROL), StreamRecorder(ALICE)]
        for recorder in recorders:
            await world.live.join(recorder.stream, None, [])
        store = world.objects.graph.store
        real, calls = store.answer, [0]

        async def flaky(questions: Questions) -> Answers:
            if questions.asked_nodes and questions.asked_states:  # the check of who may see a post
                calls[0] += 1
                if calls[0] in (2, 4):
                    raise StoreUnavailable("not now")
            return await real(questions)

        monkeypatch.setattr(store, "answer", flaky)
        made = await world.posts(1)
        await world.until(lambda: all(recorder.posts() for recorder in recorders))
        assert [recorder.posts() for recorder in recorders] == [made] * 3
        assert calls[0] > 4

    play(scene)


def test_a_bug_in_one_change_resets_everybody_and_later_changes_are_sent(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: StreamWorld) -> None:
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])

        async def broken(*_: Any) -> Any:
            raise ValueError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(world.store, "get_many", broken)
            await world.posts(1)
            await world.until(lambda: recorder.ended)
        assert (recorder.messages[-1], recorder.ended) == (("reset", {"reason": "changed"}), "reset")
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[-1]), [])
        made = await world.posts(1)
        await world.until(lambda: again.posts() == made)

    play(scene)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01"], ids=["empty", "no msgpack", "cut off"])
def test_a_notice_that_cannot_be_read_resets_nobody(play: Play, data: bytes) -> None:
    async def scene(world: StreamWorld) -> None:
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])
        await world.store.put([Record(RecordKind.NOTICE, 1 << 40, world.graph.clock.next(), data)])
        made = await world.posts(1)
        await world.until(lambda: recorder.posts() == made or recorder.ended)
        assert (recorder.posts(), recorder.ended) == (made, "")
        world.live.leave(recorder.stream)
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[0]), [])
        assert again.posts() == made

    play(scene)


def test_the_unread_count_is_sent_when_something_is_hidden_and_when_it_is_shown_again(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        post = NodeId((await world.objects.create(ALICE, Draft(text="x"))).post.id)
        await world.engagement.add(LIKES, BOB, post)
        world.settle()
        await world.notification_services.notices.notify([NoticeDraft("like", BOB, ALICE, 1, post)])
        recorder = StreamRecorder(ALICE)
        await world.live.join(recorder.stream, None, [])

        async def heard(number: int) -> None:
            await world.pass_seconds(3)
            told = [data for name, data in recorder.messages if name == "unread"]
            assert told[-1:] == [{"count": number, "partial": False}]

        await world.pass_seconds(2)
        assert "unread" not in recorder.names(), "it was loaded with the page"
        await world.engagement.drop(LIKES, BOB, post)
        await heard(0)
        await world.engagement.add(LIKES, BOB, post)  # this makes no new notification
        await heard(1)
        await world.graph.people.block(BOB, ALICE)
        await heard(0)
        await world.posts(1)
        await world.pass_seconds(3)
        assert recorder.names().count("unread") == 3, "nothing is sent while it is the same"

    play(scene)


def test_counts_wait_for_a_second_and_hold_the_position_back_until_they_are_sent(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])
        (post,) = await world.posts(1)
        await world.until(recorder.posts)
        for user in range(100, 110):
            await world.engagement.add(LIKES, NodeId(user), NodeId(int(post)))
        (later,) = await world.posts(1)
        await world.until(lambda: later in recorder.posts())
        held = recorder.places[-1]
        world.seconds += 1.0
        await world.until(lambda: recorder.messages[-1][0] == "engagement_update")
        assert [data["likeCount"] for name, data in recorder.messages if name == "engagement_update"] == [10]
        other = world.opened()  # another process
        resumed = StreamRecorder(BOB)
        await other.join(resumed.stream, str(held), [int(post)])
        assert [data["likeCount"] for name, data in resumed.messages if name == "engagement_update"] == [10]
        assert resumed.posts() == []
        await other.close()

    play(scene)


def test_counts_beyond_one_round_come_with_the_next(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PAIRS_MAX", 2)

    async def scene(world: StreamWorld) -> None:
        recorders = [StreamRecorder(BOB), StreamRecorder(CAROL)]
        for recorder in recorders:
            await world.live.join(recorder.stream, None, [])
        posts = await world.posts(3)
        await world.until(lambda: all(len(recorder.posts()) == 3 for recorder in recorders))
        for post in posts:
            await world.engagement.add(LIKES, NodeId(100), NodeId(int(post)))

        def told(recorder: StreamRecorder) -> list[str]:
            return [data["postId"] for name, data in recorder.messages if name == "engagement_update"]

        for round_ in range(1, 4):
            world.seconds += 1.0
            await world.until(lambda round_=round_: all(len(told(recorder)) >= round_ for recorder in recorders))  # type: ignore[misc]
            for _ in range(100):
                await asyncio.sleep(0)
            assert [len(told(recorder)) for recorder in recorders] == [round_, round_]
        assert [sorted(told(recorder)) for recorder in recorders] == [sorted(posts)] * 2

    play(scene)


def test_a_quiet_stream_gets_a_heartbeat_that_advances_its_position(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])
        for user in range(100, 120):
            await world.objects.graph.people.follow(NodeId(user), NodeId(user + 1))
        before, beats = recorder.places[-1], recorder.heartbeats
        for _ in range(20):
            world.seconds += 1.0
            await world.until(lambda: True)
            for _ in range(10):
                await asyncio.sleep(0)
        await world.until(lambda: recorder.heartbeats > beats)
        assert recorder.heartbeats == beats + 1
        behind = await world.log.behind(before.posts)
        assert (behind.events, recorder.places[-1].posts) == (20, behind.end)

    play(scene)


def test_without_a_stream_the_log_is_not_read(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        recorders = [StreamRecorder(BOB), StreamRecorder(CAROL)]
        for recorder in recorders:
            await world.live.join(recorder.stream, None, [])
        await world.until(lambda: world.lags)
        for recorder in recorders:
            world.live.leave(recorder.stream)
        read = len(world.lags)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(world.lags) == read
        again = StreamRecorder(BOB)
        made = await world.posts(2)
        await world.live.join(again.stream, str(recorders[0].places[-1]), [])
        assert again.posts() == made

    play(scene)


def test_events_that_the_log_forgot_are_reported_as_lost(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        first = StreamRecorder(BOB)
        await world.live.join(first.stream, None, [])
        world.live.leave(first.stream)
        await world.posts(500)  # the log keeps 200
        late = StreamRecorder(BOB)
        await world.live.join(late.stream, str(first.places[-1]), [])
        assert (late.messages, late.ended) == ([("reset", {"reason": "expired"})], "reset")

    play(scene)


async def unfollowed(world: StreamWorld, _: NodeId) -> None:
    await world.objects.graph.people.unfollow(ALICE, BOB)


async def let_go(world: StreamWorld, _: NodeId) -> None:
    await world.objects.graph.store.change_node(ALICE, private=True)
    await world.objects.graph.people.remove_follower(ALICE, BOB)


async def closed(world: StreamWorld, post: NodeId) -> None:
    await world.objects.edit(ALICE, post, PostEdit(visibility="private"))


@pytest.mark.parametrize("lost", [unfollowed, let_go, closed])
def test_a_reader_who_lost_sight_of_a_post_does_not_learn_that_it_was_deleted(
    play: Play, lost: Callable[[StreamWorld, NodeId], Awaitable[None]]
) -> None:
    async def scene(world: StreamWorld) -> None:
        for user in (BOB, CAROL):
            await world.objects.graph.people.follow(ALICE, user)
        recorders = {user: StreamRecorder(user) for user in (ALICE, BOB, CAROL)}
        for recorder in recorders.values():
            await world.live.join(recorder.stream, None, [])
        post = (await world.objects.create(ALICE, Draft(text="x", visibility="friends"))).post.id
        await world.until(lambda: all(recorder.posts() for recorder in recorders.values()))
        await lost(world, post)
        await world.objects.delete(ALICE, post)
        await world.until(lambda: all(recorder.removed_posts() for recorder in recorders.values()))
        told = {user: [why for _, why in recorder.removed_posts()] for user, recorder in recorders.items()}
        of_carol = "unavailable" if lost is closed else "author_deleted"
        assert told == {ALICE: ["author_deleted"], BOB: ["unavailable"], CAROL: [of_carol]}

    play(scene)


def test_a_round_that_finds_a_post_deleted_says_so_only_to_readers_who_could_see_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: StreamWorld) -> None:
        recorders = {user: StreamRecorder(user) for user in (ALICE, BOB)}
        for recorder in recorders.values():
            await world.live.join(recorder.stream, None, [])
        (post,) = await world.posts(1)
        await world.until(lambda: all(recorder.posts() for recorder in recorders.values()))
        await closed(world, NodeId(int(post)))
        (later,) = await world.posts(1)
        await world.until(lambda: later in recorders[BOB].posts())
        monkeypatch.setattr(world.log, "read", nothing_new)
        await world.objects.delete(ALICE, NodeId(int(post)))
        world.seconds += 1.0
        await world.until(lambda: all(recorder.removed_posts() for recorder in recorders.values()))
        assert [recorder.removed_posts() for recorder in recorders.values()] == [
            [(post, "author_deleted")],
            [(post, "unavailable")],
        ]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_reader_who_muted_an_author_gets_no_deletions_of_posts_they_never_got(play: Play, away: bool) -> None:
    async def scene(world: StreamWorld) -> None:
        await world.objects.graph.people.mute(CAROL, ALICE)
        (post,) = await world.posts(1)
        recorders = {user: StreamRecorder(user) for user in (BOB, CAROL)}
        for recorder in recorders.values():
            await world.live.join(recorder.stream, None, [])
            if away:
                world.live.leave(recorder.stream)
        await world.objects.delete(ALICE, NodeId(int(post)))
        own = str((await world.objects.create(CAROL, Draft(text="x"))).post.id)
        if away:
            for recorder in recorders.values():
                await world.live.join(recorder.stream, str(recorder.places[-1]), [])
        await world.until(lambda: recorders[BOB].removed_posts() and recorders[CAROL].posts())
        assert recorders[BOB].removed_posts() == [(post, "author_deleted")]
        new = {"postId": own, "authorId": str(CAROL), "preview": "x", "labels": []}
        assert recorders[CAROL].messages == [("new_post", new)]

    play(scene)


def test_the_task_that_follows_the_log_ends_when_stopped_though_the_store_fails_then(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two tasks follow it once a reader comes, and one skips a change that the other is handling."""

    async def scene(world: StreamWorld) -> None:
        reading = asyncio.Event()

        async def hides(*_: Any) -> Any:
            reading.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise StoreUnavailable("not now") from None

        recorder = StreamRecorder(ALICE)
        await world.live.join(recorder.stream, None, [])
        following = world.live._follow_task
        assert following is not None
        with monkeypatch.context() as patched:
            patched.setattr(world.live._tail, "read", hides)
            await reading.wait()
            world.live.leave(recorder.stream)
            await asyncio.wait([following], timeout=10)
        assert following.done()

    play(scene)
