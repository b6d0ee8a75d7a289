"""The services over one store, without server and settings, for tests of their rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import pytest
from cast import ALICE, BOB, FakeClock
from reference_edges import ReferenceEdges
from reference_inbox import ReferenceInboxes
from reference_records import records_over
from scrambled_edges import ScrambledEdges

from kith.boards.boards import Boards
from kith.boards.collaborators import Collaborators
from kith.boards.consumer import BoardsConsumer
from kith.boards.following import BoardFollowing
from kith.boards.pins import Pins
from kith.boards.reconciler import FollowReconciler
from kith.core.clock import HybridClock
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId, Snowflakes
from kith.core.paging import Window
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, BUILT_IN, FEWER, FOLLOW_REQUESTS, FOLLOWS, MUTES, NAMES, Graphs
from kith.graph.store import EdgeStore
from kith.home.fanout.state import FanoutState
from kith.home.home import Home
from kith.home.rank.affinity import Affinity
from kith.home.rank.facts import PostFacts
from kith.home.rank.ranker import Ranker
from kith.home.rules import HomeRules
from kith.home.skeleton.pinned import PinnedPosts
from kith.home.skeleton.skeleton import Skeletons
from kith.home.timelines import TimelineReader
from kith.log.store import LogStore
from kith.notifications.external_mentions import ExternalMentions
from kith.notifications.inbox import InboxStore
from kith.notifications.intake import Intake
from kith.notifications.notices import Notices
from kith.notifications.notifications import Notifications
from kith.notifications.preferences import PreferenceStore
from kith.notifications.recent import RecentMentions
from kith.notifications.recipients import Recipients
from kith.notifications.rules import NoticeRules
from kith.people.privacy import Privacy, Viewer
from kith.people.profiles import Profiles
from kith.people.relations import RelationLimits, Relations
from kith.people.unrestricted import UnrestrictedPeople
from kith.posts.comment_reader import CommentPage
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.labels import Moderation
from kith.posts.post import Draft, Post
from kith.posts.post_cache import PostCache
from kith.posts.posts import Posts
from kith.posts.threads import ThreadOrder
from kith.records.read_cache import ReadCache
from kith.records.store import RecordStore

GRAPHS = (FOLLOWS, BLOCKS, MUTES, FOLLOW_REQUESTS, FEWER)
"""The graphs of relations between users."""


class SocialGraph(Graph):
    """A graph with the rules of `people` over it."""

    def __init__(self, store: EdgeStore, graphs: Graphs, clock: HybridClock, **limits: int) -> None:
        super().__init__(store, graphs, clock, walk_max=limits.pop("walk_max", 10_000))
        self.limits = RelationLimits(**limits)
        self.privacy = Privacy(self)
        self.people = Relations(self, self.privacy, self.limits)


class NotificationServices:
    """The services of notifications, over posts. `inbox`: by default in memory."""

    def __init__(self, posts: Posts, now_ms: Callable[[], int], inbox: InboxStore | None = None) -> None:
        graph, comments = posts.graph, Comments(posts)
        self.inbox = ReferenceInboxes() if inbox is None else inbox
        rules = NoticeRules(graph, posts.store)
        self.preferences = PreferenceStore(posts.store, graph.clock, now_ms)
        self.recipients = Recipients(graph, rules, self.preferences)
        self.notices = Notices(posts.store, self.inbox, graph, posts.snowflakes)
        self.recent = RecentMentions(posts.store, graph, 2, now_ms)
        self.intake = Intake(self.notices, self.recipients, self.recent, posts, comments)
        self.external_mentions = ExternalMentions(self.notices, self.recipients, self.recent, graph.clock)
        self.notifications = Notifications(graph, self.notices, rules, self.preferences, self.recent)


class Services:
    """The services over one store of edges and records, with one clock. Most are made at first use."""

    def __init__(self, edges: EdgeStore, records: RecordStore, graphs: Graphs, clock: FakeClock, **limits: int) -> None:
        self.edges, self.records, self.clock = edges, records, clock
        self.graph = SocialGraph(edges, graphs, HybridClock(clock), **limits)
        self.people = self.graph.people = Relations(
            self.graph, self.graph.privacy, self.graph.limits, dependents=self.reconciler
        )

    @classmethod
    async def over(
        cls, edges: EdgeStore, records: RecordStore | None = None, clock: FakeClock | None = None, **limits: int
    ) -> Self:
        """Declare all graphs, and make services over open stores. `records`: by default in memory beside the edges."""
        if records is None:
            assert isinstance(edges, ReferenceEdges)
            records = records_over(edges)
        return cls(edges, records, Graphs(await edges.declare(BUILT_IN)), clock or FakeClock(), **limits)

    @classmethod
    async def in_memory(cls, *, transactional: bool = True, seed: int = 1, clock: FakeClock | None = None) -> Self:
        """Over a store in memory. Without transactions, its lists are updated late, repeatedly and out of order."""
        return await cls.over(ReferenceEdges() if transactional else ScrambledEdges(seed), clock=clock)

    @cached_property
    def snowflakes(self) -> Snowflakes:
        return Snowflakes(0, self.clock)

    @cached_property
    def posts(self) -> Posts:
        return Posts(self.records, self.graph, self.snowflakes)

    @cached_property
    def reconciler(self) -> FollowReconciler:
        return FollowReconciler(self.graph, self.records)

    @cached_property
    def boards_consumer(self) -> BoardsConsumer:
        return BoardsConsumer(self.reconciler)

    @cached_property
    def boards(self) -> Boards:
        return Boards(self.reconciler, self.snowflakes, self.boards_consumer.note_change, self.boards_consumer.finish)

    @cached_property
    def collaborators(self) -> Collaborators:
        return Collaborators(self.boards)

    @cached_property
    def board_following(self) -> BoardFollowing:
        return BoardFollowing(self.boards, follows_max=self.graph.limits.follows_max)

    @cached_property
    def pins(self) -> Pins:
        return Pins(self.boards, self.posts)

    @cached_property
    def comments(self) -> Comments:
        return Comments(self.posts)

    @cached_property
    def engagement(self) -> Engagement:
        return Engagement(self.posts)

    @cached_property
    def moderation(self) -> Moderation:
        return Moderation(self.posts)

    @cached_property
    def profiles(self) -> Profiles:
        return Profiles(self.records, self.graph.clock, no_images, self.graph.graphs.number(NAMES))

    @cached_property
    def notification_services(self) -> NotificationServices:
        return NotificationServices(self.posts, self.clock)

    async def write(self, author: NodeId = ALICE, **fields: Any) -> Post:
        """Create a post. `fields`: of its draft."""
        return (await self.posts.create(author, Draft(**{"text": "hello", **fields}))).post

    async def comments_on(self, viewer: Viewer, post: NodeId, order: ThreadOrder, window: Window) -> CommentPage:
        """The comments on a post that the viewer sees."""
        return await self.comments.visible_page(viewer, await self.comments.of_post(viewer, post, order, window))

    async def replies_to(self, viewer: Viewer, comment: NodeId, order: ThreadOrder, window: Window) -> CommentPage:
        """The replies to a comment that the viewer sees."""
        return await self.comments.visible_page(viewer, await self.comments.of_comment(viewer, comment, order, window))

    def settle(self) -> None:
        """If lists lag: bring them up to date."""
        if isinstance(self.edges, ScrambledEdges):
            self.edges.settle()

    def block_before_the_next_write(self, monkeypatch: pytest.MonkeyPatch, blocker: NodeId) -> None:
        """Have `blocker` block Bob between the checks of Bob's next write and the write itself."""
        apply = self.edges.apply

        async def overtaken(writes: Any) -> Any:
            monkeypatch.setattr(self.edges, "apply", apply)
            await self.people.block(blocker, BOB)
            return await apply(writes)

        monkeypatch.setattr(self.edges, "apply", overtaken)


async def service_over(store: EdgeStore, now_ms: Callable[[], int], **limits: int) -> SocialGraph:
    """Declare GRAPHS in a store, and make the graph and `people` services over it."""
    return SocialGraph(store, Graphs(await store.declare(GRAPHS)), HybridClock(now_ms), **limits)


def home_over(
    graph: Graph,
    posts: Posts,
    timelines: TimelineReader,
    fanout: FanoutState,
    log: LogStore,
    *,
    now_ms: Callable[[], int],
) -> Home:
    """A Home with a ranker, with one clock."""
    read_cache = ReadCache(graph.store, log, now_ms)
    facts = PostFacts(posts.store, graph, read_cache, now_ms, bits=8)
    ranker = Ranker(graph, facts, Affinity(graph, Comments(posts), facts, read_cache, now_ms), read_cache, now_ms)
    skeletons = Skeletons(graph, timelines, fanout, log, read_cache, now_s=lambda: now_ms() / 1000)
    pins = PinnedPosts(boards_over(graph, posts), read_cache, now_ms)
    rules = HomeRules(graph, PostCache(posts, read_cache), UnrestrictedPeople(graph, read_cache))
    return Home(skeletons, ranker, rules, pins, now_ms=now_ms)


async def settle_boards(kith: Services) -> None:
    """Have the consumer of boards handle the whole log of a store in memory, and bring lists up to date."""
    edges: Any = kith.edges
    for _ in range(4):
        if isinstance(edges, ScrambledEdges):
            edges.settle()
        await kith.boards_consumer.handle(edges.log)
        while await kith.boards_consumer.work_backlog():
            pass


def boards_over(graph: Graph, posts: Posts) -> Boards:
    """The Boards service over the same store."""
    reconciler = FollowReconciler(graph, posts.store)
    boards_consumer = BoardsConsumer(reconciler)
    return Boards(reconciler, posts.snowflakes, boards_consumer.note_change, boards_consumer.finish)


async def no_images(owner: NodeId, id_: int, field: str) -> None:
    """Refuse every avatar, as nothing is uploaded."""
    raise InvalidContent(f"{field} names {id_}, which nobody uploaded", field=field, id=str(id_))
