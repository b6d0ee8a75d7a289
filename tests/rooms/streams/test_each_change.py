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
from reference_leases import own_leases
from stream_world import Play, StreamRecorder, StreamWorld

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

    act: Callable[[StreamWorld, NodeId], Awaitable[Any]]
    live: list[str]
    resumed: list[str]
    before: Callable[[StreamWorld], Awaitable[Any]] | None = None  # the state before Bob connects


async def account_becomes_private(world: StreamWorld, _: NodeId) -> None:
    graph = world.objects.graph
    await graph.store.change_node(ALICE, private=True, tell=user_changed(ALICE, graph.clock.next()))


async def bob_asks_carol(world: StreamWorld) -> None:
    graph = world.objects.graph
    await graph.store.change_node(CAROL, private=True)
    await graph.people.follow(BOB, CAROL)


async def account_is_hidden(world: StreamWorld, _: NodeId) -> None:
    graph = world.objects.graph
    await graph.store.change_node(ALICE, labels=HIDE, tell=user_changed(ALICE, graph.clock.next()))


async def account_is_public_again(world: StreamWorld, _: NodeId) -> None:
    graph = world.objects.graph
    await graph.store.change_node(ALICE, private=False, tell=user_changed(ALICE, graph.clock.next()))


async def account_is_put_away(world: StreamWorld, _: NodeId) -> None:
    await do_to_account(world, NodeOperation.ARCHIVE)


async def account_comes_back(world: StreamWorld, _: NodeId) -> None:
    await do_to_account(world, NodeOperation.RESTORE)


async def do_to_account(world: StreamWorld, operation: NodeOperation) -> None:
    jobs = account_jobs(world.objects.graph, own_leases())
    await jobs.start(operation, ALICE)
    await jobs.wait()


def labels_alice(*labels: int) -> Callable[[StreamWorld, NodeId], Awaitable[Any]]:
    """The app labels Alice with each of these in turn."""

    async def act(world: StreamWorld, _: NodeId) -> None:
        for bits in labels:
            await Moderation(world.objects).set("user", ALICE, bits)

    return act


def account_private(world: StreamWorld) -> Awaitable[Any]:
    return world.objects.graph.store.change_node(ALICE, private=True)


def account_hidden(world: StreamWorld) -> Awaitable[Any]:
    return Moderation(world.objects).set("user", ALICE, HIDE)


def account_away(world: StreamWorld) -> Awaitable[Any]:
    return do_to_account(world, NodeOperation.ARCHIVE)


async def bob_unfollows_a_private_account(world: StreamWorld, _: NodeId) -> None:
    graph = world.objects.graph
    await graph.store.change_node(ALICE, private=True)
    await graph.people.unfollow(BOB, ALICE)


async def newest_post(world: StreamWorld) -> NodeId:
    graph = world.objects.graph
    (post,) = (await graph.store.ids(Listing(graph.graphs.number(AUTHORED), ALICE, Direction.OUT), 1)).tolist()
    return NodeId(post)


async def post_is_for_friends(world: StreamWorld) -> None:
    await world.objects.graph.people.follow(ALICE, BOB)
    await world.objects.edit(ALICE, await newest_post(world), PostEdit(visibility="friends"))


async def alice_writes_a_draft(world: StreamWorld) -> None:
    world.clock.ms += 1
    await world.objects.create(ALICE, Draft(text="a draft", visibility="private"))


async def alice_writes_to_carol_who_likes_it(world: StreamWorld) -> None:
    world.clock.ms += 1
    written = await world.objects.create(ALICE, Draft(text="for carol", visibility="custom", audience=(CAROL,)))
    await world.engagement.add(LIKES, CAROL, NodeId(written.post.id))


async def alice_writes_a_draft_that_bob_will_not_see(world: StreamWorld) -> None:
    await alice_writes_a_draft(world)
    await world.objects.graph.people.mute(BOB, ALICE)


async def the_newest_is_for_all(world: StreamWorld, _: NodeId) -> None:
    await world.objects.edit(ALICE, await newest_post(world), PostEdit(visibility="public"))


async def the_newest_has_another_text(world: StreamWorld, _: NodeId) -> None:
    await world.objects.edit(ALICE, await newest_post(world), PostEdit(text="another"))


async def follows_are_loaded(world: StreamWorld, _: NodeId) -> None:
    graph = world.objects.graph
    loaded = graph.graphs.number(FOLLOWS)
    await world.log.announce(Event(loaded, None, BULK_LOADED, 3, 0, 0, graph.clock.next()))


async def carol_mentions_bob(world: StreamWorld, _: NodeId) -> None:
    assert await world.notification_services.external_mentions.accept("e", CAROL, BOB, None, None)


async def bob_asks_for_mentions(world: StreamWorld) -> None:
    await world.notification_services.preferences.put(BOB, Preferences(mentions="followed"))


def followers_are_told(*followers: NodeId) -> Callable[[StreamWorld, NodeId], Awaitable[Any]]:
    """Carol mentions Alice, and these followers of hers are notified, with a repetition; others are not."""

    async def act(world: StreamWorld, _: NodeId) -> None:
        (told,) = await world.notification_services.notices.notify([Notified("mention", CAROL, ALICE, 0, event="x")])
        users, rings = np.array(followers, np.int64), Rings(world.store, world.graph.clock)
        await world.notification_services.inbox.add_for_all(told, users)
        for _ in range(2):
            await rings.ring(told, users, devices=False)

    return act


RESET = ["reset changed"]
CASES = {
    "alice posts": Case(
        lambda world, _: world.objects.create(ALICE, Draft(text="new")),
        live=["new_post"],
        resumed=["new_post"],
    ),
    "alice deletes the post": Case(
        lambda world, post: world.objects.delete(ALICE, post),
        live=["post_removed author_deleted"],
        resumed=["post_removed author_deleted"],
    ),
    "alice edits the post, which stays public": Case(
        lambda world, post: world.objects.edit(ALICE, post, PostEdit(text="y")),
        live=["post_updated"],
        resumed=["post_updated"],
    ),
    "the app labels the post": Case(
        lambda world, post: Moderation(world.objects).set("post", post, SENSITIVE),
        live=["post_updated"],
        resumed=["post_updated"],
    ),
    "the app labels alice": Case(labels_alice(SENSITIVE), live=["post_updated"], resumed=RESET),
    "the app labels alice, whom bob does not follow": Case(
        labels_alice(SENSITIVE),
        live=["post_updated"],
        resumed=RESET,
        before=lambda world: world.objects.graph.people.unfollow(BOB, ALICE),
    ),
    "the app labels the post, and hides it": Case(
        lambda world, post: Moderation(world.objects).set("post", post, SENSITIVE | HIDE),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "alice publishes a draft": Case(
        the_newest_is_for_all, live=["new_post"], resumed=["new_post"], before=alice_writes_a_draft
    ),
    "alice publishes what only carol could see and liked": Case(
        the_newest_is_for_all,
        live=["new_post", "engagement_update"],
        resumed=["new_post", "engagement_update"],
        before=alice_writes_to_carol_who_likes_it,
    ),
    "alice, whom bob muted, publishes a draft": Case(
        the_newest_is_for_all, live=[], resumed=[], before=alice_writes_a_draft_that_bob_will_not_see
    ),
    "alice edits a draft": Case(the_newest_has_another_text, live=[], resumed=[], before=alice_writes_a_draft),
    "alice opens the post on the screen to friends only": Case(
        lambda world, post: world.objects.edit(ALICE, post, PostEdit(visibility="friends")),
        live=["post_updated"],
        resumed=["post_updated"],
        before=lambda world: world.objects.graph.people.follow(ALICE, BOB),
    ),
    "alice makes the post private": Case(
        lambda world, post: world.objects.edit(ALICE, post, PostEdit(visibility="private")),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "carol likes the post": Case(
        lambda world, post: world.engagement.add(LIKES, CAROL, post),
        live=["engagement_update"],
        resumed=["engagement_update"],
    ),
    "bob blocks alice": Case(
        lambda world, _: world.objects.graph.people.block(BOB, ALICE),
        live=["post_removed blocked"],
        resumed=RESET,
    ),
    "alice blocks bob": Case(
        lambda world, _: world.objects.graph.people.block(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=RESET,
    ),
    "bob mutes alice": Case(
        lambda world, _: world.objects.graph.people.mute(BOB, ALICE),
        live=["post_removed muted"],
        resumed=RESET,
    ),
    "carol mutes alice": Case(
        lambda world, _: world.objects.graph.people.mute(CAROL, ALICE),
        live=[],
        resumed=[],
    ),
    "bob hides the post": Case(
        lambda world, post: world.engagement.add(HIDES, BOB, post),
        live=["post_removed hidden"],
        resumed=["post_removed hidden"],
    ),
    "bob unfollows alice, whose posts are public": Case(
        lambda world, _: world.objects.graph.people.unfollow(BOB, ALICE),
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
        lambda world, _: world.objects.graph.people.remove_follower(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=RESET,
        before=account_private,
    ),
    "carol accepts bob": Case(
        lambda world, _: world.objects.graph.people.accept(CAROL, BOB), live=RESET, resumed=RESET, before=bob_asks_carol
    ),
    "carol declines bob": Case(
        lambda world, _: world.objects.graph.people.decline(CAROL, BOB), live=[], resumed=[], before=bob_asks_carol
    ),
    "alice unfollows bob, and her post is for friends": Case(
        lambda world, _: world.objects.graph.people.unfollow(ALICE, BOB),
        live=["post_removed unavailable"],
        resumed=["post_removed unavailable"],
        before=post_is_for_friends,
    ),
    "alice unfollows bob, and her post is public": Case(
        lambda world, _: world.objects.graph.people.unfollow(ALICE, BOB),
        live=[],
        resumed=[],
        before=lambda world: world.objects.graph.people.follow(ALICE, BOB),
    ),
    "alice puts her account away": Case(account_is_put_away, live=["post_removed unavailable"], resumed=RESET),
    "alice's account comes back": Case(account_comes_back, live=RESET, resumed=RESET, before=account_away),
    "the app hides alice": Case(account_is_hidden, live=["post_removed unavailable"], resumed=RESET),
    "carol mentions bob": Case(carol_mentions_bob, live=["notification", "unread"], resumed=["notification", "unread"]),
    "carol, whom bob muted, mentions him": Case(
        lambda world, _: world.notification_services.notices.notify([Notified("mention", CAROL, BOB, 0, event="x")]),
        live=["unread"],
        resumed=["unread"],
        before=lambda world: world.objects.graph.people.mute(BOB, CAROL),
    ),
    "bob reads his notifications": Case(
        lambda world, _: world.notification_services.notifications.read_up_to(BOB, ID_MAX),
        live=["unread"],
        resumed=["unread"],
        before=lambda world: carol_mentions_bob(world, BOB),
    ),
    "alice is mentioned": Case(
        lambda world, _: world.notification_services.external_mentions.accept("e", CAROL, ALICE, None, None),
        live=[],
        resumed=[],
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
    async def scene(world: StreamWorld) -> None:
        (post,) = map(int, await world.posts(1))
        if case.before is not None:
            await case.before(world)
        shown = [post] if await world.objects.visible(BOB, [post]) != [None] else []
        connected, away = StreamRecorder(BOB), StreamRecorder(BOB)
        for recorder in (connected, away):
            await world.live.join(recorder.stream, None, shown)
        world.live.leave(away.stream)
        await case.act(world, NodeId(post))
        for _ in range(3):  # the log is read, then a round checks the posts
            world.seconds += 1.0
            for _ in range(100):
                await asyncio.sleep(0)
        assert connected.names() == case.live
        back = StreamRecorder(BOB)
        await world.live.join(back.stream, str(away.places[-1]), shown)
        assert back.names() == case.resumed

    play(scene)
