"""Streams over an empty store, without HTTP. A test decides what happens between two events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from cast import ALICE, BOB, CAROL, FakeClock
from services import NotificationServices, SocialGraph
from store_types import EngineStores
from store_wrappers import SettlingStore

from kith.core.clock import HybridClock
from kith.core.ids import NodeId, Snowflakes
from kith.graph.graphs import BUILT_IN, Graphs
from kith.posts.engagement import Engagement
from kith.posts.post import Draft
from kith.posts.posts import Posts
from kith.streams.live import LiveStreams
from kith.streams.positions import StreamPosition
from kith.streams.stream import Stream

TURNS_MAX = 2_000


class StreamWorld:
    """The live streams over an empty store; Bob and Carol follow Alice. `seconds`: the time of its clock."""

    def __init__(self, whole: EngineStores) -> None:
        self._whole, self.seconds, self.lags = whole, 0.0, list[float]()

    async def play(self, scene: Callable[[StreamWorld], Awaitable[None]]) -> None:
        self.clock = clock = FakeClock()
        edges = self._whole.edges
        self.graph = graph = SocialGraph(edges, Graphs(await edges.declare(BUILT_IN)), HybridClock(clock))
        self.store, self.log = self._whole.records, SettlingStore(self._whole.log, self._whole.settle)
        self.objects = Posts(self.store, graph, Snowflakes(0, clock))
        self.engagement = Engagement(self.objects)
        self.notification_services = NotificationServices(self.objects, clock)
        self.live = self.opened()
        for user in (BOB, CAROL):
            await graph.people.follow(user, ALICE)
        self.settle()
        await scene(self)
        await self.live.close()

    def settle(self) -> None:
        """If lists lag: bring them up to date."""
        self._whole.settle()

    def opened(self) -> LiveStreams:
        return LiveStreams(
            self.objects, self.engagement, self.notification_services.notifications, self.log, self,
            resume_events=100, heartbeat_s=15, now_s=lambda: self.seconds,
        )  # fmt: skip

    def messages_sent(self, name: str, streams: int) -> None:
        """See `streams.open_streams.Observer`."""

    def stream_lag(self, lag_s: float) -> None:
        """See `streams.open_streams.Observer`."""
        self.lags.append(lag_s)

    async def posts(self, count: int) -> list[str]:
        return [str((await self.objects.create(ALICE, Draft(text="x"))).post.id) for _ in range(count)]

    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(TURNS_MAX):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came")

    async def pass_seconds(self, count: int) -> None:
        """Let seconds pass one by one, and bring lists up to date after each."""
        for _ in range(count):
            self.seconds += 1.0
            self.settle()
            await self.turns()

    async def turns(self) -> None:
        """Let other tasks run until they wait for something."""
        for _ in range(100):
            await asyncio.sleep(0)


class StreamRecorder:
    """A stream that records its messages. `at_new_post`: called once, while the first new post is sent."""

    def __init__(self, user: NodeId, at_new_post: Callable[[], Any] | None = None) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.places: list[StreamPosition] = []
        self.heartbeats, self.ended, self._at_new_post = 0, "", at_new_post
        self.stream = Stream(user, self._hear, self._end, lambda: asyncio.sleep(0))

    def _hear(self, place: StreamPosition, name: str, data: bytes) -> None:
        self.places.append(place)
        if not name:
            self.heartbeats += 1
            return
        self.messages.append((name, json.loads(data)))
        if name == "new_post" and self._at_new_post is not None:
            act, self._at_new_post = self._at_new_post, None
            act()

    def _end(self, why: str) -> None:
        self.ended = why

    def names(self) -> list[str]:
        """Names of messages, each with its reason if it has one."""
        return [" ".join([name, *([data["reason"]] if "reason" in data else [])]) for name, data in self.messages]

    def posts(self) -> list[str]:
        return [data["postId"] for name, data in self.messages if name == "new_post"]

    def removed_posts(self) -> list[tuple[str, str]]:
        return [(data["postId"], data["reason"]) for name, data in self.messages if name == "post_removed"]


Play = Callable[[Callable[[StreamWorld], Awaitable[None]]], None]
