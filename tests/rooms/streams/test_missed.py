"""What a reader gets on a resume: changes that take posts away, and changes that were made meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL
from stream_world import Play, StreamRecorder, StreamWorld

from kith.core.events import user_changed
from kith.core.ids import NodeId
from kith.core.labels import LIMIT, SENSITIVE
from kith.graph.graphs import AUTHORED, LIKES
from kith.notifications.notice import NoticeDraft
from kith.notifications.preferences import Preferences
from kith.notifications.rings import Rings
from kith.posts.labels import Moderation
from kith.posts.post import Draft, PostEdit
from kith.streams import missed
from kith.streams.positions import StreamPosition


def test_a_reader_cut_off_within_a_change_that_removes_many_posts_is_reset(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        made = await world.posts(3)
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [int(post) for post in made])
        await world.objects.graph.people.block(BOB, ALICE)
        await world.until(lambda: len(recorder.removed_posts()) == 3)
        world.live.leave(recorder.stream)
        for place in recorder.places[-3:-1]:
            again = StreamRecorder(BOB)
            await world.live.join(again.stream, str(place), [])
            assert again.messages == [("reset", {"reason": "changed"})]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_late_label_is_sent_with_the_current_text_of_the_post(play: Play, away: bool) -> None:
    async def scene(world: StreamWorld) -> None:
        (post,) = await world.posts(1)
        recorders = [StreamRecorder(BOB), StreamRecorder(ALICE)]
        for recorder in recorders:
            await world.live.join(recorder.stream, None, [int(post)])
            if away:
                world.live.leave(recorder.stream)
        await world.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="what it says now"))
        await Moderation(world.objects).set("post", NodeId(int(post)), SENSITIVE | LIMIT)
        world.seconds += 1.0
        for recorder, labels in zip(recorders, (["sensitive"], ["limit", "sensitive"]), strict=True):
            if away:
                await world.live.join(recorder.stream, str(recorder.places[-1]), [int(post)])
            told = {"postId": post, "authorId": str(ALICE), "preview": "what it says now", "labels": labels}
            await world.until(lambda recorder=recorder, told=told: ("post_updated", told) in recorder.messages)

    play(scene)


def test_an_author_who_is_labelled_while_away_is_reset(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        await world.posts(1)
        recorder = StreamRecorder(ALICE)
        await world.live.join(recorder.stream, None, [])
        world.live.leave(recorder.stream)
        await Moderation(world.objects).set("user", ALICE, SENSITIVE)
        await world.live.join(recorder.stream, str(recorder.places[-1]), [])
        assert recorder.names() == ["reset changed"]

    play(scene)


def test_a_reader_cut_off_between_an_unfollow_and_its_round_is_reset(play: Play) -> None:
    async def scene(world: StreamWorld) -> None:
        graph = world.objects.graph
        made = await world.posts(2)
        await graph.store.change_node(ALICE, private=True)
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [int(post) for post in made])
        await world.objects.create(BOB, Draft(text="mine"))
        await world.until(recorder.posts)
        await world.turns()  # the first round is over
        await graph.people.remove_follower(ALICE, BOB)
        await world.objects.create(BOB, Draft(text="mine, too"))
        await world.until(
            lambda: len(recorder.posts()) == 2
        )  # so the removal was read, and the next round has not come
        assert not recorder.removed_posts()
        world.live.leave(recorder.stream)
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[-1]), [])
        assert again.messages == [("reset", {"reason": "changed"})]

    play(scene)


@pytest.mark.parametrize("way", ["remove_follower", "unfollow", "private"])
@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_reader_who_loses_sight_of_an_account_gets_its_removals_or_a_reset(play: Play, way: str, away: bool) -> None:
    async def scene(world: StreamWorld) -> None:
        graph = world.objects.graph
        made = await world.posts(2)
        recorder = StreamRecorder(BOB)
        if way == "private":  # Bob does not follow her
            await graph.people.unfollow(BOB, ALICE)
        else:
            await graph.store.change_node(ALICE, private=True)
        await world.live.join(recorder.stream, None, [int(post) for post in made])
        if away:
            world.live.leave(recorder.stream)
        match way:
            case "remove_follower":
                await graph.people.remove_follower(ALICE, BOB)
            case "unfollow":
                await graph.people.unfollow(BOB, ALICE)
            case "private":
                await graph.store.change_node(ALICE, private=True, tell=user_changed(ALICE, graph.clock.next()))
        if away:
            await world.live.join(recorder.stream, str(recorder.places[-1]), [int(post) for post in made])

        def told() -> bool:
            world.seconds += 0.1  # a round may come before the change is read
            return len(recorder.removed_posts()) == 2 or bool(recorder.ended)

        await world.until(told)
        assert recorder.messages == [("reset", {"reason": "changed"})] or sorted(recorder.removed_posts()) == [
            (post, "unavailable") for post in made
        ]

    play(scene)


@pytest.mark.parametrize("what", ["deleted", "edited"])
def test_a_reader_who_missed_very_many_removals_or_edits_is_reset(
    play: Play, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(missed, "POSTS_MAX", 3)

    async def scene(world: StreamWorld) -> None:
        made = await world.posts(4)
        place = await world.log.end()
        for post in made:
            if what == "deleted":
                await world.objects.delete(ALICE, NodeId(int(post)))
            else:
                await world.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="y"))
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, str(StreamPosition(place, place)), [])
        assert recorder.messages == [("reset", {"reason": "too_far"})]
        near = StreamRecorder(BOB)
        read = await world.log.read(place, 1)
        while read.events[0].graph != world.objects.graph.graphs.number(AUTHORED):
            read = await world.log.read(read.next, 1)
        after = read.next
        await world.live.join(near.stream, str(StreamPosition(after, after)), [])
        assert not near.ended

    play(scene)


def test_positions_never_go_back_while_missed_changes_are_sent(play: Play) -> None:
    """Counts are sent last, for events that may be earlier. A reader cut off there must not get a post again."""

    async def scene(world: StreamWorld) -> None:
        (watched,) = await world.posts(1)
        place = await world.log.end()
        await world.engagement.add(LIKES, CAROL, NodeId(int(watched)))
        (new,) = await world.posts(1)
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, str(StreamPosition(place, place)), [int(watched)])
        assert [name for name, _ in recorder.messages] == ["new_post", "engagement_update"]
        assert recorder.posts() == [new]
        assert recorder.places == sorted(recorder.places)
        world.live.leave(recorder.stream)
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[2]), [int(watched)])
        assert again.posts() == []

    play(scene)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "another"])
@pytest.mark.parametrize("taken_back", [False, True])
def test_a_reader_who_resumes_gets_the_current_unread_count_once(play: Play, elsewhere: bool, taken_back: bool) -> None:
    """No event that a resume reads says that a notification was hidden while nobody was connected."""

    async def scene(world: StreamWorld) -> None:
        post = NodeId((await world.objects.create(ALICE, Draft(text="x"))).post.id)
        await world.engagement.add(LIKES, BOB, post)
        recorder = StreamRecorder(ALICE)
        await world.live.join(recorder.stream, None, [])
        await world.notification_services.notices.notify([NoticeDraft("like", BOB, ALICE, 1, post)])
        await world.pass_seconds(20)
        assert recorder.messages[-1] == ("unread", {"count": 1, "partial": False})
        world.live.leave(recorder.stream)
        if taken_back:
            await world.engagement.drop(LIKES, BOB, post)
        world.settle()
        live = world.opened() if elsewhere else world.live
        again = StreamRecorder(ALICE)
        await live.join(again.stream, str(recorder.places[-1]), [])
        await world.pass_seconds(10)
        await live.close()
        told = [data["count"] for name, data in again.messages if name == "unread"]
        assert told == [0 if taken_back else 1]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_mentioned_user_is_notified_once_though_their_followers_are_notified_later(play: Play, away: bool) -> None:
    async def scene(world: StreamWorld) -> None:
        recorder, follower = StreamRecorder(ALICE), StreamRecorder(BOB)
        for one in (recorder, follower):
            await world.live.join(one.stream, None, [])
        await world.notification_services.external_mentions.accept("event", CAROL, ALICE, None, None)
        await world.pass_seconds(20)
        assert recorder.names().count("notification") == 1
        if away:
            for one in (recorder, follower):
                world.live.leave(one.stream)
        (notice,) = await world.notification_services.inbox.page(ALICE, limit=5)
        await world.notification_services.preferences.put(BOB, Preferences(mentions="followed"))
        users = np.array([BOB], np.int64)
        await world.notification_services.inbox.add_for_all(notice, users)
        await Rings(world.store, world.graph.clock).ring(notice, users, devices=False)
        world.settle()
        if away:
            for one in (recorder, follower):
                await world.live.join(one.stream, str(one.places[-1]), [])
        await world.pass_seconds(3)
        assert [one.names().count("notification") for one in (recorder, follower)] == [1, 1]

    play(scene)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (Draft(text="a draft", visibility="private"), PostEdit(text="another"), []),
        (Draft(text="for carol", visibility="custom", audience=(CAROL,)), PostEdit(text="still"), []),
        (Draft(text="for all"), PostEdit(visibility="private"), ["reset"]),
        (Draft(text="for bob", visibility="custom", audience=(BOB,)), PostEdit(audience=(CAROL,)), ["reset"]),
        (Draft(text="for friends", visibility="friends"), PostEdit(text="still"), []),
    ],
    ids=["a draft", "for others", "made private", "taken from the reader", "for friends"],
)
def test_edits_of_a_post_that_was_never_for_the_reader_are_not_sent(
    play: Play, before: Draft, after: PostEdit, told: list[str]
) -> None:
    """Bob follows Alice. A reset would tell him that she writes something that is not for him."""

    async def scene(world: StreamWorld) -> None:
        await world.posts(1)
        post = NodeId((await world.objects.create(ALICE, before)).post.id)
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])
        world.live.leave(recorder.stream)
        world.clock.ms += 10 * missed.CLOCK_SKEW_MAX_MS
        await world.objects.edit(ALICE, post, after)
        await Moderation(world.objects).set("post", post, SENSITIVE)
        world.settle()
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[-1]), [])
        await world.turns()
        assert [name for name, _ in again.messages if name != "unread"] == told

    play(scene)


@pytest.mark.parametrize("ends", ["before", "meanwhile"])
def test_edits_for_friends_reset_a_reader_who_was_a_friend_until_then(play: Play, ends: str) -> None:
    """Bob and Alice follow each other until she unfollows him: long before he leaves, or while he is away."""

    async def scene(world: StreamWorld) -> None:
        people, (post,) = world.objects.graph.people, await world.posts(1)
        await world.objects.edit(ALICE, NodeId(int(post)), PostEdit(visibility="friends"))
        await people.follow(ALICE, BOB)
        if ends == "before":
            await people.unfollow(ALICE, BOB)
        world.clock.ms += 10 * missed.CLOCK_SKEW_MAX_MS
        recorder = StreamRecorder(BOB)
        await world.live.join(recorder.stream, None, [])
        world.live.leave(recorder.stream)
        if ends == "meanwhile":
            await people.unfollow(ALICE, BOB)
        await world.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="news for friends"))
        world.settle()
        again = StreamRecorder(BOB)
        await world.live.join(again.stream, str(recorder.places[-1]), [])
        await world.turns()
        assert [name for name, _ in again.messages if name != "unread"] == ([] if ends == "before" else ["reset"])

    play(scene)
