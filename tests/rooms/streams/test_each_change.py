"""The messages that Bob gets for each kind of change: while he is connected, and when he resumes.

Bob follows Alice, and has a post of hers on the screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL
from hall import Ear, Hall, Play
from reference_leases import own_leases

from kith.core.events import BULK_LOADED, Event, user_changed
from kith.core.ids import ID_MAX, NodeId
from kith.core.labels import HIDE, SENSITIVE
from kith.graph.edge import Direction
from kith.graph.graphs import AUTHORED, FOLLOWS, HIDES, LIKES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.notifications.notice import NoticeDraft as Notified
from kith.notifications.preferences import Preferences
from kith.notifications.rings import Rings
from kith.people.removal import account_jobs
from kith.posts.labels import Moderation
from kith.posts.post import Draft, PostEdit


class Case(NamedTuple):
    """What happens, and what Bob gets: names of messages, with the reason where there is one."""

    act: Callable[[Hall, NodeId], Awaitable[Any]]
    live: list[str]
    resumed: list[str]
    before: Callable[[Hall], Awaitable[Any]] | None = None  # the state before Bob connects


async def account_becomes_private(hall: Hall, _: NodeId) -> None:
    graph = hall.objects.graph
    await graph.store.change_node(ALICE, private=True, tell=user_changed(ALICE, graph.clock.next()))


async def bob_asks_carol(hall: Hall) -> None:
    graph = hall.objects.graph
    await graph.store.change_node(CAROL, private=True)
    await graph.people.follow(BOB, CAROL)


async def account_is_hidden(hall: Hall, _: NodeId) -> None:
    graph = hall.objects.graph
    await graph.store.change_node(ALICE, labels=HIDE, tell=user_changed(ALICE, graph.clock.next()))


async def account_is_public_again(hall: Hall, _: NodeId) -> None:
    graph = hall.objects.graph
    await graph.store.change_node(ALICE, private=False, tell=user_changed(ALICE, graph.clock.next()))


async def account_is_put_away(hall: Hall, _: NodeId) -> None:
    await do_to_account(hall, NodeOperation.ARCHIVE)


async def account_comes_back(hall: Hall, _: NodeId) -> None:
    await do_to_account(hall, NodeOperation.RESTORE)


async def do_to_account(hall: Hall, operation: NodeOperation) -> None:
    jobs = account_jobs(hall.objects.graph, own_leases())
    await jobs.start(operation, ALICE)
    await jobs.wait()


def labels_alice(*labels: int) -> Callable[[Hall, NodeId], Awaitable[Any]]:
    """The app labels Alice with each of these in turn."""

    async def act(hall: Hall, _: NodeId) -> None:
        for bits in labels:
            await Moderation(hall.objects).set("user", ALICE, bits)

    return act


def account_private(hall: Hall) -> Awaitable[Any]:
    return hall.objects.graph.store.change_node(ALICE, private=True)


def account_hidden(hall: Hall) -> Awaitable[Any]:
    return Moderation(hall.objects).set("user", ALICE, HIDE)


def account_away(hall: Hall) -> Awaitable[Any]:
    return do_to_account(hall, NodeOperation.ARCHIVE)


async def bob_unfollows_a_private_account(hall: Hall, _: NodeId) -> None:
    graph = hall.objects.graph
    await graph.store.change_node(ALICE, private=True)
    await graph.people.unfollow(BOB, ALICE)


async def post_is_for_friends(hall: Hall) -> None:
    graph = hall.objects.graph
    await graph.people.follow(ALICE, BOB)
    (post,) = (await graph.store.ids(Listing(graph.graphs.number(AUTHORED), ALICE, Direction.OUT), 1)).tolist()
    await hall.objects.edit(ALICE, post, PostEdit(visibility="friends"))


async def follows_are_loaded(hall: Hall, _: NodeId) -> None:
    graph = hall.objects.graph
    loaded = graph.graphs.number(FOLLOWS)
    await hall.log.announce(Event(loaded, None, BULK_LOADED, 3, 0, 0, graph.clock.next()))


async def carol_mentions_bob(hall: Hall, _: NodeId) -> None:
    assert await hall.telling.external_mentions.accept("e", CAROL, BOB, None, None)


async def bob_asks_for_mentions(hall: Hall) -> None:
    await hall.telling.preferences.put(BOB, Preferences(mentions="followed"))


def followers_are_told(*followers: NodeId) -> Callable[[Hall, NodeId], Awaitable[Any]]:
    """Carol mentions Alice, and these followers of hers are notified, with a repetition; others are not."""

    async def act(hall: Hall, _: NodeId) -> None:
        (told,) = await hall.telling.notices.notify([Notified("mention", CAROL, ALICE, 0, event="x")])
        users, rings = np.array(followers, np.int64), Rings(hall.store, hall.graph.clock)
        await hall.telling.inbox.add_for_all(told, users)
        for _ in range(2):
            await rings.ring(told, users, devices=False)

    return act


RESET = ["reset changed"]
CASES = {
    "alice posts": Case(
        lambda hall, _: hall.objects.create(ALICE, Draft(text="new")),
        live=["new_post"],
        resumed=["new_post"],
    ),
    "alice deletes the post": Case(
        lambda hall, post: hall.objects.delete(ALICE, post),
        live=["post_removed author_deleted"],
        resumed=["post_removed author_deleted"],
    ),
    "alice edits the post, which stays public": Case(
        lambda hall, post: hall.objects.edit(ALICE, post, PostEdit(text="y")),
        live=["post_updated"],
        resumed=["post_updated"],
    ),
    "the app labels the post": Case(
        lambda hall, post: Moderation(hall.objects).set("post", post, SENSITIVE),
        live=["post_updated"],
        resumed=["post_updated"],
    ),
    "the app labels alice": Case(labels_alice(SENSITIVE), live=["post_updated"], resumed=RESET),
    "the app labels alice, whom bob does not follow": Case(
        labels_alice(SENSITIVE),
        live=["post_updated"],
        resumed=RESET,
        before=lambda hall: hall.objects.graph.people.unfollow(BOB, ALICE),
    ),
    "the app labels the post, and hides it": Case(
        lambda hall, post: Moderation(hall.objects).set("post", post, SENSITIVE | HIDE),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "alice makes the post private": Case(
        lambda hall, post: hall.objects.edit(ALICE, post, PostEdit(visibility="private")),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "carol likes the post": Case(
        lambda hall, post: hall.engagement.add(LIKES, CAROL, post),
        live=["engagement_update"],
        resumed=["engagement_update"],
    ),
    "bob blocks alice": Case(
        lambda hall, _: hall.objects.graph.people.block(BOB, ALICE),
        live=["post_removed blocked"],
        resumed=RESET,
    ),
    "alice blocks bob": Case(
        lambda hall, _: hall.objects.graph.people.block(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "bob mutes alice": Case(
        lambda hall, _: hall.objects.graph.people.mute(BOB, ALICE),
        live=["post_removed muted"],
        resumed=RESET,
    ),
    "carol mutes alice": Case(
        lambda hall, _: hall.objects.graph.people.mute(CAROL, ALICE),
        live=[],
        resumed=[],
    ),
    "bob hides the post": Case(
        lambda hall, post: hall.engagement.add(HIDES, BOB, post),
        live=["post_removed hidden"],
        resumed=["post_removed hidden"],
    ),
    "bob unfollows alice, whose posts are public": Case(
        lambda hall, _: hall.objects.graph.people.unfollow(BOB, ALICE),
        live=[],
        resumed=RESET,
    ),
    "bob unfollows alice, whose account is private": Case(
        bob_unfollows_a_private_account,
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "alice makes her account private": Case(account_becomes_private, live=["post_updated"], resumed=RESET),
    "alice opens her account, which bob saw all the time": Case(
        account_is_public_again, live=["post_updated"], resumed=RESET, before=account_private
    ),
    "the app hides alice no more": Case(labels_alice(0), live=RESET, resumed=RESET, before=account_hidden),
    "alice removes bob, and her account is private": Case(
        lambda hall, _: hall.objects.graph.people.remove_follower(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=RESET,
        before=account_private,
    ),
    "carol accepts bob": Case(
        lambda hall, _: hall.objects.graph.people.accept(CAROL, BOB), live=RESET, resumed=RESET, before=bob_asks_carol
    ),
    "carol declines bob": Case(
        lambda hall, _: hall.objects.graph.people.decline(CAROL, BOB), live=[], resumed=[], before=bob_asks_carol
    ),
    "alice unfollows bob, and her post is for friends": Case(
        lambda hall, _: hall.objects.graph.people.unfollow(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=["post_removed unavailable"],
        before=post_is_for_friends,
    ),
    "alice unfollows bob, and her post is public": Case(
        lambda hall, _: hall.objects.graph.people.unfollow(ALICE, BOB),
        live=[],
        resumed=[],
        before=lambda hall: hall.objects.graph.people.follow(ALICE, BOB),
    ),
    "alice puts her account away": Case(account_is_put_away, live=["post_removed unavailable"], resumed=RESET),
    "alice's account comes back": Case(account_comes_back, live=RESET, resumed=RESET, before=account_away),
    "the app hides alice": Case(account_is_hidden, live=["post_removed unavailable"], resumed=RESET),
    "carol mentions bob": Case(carol_mentions_bob, live=["notification", "unread"], resumed=["notification", "unread"]),
    "carol, whom bob muted, mentions him": Case(
        lambda hall, _: hall.telling.notices.notify([Notified("mention", CAROL, BOB, 0, event="x")]),
        live=["unread"],
        resumed=["unread"],
        before=lambda hall: hall.objects.graph.people.mute(BOB, CAROL),
    ),
    "bob reads his notifications": Case(
        lambda hall, _: hall.telling.notifications.read_up_to(BOB, ID_MAX),
        live=["unread"],
        resumed=["unread"],
        before=lambda hall: carol_mentions_bob(hall, BOB),
    ),
    "alice is mentioned": Case(
        lambda hall, _: hall.telling.external_mentions.accept("e", CAROL, ALICE, None, None), live=[], resumed=[]
    ),
    "alice is mentioned, and bob is told as a follower": Case(
        followers_are_told(BOB),
        live=["notification", "unread"],
        resumed=["notification", "unread"],
        before=bob_asks_for_mentions,
    ),
    "alice is mentioned, and others are told": Case(
        followers_are_told(NodeId(77)), live=[], resumed=[], before=bob_asks_for_mentions
    ),
    "alice is mentioned, and bob, who was told, asked for none by now": Case(
        followers_are_told(BOB), live=["unread"], resumed=["unread"]
    ),
    "all follows are loaded": Case(follows_are_loaded, live=["reset loaded"], resumed=RESET),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_messages_of_a_change_live_and_on_a_resume(play: Play, case: Case) -> None:
    async def scene(hall: Hall) -> None:
        (post,) = map(int, await hall.posts(1))
        if case.before is not None:
            await case.before(hall)
        shown = [post] if await hall.objects.visible(BOB, [post]) != [None] else []
        connected, away = Ear(BOB), Ear(BOB)
        for ear in (connected, away):
            await hall.live.join(ear.stream, None, shown)
        hall.live.leave(away.stream)
        await case.act(hall, NodeId(post))
        for _ in range(3):  # the log is read, then a round checks the posts
            hall.seconds += 1.0
            for _ in range(100):
                await asyncio.sleep(0)
        assert connected.names() == case.live
        back = Ear(BOB)
        await hall.live.join(back.stream, str(away.places[-1]), shown)
        assert back.names() == case.resumed

    play(scene)
