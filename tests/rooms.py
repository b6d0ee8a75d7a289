"""The services of objects over one reference store, for tests of their rules."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from reference import ReferenceEdges, ScrambledEdges
from reference_records import ReferenceRecords
from world import ALICE, BOB, FakeClock, Run, Social, no_images

from kith.core.clock import HybridClock
from kith.core.ids import NodeId, Snowflakes
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, Graphs
from kith.people.profiles import Profiles
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.post import Draft, Post
from kith.posts.posts import Posts


class Room(NamedTuple):
    """The services of this room over one store."""

    posts: Posts
    comments: Comments
    engagement: Engagement
    profiles: Profiles
    graph: Graph
    store: ReferenceRecords
    edges: ReferenceEdges


def furnished(run: Run, clock: FakeClock, *, transactional: bool) -> Room:
    """A room over a store with transactions, or over one that has none, delays, repeats and reorders."""
    edges = ReferenceEdges() if transactional else ScrambledEdges(seed=1)
    graph = Social(edges, Graphs(run(edges.declare(BUILT_IN))), HybridClock(clock))
    store = ReferenceRecords(edges)
    posts = Posts(store, graph, Snowflakes(0, clock))
    return Room(posts, Comments(posts), Engagement(posts), Profiles(store, graph.clock, no_images), graph, store, edges)


def settle(room: Room) -> None:
    """Until every list shows what was written."""
    if isinstance(room.edges, ScrambledEdges):
        room.edges.settle()


def write(run: Run, room: Room, author: NodeId = ALICE, **fields: Any) -> Post:
    """A new post."""
    return run(room.posts.create(author, Draft(**{"text": "hello", **fields}))).post


def block_before_the_next_write(room: Room, monkeypatch: pytest.MonkeyPatch, blocker: NodeId) -> None:
    """`blocker` blocks Bob when what Bob does next was found to be allowed, and is not written yet."""
    apply = room.edges.apply

    async def overtaken(writes: Any) -> Any:
        monkeypatch.setattr(room.edges, "apply", apply)
        await room.graph.people.block(blocker, BOB)
        return await apply(writes)

    monkeypatch.setattr(room.edges, "apply", overtaken)
