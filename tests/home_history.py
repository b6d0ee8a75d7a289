"""Random histories of homes, and a naive model of what each home must show."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from itertools import count
from typing import Any

from cast import FakeClock
from reference_leases import own_leases
from services import Services, home_over
from store_types import EngineStores

from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT, SENSITIVE
from kith.core.paging import Mark, Window
from kith.graph.graphs import HIDES, VIEWS
from kith.home.fanout.consumer import NAME, Fanout
from kith.home.fanout.deliveries import Chunks
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import ByRates
from kith.home.home import Home, HomePage
from kith.home.orders import Basis, CachedOrders
from kith.home.rank.features import Integers
from kith.home.skeleton.sources import Sources
from kith.home.slate import PageChoice, Slate, unpack
from kith.log.runner import Pace, Runner

PEOPLE = [NodeId(user) for user in range(1, 7)]
PACE = Pace(batch_max=7, save_s=0.0)


class NaiveHomes:
    """Follows, blocks, mutes, hides, views, posts and labels as sets and dicts."""

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
        """The posts that a ranked home shows first."""
        return {post for post in self.home(viewer) if (viewer, post) not in self.views}

    def seen(self, viewer: int) -> set[int]:
        """The posts that a ranked home shows after the unseen ones."""
        return set(self.home(viewer)) - self.unseen(viewer)

    def copies_of_seen(self, viewer: int) -> set[int]:
        """All posts that have the text of a post that the viewer saw, at home or not."""
        said = {self.texts[post] for viewed_by, post in self.views if viewed_by == viewer}
        return {post for post, text in self.texts.items() if text in said}

    def home(self, viewer: int) -> list[int]:
        """The ids of the posts at a viewer's home, newest first."""
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
        """All labels of a post. `limit` removes no post from a home, as the viewer follows all authors there."""
        return self.labels.get(("post", post), 0) | self.labels.get(("user", self.posts.get(post, 0)), 0)


class CountingOrders(CachedOrders):
    """Counts how often a cached order was used."""

    times = 0

    def find(
        self, reader: int, basis: Basis, posts: Integers, limit: int, *, must_reflect: LogPosition, now_ms: int
    ) -> tuple[Slate, PageChoice | None] | None:
        found = super().find(reader, basis, posts, limit, must_reflect=must_reflect, now_ms=now_ms)
        self.times += found is not None
        return found


class HomeHistory:
    """Homes over one engine, with fan-out workers that start and die, and the naive model of the same history."""

    def __init__(self, chosen: random.Random, policies: Sequence[Thresholds | ByRates]) -> None:
        self.chosen, self.policies = chosen, itertools.cycle(policies)
        self.naive, self.clock = NaiveHomes(), FakeClock()
        self.served = self.made = 0

    async def open(self, whole: EngineStores) -> None:
        services = await Services.over(whole.edges, whole.records, self.clock)
        self.graph, self.posts = services.graph, services.posts
        self.engagement, self.moderation = services.engagement, services.moderation
        self.write, self.whole = services.write, whole
        self.log, self.fanout, self.rings = whole.log, whole.fanout_state, whole.timelines
        self.feed, self.other_feed = self.another_feed(), self.another_feed()
        self.runners: list[Runner] = []
        for _ in range(1 if whole.hand_over is None else 2):
            self.restart()

    def another_feed(self) -> Home:
        """The homes of another API process, with empty caches."""
        return home_over(self.graph, self.posts, self.rings, self.fanout, self.log, now_ms=self.clock)

    def restart(self) -> None:
        """Start a new worker process. It replaces the oldest: an engine with `hand_over` has two, others have one."""
        consumer = Fanout(
            Sources(self.graph),
            self.rings,
            self.fanout,
            own_leases(),  # so two workers may both believe that they hold a delivery
            now_s=count().__next__,
            graphs=self.graph.graphs,
            policy=next(self.policies),
            now_ms=self.clock,
            chunks=Chunks(*[self.chosen.choice((1, 2))] * 3, checkpoint_s=self.chosen.choice((0.0, 60.0))),
        )
        enough = 0 if self.whole.hand_over is None else 1
        self.runners = [*self.runners[len(self.runners) - enough :], Runner(consumer, self.log, PACE, self.clock)]

    async def step(self) -> bool:
        """Do one step of each worker. Returns whether one had work."""
        return any([await runner.step() for runner in self.runners])

    async def work(self) -> None:
        """Do a step of the workers. If there are several, a handover or a kill may interrupt it."""
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
        """Step until every event is handled, and, with `deliver`, until every delivery is done."""
        self.whole.settle()
        while await self.step() and (deliver or await self.is_behind()):
            pass

    async def is_behind(self) -> bool:
        """Whether the saved progress of the worker is behind the log."""
        progress = await self.log.progress(NAME)
        return progress is None or progress.behind.events > 0

    async def act(self) -> None:
        """Do one random action of a user, or a step of the workers."""
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
        """A page of the latest posts, after all writes are visible."""
        self.whole.settle()
        return await self.feed.latest(viewer, window, **asked)

    async def home(self, viewer: NodeId, *, must_reflect: LogPosition, refresh: bool = False) -> list[int]:
        """The post ids of all pages of a home, read with random limits."""
        found: list[int] = []
        window = Window(self.chosen.randrange(1, 6))
        self.served += not refresh and await self.rings.read(viewer) is not None
        while True:
            page = await self.latest(viewer, window, must_reflect=must_reflect, refresh=refresh)
            found += [post.id for post in page.posts]
            assert [post.labels for post in page.posts] == [self.naive.labelled(post.id) for post in page.posts]
            if page.rest is None:
                return found
            window = Window(self.chosen.randrange(1, 6), after=page.rest)

    async def ranked(self, viewer: NodeId, *, must_reflect: LogPosition) -> tuple[list[int], list[int]]:
        """All pages of a ranked home, from two API processes, with random actions in between. Returns the ids of the
        posts that pages call unseen, and of those that they call seen.
        """
        found: tuple[list[int], list[int]] = [], []
        slate = None
        while True:
            limit = self.chosen.randrange(1, 6)
            self.whole.settle()
            feed = self.chosen.choice((self.feed, self.other_feed))
            page = await feed.ranked(viewer, limit, slate, must_reflect=must_reflect)
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
