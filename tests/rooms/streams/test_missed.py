"""What a reader gets on a resume: changes that take posts away, and changes that were made meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL
from hall import Ear, Hall, Play

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
    async def scene(hall: Hall) -> None:
        made = await hall.posts(3)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [int(post) for post in made])
        await hall.objects.graph.people.block(BOB, ALICE)
        await hall.until(lambda: len(ear.gone()) == 3)
        hall.live.leave(ear.stream)
        for place in ear.places[-3:-1]:
            again = Ear(BOB)
            await hall.live.join(again.stream, str(place), [])
            assert again.heard == [("reset", {"reason": "changed"})]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_late_label_is_sent_with_the_current_text_of_the_post(play: Play, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        (post,) = await hall.posts(1)
        ears = [Ear(BOB), Ear(ALICE)]
        for ear in ears:
            await hall.live.join(ear.stream, None, [int(post)])
            if away:
                hall.live.leave(ear.stream)
        await hall.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="what it says now"))
        await Moderation(hall.objects).set("post", NodeId(int(post)), SENSITIVE | LIMIT)
        hall.seconds += 1.0
        for ear, labels in zip(ears, (["sensitive"], ["limit", "sensitive"]), strict=True):
            if away:
                await hall.live.join(ear.stream, str(ear.places[-1]), [int(post)])
            told = {"postId": post, "authorId": str(ALICE), "preview": "what it says now", "labels": labels}
            await hall.until(lambda ear=ear, told=told: ("post_updated", told) in ear.heard)

    play(scene)


def test_an_author_who_is_labelled_while_away_is_reset(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        await hall.posts(1)
        ear = Ear(ALICE)
        await hall.live.join(ear.stream, None, [])
        hall.live.leave(ear.stream)
        await Moderation(hall.objects).set("user", ALICE, SENSITIVE)
        await hall.live.join(ear.stream, str(ear.places[-1]), [])
        assert ear.names() == ["reset changed"]

    play(scene)


def test_a_reader_cut_off_between_an_unfollow_and_its_round_is_reset(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        graph = hall.objects.graph
        made = await hall.posts(2)
        await graph.store.change_node(ALICE, private=True)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [int(post) for post in made])
        await hall.objects.create(BOB, Draft(text="mine"))
        await hall.until(ear.posts)
        await hall.turns()  # the first round is over
        await graph.people.remove_follower(ALICE, BOB)
        await hall.objects.create(BOB, Draft(text="mine, too"))
        await hall.until(lambda: len(ear.posts()) == 2)  # so the removal was read, and the next round has not come
        assert not ear.gone()
        hall.live.leave(ear.stream)
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[-1]), [])
        assert again.heard == [("reset", {"reason": "changed"})]

    play(scene)


@pytest.mark.parametrize("way", ["remove_follower", "unfollow", "private"])
@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_reader_who_loses_sight_of_an_account_gets_its_removals_or_a_reset(play: Play, way: str, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        graph = hall.objects.graph
        made = await hall.posts(2)
        ear = Ear(BOB)
        if way == "private":  # Bob does not follow her
            await graph.people.unfollow(BOB, ALICE)
        else:
            await graph.store.change_node(ALICE, private=True)
        await hall.live.join(ear.stream, None, [int(post) for post in made])
        if away:
            hall.live.leave(ear.stream)
        match way:
            case "remove_follower":
                await graph.people.remove_follower(ALICE, BOB)
            case "unfollow":
                await graph.people.unfollow(BOB, ALICE)
            case "private":
                await graph.store.change_node(ALICE, private=True, tell=user_changed(ALICE, graph.clock.next()))
        if away:
            await hall.live.join(ear.stream, str(ear.places[-1]), [int(post) for post in made])

        def told() -> bool:
            hall.seconds += 0.1  # a round may come before the change is read
            return len(ear.gone()) == 2 or bool(ear.ended)

        await hall.until(told)
        assert ear.heard == [("reset", {"reason": "changed"})] or sorted(ear.gone()) == [
            (post, "unavailable") for post in made
        ]

    play(scene)


@pytest.mark.parametrize("what", ["deleted", "edited"])
def test_a_reader_who_missed_very_many_removals_or_edits_is_reset(
    play: Play, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(missed, "POSTS_MAX", 3)

    async def scene(hall: Hall) -> None:
        made = await hall.posts(4)
        place = await hall.log.end()
        for post in made:
            if what == "deleted":
                await hall.objects.delete(ALICE, NodeId(int(post)))
            else:
                await hall.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="y"))
        ear = Ear(BOB)
        await hall.live.join(ear.stream, str(StreamPosition(place, place)), [])
        assert ear.heard == [("reset", {"reason": "too_far"})]
        near = Ear(BOB)
        read = await hall.log.read(place, 1)
        while read.events[0].graph != hall.objects.graph.graphs.number(AUTHORED):
            read = await hall.log.read(read.next, 1)
        after = read.next
        await hall.live.join(near.stream, str(StreamPosition(after, after)), [])
        assert not near.ended

    play(scene)


def test_positions_never_go_back_while_missed_changes_are_sent(play: Play) -> None:
    """Counts are sent last, for events that may be earlier. A reader cut off there must not get a post again."""

    async def scene(hall: Hall) -> None:
        (watched,) = await hall.posts(1)
        place = await hall.log.end()
        await hall.engagement.add(LIKES, CAROL, NodeId(int(watched)))
        (new,) = await hall.posts(1)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, str(StreamPosition(place, place)), [int(watched)])
        assert [name for name, _ in ear.heard] == ["new_post", "engagement_update"]
        assert ear.posts() == [new]
        assert ear.places == sorted(ear.places)
        hall.live.leave(ear.stream)
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[2]), [int(watched)])
        assert again.posts() == []

    play(scene)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "another"])
@pytest.mark.parametrize("taken_back", [False, True])
def test_a_reader_who_resumes_gets_the_current_unread_count_once(play: Play, elsewhere: bool, taken_back: bool) -> None:
    """No event that a resume reads says that a notification was hidden while nobody was connected."""

    async def scene(hall: Hall) -> None:
        post = NodeId((await hall.objects.create(ALICE, Draft(text="x"))).post.id)
        await hall.engagement.add(LIKES, BOB, post)
        ear = Ear(ALICE)
        await hall.live.join(ear.stream, None, [])
        await hall.telling.notices.notify([NoticeDraft("like", BOB, ALICE, 1, post)])
        await hall.pass_seconds(20)
        assert ear.heard[-1] == ("unread", {"count": 1, "partial": False})
        hall.live.leave(ear.stream)
        if taken_back:
            await hall.engagement.drop(LIKES, BOB, post)
        hall.settle()
        live = hall.opened() if elsewhere else hall.live
        again = Ear(ALICE)
        await live.join(again.stream, str(ear.places[-1]), [])
        await hall.pass_seconds(10)
        await live.close()
        told = [data["count"] for name, data in again.heard if name == "unread"]
        assert told == [0 if taken_back else 1]

    play(scene)


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
def test_a_mentioned_user_is_notified_once_though_their_followers_are_notified_later(play: Play, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        ear, follower = Ear(ALICE), Ear(BOB)
        for one in (ear, follower):
            await hall.live.join(one.stream, None, [])
        await hall.telling.external_mentions.accept("event", CAROL, ALICE, None, None)
        await hall.pass_seconds(20)
        assert ear.names().count("notification") == 1
        if away:
            for one in (ear, follower):
                hall.live.leave(one.stream)
        (notice,) = await hall.telling.inbox.page(ALICE, limit=5)
        await hall.telling.preferences.put(BOB, Preferences(mentions="followed"))
        users = np.array([BOB], np.int64)
        await hall.telling.inbox.add_for_all(notice, users)
        await Rings(hall.store, hall.graph.clock).ring(notice, users, devices=False)
        hall.settle()
        if away:
            for one in (ear, follower):
                await hall.live.join(one.stream, str(one.places[-1]), [])
        await hall.pass_seconds(3)
        assert [one.names().count("notification") for one in (ear, follower)] == [1, 1]

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

    async def scene(hall: Hall) -> None:
        await hall.posts(1)
        post = NodeId((await hall.objects.create(ALICE, before)).post.id)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        hall.live.leave(ear.stream)
        hall.clock.ms += 10 * missed.CLOCK_SKEW_MAX_MS
        await hall.objects.edit(ALICE, post, after)
        await Moderation(hall.objects).set("post", post, SENSITIVE)
        hall.settle()
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[-1]), [])
        await hall.turns()
        assert [name for name, _ in again.heard if name != "unread"] == told

    play(scene)


@pytest.mark.parametrize("ends", ["before", "meanwhile"])
def test_edits_for_friends_reset_a_reader_who_was_a_friend_until_then(play: Play, ends: str) -> None:
    """Bob and Alice follow each other until she unfollows him: long before he leaves, or while he is away."""

    async def scene(hall: Hall) -> None:
        people, (post,) = hall.objects.graph.people, await hall.posts(1)
        await hall.objects.edit(ALICE, NodeId(int(post)), PostEdit(visibility="friends"))
        await people.follow(ALICE, BOB)
        if ends == "before":
            await people.unfollow(ALICE, BOB)
        hall.clock.ms += 10 * missed.CLOCK_SKEW_MAX_MS
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        hall.live.leave(ear.stream)
        if ends == "meanwhile":
            await people.unfollow(ALICE, BOB)
        await hall.objects.edit(ALICE, NodeId(int(post)), PostEdit(text="news for friends"))
        hall.settle()
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[-1]), [])
        await hall.turns()
        assert [name for name, _ in again.heard if name != "unread"] == ([] if ends == "before" else ["reset"])

    play(scene)
