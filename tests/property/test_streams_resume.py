"""The messages of a stream add up to the right home, however often the reader loses the connection.

Two processes serve one store, and readers reconnect to either. The store fails now and then. No post may be sent twice.
"""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import sleep as really_sleep
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coroutines import run_coroutine, without_waits
from engines import Engine
from history_lengths import seeds
from services import Services
from store_types import EngineStores

from kith.core.clock import wall_ms
from kith.core.errors import StoreUnavailable
from kith.core.ids import NodeId
from kith.graph.graphs import HIDES, LIKES
from kith.posts.post import PostEdit
from kith.streams.live import LiveStreams
from kith.streams.positions import StreamPosition
from kith.streams.rounds import ROUND_EVERY_S
from kith.streams.stream import Stream

PORT = "whole"
PEOPLE = [NodeId(user) for user in range(1, 7)]
SPINS_MAX = 20_000


class NoObserver:
    """An observer that counts nothing."""

    def messages_sent(self, name: str, streams: int) -> None: ...
    def stream_lag(self, lag_s: float) -> None: ...


class Flaky:
    """Passes calls on. While `odds` is above 0, some of them fail."""

    def __init__(self, real: Any, chance: random.Random, *names: str) -> None:
        self._real, self._chance, self._names = real, chance, names
        self.odds = 0.0

    def __getattr__(self, name: str) -> Any:
        if name in self._names and self._chance.random() < self.odds:
            raise StoreUnavailable("not now")
        return getattr(self._real, name)


class Reader:
    """A client as an app would write it: it keeps the posts it shows, and reconnects with the last id it got."""

    def __init__(self, history: StreamHistory, user: NodeId) -> None:
        self.history, self.user = history, user
        self.shown: dict[int, int] = {}  # post -> likes
        self.last: str | None = None
        self.at: tuple[LiveStreams, Stream] | None = None
        self.resets = 0
        self.loaded: set[int] = set()  # shown since the home was reloaded, which may be ahead of the stream

    async def connect(self, live: LiveStreams) -> None:
        stream = Stream(self.user, self.hear, lambda _: self.drop(), lambda: asyncio.sleep(0))
        self.at = live, stream
        try:
            await live.join(stream, self.last, list(self.shown))
        except StoreUnavailable:
            self.drop()

    def drop(self) -> None:
        if self.at is not None:
            live, stream = self.at
            stream.send = lambda *_: None
            live.leave(stream)
            self.at = None

    def hear(self, place: StreamPosition, name: str, data: bytes) -> None:
        self.last = str(place)
        body = json.loads(data) if name else {}
        post = int(body.get("postId", 0))
        match name:
            case "new_post":
                assert post not in self.shown or post in self.loaded, f"{post} is sent to {self.user} twice"
                self.shown.setdefault(post, 0)
            case "engagement_update":
                if post in self.shown:
                    self.shown[post] = body["likeCount"]
            case "post_removed":
                self.shown.pop(post, None)
            case "reset":
                self.resets += 1
                self.shown = self.history.home(self.user)
                self.loaded = set(self.shown)


class StreamHistory:
    """Services over one engine, two processes with streams, and a naive model."""

    def __init__(self, seed: int, odds: float) -> None:
        self.chance, self.odds = random.Random(seed), odds
        self.seconds = 0.0
        self.follows = {(a, b) for a in PEOPLE for b in PEOPLE if a != b and self.chance.random() < 0.6}
        self.mutes: set[tuple[int, int]] = set()
        self.hides: set[tuple[int, int]] = set()
        self.posts: dict[int, tuple[NodeId, bool]] = {}  # post -> author, public
        self.likes: dict[int, set[int]] = {}

    async def open(self, whole: EngineStores) -> None:
        self.records = Flaky(whole.records, self.chance, "get_many")
        self.log = Flaky(whole.log, self.chance, "read", "end", "behind")
        self.services = await Services.over(whole.edges, self.records)
        self.objects, self.engagement = self.services.posts, self.services.engagement
        for a, b in sorted(self.follows):
            await self.services.people.follow(a, b)
        whole.settle()
        self.lives = [
            LiveStreams(
                self.objects, self.engagement, self.services.notification_services.notifications,
                self.log, NoObserver(),
                resume_events=40, heartbeat_s=5, now_s=lambda: self.seconds,
            )
            for _ in range(2)
        ]  # fmt: skip
        self.readers = [Reader(self, user) for user in PEOPLE]

    def home(self, user: int) -> dict[int, int]:
        """The posts that belong in a user's home, with their likes."""
        return {
            post: len(self.likes[post])
            for post, (author, public) in self.posts.items()
            if (author == user or (public and (user, author) in self.follows))
            and (user, author) not in self.mutes
            and (user, post) not in self.hides
        }

    async def act(self) -> None:
        """Do one random action."""
        user = self.chance.choice(PEOPLE)
        other = self.chance.choice([one for one in PEOPLE if one != user])
        match self.chance.choices(
            ["post", "like", "delete", "hide", "private", "publish", "mute", "block", "drop", "come", "step", "wait"],
            [14, 8, 2, 1, 1, 2, 0.2, 0.2, 6, 12, 14, 1],
        )[0]:
            case "post":
                public = self.chance.random() < 0.8
                made = await self.services.write(user, visibility="public" if public else "private")
                self.posts[made.id] = user, public
                self.likes[made.id] = set()
            case "like" if home := self.home(user):
                post = self.chance.choice(sorted(home))
                await self.engagement.add(LIKES, user, NodeId(post))
                self.likes[post].add(user)
            case "delete" if own := [post for post, (author, _) in self.posts.items() if author == user]:
                await self.objects.delete(user, NodeId(own[-1]))
                del self.posts[own[-1]]
            case "hide" if home := self.home(user):
                post = self.chance.choice(sorted(home))
                await self.engagement.add(HIDES, user, NodeId(post))
                self.hides.add((user, post))
            case "private" if own := [post for post, made in self.posts.items() if made == (user, True)]:
                await self.objects.edit(user, NodeId(own[-1]), PostEdit(visibility="private"))
                self.posts[own[-1]] = user, False
            case "publish" if own := [post for post, made in self.posts.items() if made == (user, False)]:
                await self.objects.edit(user, NodeId(own[-1]), PostEdit(visibility="public"))
                self.posts[own[-1]] = user, True
            case "mute":
                # An event that is handled after the mute sends the reader nothing, which the model could not know.
                await self.settle()
                await self.services.people.mute(user, other)
                self.mutes.add((user, other))
            case "block":
                await self.settle()
                await self.services.people.block(user, other)
                self.follows -= {(user, other), (other, user)}
            case "drop":
                self.reader(user).drop()
            case "come" if self.reader(user).at is None:
                self.records.odds = self.odds
                await self.reader(user).connect(self.chance.choice(self.lives))
                self.records.odds = 0.0
            case "step":  # users connect or disconnect while events are half processed
                self.records.odds = self.odds
                for _ in range(self.chance.randrange(1, 5)):
                    self.seconds += ROUND_EVERY_S / 4
                    await asyncio.sleep(0)
                self.records.odds = 0.0
            case "wait":
                await self.settle()

    def reader(self, user: int) -> Reader:
        return next(reader for reader in self.readers if reader.user == user)

    async def settle(self) -> None:
        """Wait until all connected readers show the right home."""
        connected = [reader for reader in self.readers if reader.at is not None]
        await self.until(lambda: all(reader.shown == self.home(reader.user) for reader in connected), connected)

    async def until(self, condition: Callable[[], bool], readers: list[Reader]) -> None:
        for spin in range(SPINS_MAX):
            self.records.odds = self.log.odds = self.odds if spin < SPINS_MAX // 2 else 0.0
            if condition():
                self.records.odds = self.log.odds = 0.0
                return
            for reader in readers:
                if reader.at is None:  # a reset ended the stream, or the store failed
                    await reader.connect(self.chance.choice(self.lives))
            self.seconds += ROUND_EVERY_S / 20
            await really_sleep(0 if spin < SPINS_MAX // 20 else 0.001)  # engines across a network need some time
        wrong = {r.user: (r.shown, self.home(r.user), r.resets) for r in readers if r.shown != self.home(r.user)}
        raise AssertionError(f"shown, expected, resets, by user: {wrong}")


@pytest.mark.parametrize("seed", seeds(10, 2 * 400))
@pytest.mark.parametrize("odds", [0.0, 0.1])
def test_stream_messages_add_up_to_home(engine: Engine, tmp_path: Path, seed: int, odds: float) -> None:
    print(f"seed {seed}")

    async def play(whole: EngineStores) -> None:
        history = StreamHistory(seed, odds)
        await history.open(whole)
        for reader in history.readers:
            await reader.connect(history.lives[0])
        for _ in range(400):
            await history.act()
        for reader in history.readers:
            if reader.at is None:
                await reader.connect(history.chance.choice(history.lives))
        await history.settle()
        for live in history.lives:
            await live.close()

    assert engine.whole
    with without_waits(), engine.whole(tmp_path / "data", now_ms=wall_ms) as whole:
        run_coroutine(play(whole))
