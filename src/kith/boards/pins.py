"""Pins: posts on boards, newest first. A pin is an edge from board to post. A viewer must be allowed to see both."""

from __future__ import annotations

from collections.abc import Sequence

from kith.boards.boards import Boards
from kith.core.errors import Forbidden
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Outcome
from kith.graph.graphs import PINS
from kith.graph.shapes import Listing
from kith.people.accounts import check_active
from kith.people.privacy import Viewer
from kith.posts.post import Post
from kith.posts.posts import Posts, Prefetch, no_prefetch


class Pins:
    """Adds posts to boards, removes them, and lists them."""

    def __init__(self, boards: Boards, posts: Posts) -> None:
        self._boards, self._posts, self._graph = boards, posts, boards.graph
        self._pins = self._graph.graphs.number(PINS)

    async def add(self, actor: NodeId, board: int, post: int) -> tuple[bool, WriteMark]:
        """Add a post to a board; returns whether that is new. A post that is already there keeps its place.

        Errors: BoardNotFound; Forbidden for all but its owner and members; PostNotFound.
        """
        await self._check_may_pin(actor, board)
        await self._posts.get(actor, post)
        (change,), mark = await self._graph.write([self._graph.add_write(self._pins, NodeId(board), NodeId(post))])
        return change.outcome is Outcome.APPLIED, mark

    async def remove(self, actor: NodeId, board: int, post: int) -> tuple[bool, WriteMark]:
        """Remove a post from a board, even if the actor may not see it. BoardNotFound; Forbidden as in `add`."""
        await self._check_may_pin(actor, board)
        (change,), mark = await self._graph.write([self._graph.remove_write(self._pins, NodeId(board), NodeId(post))])
        return change.outcome is Outcome.APPLIED, mark

    async def of_board(
        self, viewer: Viewer, board: int, window: Window, prefetch: Prefetch = no_prefetch
    ) -> tuple[list[Post], Page]:
        """The posts on a board that `viewer` may see, newest pin first, and their page. BoardNotFound."""
        await self._boards.get(viewer, board)
        return await self._posts.listed(viewer, Listing(self._pins, board, Direction.OUT), window, prefetch)

    async def counts(self, boards: Sequence[int]) -> list[int]:
        """The number of pins of each board, visible or not."""
        return await self._graph.store.count_many([Listing(self._pins, board, Direction.OUT) for board in boards])

    async def _check_may_pin(self, actor: NodeId, id_: int) -> None:
        """Errors: BoardNotFound; Forbidden for all but the owner of a board and its collaborators."""
        await check_active(self._graph.store, actor)
        board = await self._boards.get(actor, id_)
        if actor != board.owner and not await self._boards.is_member(actor, id_):
            raise Forbidden("only the owner of a board and those whom they invited may pin on it", id=str(id_))
