"""Decides who may read and do what, for every door.

Graphs: a server key reads everything, even if it names a user; a user token reads its user's own lists. People, posts,
comments, stories, media: a caller that acts for a user sees what that user may see. The back office
(`X-Kith-User: system`) sees everything. A server key that names no user sees what a visitor sees. What the app itself
does (labels, profiles, deactivation) needs a server key, which may or may not name a user.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from kith.access.guard import Caller
from kith.core.errors import Forbidden
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Page, Window
from kith.graph.edge import Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import (
    AUTHORED,
    BOARD_FOLLOWS,
    BOARD_MEMBERS,
    BOARD_UNFOLLOWS,
    BOARDS,
    COMMENT_LIKES,
    COMMENTED,
    COMMENTS,
    FLOCK_AWAY,
    FOLLOWS,
    HIDES,
    IMPLICIT_FOLLOWS,
    LIKES,
    MENTIONED,
    NAMES,
    PINS,
    POST_REPLIES,
    REPLIES,
    SAVES,
    SHARES,
    STORIES,
    STORY_VIEWS,
    VIEWS,
)
from kith.graph.questions import Questions
from kith.graph.shapes import Listing, Pair
from kith.graph.store import EdgeStore
from kith.people.privacy import Privacy
from kith.people.unrestricted import UnrestrictedPeople

T = TypeVar("T")
_USER_VISIBLE_STATES = frozenset({State.NORMAL, State.NEGATIVE})
"""The states of an edge that user tokens may see. The others would reveal that somebody undid something, or left."""

_COMMENTING, _FOLLOWING = "POST /posts/{id}/comments", "POST and DELETE /boards/{id}/follow"
WRITE_ROUTES = {
    AUTHORED: "POST /posts", COMMENTS: _COMMENTING, REPLIES: _COMMENTING, COMMENTED: _COMMENTING,
    COMMENT_LIKES: "POST /comments/{id}/like", LIKES: "POST /posts/{id}/like", SAVES: "POST /posts/{id}/save",
    SHARES: "POST /posts/{id}/share", HIDES: "POST /posts/{id}/hide", VIEWS: "POST /posts/{id}/view",
    STORIES: "POST /stories", STORY_VIEWS: "POST /stories/{id}/view", MENTIONED: "POST /posts",
    POST_REPLIES: _COMMENTING, FLOCK_AWAY: "execute of FlockDB's interface", BOARDS: "POST /boards",
    BOARD_FOLLOWS: _FOLLOWING, BOARD_UNFOLLOWS: _FOLLOWING,
    IMPLICIT_FOLLOWS: _FOLLOWING, BOARD_MEMBERS: "POST /boards/{id}/collaborators/{user}",
    PINS: "POST /boards/{id}/pins", NAMES: "PATCH /users/{id}",
}  # fmt: skip
"""The graphs of posts, comments, stories and boards, with the route that writes each. Outboxes, comments and counts are
exact because only these routes write them. A raw edge could put a post into another author's outbox, or count a like
that nobody gave.
"""


def check_raw_write(graph: str) -> None:
    """Forbidden for a graph that only its route may write. Graphs of users and graphs that the app declared may be
    written edge by edge and imported.
    """
    route = WRITE_ROUTES.get(graph)
    if route is not None:
        raise Forbidden(
            f"{graph} holds what Kith made and promises to count exactly; write it with {route}, or declare a graph "
            "of your own in the setting `graphs`",
            graph=graph,
        )


def check_server(caller: Caller) -> None:
    """Forbidden for user tokens."""
    if not caller.server:
        raise Forbidden("this takes a server key, not a user token")


def check_own(caller: Caller, user: NodeId) -> None:
    """Forbidden if the caller acts for another user. A server key that names no user may act for anyone."""
    if caller.user is None:
        check_server(caller)
    elif caller.user != user:
        raise _others_own(user)


def check_own_read(caller: Caller, user: NodeId) -> None:
    """As `check_own`, for data that only the user may see: a server key that names no user is refused too."""
    if not caller.system and caller.user != user:
        raise _others_own(user)


class ReadPolicy:
    """What a caller may read of graphs and of people's lists."""

    def __init__(
        self,
        graph: Graph,
        privacy: Privacy,
        checked: EdgeStore | None = None,
        unrestricted: UnrestrictedPeople | None = None,
    ) -> None:
        """`checked`: the store that answers whether an edge exists; by default the graph's store. `unrestricted`: for
        stores that answer without waiting, a cache of users to whom no privacy rule applies.
        """
        self._graphs, self._store, self._privacy = graph.graphs, checked or graph.store, privacy
        self._graph, self._follows, self._unrestricted = graph, graph.graphs.number(FOLLOWS), unrestricted

    def check_list(self, caller: Caller, listing: Listing) -> None:
        """Forbidden unless the list is the user's own: outgoing in a graph of users, or incoming in `follows`.

        Routes under /users show other people's lists, with the rules of the product. Edges that are no longer live are
        for the app only: they would tell users who unfollowed or blocked them, or left, and when.
        """
        if caller.server:
            return
        if listing.state not in _USER_VISIBLE_STATES:
            raise Forbidden("a user token reads lists in state normal or negative; for other states use a server key")
        own = listing.node == caller.user and self._is_own_graph(listing.graph)
        if not (own and (listing.direction is Direction.OUT or listing.graph == self._follows)):
            raise Forbidden("a user token reads its own lists here; use /users/{id}/..., or a server key")

    def check_pair(self, caller: Caller, graph: int, source: int, destination: int) -> None:
        """Forbidden unless the pair is the caller's own: from their user, or in `follows` also to them."""
        if caller.server or (caller.user is not None and self.owns(caller.user, graph, source, destination)):
            return
        raise Forbidden("a user token checks its own edges here; use a server key")

    def may_read_edge(self, caller: Caller, state: State) -> bool:
        """Whether the caller may read a stored edge in this state, if they may read its pair."""
        return caller.server or self.shows_state(state)

    def owns(self, user: NodeId, graph: int, source: int, destination: int) -> bool:
        """Whether a pair is the user's own: from them, or in `follows` to them."""
        return (source == user and self._is_own_graph(graph)) or (destination == user and graph == self._follows)

    def shows_state(self, state: State) -> bool:
        """Whether user tokens may see an edge in this state."""
        return state in _USER_VISIBLE_STATES

    async def hidden_pairs(self, caller: Caller, graph: int, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each pair that the caller may read: whether the app hides the account at the other end from them."""
        if caller.server or graph in self._graphs.to_objects:
            return [False] * len(pairs)
        return await self._privacy.hidden([source if source != caller.user else other for source, other in pairs])

    async def shows_edge(self, caller: Caller, graph: int, source: int, destination: int) -> bool:
        """Whether a pair that the caller may read has an edge, and the app does not hide the account at the
        other end.
        """
        if caller.server or graph in self._graphs.to_objects:
            (exists,) = await self._store.exists_many(graph, [(source, destination)])
            return exists
        questions = Questions()
        questions.states([(graph, source, destination)])
        questions.nodes([source if source != caller.user else destination])
        answers = await self._store.answer(questions)
        return answers.states[0] == State.NORMAL and not answers.nodes[0].labels & HIDE

    async def exist(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """For each pair: whether the edge exists."""
        return await self._store.exists_many(graph, pairs)

    async def without_hidden(self, caller: Caller, listing: Listing, page: Page) -> Page:
        """A page of a graph's list, without accounts that the app hides from the caller."""
        return await self._privacy.without_hidden(page) if self._shows_users(caller, listing) else page

    async def without_hidden_ids(self, caller: Caller, listings: Sequence[Listing], ids: Sequence[int]) -> list[int]:
        """Members of a set made of these lists, without accounts that the app hides from the caller."""
        if not any(self._shows_users(caller, listing) for listing in listings):
            return list(ids)
        return [id_ for id_, hidden in zip(ids, await self._privacy.hidden(ids), strict=True) if not hidden]

    async def if_lists_visible(self, caller: Caller, users: Sequence[NodeId], reading: Coroutine[Any, Any, T]) -> T:
        """The result of `reading`. Forbidden or UserNotFound if the caller may not see the lists of one of `users`."""
        checking = self._privacy.check_may_see(caller.viewer, *users)
        results: tuple[None, T] = await gather(self._store.immediate, checking, reading)
        return results[1]

    async def people(self, caller: Caller, user: NodeId, direction: Direction, window: Window) -> Page:
        """The followers of a user (IN) or the users they follow (OUT), without those whom the caller may not see.
        Forbidden or UserNotFound if the caller may not see the list.
        """
        viewer, listing, page = caller.viewer, Listing(self._follows, user, direction), None
        if self._unrestricted is not None and isinstance(viewer, int) and self._unrestricted.read_cache.is_quick:
            checking, reading = (
                self._unrestricted.refresh_and_check(viewer, user),
                self._graph.store.page(listing, window),
            )
            is_free, page = await gather(self._store.immediate, checking, reading)
            if is_free and await self._unrestricted.are_unrestricted([mark.id for mark in page.items]):
                return page
        questions = Questions()
        check = self._privacy.ask_may_see(questions, viewer, user)
        if page is not None:
            filtering = self._privacy.without_blockers(viewer, page)
            answers, visible_page = await gather(self._store.immediate, self._graph.store.answer(questions), filtering)
            check(answers)
            return visible_page
        row = questions.page(listing, window)
        answers = await self._graph.store.answer(questions)
        check(answers)
        return await self._privacy.without_blockers(viewer, answers.pages[row])

    async def check_may_see_lists(self, caller: Caller, user: NodeId) -> None:
        """Forbidden or UserNotFound if the caller may not see the lists of `user`."""
        await self._privacy.check_may_see(caller.viewer, user)

    async def without_invisible(self, caller: Caller, page: Page) -> Page:
        """A page of people, without those whom the caller may not see."""
        return await self._privacy.without_blockers(caller.viewer, page)

    async def without_hidden_users(self, caller: Caller, page: Page) -> Page:
        """A page of people whom the caller chose, without those whom the app hides."""
        return page if caller.user is None else await self._privacy.without_hidden(page)

    def _is_own_graph(self, graph: int) -> bool:
        """Whether a user's outgoing list in this graph is theirs to read."""
        return graph not in self._graphs.from_objects and graph not in self._graphs.by_others

    def _shows_users(self, caller: Caller, listing: Listing) -> bool:
        """Whether a user token reads users in this list; accounts that the app hides are then left out."""
        return not caller.server and listing.graph not in self._graphs.to_objects


def _others_own(user: NodeId) -> Forbidden:
    return Forbidden(
        "this belongs to another user; act for that user (X-Kith-User, or their token), or for the app "
        "(X-Kith-User: system)",
        id=str(user),
    )
