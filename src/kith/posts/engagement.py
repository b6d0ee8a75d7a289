"""What people do with posts and comments: like, save, share, view, hide. Each is an edge.

So each is idempotent and in the log, and each count is the exact length of a list, even after a crash. Only a user who
may see a post can do any of it. The commit itself checks for blocks, so it does not miss one that was just made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple

import msgspec
import numpy as np

from kith.core.clock import ms_of
from kith.core.errors import Forbidden, NotFound, PostNotFound
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Outcome, State
from kith.graph.graph import Graph, write_mark_of
from kith.graph.graphs import COMMENTS, LIKES, POST_REPLIES, SAVES, SHARES, VIEWS
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.people.accounts import check_active
from kith.people.privacy import Privacy, Viewer
from kith.posts.post import Post
from kith.posts.posts import Posts, Prefetch, no_prefetch

_LOOKED_UP_MAX = 4
"""Up to this many posts, looking up each edge is faster than searching the viewer's lists."""


class EngagementWritten(NamedTuple):
    """The answer to a write."""

    holds: bool  # whether the edge is there now
    at_ms: int  # since when
    total: int  # how many users have such an edge
    mark: WriteMark  # the place of the write, for read-your-writes
    changed: bool


class PostCounts(NamedTuple):
    """The exact counts of a post, and whether the viewer likes, saved and shared it. `comments` includes replies."""

    likes: int
    comments: int
    shares: int
    views: int
    liked: bool
    saved: bool
    shared: bool

    @property
    def has_streamed_counts(self) -> bool:
        """Whether any number that streams send is above 0."""
        return bool(self.likes or self.comments or self.shares)


class Totals(NamedTuple):
    """The counts of a post, as in PostCounts."""

    likes: int
    comments: int
    shares: int
    views: int


class Engagement:
    """Adds, drops and counts the edges from people to posts."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._graph, self._privacy = posts, posts.graph, Privacy(posts.graph)
        self._likes, self._saves, self._shares = self._number(LIKES), self._number(SAVES), self._number(SHARES)
        self._lists = (
            (self._likes, Direction.IN), (self._number(COMMENTS), Direction.OUT),
            (self._shares, Direction.IN), (self._number(VIEWS), Direction.IN),
            (self._number(POST_REPLIES), Direction.OUT),
        )  # fmt: skip
        self.counted = frozenset(graph for graph, _ in self._lists)
        """Numbers of the graphs from which `totals` counts."""
        self.own_graphs = (self._likes, self._saves, self._shares)
        """Numbers of the graphs that `own` reads, in the order of its answers."""

    async def add(self, graph: str, actor: NodeId, post: NodeId) -> EngagementWritten:
        """Like, save, share, view or hide a post; `graph` says which.

        Errors: PostNotFound if the actor may not see it; Forbidden if the actor is deactivated, or the post does not
        allow sharing.
        """
        target = await self._posts.get(actor, post)
        if graph == SHARES and not target.allow_sharing:
            raise Forbidden("its author does not want this post shared; save it instead", id=str(post))
        return await engage(self._graph, self._number(graph), actor, post, NodeId(target.author))

    async def add_many(
        self, graph: str, actor: NodeId, posts: Sequence[NodeId]
    ) -> tuple[list[EngagementWritten | None], WriteMark]:
        """Like `add` for many posts in one write; not for shares. None for each post that `actor` may not see.

        Forbidden if the actor is deactivated.
        """
        visible = [post for post in await self._posts.visible(actor, posts) if post is not None]
        targets = {NodeId(post.id): NodeId(post.author) for post in visible}
        engaged, mark = await _engage_many(self._graph, self._number(graph), actor, list(targets.items()))
        by_post = dict(zip(targets, engaged, strict=True))
        return [by_post.get(post) for post in posts], mark

    async def drop(self, graph: str, actor: NodeId, post: NodeId) -> EngagementWritten:
        """Undo `add`. An edge to a post that the actor may no longer see is dropped too, with a total of 0.

        PostNotFound if the actor may not see the post and has no such edge.
        """
        visible = await self._posts.visible(actor, [post]) != [None]
        result = await disengage(self._graph, self._number(graph), actor, post, counted=visible)
        if not visible and not result.changed:
            raise self._posts.missing(post)
        return result

    async def likers(self, viewer: Viewer, post: NodeId, window: Window) -> Page:
        """The users who like a post, newest like first, without those whom `Privacy.ask_without_blocks` leaves out.

        PostNotFound if the viewer may not see the post.
        """
        store, questions = self._graph.store, Questions()
        posts, page = await gather(
            store.immediate, self._posts.read([post]), store.page(Listing(self._likes, post, Direction.IN), window)
        )
        visible = self._posts.ask_visible(questions, viewer, posts)
        present = self._privacy.ask_without_blocks(questions, viewer, page)
        answers = await store.answer(questions)
        if visible(answers) == [None]:
            raise self._posts.missing(post)
        return present(answers)

    async def saved(
        self, viewer: Viewer, user: NodeId, window: Window, prefetch: Prefetch = no_prefetch
    ) -> tuple[list[Post], Page]:
        """The posts that `user` saved and `viewer` may see, newest save first, and their page as in `Posts.listed`."""
        return await self._posts.listed(viewer, Listing(self._saves, user, Direction.OUT), window, prefetch)

    async def counts(self, viewer: Viewer, posts: Sequence[int]) -> list[PostCounts]:
        """The counts of each of `posts`. The caller has checked that the viewer may see them."""
        return (await self._answered(Questions(), viewer, posts))[1]

    async def totals(self, posts: Sequence[int]) -> list[Totals]:
        """The counts of each of `posts` that are the same for every viewer."""
        likes, comments, shares, views, replies = await self._totals(posts)
        return list(map(Totals, likes, map(add, comments, replies), shares, views))

    async def own(self, viewer: Viewer, posts: Sequence[int]) -> list[tuple[bool, bool, bool]]:
        """Whether the viewer likes each of `posts`, saved it, and shared it."""
        questions = Questions()
        own = self.ask_own(questions, viewer, posts)
        likes, saves, shares = own(await self._graph.store.answer(questions))
        return list(zip(likes, saves, shares, strict=True))

    async def seen(self, viewer: Viewer, posts: Sequence[Post]) -> list[tuple[Post, PostCounts] | None]:
        """Each of `posts` (read from the store) with its counts, or None if `viewer` must not see it."""
        questions, ids = Questions(), [post.id for post in posts]
        visible = self._posts.ask_visible(questions, viewer, posts)
        answers, counts = await self._answered(questions, viewer, ids)
        rows = zip(visible(answers), counts, strict=True)
        return [None if post is None else (post, numbers) for post, numbers in rows]

    async def _answered(
        self, questions: Questions, viewer: Viewer, posts: Sequence[int]
    ) -> tuple[Answers, list[PostCounts]]:
        """The answers to `questions`, and the counts of each of `posts`, which are asked along with them."""
        store, own = self._graph.store, self.ask_own(questions, viewer, posts)
        if len(posts) <= _LOOKED_UP_MAX:
            counted = questions.totals(self._lists, posts)
            answers = await store.answer(questions)
            return answers, _counts(counted(answers), own(answers))
        answers, totals = await gather(store.immediate, store.answer(questions), self._totals(posts))
        return answers, _counts(totals, own(answers))

    def ask_own(
        self, questions: Questions, viewer: Viewer, posts: Sequence[int]
    ) -> Callable[[Answers], list[list[bool]]]:
        """Ask which of `posts` the viewer likes, which they saved, and which they shared."""
        if not isinstance(viewer, int):
            return lambda _: [[False] * len(posts)] * len(self.own_graphs)
        if len(posts) <= _LOOKED_UP_MAX:
            rows = [questions.towards(graph, viewer, posts) for graph in self.own_graphs]
            return lambda answers: [[state is State.NORMAL for state in answers.towards[row]] for row in rows]
        ids = np.array(posts, np.int64)
        own_rows = [questions.members(Listing(graph, viewer, Direction.OUT), ids) for graph in self.own_graphs]
        return lambda answers: [answers.members[row].tolist() for row in own_rows]

    async def _totals(self, posts: Sequence[int]) -> list[list[int]]:
        """The number of edges of each kind that each post has, one row a kind, in the order of `_lists`."""
        totals: list[list[int]] = (await self._graph.store.counts(self._lists, np.array(posts, np.int64))).tolist()
        return totals

    def _number(self, graph: str) -> int:
        return self._graph.graphs.number(graph)


def _counts(totals: list[list[int]], own: list[list[bool]]) -> list[PostCounts]:
    likes, comments, shares, views, replies = totals
    with_replies = [direct + nested for direct, nested in zip(comments, replies, strict=True)]
    return list(map(PostCounts, likes, with_replies, shares, views, *own))


async def engage(
    graph: Graph,
    number: int,
    actor: NodeId,
    target: NodeId,
    author: NodeId,
    missing: type[NotFound] = PostNotFound,
) -> EngagementWritten:
    """Add an edge from `actor` to `target`, which `author` made. `number`: that of the graph.

    Errors: Forbidden if the actor is deactivated; `missing` if one of the two blocks the other.
    """
    (engaged,), _ = await _engage_many(graph, number, actor, [(target, author)])
    if engaged is None:
        raise missing("it is hidden from you", id=str(target))
    return engaged


async def _engage_many(
    graph: Graph, number: int, actor: NodeId, targets: Sequence[tuple[NodeId, NodeId]]
) -> tuple[list[EngagementWritten | None], WriteMark]:
    """Add an edge from `actor` to each (target, author) in one write.

    None for a target if there is a block between `actor` and its author. Forbidden if the actor is deactivated.
    """
    privacy = Privacy(graph)
    writes = [
        msgspec.structs.replace(
            graph.add_write(number, actor, target),
            if_active=True,
            unless=privacy.blocks_between(actor, [author]),
            counted=Direction.IN,
        )
        for target, author in targets
    ]
    changes, mark = await graph.write(writes)
    if any(change.outcome is Outcome.INACTIVE for change in changes):
        await check_active(graph.store, actor)
        raise Forbidden("your account was deactivated meanwhile; try again", id=str(actor))
    engaged = [
        None
        if change.outcome is Outcome.FORBIDDEN
        else EngagementWritten(
            True, (change.after or write.edge).position, change.length, mark, change.outcome is Outcome.APPLIED
        )
        for write, change in zip(writes, changes, strict=True)
    ]
    return engaged, mark


async def disengage(graph: Graph, number: int, actor: NodeId, target: NodeId, *, counted: bool) -> EngagementWritten:
    """Drop the edge if there is one. `counted`: the actor may know the total; otherwise it is 0."""
    removing = graph.remove_write(number, actor, target)
    write = msgspec.structs.replace(removing, counted=Direction.IN) if counted else removing
    (change,) = changes = await graph.store.apply([write])
    at_ms = ms_of((change.after or write.edge).updated_at)
    return EngagementWritten(False, at_ms, change.length, write_mark_of(changes), change.outcome is Outcome.APPLIED)
