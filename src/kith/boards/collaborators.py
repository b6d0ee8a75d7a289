"""Collaborators: users who may see a board and pin on it, because its owner invited them. Edges from user to board."""

from __future__ import annotations

import msgspec

from kith.boards.board import MEMBERS_MAX, Board
from kith.boards.boards import Boards
from kith.core.errors import BoardLimitReached, Forbidden, SelfEdge, UserNotFound
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, EdgeLimit, Outcome
from kith.graph.shapes import Listing
from kith.people.accounts import check_active
from kith.people.privacy import SYSTEM, Viewer


class Collaborators:
    """Invites, dismisses and lists collaborators."""

    def __init__(self, boards: Boards) -> None:
        self._boards, self._graph, self._store, self._members = boards, boards.graph, boards.store, boards.members

    async def invite(self, actor: NodeId, id_: int, member: NodeId) -> WriteMark:
        """Make `member` a collaborator. Repeating it changes nothing.

        Errors: BoardNotFound; Forbidden for all but its owner, if the owner is deactivated, and if there is a block
        between the two; SelfEdge; UserNotFound; BoardLimitReached.
        """
        await check_active(self._store, actor)
        board = await self._boards.owned(actor, id_)
        if member == board.owner:
            raise SelfEdge("this board is theirs; invite another user", id=str(member))
        write = msgspec.structs.replace(
            self._graph.add_write(self._members, member, NodeId(id_)),
            if_active=True,
            limit=EdgeLimit(MEMBERS_MAX, Direction.IN),
            unless=self._boards.privacy.blocks_between(actor, [member]),
        )
        (change,), mark = await self._graph.write([write])
        if change.outcome is Outcome.FORBIDDEN:
            raise Forbidden("one of you has blocked the other", id=str(member))
        if change.outcome is Outcome.OVER_LIMIT:
            raise BoardLimitReached(f"a board has {MEMBERS_MAX} collaborators at most", max=MEMBERS_MAX)
        if change.outcome is Outcome.INACTIVE:
            raise UserNotFound("this account is deactivated", id=str(member))
        return mark

    async def dismiss(self, actor: NodeId, id_: int, member: NodeId) -> WriteMark:
        """Undo `invite`, as the owner or as the member. Repeating it changes nothing.

        Errors: BoardNotFound; Forbidden for others.
        """
        if actor != member:  # no check for members: one who left a secret board cannot see it when repeating this
            await self._boards.owned(actor, id_)
        return (await self._graph.write([self._graph.remove_write(self._members, member, NodeId(id_))]))[1]

    async def of(self, viewer: Viewer, id_: int, window: Window) -> Page:
        """The collaborators of a board, newest first, for its owner and its collaborators. BoardNotFound; Forbidden."""
        board = await self._boards.get(viewer, id_)
        if viewer not in (SYSTEM, board.owner) and not await self._boards.is_member(viewer, id_):
            raise Forbidden("only its owner and members may see who else pins on a board", id=str(id_))
        return await self._store.page(Listing(self._members, id_, Direction.IN), window)

    async def joined(self, user: NodeId, window: Window) -> tuple[list[Board], Page]:
        """The boards of others on which `user` may pin, newest invitation first."""
        return await self._boards.listed(user, [Listing(self._members, user, Direction.OUT)], window)
