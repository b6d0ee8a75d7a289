"""What people do with posts and comments: like, save, share, view, hide. Each is an edge.

So each is idempotent, each count is the exact length of a list, right after any crash, and the log tells of it.
Only who may see a post can do any of it; the commit itself looks for a block, so none is overtaken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.clock import ms_of
from kith.core.errors import Forbidden, NotFound, PostNotFound
from kith.core.ids import NodeId
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Outcome
from kith.graph.graph import Graph, mark_of
from kith.graph.graphs import COMMENTS, LIKES, SAVES, SHARES, VIEWS
from kith.graph.store import Listing
from kith.people.accounts import check_active
from kith.people.privacy import Privacy
from kith.posts.posts import Posts


class Engaged(NamedTuple):
    """The answer to a write: how it stands, since when, for how many it does, its place for read-your-writes, and
    whether it changed anything.
    """

    holds: bool
    at_ms: int
    total: int
    mark: WriteMark
    changed: bool


class PostCounts(NamedTuple):
    """What a post has got, exactly, and what of it is the viewer's."""

    likes: int
    comments: int
    shares: int
    views: int
    liked: bool
    saved: bool


class Engagement:
    """Sets and counts the edges from people to posts and comments."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._graph = posts, posts.graph
        self._likes, self._saves = self._number(LIKES), self._number(SAVES)
        self._lists = (
            (self._likes, Direction.IN), (self._number(COMMENTS), Direction.OUT),
            (self._number(SHARES), Direction.IN), (self._number(VIEWS), Direction.IN),
        )  # fmt: skip

    async def add(self, graph: str, actor: NodeId, post: NodeId) -> Engaged:
        """`actor` likes, saves, ... the post.

        Errors: PostNotFound where they may not see it; Forbidden where it may not be shared, and as below.
        """
        target = await self._posts.get(actor, post)
        if graph == SHARES and not target.allow_sharing:
            raise Forbidden("its author does not want this post shared; save it instead", id=str(post))
        return await engage(self._graph, self._number(graph), actor, post, NodeId(target.author))

    async def add_many(
        self, graph: str, actor: NodeId, posts: Sequence[NodeId]
    ) -> tuple[list[Engaged | None], WriteMark]:
        """The same for many posts in one write, but for shares; None for each that `actor` may not see.

        Error: Forbidden as below.
        """
        there = [post for post in await self._posts.visible(actor, posts) if post is not None]
        targets = {NodeId(post.id): NodeId(post.author) for post in there}
        engaged, mark = await _engaged(self._graph, self._number(graph), actor, list(targets.items()))
        found = dict(zip(targets, engaged, strict=True))
        return [found.get(post) for post in posts], mark

    async def drop(self, graph: str, actor: NodeId, post: NodeId) -> Engaged:
        """The opposite. PostNotFound where they may not see it, unless there is something of theirs to take back; then
        the total is 0.
        """
        there = await self._posts.visible(actor, [post]) != [None]
        found = await disengage(self._graph, self._number(graph), actor, post, counted=there)
        if not there and not found.changed:
            raise self._posts.missing(post)
        return found

    async def counts(self, viewer: NodeId | None, posts: Sequence[int]) -> list[PostCounts]:
        """The numbers under each of `posts`, in one batch; of posts that the viewer may see."""
        store, ids = self._graph.store, np.array(posts, np.int64)
        columns = (await store.counts(self._lists, ids)).tolist()
        own = [[False] * len(ids)] * 2
        if viewer is not None:
            mine = [Listing(graph, viewer, Direction.OUT) for graph in (self._likes, self._saves)]
            own = [(await store.contains(listing, ids)).tolist() for listing in mine]
        return list(map(PostCounts, *columns, *own))

    def _number(self, graph: str) -> int:
        return self._graph.graphs.number(graph)


async def engage(
    graph: Graph,
    number: int,
    actor: NodeId,
    target: NodeId,
    author: NodeId,
    missing: type[NotFound] = PostNotFound,
) -> Engaged:
    """Add the edge from `actor` to what `author` made.

    Errors: Forbidden where the actor is deactivated; `missing` where a block came in between.
    """
    (engaged,), _ = await _engaged(graph, number, actor, [(target, author)])
    if engaged is None:
        raise missing("it is not there for you", id=str(target))
    return engaged


async def _engaged(
    graph: Graph, number: int, actor: NodeId, targets: Sequence[tuple[NodeId, NodeId]]
) -> tuple[list[Engaged | None], WriteMark]:
    """Add an edge from `actor` to each (target, its author) in one write; None where a block came in between.

    Error: Forbidden where the actor is deactivated.
    """
    privacy = Privacy(graph)
    writes = [
        msgspec.structs.replace(
            graph.adding(number, actor, target), if_active=True, unless=privacy.blocks_between(actor, [author])
        )
        for target, author in targets
    ]
    changes, mark = await graph.write(writes)
    if any(change.outcome is Outcome.INACTIVE for change in changes):
        await check_active(graph.store, actor)
        raise Forbidden("your account was deactivated meanwhile; try again", id=str(actor))
    totals = await graph.store.count_many([Listing(number, target, Direction.IN) for target, _ in targets])
    engaged = [
        None
        if change.outcome is Outcome.FORBIDDEN
        else Engaged(
            True, ms_of((change.after or write.edge).updated_at), total, mark, change.outcome is Outcome.APPLIED
        )
        for write, change, total in zip(writes, changes, totals, strict=True)
    ]
    return engaged, mark


async def disengage(graph: Graph, number: int, actor: NodeId, target: NodeId, *, counted: bool) -> Engaged:
    """Take the edge back; changes nothing where there is none. `counted`: whether the actor may know the total."""
    write = graph.dropping(number, actor, target)
    changes = await graph.store.apply([write])
    at_ms = ms_of((changes[0].after or write.edge).updated_at)
    total = 0
    if counted:
        (total,) = await graph.store.count_many([Listing(number, target, Direction.IN)])
    return Engaged(False, at_ms, total, mark_of(changes), changes[0].outcome is Outcome.APPLIED)
