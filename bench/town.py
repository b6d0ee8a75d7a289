"""A town, the data of many measures: a real follow graph, profiles of the 10,000 most followed users, and their posts.

It is made once per run, through the services; each measure works on a copy.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.figures import Data, copied, imported, real_graph
from kith.commands.transfer.formats import read
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import AUTHORED
from kith.people.profiles import Profile
from kith.posts.post import Draft, check_draft, post_from, post_record
from kith.run.config import Settings
from kith.run.services import Services, open_services

PROFILES, POSTS = 10_000, 10_000
_DAYS = 7
_AT_ONCE = 1_000
Ids = NDArray[np.int64]
Item = TypeVar("Item")


class Town(NamedTuple):
    """The store and its data. `edges`: follows. `profiles`: users who have one. `posts`: rows of id and author."""

    store: Settings
    data: Data
    edges: Ids
    profiles: Ids
    posts: Ids

    @property
    def says(self) -> str:
        """A description in one line."""
        return f"{self.data.says}; {len(self.profiles):,} profiles, {len(self.posts):,} posts"

    @property
    def users(self) -> int:
        """Ids of users are below this."""
        return int(self.edges.max()) + 1

    def copied(self, name: str, *, workers: int = 1) -> Settings:
        """A copy of the store with the town in it."""
        return copied(self.store, name, workers=workers)


def town(folder: Path) -> Town:
    """The town of this run."""
    data = real_graph(folder)
    edges = follows_of(data)
    followed, followers = np.unique(edges[:, 1], return_counts=True)
    profiles = followed[np.argsort(-followers, kind="stable")[:PROFILES]]
    graph = imported(folder, data)
    store, kept = msgspec.structs.replace(graph, data=str(folder / "town")), folder / "town-posts.npy"
    if not kept.exists():
        shutil.rmtree(store.data, ignore_errors=True)
        shutil.copytree(graph.data, store.data)
        authors = np.random.default_rng(5).choice(profiles, POSTS)
        np.save(kept, asyncio.run(_fill(store, profiles, authors)))
    return Town(store, data, edges, profiles, np.load(kept))


def follows_of(data: Data) -> Ids:
    """The edges that the import accepts: all except self-follows."""
    edges = np.concatenate([chunk.edges[:, :2] for chunk in read(data.file)])
    kept: Ids = edges[edges[:, 0] != edges[:, 1]]
    return kept


def name_of(user: int) -> str:
    """The name in a user's profile."""
    return f"Person Number {user}"


def text_of(post: int) -> str:
    """The text of a post."""
    return f"the river was quiet this morning, and somebody had left a red boat by the old bridge: {post}"


async def _fill(settings: Settings, profiles: Ids, authors: Ids) -> Ids:
    async with open_services(settings) as services:
        await put_profiles(services, profiles.tolist())
        posts = spread(random.Random(5), authors.tolist())
        await put_posts(services, posts, lambda post: Draft(text=text_of(post)))
    return np.array(posts, np.int64)


async def put_profiles(services: Services, users: Sequence[int]) -> None:
    """Give each user a profile."""

    async def put(user: int) -> None:
        profile = Profile(display_name=name_of(user), bio="tea before talk", username=f"person_{user}")
        await services.profiles.change(NodeId(user), lambda _: profile)

    for some in batches(users, _AT_ONCE):
        await asyncio.gather(*(put(user) for user in some))


def spread(chosen: random.Random, authors: Sequence[int]) -> list[tuple[int, int]]:
    """(id, author) of one post for each of `authors`, spread over the last days; oldest first."""
    now_ms = int(time.time() * 1000)
    times = sorted(now_ms - chosen.randrange(_DAYS * 86_400_000) for _ in authors)
    ids = [((at - EPOCH_MS) << TIME_SHIFT) + number % 4096 for number, at in enumerate(times)]
    return list(zip(ids, authors, strict=True))


async def put_posts(services: Services, posts: Sequence[tuple[int, int]], draft: Callable[[int], Draft]) -> None:
    """Write posts of the past, as the services would have stored them."""
    authored, clock = services.stores.graph.graphs.number(AUTHORED), services.stores.graph.clock
    for some in batches(posts, _AT_ONCE):
        records, outbox = [], []
        for id_, author in some:
            version, made_ms = clock.next(), (id_ >> TIME_SHIFT) + EPOCH_MS
            post = post_from(NodeId(id_), NodeId(author), made_ms, check_draft(draft(id_)))
            records.append(post_record(post, version))
            edge = Edge(authored, NodeId(author), NodeId(id_), State.NORMAL, post.created_at, version)
            outbox.append(EdgeWrite(edge))
        await services.posts.store.put(records, outbox)


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items, `size` at a time."""
    return (items[at : at + size] for at in range(0, len(items), size))
