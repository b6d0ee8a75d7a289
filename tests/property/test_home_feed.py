"""For any history of follows, blocks, posts, labels and deletions, the home feed equals a naive model.

This holds for any state of the timelines: fan-out lags, was restarted, lost events, or an author crossed a threshold.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from coroutines import run_coroutine
from engines import Engine
from history_lengths import seeds
from home_history import PEOPLE, CountingOrders, HomeHistory
from store_types import EngineStores

from kith.core.events import NOWHERE
from kith.core.paging import Window
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates

PORT = "whole"


POLICIES = {
    "pushed": [Thresholds(push_max=2)],
    "crossing": [Thresholds(push_max=1, pull_min=2)],
    "rates": [ByRates(pull_cost=0.25)],
    "changing": [ByRates(pull_cost=0.1), ByRates(pull_cost=2.0), Thresholds(push_max=1, pull_min=2), ByRates(0.5)],
}
"""The default thresholds; thresholds so low that authors cross them both ways all the time; rates with costs at which
pairs cross both ways; and a worker that is restarted with another policy each time.
"""


@pytest.fixture(params=POLICIES)
def policies(request: pytest.FixtureRequest) -> list[Thresholds | ByRates]:
    return POLICIES[request.param]  # type: ignore[return-value]


@pytest.fixture(params=seeds(6, 100 * len(POLICIES)), ids="seed-{}".format)
def history(request: pytest.FixtureRequest, policies: list[Thresholds | ByRates]) -> HomeHistory:
    return HomeHistory(random.Random(request.param), policies)


LiveStreams = Callable[[HomeHistory, Callable[[], Awaitable[None]]], None]


@pytest.fixture
def lived(engine: Engine, tmp_path: Path) -> LiveStreams:
    """Opens the stores, runs a life of a history over them, and closes them."""

    def live(history: HomeHistory, life: Callable[[], Awaitable[None]]) -> None:
        assert engine.whole

        async def run(whole: EngineStores) -> None:
            await history.open(whole)
            await life()

        with engine.whole(tmp_path, now_ms=history.clock, slots=4) as whole:  # fewer slots than users
            run_coroutine(run(whole))

    return live


def test_home_equals_a_naive_model(history: HomeHistory, lived: LiveStreams) -> None:
    async def live() -> None:
        for moment in range(150):
            history.clock.ms += history.chosen.choice((0, 5, 1_500, 40_000))
            await history.act()
            viewer = history.chosen.choice(PEOPLE)
            history.whole.settle()
            last = await history.log.end()
            if moment % 40 == 39:  # a worker is killed, and some timelines may be lost with it
                history.restart()
            if history.chosen.random() < 0.3:
                await history.drain(deliver=history.chosen.random() < 0.5)
            assert await history.home(viewer, must_reflect=NOWHERE) == history.naive.home(viewer), (
                "whatever fan-out has done"
            )
            assert await history.home(viewer, must_reflect=last) == history.naive.home(viewer)
            assert await history.home(viewer, must_reflect=NOWHERE, refresh=True) == history.naive.home(viewer)

        assert history.served > 10, "too few homes came from a timeline to be a test"

    lived(history, live)


def test_a_ranked_home_shows_each_post_once_unseen_posts_first_while_things_change(
    history: HomeHistory, lived: LiveStreams
) -> None:
    async def live() -> None:
        for _ in range(60):
            history.clock.ms += history.chosen.choice((0, 5, 1_500, 40_000))
            for _ in range(3):
                await history.act()
            if history.chosen.random() < 0.5:
                await history.drain()
            viewer, last = history.chosen.choice(PEOPLE), await history.log.end()
            naive = history.naive
            before, seen_before, like_before = naive.unseen(viewer), naive.seen(viewer), naive.copies_of_seen(viewer)
            found, seen = await history.ranked(viewer, must_reflect=last)
            after, at_home_after = naive.unseen(viewer), set(naive.home(viewer))
            new, known = (before & after) - naive.copies_of_seen(viewer), seen_before & at_home_after
            assert len({*found, *seen}) == len(found) + len(seen), "a post is shown twice"
            for shown, all_the_time, ever in (
                (found, new, before | after),
                (seen, known, seen_before | like_before),
            ):
                said = [naive.texts[post] for post in shown]
                assert len(said) == len(set(said)), "a copy of a shown post is shown"
                there = {naive.texts[post] for post in all_the_time}
                assert set(said) >= there, "a post that was at home all the time is missing, and so are its copies"
                assert set(shown) <= ever
            known_texts = {naive.texts[post] for post in known}
            assert not known_texts.intersection(naive.texts[post] for post in found), (
                "a copy of a seen post counts as seen"
            )

    lived(history, live)


def test_a_cached_order_shows_what_a_new_one_would(history: HomeHistory, lived: LiveStreams) -> None:
    async def live() -> None:
        found = history.feed._orders = CountingOrders(history.log.covers, history.feed._rules.post_changes)
        for _ in range(100):
            history.clock.ms += history.chosen.choice((0, 5, 1_500))
            if history.chosen.random() < 0.5:
                await history.act()
            if history.chosen.random() < 0.3:
                await history.drain()
            viewer = history.chosen.choice(PEOPLE[:2])
            history.whole.settle()
            kept, fresh = [await feed.ranked(viewer, 50) for feed in (history.feed, history.another_feed())]
            for page in (kept, fresh):
                assert page.rest is None
                assert {post.id for post in page.posts} <= set(history.naive.home(viewer))
            texts = [{post.text for post in page.posts if post.id not in page.seen} for page in (kept, fresh)]
            assert texts[0] == texts[1]
        assert found.times > 0, "too few orders were cached to be a test"

    lived(history, live)


def test_paging_while_others_post_shows_each_post_once(lived: LiveStreams) -> None:
    """New posts come before the first page. Earlier posts are neither repeated nor left out."""
    history = HomeHistory(random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await history.graph.people.follow(alice, bob)
        before = [(await history.write(bob, text="old")).id for _ in range(30)]
        await history.latest(alice, Window(5))
        await history.drain()
        found: list[int] = []
        window = Window(7)
        while True:
            page = await history.latest(alice, window)
            found += [post.id for post in page.posts]
            history.clock.ms += 10
            await history.write(bob, text="new")
            await history.drain()
            if page.rest is None:
                break
            window = Window(7, after=page.rest)
        assert found == before[::-1]

    lived(history, check)


def test_a_post_is_at_home_for_every_follower_while_it_is_delivered(lived: LiveStreams) -> None:
    """A worker delivers the post follower by follower, and is killed after each."""
    history = HomeHistory(random.Random(2), [Thresholds(push_max=2)])

    async def check() -> None:
        await history.drain()  # a new worker starts at the end of the log, and would miss earlier requests
        bob, *others = PEOPLE[:5]
        for one in others:
            await history.graph.people.follow(one, bob)
        for one in others:
            await history.latest(one, Window(5))
        await history.drain()
        posts = [(await history.write(bob, text="for all")).id for _ in range(3)]
        having: list[int] = []
        while not having or (await history.fanout.snapshot()).deliveries:
            await history.drain(deliver=False)
            read = [await history.rings.read(one) for one in others]
            timelines = [timeline for timeline in read if timeline is not None]
            having.append(sum(len(set(timeline.ids.tolist())) for timeline in timelines))
            for one in others:
                assert await history.home(one, must_reflect=await history.log.end()) == posts[::-1]
            history.restart()
        assert len(having) > 3, "the post was delivered in chunks"
        assert having == sorted(having)
        assert having[-1] == 4 * len(posts), "no follower lost the timeline meanwhile"

    lived(history, check)


def test_all_own_posts_are_at_home_before_they_are_pushed(lived: LiveStreams) -> None:
    history = HomeHistory(random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await history.graph.people.follow(alice, bob)
        posts = [(await history.write(bob, text="old")).id for _ in range(10)]
        await history.drain()
        await history.latest(alice, Window(5))
        await history.drain()
        assert await history.rings.read(alice) is not None
        posts += [(await history.write(alice, text="my own")).id for _ in range(70)]
        for _ in range(3):
            found, window = [], Window(50)
            while True:
                page = await history.latest(alice, window)
                found += [post.id for post in page.posts]
                if page.rest is None:
                    break
                window = Window(50, after=page.rest)
            assert found == posts[::-1]
            await history.step()

    lived(history, check)


def test_home_continues_past_the_end_of_the_timeline(lived: LiveStreams) -> None:
    history = HomeHistory(random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await history.graph.people.follow(alice, bob)
        await history.drain()
        await history.latest(alice, Window(5))
        await history.drain()
        made = []
        for _ in range(620):
            history.clock.ms += 1
            made.append((await history.write(bob, text="one of many")).id)
        await history.drain()
        timeline = await history.rings.read(alice)
        assert timeline is not None
        assert (len(timeline.ids), timeline.floor) == (500, made[-501])
        assert await history.home(alice, must_reflect=NOWHERE) == made[::-1]
        for late in (made[:1], made[200:300], made[:450]):  # an event that had failed, an author who returns
            for post in late:
                await history.rings.push(post, np.array([alice]))
            history.clock.ms += 60_000
            assert await history.home(alice, must_reflect=NOWHERE) == made[::-1]
        assert (timeline := await history.rings.read(alice)) is not None
        assert timeline.needs_rebuild
        await history.drain()
        assert (timeline := await history.rings.read(alice)) is not None
        assert timeline.ids.tolist() == made[:-501:-1], "the read requested a rebuild"

    lived(history, check)
