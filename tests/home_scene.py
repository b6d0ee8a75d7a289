"""A home feed over an engine, with its parts accessible, for tests of ranking."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from blocking_timelines import BlockingTimelines
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from reference_fanout_state import ReferenceFanoutState
from reference_timelines import ReferenceTimelines
from services import boards_over, service_over
from store_types import EngineStores
from store_wrappers import SettlingStore

from kith.core.ids import NodeId, Snowflakes
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, HIDES
from kith.home.home import Home, HomePage
from kith.home.rank.affinity import Affinity
from kith.home.rank.facts import PostFacts
from kith.home.rank.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.served import Served
from kith.home.skeleton.pinned import PinnedPosts
from kith.home.skeleton.skeleton import Skeletons
from kith.home.slate import Slate, unpack
from kith.log.store import LogStore
from kith.people.unrestricted import UnrestrictedPeople
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.post import Draft, Post
from kith.posts.post_cache import PostCache
from kith.posts.posts import Posts
from kith.records.read_cache import ReadCache

GROUP = "fanout"
_texts = itertools.count()


class ServedPages(list[Served]):
    """A ServedLog in memory."""

    def add(self, page: Served) -> None:
        self.append(page)


class HomeScene(NamedTuple):
    """The services of the home feed over one store and clock. No user has a timeline until a test makes one."""

    clock: FakeClock
    graph: Graph
    posts: Posts
    comments: Comments
    engagement: Engagement
    facts: PostFacts
    affinity: Affinity
    ranker: Ranker
    timelines: BlockingTimelines
    fanout: ReferenceFanoutState
    log: LogStore
    served: ServedPages
    feed: Home

    async def catch_up_fanout(self) -> None:
        """Save progress as if fan-out had handled the whole log."""
        await self.log.save(GROUP, await self.log.end(), {})

    async def post(self, author: NodeId, text: str | None = None, **fields: Any) -> Post:
        """A new post, with a text of its own unless one is given."""
        self.clock.ms += 1
        text = f"post number {next(_texts)}" if text is None else text
        return (await self.posts.create(author, Draft(text=text, **fields))).post

    async def page(self, limit: int = 20, slate: Slate | None = None, reader: NodeId = ALICE) -> HomePage[Slate]:
        """A page of a reader's ranked home."""
        return await self.feed.ranked(reader, limit, slate)

    async def pages(self, limit: int = 20, slate: Slate | None = None, reader: NodeId = ALICE) -> list[list[Post]]:
        """All pages of a reader's ranked home. Each cursor is packed and unpacked, as the API does."""
        found: list[list[Post]] = []
        for _ in range(10_000):
            page = await self.page(limit, slate, reader)
            found.append(page.posts)
            if page.rest is None:
                return found
            slate = unpack(page.rest.pack())
        raise AssertionError("this home has no end")

    async def all(self, limit: int = 20, slate: Slate | None = None, reader: NodeId = ALICE) -> list[int]:
        """The ids of all pages."""
        return [post.id for posts in await self.pages(limit, slate, reader) for post in posts]


async def open_home(whole: EngineStores, clock: FakeClock, *, bits: int = 8) -> HomeScene:
    """A HomeScene over an empty store. The cache of facts has only 2^`bits` sets, so posts evict each other."""
    store: Any
    log: Any
    store, log = [
        one if whole.edges.immediate else SettlingStore(one, whole.settle) for one in (whole.edges, whole.log)
    ]
    await store.declare(BUILT_IN)
    graph = await service_over(store, clock)
    posts = Posts(whole.records, graph, Snowflakes(1, clock))
    comments, timelines, served = Comments(posts), BlockingTimelines(ReferenceTimelines(100, clock)), ServedPages()
    fanout = ReferenceFanoutState(log, GROUP)
    read_cache = ReadCache(store, log, clock)
    facts = PostFacts(posts.store, graph, read_cache, clock, bits=bits)
    affinity = Affinity(graph, comments, facts, read_cache, clock)
    ranker = Ranker(graph, facts, affinity, read_cache, clock)
    skeletons = Skeletons(graph, timelines.store, fanout, log, read_cache, now_s=lambda: clock.ms / 1000)
    pins = PinnedPosts(boards_over(graph, posts), read_cache, clock)
    rules = HomeRules(graph, PostCache(posts, read_cache), UnrestrictedPeople(graph, read_cache))
    feed = Home(skeletons, ranker, rules, pins, served=served, now_ms=clock)
    home = HomeScene(
        clock,
        graph,
        posts,
        comments,
        Engagement(posts),
        facts,
        affinity,
        ranker,
        timelines,
        fanout,
        log,
        served,
        feed,
    )
    await home.catch_up_fanout()
    return home


def alices_home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    """A HomeScene in which Alice follows Bob, Carol and Dana."""
    made: HomeScene = run(open_home(whole, clock))
    for author in (BOB, CAROL, DANA):
        run(made.graph.people.follow(ALICE, author))
    run(made.catch_up_fanout())
    return made


def ids_of(posts: list[Post]) -> list[int]:
    return [post.id for post in posts]


def failing(error: Exception) -> Callable[..., Awaitable[object]]:
    """A method that raises this error, to replace a method of a part that is down."""

    async def fail(*_: object, **__: object) -> object:
        raise error

    return fail


Act = Callable[[HomeScene, Post], Awaitable[object]]
HIDING_ACTIONS: dict[str, Act] = {
    "hidden": lambda home, post: home.engagement.add(HIDES, ALICE, NodeId(post.id)),
    "muted": lambda home, _: home.graph.people.mute(ALICE, BOB),
    "blocking": lambda home, _: home.graph.people.block(ALICE, BOB),
    "blocked": lambda home, _: home.graph.people.block(BOB, ALICE),
    "unfollowed": lambda home, _: home.graph.people.unfollow(ALICE, BOB),
    "deleted": lambda home, post: home.posts.delete(BOB, NodeId(post.id)),
    "deactivated": lambda home, _: home.graph.store.change_node(BOB, state=State.ARCHIVED),
    "removed": lambda home, _: home.graph.store.change_node(BOB, state=State.REMOVED),
}
"""Actions after which Alice must no longer see a post of Bob's, by name."""
