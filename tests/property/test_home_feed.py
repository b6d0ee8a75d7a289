"""For any history of follows, blocks, posts, labels and deletions the home feed is what a naive model says.

Whatever state the timelines are in: fan-out is behind, was restarted, lost events, or an author crossed a threshold.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cast import FakeClock
from coroutines import run_all
from engines import Engine, Whole
from lengths import seeds
from reference_leases import own_leases
from services import Services, feed_over

from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, SENSITIVE
from kith.core.paging import Mark, Window
from kith.graph.graphs import HIDES, VIEWS
from kith.home.fanout.consumer import NAME, Fanout
from kith.home.fanout.deliveries import Chunks
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.home import Home, HomePage
from kith.home.orders import Basis, KeptOrders
from kith.home.slate import Choice, Slate, unpack
from kith.home.sources import Sources
from kith.log.runner import Pace, Runner

PORT = "whole"
PEOPLE = [NodeId(user) for user in range(1, 7)]
PACE = Pace(batch_max=7, save_s=0.0)


class Naive:
    """Who follows whom and who posted what, as sets and lists."""

    def __init__(self) -> None:
        self.follows: set[tuple[int, int]] = set()
        self.blocks: set[tuple[int, int]] = set()
        self.mutes: set[tuple[int, int]] = set()
        self.hides: set[tuple[int, int]] = set()
        self.views: set[tuple[int, int]] = set()
        self.posts: dict[int, int] = {}  # id -> author
        self.texts: dict[int, str] = {}  # by id, of deleted posts too
        self.labels: dict[tuple[str, int], int] = {}  # ("post" or "user", id) -> bits

    def unseen(self, viewer: int) -> set[int]:
        """What a ranked home shows first."""
        return {post for post in self.home(viewer) if (viewer, post) not in self.views}

    def seen(self, viewer: int) -> set[int]:
        """What comes after it."""
        return set(self.home(viewer)) - self.unseen(viewer)

    def home(self, viewer: int) -> list[int]:
        """Post ids, newest first."""
        return sorted(
            (
                post
                for post, author in self.posts.items()
                if (author == viewer or (viewer, author) in self.follows)
                and (viewer, author) not in self.mutes
                and (viewer, post) not in self.hides
                and (author == viewer or not self.labelled(post) & HIDE)
            ),
            reverse=True,
        )

    def labelled(self, post: int) -> int:
        """All labels of a post; `limit` takes nothing from a home, where all authors are followed."""
        return self.labels.get(("post", post), 0) | self.labels.get(("user", self.posts.get(post, 0)), 0)


class OrdersFound(KeptOrders):
    """Counts how often a kept order was used."""

    times = 0

    def find(
        self, reader: int, basis: Basis, limit: int, *, seen: LogPosition, now_ms: int
    ) -> tuple[Slate, Choice | None] | None:
        found = super().find(reader, basis, limit, seen=seen, now_ms=now_ms)
        self.times += found is not None
        return found


class HomeHistory:
    """Homes over one engine, with workers that come and go, and a naive model beside them."""

    def __init__(self, chosen: random.Random, policies: Sequence[Thresholds | ByRates]) -> None:
        self.chosen, self.policies = chosen, itertools.cycle(policies)
        self.naive, self.clock = Naive(), FakeClock()
        self.served = self.made = 0

    async def open(self, whole: Whole) -> None:
        services = await Services.over(whole.edges, whole.records, self.clock)
        self.graph, self.posts = services.graph, services.posts
        self.engagement, self.moderation = services.engagement, services.moderation
        self.write, self.whole = services.write, whole
        self.log, self.fanout, self.rings = whole.log, whole.fanout_state, whole.timelines
        self.feed = self.another_feed()
        self.runners: list[Runner] = []
        for _ in range(1 if whole.hand_over is None else 2):
            self.restart()

    def another_feed(self) -> Home:
        """The homes of another API process, which knows nothing yet."""
        return feed_over(self.graph, self.posts, self.rings, self.fanout, self.log, now_ms=self.clock)

    def restart(self) -> None:
        """A new worker process, in place of the oldest where there are enough."""
        consumer = Fanout(
            Sources(self.graph),
            self.rings,
            self.fanout,
            own_leases(),  # so two may both believe that a delivery is theirs
            now_s=count().__next__,
            graphs=self.graph.graphs,
            policy=next(self.policies),
            now_ms=self.clock,
            chunks=Chunks(*[self.chosen.choice((1, 2))] * 3, checkpoint_s=self.chosen.choice((0.0, 60.0))),
        )
        enough = 0 if self.whole.hand_over is None else 1
        self.runners = [*self.runners[len(self.runners) - enough :], Runner(consumer, self.log, PACE, self.clock)]

    async def step(self) -> bool:
        """One step of each worker; whether there was any work."""
        return any([await runner.step() for runner in self.runners])

    async def work(self) -> None:
        """Some step of the workers; where there are several, perhaps a handover or a kill in the middle of it."""
        if self.whole.hand_over is None:
            await self.step()
            return
        steps = [asyncio.create_task(runner.step()) for runner in self.runners]
        for _ in range(self.chosen.randrange(60)):
            await asyncio.sleep(0)
        match self.chosen.randrange(4):
            case 0:
                self.whole.hand_over()
            case 1:
                steps[0].cancel()
                self.restart()
        for done in await asyncio.gather(*steps, return_exceptions=True):
            assert isinstance(done, bool | asyncio.CancelledError), done

    async def drain(self, *, deliver: bool = True) -> None:
        """Until every event is handled, and everything is delivered if so asked."""
        self.whole.settle()
        while await self.step() and (deliver or await self.is_behind()):
            pass

    async def is_behind(self) -> bool:
        """Whether the worker has not said that it handled everything."""
        progress = await self.log.progress(NAME)
        return progress is None or progress.behind.events > 0

    async def act(self) -> None:
        """One random thing that happens."""
        chosen, naive = self.chosen, self.naive
        one, other = chosen.sample(PEOPLE, 2)
        pair = (int(one), int(other))
        match chosen.randrange(17):
            case 0 | 1 | 2:
                if pair not in naive.blocks and pair[::-1] not in naive.blocks:
                    await self.graph.people.follow(one, other)
                    naive.follows.add(pair)
            case 3:
                await self.graph.people.unfollow(one, other)
                naive.follows.discard(pair)
            case 4:
                await self.graph.people.block(one, other)
                naive.blocks.add(pair)
                naive.follows -= {pair, pair[::-1]}
            case 5:
                await self.graph.people.unblock(one, other)
                naive.blocks.discard(pair)
            case 6:
                await (self.graph.people.mute if pair not in naive.mutes else self.graph.people.unmute)(one, other)
                naive.mutes ^= {pair}
            case 7 | 8 | 9 | 10:
                text = f"post {self.made}" if self.made % 3 else f"what everybody copies, {self.made % 4} " * 4
                written = await self.write(one, text=text)
                self.made += 1
                naive.posts[int(written.id)] = int(one)
                naive.texts[int(written.id)] = text
            case 11 if naive.posts:
                post = chosen.choice(list(naive.posts))
                await self.posts.delete(NodeId(naive.posts.pop(post)), NodeId(post))
            case 12 if naive.home(one):
                post = chosen.choice(naive.home(one))
                await self.engagement.add(HIDES, one, NodeId(post))
                naive.hides.add((int(one), post))
            case 13 if naive.home(one):
                post = chosen.choice(naive.home(one))
                await self.engagement.add(VIEWS, one, NodeId(post))
                naive.views.add((int(one), post))
            case 14 | 15:
                bits = chosen.choice((0, 0, HIDE, LIMIT, LIMIT | SENSITIVE))
                what, id_ = chosen.choice([("user", int(one)), *(("post", post) for post in list(naive.posts)[-3:])])
                await self.moderation.set(what, NodeId(id_), bits)  # type: ignore[arg-type]
                naive.labels[what, id_] = bits
            case _:
                await self.work()

    async def latest(self, viewer: NodeId, window: Window, **asked: Any) -> HomePage[Mark]:
        """A page for one whose token waits for all that was written."""
        self.whole.settle()
        return await self.feed.latest(viewer, window, **asked)

    async def home(self, viewer: NodeId, *, seen: LogPosition, refresh: bool = False) -> list[int]:
        """All pages of a home, read with random limits."""
        found: list[int] = []
        window = Window(self.chosen.randrange(1, 6))
        self.served += not refresh and await self.rings.read(viewer) is not None
        while True:
            page = await self.latest(viewer, window, seen=seen, refresh=refresh)
            found += [post.id for post in page.posts]
            assert [post.labels for post in page.posts] == [self.naive.labelled(post.id) for post in page.posts]
            if page.rest is None:
                return found
            window = Window(self.chosen.randrange(1, 6), after=page.rest)

    async def ranked(self, viewer: NodeId, *, seen: LogPosition) -> tuple[list[int], list[int]]:
        """All pages of a ranked home, while things happen in between: what is told as unseen, and as seen."""
        found: tuple[list[int], list[int]] = [], []
        slate = None
        while True:
            limit = self.chosen.randrange(1, 6)
            self.whole.settle()
            page = await self.feed.ranked(viewer, limit, slate, seen=seen)
            assert set(page.placed) == {post.id for post in page.posts}
            assert len(page.posts) == limit or page.rest is None, "a page is full while there is more"
            for post in page.posts:
                assert post.id in page.seen or not found[1], "what was seen comes last"
                found[post.id in page.seen].append(post.id)
                copies = page.copies.get(post.id, ())
                assert {self.naive.texts[copy] for copy in copies} <= {post.text}
            if page.rest is None:
                return found
            slate = unpack(page.rest.pack())
            if self.chosen.random() < 0.3:
                self.clock.ms += 5
                await self.act()


POLICIES = {
    "pushed": [Thresholds(push_max=2)],
    "crossing": [Thresholds(push_max=1, pull_min=2)],
    "rates": [ByRates(pull_cost=0.25)],
    "changing": [ByRates(pull_cost=0.1), ByRates(pull_cost=2.0), Thresholds(push_max=1, pull_min=2), ByRates(0.5)],
}
"""Thresholds as set; thresholds so low that authors cross them both ways all the time; rates at such a cost that pairs
cross both ways; and a worker that is started with another policy each time.
"""


@pytest.fixture(params=POLICIES)
def policies(request: pytest.FixtureRequest) -> list[Thresholds | ByRates]:
    return POLICIES[request.param]  # type: ignore[return-value]


@pytest.fixture(params=seeds(6, 100 * len(POLICIES)), ids="seed {}".format)
def history(request: pytest.FixtureRequest, policies: list[Thresholds | ByRates]) -> HomeHistory:
    return HomeHistory(random.Random(request.param), policies)


Live = Callable[[HomeHistory, Callable[[], Awaitable[None]]], None]


@pytest.fixture
def lived(engine: Engine, tmp_path: Path) -> Live:
    """Open the stores, live through it, and close them."""

    def live(history: HomeHistory, life: Callable[[], Awaitable[None]]) -> None:
        assert engine.whole

        async def run(whole: Whole) -> None:
            await history.open(whole)
            await life()

        with engine.whole(tmp_path, now_ms=history.clock, slots=4) as whole:  # fewer than people
            run_all(run(whole))

    return live


def test_home_is_what_a_naive_model_says(history: HomeHistory, lived: Live) -> None:
    async def live() -> None:
        for moment in range(150):
            history.clock.ms += history.chosen.choice((0, 5, 1_500, 40_000))
            await history.act()
            viewer = history.chosen.choice(PEOPLE)
            history.whole.settle()
            last = await history.log.end()
            if moment % 40 == 39:  # a worker is killed, and with luck its timelines are lost too
                history.restart()
            if history.chosen.random() < 0.3:
                await history.drain(deliver=history.chosen.random() < 0.5)
            assert await history.home(viewer, seen=NOWHERE) == history.naive.home(viewer), (
                "whether or not the worker came by"
            )
            assert await history.home(viewer, seen=last) == history.naive.home(viewer)
            assert await history.home(viewer, seen=NOWHERE, refresh=True) == history.naive.home(viewer)

        assert history.served > 10, "too few homes came from a timeline to prove anything"

    lived(history, live)


def test_a_ranked_home_shows_each_post_once_the_unseen_first_whatever_happens_meanwhile(
    history: HomeHistory, lived: Live
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
            before, seen_before = naive.unseen(viewer), naive.seen(viewer)
            found, seen = await history.ranked(viewer, seen=last)
            after, at_home_after = naive.unseen(viewer), set(naive.home(viewer))
            assert len({*found, *seen}) == len(found) + len(seen), "a post came twice"
            for shown, all_the_time, ever in (
                (found, before & after, before | after),
                (seen, seen_before & at_home_after, seen_before),
            ):
                said = [naive.texts[post] for post in shown]
                assert len(said) == len(set(said)), "a copy came as well"
                there = {naive.texts[post] for post in all_the_time}
                assert set(said) >= there, "a post that was there all the time was left out, and all its copies"
                assert set(shown) <= ever

    lived(history, live)


def test_a_kept_order_shows_what_a_new_one_would(history: HomeHistory, lived: Live) -> None:
    async def live() -> None:
        found = history.feed._orders = OrdersFound(history.log.covers)
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
        assert found.times > 0, "too few orders were kept to prove anything"

    lived(history, live)


def test_paging_while_others_post_shows_each_post_once(lived: Live) -> None:
    """What is new comes before the first page; what was there is neither repeated nor left out."""
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


def test_a_post_is_at_home_with_everybody_while_it_is_delivered(lived: Live) -> None:
    """Follower by follower, by a worker that is killed after each."""
    history = HomeHistory(random.Random(2), [Thresholds(push_max=2)])

    async def check() -> None:
        await history.drain()  # a worker that is new begins at the end of the log, behind what readers wished
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
                assert await history.home(one, seen=await history.log.end()) == posts[::-1]
            history.restart()
        assert len(having) > 3, "chunk by chunk"
        assert having == sorted(having)
        assert having[-1] == 4 * len(posts), "nobody lost their timeline meanwhile"

    lived(history, check)


def test_all_of_ones_own_posts_are_at_home_before_they_are_pushed(lived: Live) -> None:
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


def test_home_goes_on_past_the_end_of_the_timeline(lived: Live) -> None:
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
        assert await history.home(alice, seen=NOWHERE) == made[::-1]
        for late in (made[:1], made[200:300], made[:450]):  # an event that failed before, an author who comes back
            for post in late:
                await history.rings.push(post, np.array([alice]))
            history.clock.ms += 60_000
            assert await history.home(alice, seen=NOWHERE) == made[::-1]
        assert (timeline := await history.rings.read(alice)) is not None
        assert timeline.needs_rebuild
        await history.drain()
        assert (timeline := await history.rings.read(alice)) is not None
        assert timeline.ids.tolist() == made[:-501:-1], "built again, as it was asked for"

    lived(history, check)
