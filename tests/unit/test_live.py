"""The moments in which a stream could miss an event or get it twice, one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from world import ALICE, BOB, CAROL, FakeClock, open_embedded, time_flies

from kith.core.clock import HybridClock
from kith.core.errors import StoreUnavailable
from kith.core.events import user_changed
from kith.core.ids import NodeId, Snowflakes
from kith.engines.embedded.log import EmbeddedLog
from kith.engines.embedded.objects import EmbeddedObjects
from kith.feed import live, missed, readers
from kith.feed.changes import Place
from kith.feed.live import Live
from kith.feed.telling import Stream
from kith.graph.graphs import BUILT_IN, LIKES, Graphs
from kith.graph.service import GraphService, Limits
from kith.objects.engagement import Engagement
from kith.objects.posts import Change, Draft
from kith.objects.service import ObjectService

SPINS_MAX = 2_000


class Hall:
    """A Live over an empty store, in which Bob and Carol follow Alice. `seconds`: what its clock says."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.seconds, self.lags = folder, 0.0, list[float]()

    async def play(self, scene: Callable[[Hall], Awaitable[None]]) -> None:
        with open_embedded(self._folder, events_max=200) as (environment, edges):
            clock = FakeClock()
            graph = GraphService(edges, Graphs(await edges.declare(BUILT_IN)), HybridClock(clock), Limits())
            self.store = EmbeddedObjects(environment, edges._commits)
            self.objects = ObjectService(self.store, graph, Snowflakes(0, clock))
            self.engagement, self.log = Engagement(self.objects), EmbeddedLog(environment, edges._commits)
            self.live = self.opened()
            for user in (BOB, CAROL):
                await graph.follow(user, ALICE)
            await scene(self)
            await self.live.close()

    def opened(self) -> Live:
        return Live(
            self.objects, self.engagement, self.log, self,
            resume_events=100, heartbeat_s=15, now_s=lambda: self.seconds,
        )  # fmt: skip

    def told(self, event: str, streams: int) -> None:
        """See `feed.live.Observer`."""

    def tail(self, lag_s: float) -> None:
        """See `feed.live.Observer`."""
        self.lags.append(lag_s)

    async def posts(self, count: int) -> list[str]:
        return [str((await self.objects.create(ALICE, Draft(text="x"))).post.id) for _ in range(count)]

    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(SPINS_MAX):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came")


class Ear:
    """A stream, and what it heard. `at_new_post`: what to do while the first one is being told."""

    def __init__(self, user: NodeId, at_new_post: Callable[[], Any] | None = None) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.places: list[Place] = []
        self.beats, self.ended, self._at_new_post = 0, "", at_new_post
        self.stream = Stream(user, self._hear, self._end, lambda: asyncio.sleep(0))

    def _hear(self, place: Place, name: str, data: bytes) -> None:
        self.places.append(place)
        if not name:
            self.beats += 1
            return
        self.heard.append((name, json.loads(data)))
        if name == "new_post" and self._at_new_post is not None:
            act, self._at_new_post = self._at_new_post, None
            act()

    def _end(self, why: str) -> None:
        self.ended = why

    def posts(self) -> list[str]:
        return [data["postId"] for name, data in self.heard if name == "new_post"]

    def gone(self) -> list[tuple[str, str]]:
        return [(data["postId"], data["reason"]) for name, data in self.heard if name == "post_removed"]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Hall], Awaitable[None]]], None]:
    """Plays a scene in which nobody really waits."""

    def run(scene: Callable[[Hall], Awaitable[None]]) -> None:
        with time_flies():
            asyncio.run(Hall(tmp_path / "data").play(scene))

    return run


Play = Callable[[Callable[[Hall], Awaitable[None]]], None]


@pytest.mark.parametrize("place", ["0-0", None])
def test_who_joins_while_events_are_half_told_gets_each_once(
    play: Play, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    async def scene(hall: Hall) -> None:
        late = Ear(CAROL)
        joins: list[asyncio.Task[None]] = []
        early = Ear(BOB, lambda: joins.append(asyncio.ensure_future(hall.live.join(late.stream, place, []))))
        await hall.live.join(early.stream, None, [])
        with monkeypatch.context() as patch:
            patch.setattr(hall.log, "read", lambda *_: [])
            made = await hall.posts(5)  # which are then read at once
        await hall.until(lambda: len(early.posts()) == 5)
        made += await hall.posts(1)
        await hall.until(lambda: len(early.posts()) == 6 and made[-1] in late.posts())
        assert early.posts() == made
        assert late.posts() == (made if place else made[-1:]), "without a place it begins after what was read before"
        assert sorted(late.places) == late.places

    play(scene)


def test_a_refusing_store_half_way_through_the_readers_tells_nobody_twice(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "PART", 1)

    async def scene(hall: Hall) -> None:
        ears = [Ear(BOB), Ear(CAROL), Ear(ALICE)]
        for ear in ears:
            await hall.live.join(ear.stream, None, [])
        real, calls = hall.store.get_many, [0]

        async def flaky(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] in (2, 4):
                raise StoreUnavailable("not now")
            return await real(*args)

        monkeypatch.setattr(hall.store, "get_many", flaky)
        made = await hall.posts(1)
        await hall.until(lambda: all(ear.posts() for ear in ears))
        assert [ear.posts() for ear in ears] == [made] * 3
        assert calls[0] > 4

    play(scene)


def test_a_fault_in_one_change_resets_everybody_and_the_rest_goes_on(
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


def test_numbers_wait_for_a_second_and_hold_the_place_back_until_they_are_told(play: Play) -> None:
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


def test_numbers_that_one_round_does_not_take_come_with_the_next(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAIRS_MAX", 2)

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


def test_a_quiet_stream_hears_a_heartbeat_that_moves_its_place(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [])
        for user in range(100, 120):
            await hall.objects.graph.follow(NodeId(user), NodeId(user + 1))
        before, beats = ear.places[-1], ear.beats
        for _ in range(20):
            hall.seconds += 1.0
            await hall.until(lambda: True)
            for _ in range(10):
                await asyncio.sleep(0)
        await hall.until(lambda: ear.beats > beats)
        assert ear.beats == beats + 1
        assert ear.places[-1].posts >= before.posts + 20

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


def test_events_that_the_log_forgot_are_said_to_be_lost(play: Play) -> None:
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
    await hall.objects.graph.unfollow(ALICE, BOB)


async def let_go(hall: Hall, _: NodeId) -> None:
    await hall.objects.graph.store.change_node(ALICE, private=True)
    await hall.objects.graph.remove_follower(ALICE, BOB)


async def closed(hall: Hall, post: NodeId) -> None:
    await hall.objects.edit(ALICE, post, Change(visibility="private"))


@pytest.mark.parametrize("lost", [unfollowed, let_go, closed])
def test_who_could_not_see_a_post_any_more_does_not_learn_that_it_was_deleted(
    play: Play, lost: Callable[[Hall, NodeId], Awaitable[None]]
) -> None:
    async def scene(hall: Hall) -> None:
        for user in (BOB, CAROL):
            await hall.objects.graph.follow(ALICE, user)
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


def test_a_look_that_finds_a_post_deleted_tells_so_to_those_alone_who_could_see_it(
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
        monkeypatch.setattr(hall.log, "read", lambda *_: [])
        await hall.objects.delete(ALICE, NodeId(int(post)))
        hall.seconds += 1.0
        await hall.until(lambda: all(ear.gone() for ear in ears.values()))
        assert [ear.gone() for ear in ears.values()] == [[(post, "author_deleted")], [(post, "unavailable")]]

    play(scene)


@pytest.mark.parametrize("away", [False, True])
def test_who_muted_an_author_is_not_told_of_the_end_of_what_they_were_never_told_of(play: Play, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        await hall.objects.graph.mute(CAROL, ALICE)
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


def test_who_leaves_off_within_a_change_that_takes_many_posts_hears_of_it_again(play: Play) -> None:
    async def scene(hall: Hall) -> None:
        made = await hall.posts(3)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, None, [int(post) for post in made])
        await hall.objects.graph.block(BOB, ALICE)
        await hall.until(lambda: len(ear.gone()) == 3)
        hall.live.leave(ear.stream)
        for place in ear.places[-3:-1]:
            again = Ear(BOB)
            await hall.live.join(again.stream, str(place), [])
            assert again.heard == [("reset", {"reason": "changed"})]

    play(scene)


@pytest.mark.parametrize("way", ["remove_follower", "unfollow", "private"])
@pytest.mark.parametrize("away", [False, True])
def test_who_loses_sight_of_an_account_is_told(play: Play, way: str, away: bool) -> None:
    async def scene(hall: Hall) -> None:
        graph = hall.objects.graph
        made = await hall.posts(2)
        ear = Ear(BOB)
        if way == "private":  # whom one does not follow
            await graph.unfollow(BOB, ALICE)
        else:
            await graph.store.change_node(ALICE, private=True)
        await hall.live.join(ear.stream, None, [int(post) for post in made])
        if away:
            hall.live.leave(ear.stream)
        match way:
            case "remove_follower":
                await graph.remove_follower(ALICE, BOB)
            case "unfollow":
                await graph.unfollow(BOB, ALICE)
            case "private":
                await graph.store.change_node(ALICE, private=True, tell=user_changed(ALICE, graph.clock.next()))
        if away:
            await hall.live.join(ear.stream, str(ear.places[-1]), [int(post) for post in made])
        hall.seconds += 1.0
        await hall.until(lambda: len(ear.gone()) == 2 or ear.ended)
        assert ear.heard == [("reset", {"reason": "changed"})] or sorted(ear.gone()) == [
            (post, "unavailable") for post in made
        ]

    play(scene)


@pytest.mark.parametrize("what", ["deleted", "edited"])
def test_who_missed_very_many_removals_or_edits_loads_the_feed_anew(
    play: Play, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(missed, "POSTS_MAX", 3)

    async def scene(hall: Hall) -> None:
        made = await hall.posts(4)
        place = hall.log.bounds()[1]
        for post in made:
            if what == "deleted":
                await hall.objects.delete(ALICE, NodeId(int(post)))
            else:
                await hall.objects.edit(ALICE, NodeId(int(post)), Change(text="y"))
        ear = Ear(BOB)
        await hall.live.join(ear.stream, f"{place}-{place}", [])
        assert ear.heard == [("reset", {"reason": "too_far"})]
        near = Ear(BOB)
        await hall.live.join(near.stream, f"{place + 1}-{place + 1}", [])
        assert not near.ended

    play(scene)


def test_places_never_go_back_while_what_was_missed_is_told(play: Play) -> None:
    """Numbers are told last, of events that may be earlier: who leaves off there is not told of a post again."""

    async def scene(hall: Hall) -> None:
        (watched,) = await hall.posts(1)
        place = hall.log.bounds()[1]
        await hall.engagement.add(LIKES, CAROL, NodeId(int(watched)))
        (new,) = await hall.posts(1)
        ear = Ear(BOB)
        await hall.live.join(ear.stream, f"{place}-{place}", [int(watched)])
        assert [name for name, _ in ear.heard] == ["new_post", "engagement_update"]
        assert ear.posts() == [new]
        assert ear.places == sorted(ear.places)
        hall.live.leave(ear.stream)
        again = Ear(BOB)
        await hall.live.join(again.stream, str(ear.places[2]), [int(watched)])
        assert again.posts() == []

    play(scene)
