"""Who may read and do what, decided in one place for every door.

Graphs: a server key reads everything, also when it names a user; a user token reads its own lists. People, posts,
comments, stories, media: a caller who acts for a user sees what that user may; the back office (`X-Kith-User: system`)
sees all; a server key that names nobody sees what a visitor may. What the app itself does (labels, profiles,
deactivation) takes a server key, named or not.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from kith.access.guard import Caller
from kith.core.errors import Forbidden
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Page, Window
from kith.core.together import together
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
_TOLD_TO_USERS = frozenset({State.NORMAL, State.NEGATIVE})
"""States of edges that hold. The others would tell users that somebody took something back, or left."""

_COMMENTING, _FOLLOWING = "POST /posts/{id}/comments", "POST and DELETE /boards/{id}/follow"
KEPT_BY_ROUTES = {
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
exact because nothing else writes them: a raw edge could put a post into another's outbox, or count a like of nobody.
"""


def check_raw_write(graph: str) -> None:
    """Forbidden for a graph that only a route writes. Graphs of users and those that the app declared may be written
    edge by edge, and imported.
    """
    route = KEPT_BY_ROUTES.get(graph)
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
    """Forbidden to all who act for another user; a server key that names no user acts for anyone."""
    if caller.user is None:
        check_server(caller)
    elif caller.user != user:
        raise _others_own(user)


def check_own_read(caller: Caller, user: NodeId) -> None:
    """As `check_own`, for what is shown to the user alone: Forbidden to a server key that names nobody, too."""
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
        """`checked`: answers whether an edge is there; by default the graph's store. `unrestricted`: where stores
        answer at once, knows of whom the rules need not be asked.
        """
        self._graphs, self._store, self._privacy = graph.graphs, checked or graph.store, privacy
        self._graph, self._follows, self._unrestricted = graph, graph.graphs.number(FOLLOWS), unrestricted

    def check_list(self, caller: Caller, listing: Listing) -> None:
        """Forbidden unless the list is the caller's own: out of them in a graph of users, or into them in `follows`.

        The routes under /users show other people's lists, with the rules of the product. What no longer holds is for
        the app alone: it would tell users who unfollowed or blocked them, or left, and when.
        """
        if caller.server:
            return
        if listing.state not in _TOLD_TO_USERS:
            raise Forbidden("a user token reads lists of what holds; for other states use a server key")
        own = listing.node == caller.user and self._is_theirs(listing.graph)
        if not (own and (listing.direction is Direction.OUT or listing.graph == self._follows)):
            raise Forbidden("a user token reads its own lists here; use /users/{id}/..., or a server key")

    def check_pair(self, caller: Caller, graph: int, source: int, destination: int) -> None:
        """Forbidden unless the pair is the caller's own: from them, or in `follows` from or to them."""
        if caller.server or (caller.user is not None and self.owns(caller.user, graph, source, destination)):
            return
        raise Forbidden("a user token checks its own edges here; use a server key")

    def may_read_edge(self, caller: Caller, state: State) -> bool:
        """Whether the caller may read a stored edge of this state, of a pair that they may read."""
        return caller.server or self.tells(state)

    def owns(self, user: NodeId, graph: int, source: int, destination: int) -> bool:
        """Whether a pair is the user's own: from them, or in `follows` to them."""
        return (source == user and self._is_theirs(graph)) or (destination == user and graph == self._follows)

    def tells(self, state: State) -> bool:
        """Whether users are told of this state of an edge."""
        return state in _TOLD_TO_USERS

    async def hidden_pairs(self, caller: Caller, graph: int, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each pair that the caller may read: is the other end an account that the app hides from them?"""
        if caller.server or graph in self._graphs.to_objects:
            return [False] * len(pairs)
        return await self._privacy.hidden([source if source != caller.user else other for source, other in pairs])

    async def shows_edge(self, caller: Caller, graph: int, source: int, destination: int) -> bool:
        """Whether a pair that the caller may read has an edge, and the app does not hide its other end from them."""
        if caller.server or graph in self._graphs.to_objects:
            (there,) = await self._store.exists_many(graph, [(source, destination)])
            return there
        questions = Questions()
        questions.states([(graph, source, destination)])
        questions.nodes([source if source != caller.user else destination])
        answers = await self._store.answer(questions)
        return answers.states[0] == State.NORMAL and not answers.nodes[0].labels & HIDE

    async def exist(self, graph: int, pairs: Sequence[Pair]) -> list[bool]:
        """For each pair: is there an edge?"""
        return await self._store.exists_many(graph, pairs)

    async def without_hidden(self, caller: Caller, listing: Listing, page: Page) -> Page:
        """A page of a list of a graph, less the accounts that the app hides from the caller."""
        return await self._privacy.without_hidden(page) if self._shows_users(caller, listing) else page

    async def without_hidden_ids(self, caller: Caller, listings: Sequence[Listing], ids: Sequence[int]) -> list[int]:
        """Members of a set made of these lists, less the accounts that the app hides from the caller."""
        if not any(self._shows_users(caller, listing) for listing in listings):
            return list(ids)
        return [id_ for id_, hidden in zip(ids, await self._privacy.hidden(ids), strict=True) if not hidden]

    async def if_lists_seen(self, caller: Caller, users: Sequence[NodeId], reading: Coroutine[Any, Any, T]) -> T:
        """What `reading` finds; Forbidden or UserNotFound where the caller may not see the lists of one of `users`."""
        checking = self._privacy.check_may_see(caller.viewer, *users)
        both: tuple[None, T] = await together(self._store.immediate, checking, reading)
        return both[1]

    async def people(self, caller: Caller, user: NodeId, direction: Direction, window: Window) -> Page:
        """Followers of a user (IN), or whom they follow (OUT), less those whom the caller must not see. Forbidden or
        UserNotFound where the caller may not see the list.
        """
        viewer, listing, page = caller.viewer, Listing(self._follows, user, direction), None
        if self._unrestricted is not None and isinstance(viewer, int) and self._unrestricted.memory.is_quick:
            checking, reading = (
                self._unrestricted.refresh_and_check(viewer, user),
                self._graph.store.page(listing, window),
            )
            is_free, page = await together(self._store.immediate, checking, reading)
            if is_free and await self._unrestricted.are_unrestricted([mark.id for mark in page.items]):
                return page
        questions = Questions()
        check = self._privacy.ask_may_see(questions, viewer, user)
        if page is not None:
            shown = self._privacy.without_blockers(viewer, page)
            answers, less = await together(self._store.immediate, self._graph.store.answer(questions), shown)
            check(answers)
            return less
        at = questions.page(listing, window)
        answers = await self._graph.store.answer(questions)
        check(answers)
        return await self._privacy.without_blockers(viewer, answers.pages[at])

    async def check_may_see_lists(self, caller: Caller, user: NodeId) -> None:
        """Forbidden or UserNotFound where the caller may not see the lists of `user`."""
        await self._privacy.check_may_see(caller.viewer, user)

    async def without_unseen(self, caller: Caller, page: Page) -> Page:
        """A page of people, less those whom the caller must not see."""
        return await self._privacy.without_blockers(caller.viewer, page)

    async def without_hidden_users(self, caller: Caller, page: Page) -> Page:
        """A page of people whom the caller chose, less those whom the app hides."""
        return page if caller.user is None else await self._privacy.without_hidden(page)

    def _is_theirs(self, graph: int) -> bool:
        """Whether a list out of a user in this graph is the user's to read."""
        return graph not in self._graphs.from_objects and graph not in self._graphs.by_others

    def _shows_users(self, caller: Caller, listing: Listing) -> bool:
        """Whether a user token reads users in a list, of whom those that the app hides do not show."""
        return not caller.server and listing.graph not in self._graphs.to_objects


def _others_own(user: NodeId) -> Forbidden:
    return Forbidden(
        "this is another user's own; act for them (X-Kith-User, or their token), or for the app (X-Kith-User: system)",
        id=str(user),
    )
