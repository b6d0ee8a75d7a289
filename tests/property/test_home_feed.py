"""For any history of follows, blocks, posts, labels and deletions the home feed is what a naive model says.

Whatever state the timelines are in: fan-out is behind, was restarted, lost events, or an author crossed a threshold.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from cast import FakeClock
from engines import open_embedded
from services import feed_over, service_over

from kith.core.ids import NodeId, Snowflakes
from kith.core.labels import HIDE, LIMIT, SENSITIVE
from kith.core.paging import Window
from kith.engines.embedded.log_store import EmbeddedLog
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.timeline_store import Rings
from kith.graph.graphs import BUILT_IN, HIDES, VIEWS
from kith.home.fanout.consumer import NAME, Fanout
from kith.home.fanout.deliveries import Chunks
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.slate import unpack
from kith.home.sources import Sources
from kith.log.runner import Pace, Runner
from kith.posts.engagement import Engagement
from kith.posts.labels import Moderation
from kith.posts.post import Draft
from kith.posts.posts import Posts

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
        """What a ranked home shows."""
        return {post for post in self.home(viewer) if (viewer, post) not in self.views}

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


class Town:
    """Kith over one folder, with a worker that comes and goes."""

    def __init__(self, folder: Path, chosen: random.Random, policies: Sequence[Thresholds | ByRates]) -> None:
        self.folder, self.chosen, self.policies = folder, chosen, itertools.cycle(policies)
        self.naive, self.clock = Naive(), FakeClock()
        self.served = self.made = 0

    async def open(self, store: object, environment: object) -> None:
        await store.declare(BUILT_IN)  # type: ignore[attr-defined]
        self.graph = await service_over(store, self.clock)  # type: ignore[arg-type]
        self.log = EmbeddedLog(environment, store._commits)  # type: ignore[arg-type, attr-defined]
        objects = EmbeddedRecords(environment, store._commits)  # type: ignore[arg-type, attr-defined]
        self.objects = Posts(objects, self.graph, Snowflakes(1, lambda: self.clock.ms))
        self.engagement, self.moderation = Engagement(self.objects), Moderation(self.objects)
        self.rings = Rings(self.folder / "timelines", slots=4, now_ms=lambda: self.clock.ms)  # fewer than people
        self.feed = feed_over(self.graph, self.objects, self.rings, self.log, group=NAME, now_ms=lambda: self.clock.ms)
        self.restart()

    def restart(self) -> None:
        """A new worker process."""
        consumer = Fanout(
            Sources(self.graph),
            self.rings,
            graphs=self.graph.graphs,
            policy=next(self.policies),
            now_ms=lambda: self.clock.ms,
            chunks=Chunks(*[self.chosen.choice((1, 2))] * 3, checkpoint_s=self.chosen.choice((0.0, 60.0))),
        )
        self.runner = Runner(consumer, self.log, PACE, lambda: self.clock.ms)

    async def drain(self, *, deliver: bool = True) -> None:
        """Until every event is handled, and everything is delivered if so asked."""
        while await self.runner.step() and (deliver or await self.log.progress(NAME) != self.log.bounds()[1]):
            pass

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
                text = f"post {self.made}" if self.made % 3 else f"what everybody says, {self.made % 4}"
                written = await self.objects.create(one, Draft(text=text))
                self.made += 1
                naive.posts[int(written.post.id)] = int(one)
                naive.texts[int(written.post.id)] = text
            case 11 if naive.posts:
                post = chosen.choice(list(naive.posts))
                await self.objects.delete(NodeId(naive.posts.pop(post)), NodeId(post))
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
                await self.runner.step()

    async def home(self, viewer: NodeId, *, seen: int, refresh: bool = False) -> list[int]:
        """All pages of a home, read with random limits."""
        found: list[int] = []
        window = Window(self.chosen.randrange(1, 6))
        self.served += not refresh and self.rings.read(viewer) is not None
        while True:
            page = await self.feed.latest(viewer, window, seen=seen, refresh=refresh)
            found += [post.id for post in page.posts]
            assert [post.labels for post in page.posts] == [self.naive.labelled(post.id) for post in page.posts]
            if page.rest is None:
                return found
            window = Window(self.chosen.randrange(1, 6), after=page.rest)

    async def ranked(self, viewer: NodeId, *, seen: int) -> list[int]:
        """All pages of a ranked home, while things happen in between."""
        found: list[int] = []
        slate = None
        while True:
            limit = self.chosen.randrange(1, 6)
            page = await self.feed.ranked(viewer, limit, slate, seen=seen)
            authors = Counter(post.author for post in page.posts)
            assert max(authors.values(), default=0) <= 2 or len(authors) == 1
            assert set(page.placed) == {post.id for post in page.posts}
            found += [post.id for post in page.posts]
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


@pytest.fixture(params=range(12), ids="seed {}".format)
def town(request: pytest.FixtureRequest, tmp_path: Path, policies: list[Thresholds | ByRates]) -> Town:
    return Town(tmp_path, random.Random(request.param), policies)


def lived(town: Town, life: Callable[[], Awaitable[None]]) -> None:
    """Open the town, live in it, and close it."""
    with open_embedded(town.folder / "data", now_ms=town.clock) as (environment, store):

        async def run() -> None:
            await town.open(store, environment)
            try:
                await life()
            finally:
                town.rings.close()

        asyncio.run(run())


def test_home_is_what_a_naive_model_says(town: Town) -> None:
    async def live() -> None:
        for moment in range(150):
            town.clock.ms += town.chosen.choice((0, 5, 1_500, 40_000))
            await town.act()
            viewer = town.chosen.choice(PEOPLE)
            last = town.log.bounds()[1]
            if moment % 40 == 39:  # a worker is killed, and with luck its timelines are lost too
                town.restart()
            if town.chosen.random() < 0.3:
                await town.drain(deliver=town.chosen.random() < 0.5)
                assert await town.home(viewer, seen=0) == town.naive.home(viewer)
            assert await town.home(viewer, seen=last) == town.naive.home(viewer)
            assert await town.home(viewer, seen=0, refresh=True) == town.naive.home(viewer)

        assert town.served > 10, "too few homes came from a timeline to prove anything"

    lived(town, live)


def test_a_ranked_home_shows_each_unseen_post_once_whatever_happens_meanwhile(town: Town) -> None:
    async def live() -> None:
        for _ in range(60):
            town.clock.ms += town.chosen.choice((0, 5, 1_500, 40_000))
            for _ in range(3):
                await town.act()
            if town.chosen.random() < 0.5:
                await town.drain()
            viewer, last = town.chosen.choice(PEOPLE), town.log.bounds()[1]
            before = town.naive.unseen(viewer)
            found = await town.ranked(viewer, seen=last)
            after = town.naive.unseen(viewer)
            said = [town.naive.texts[post] for post in found]
            assert len(said) == len(set(said)), "a post or a near-duplicate came twice"
            there = {town.naive.texts[post] for post in before & after}
            assert set(said) >= there, "a post that was there all the time was left out, and all that are like it"
            assert set(found) <= before | after

    lived(town, live)


def test_paging_while_others_post_shows_each_post_once(tmp_path: Path) -> None:
    """What is new comes before the first page; what was there is neither repeated nor left out."""
    town = Town(tmp_path, random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await town.graph.people.follow(alice, bob)
        before = [(await town.objects.create(bob, Draft(text="old"))).post.id for _ in range(30)]
        await town.feed.latest(alice, Window(5))
        await town.drain()
        found: list[int] = []
        window = Window(7)
        while True:
            page = await town.feed.latest(alice, window)
            found += [post.id for post in page.posts]
            town.clock.ms += 10
            await town.objects.create(bob, Draft(text="new"))
            await town.drain()
            if page.rest is None:
                break
            window = Window(7, after=page.rest)
        assert found == before[::-1]

    lived(town, check)


def test_a_post_is_at_home_with_everybody_while_it_is_delivered(tmp_path: Path) -> None:
    """Follower by follower, by a worker that is killed after each."""
    town = Town(tmp_path, random.Random(2), [Thresholds(push_max=2)])

    async def check() -> None:
        bob, *others = PEOPLE[:5]
        for one in others:
            await town.graph.people.follow(one, bob)
        for one in others:
            await town.feed.latest(one, Window(5))
        await town.drain()
        posts = [(await town.objects.create(bob, Draft(text="for all"))).post.id for _ in range(3)]
        sources, having = Sources(town.graph), []
        while not having or await sources.deliveries():
            await town.drain(deliver=False)
            timelines = [timeline for one in others if (timeline := town.rings.read(one)) is not None]
            having.append(sum(len(set(timeline.ids.tolist())) for timeline in timelines))
            for one in others:
                assert await town.home(one, seen=town.log.bounds()[1]) == posts[::-1]
            town.restart()
        assert len(having) >= 6
        assert having == sorted(having)
        assert having[-1] == 4 * len(posts), "nobody lost their timeline meanwhile"

    lived(town, check)


def test_all_of_ones_own_posts_are_at_home_before_they_are_pushed(tmp_path: Path) -> None:
    town = Town(tmp_path, random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await town.graph.people.follow(alice, bob)
        posts = [(await town.objects.create(bob, Draft(text="old"))).post.id for _ in range(10)]
        await town.drain()
        await town.feed.latest(alice, Window(5))
        await town.drain()
        assert town.rings.read(alice) is not None
        posts += [(await town.objects.create(alice, Draft(text="my own"))).post.id for _ in range(70)]
        for _ in range(3):
            found, window = [], Window(50)
            while True:
                page = await town.feed.latest(alice, window)
                found += [post.id for post in page.posts]
                if page.rest is None:
                    break
                window = Window(50, after=page.rest)
            assert found == posts[::-1]
            await town.runner.step()

    lived(town, check)


def test_home_goes_on_past_the_end_of_the_timeline(tmp_path: Path) -> None:
    town = Town(tmp_path, random.Random(1), [Thresholds(push_max=2)])

    async def check() -> None:
        alice, bob = PEOPLE[:2]
        await town.graph.people.follow(alice, bob)
        await town.drain()
        await town.feed.latest(alice, Window(5))
        await town.drain()
        made = []
        for _ in range(620):
            town.clock.ms += 1
            made.append((await town.objects.create(bob, Draft(text="one of many"))).post.id)
        await town.drain()
        timeline = town.rings.read(alice)
        assert timeline is not None
        assert (len(timeline.ids), timeline.floor) == (500, made[-501])
        assert await town.home(alice, seen=0) == made[::-1]
        for late in (made[:1], made[200:300], made[:450]):  # an event that failed before, an author who comes back
            for post in late:
                town.rings.push(post, np.array([alice]))
            town.clock.ms += 60_000
            assert await town.home(alice, seen=0) == made[::-1]
        assert (timeline := town.rings.read(alice)) is not None
        assert timeline.needs_rebuild
        await town.drain()
        assert (timeline := town.rings.read(alice)) is not None
        assert timeline.ids.tolist() == made[:-501:-1], "built again, as it was asked for"

    lived(town, check)
