"""Who may see whom: blocks, private accounts, and accounts that the app hides.

`posts.visibility` decides who may see which post, from the standings that are read here. For any number of authors that
takes one batch of node states, one of blocks, and one of follows where a post, an account or a label needs them. Labels
cost no extra read: a user's labels are stored beside their state.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kith.core.errors import Forbidden, UserNotFound
from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT
from kith.core.paging import Page
from kith.graph.edge import BARRING, Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOWS
from kith.graph.shapes import Listing, Node

_NO_TIES = (False, False)
_LOOKED_UP_MAX = 16
"""Blocks with more users than this are found faster in the user's lists of blocks."""


class System(enum.Enum):
    """The type of SYSTEM."""

    SYSTEM = "system"


SYSTEM: Final = System.SYSTEM
"""The app's back office as a viewer: it sees all that is not deleted."""
Viewer: TypeAlias = NodeId | System | None
"""Who looks: a user, the back office, or None: a visitor, who sees what is there for everybody."""


class Standing(NamedTuple):
    """How an author and a viewer stand to each other."""

    state: State = State.NORMAL
    private: bool = False
    blocked: bool = False  # one blocks the other, whoever it is
    followed: bool = False  # the viewer follows the author
    follows_back: bool = False  # the author follows the viewer
    labels: int = 0  # the author's, see `core.labels`


class Privacy:
    """Reads from the graph who may see whom; keeps nothing itself."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._store = graph, graph.store
        self._follows, self._blocks = graph.graphs.number(FOLLOWS), graph.graphs.number(BLOCKS)

    async def check_may_see(self, viewer: Viewer, user: NodeId) -> None:
        """Forbidden if `user` blocks `viewer`, or is private and not followed by them.

        UserNotFound if the account is not there for them (`is_there`).
        """
        if viewer is SYSTEM or viewer == user:
            return
        (node,) = await self._store.nodes([user])
        if not is_there(node, user, viewer):
            raise UserNotFound("there is no such account, or it is not there for you", id=str(user))
        if viewer is None:
            return
        if any(await self.blocks([(user, viewer)])):
            raise Forbidden("this account is not available to you", id=str(user))
        if node.private and not await self._graph.exists(self._follows, viewer, user):
            raise Forbidden("this account is private; follow it to see its lists", id=str(user))

    async def blocked_either_way(self, user: NodeId, others: Sequence[int]) -> list[bool]:
        """For each of `others`: does one of them and `user` block the other?"""
        if len(others) <= _LOOKED_UP_MAX:
            blocks = await self.blocks([pair for other in others for pair in ((user, other), (other, user))])
            return [one or other for one, other in zip(blocks[::2], blocks[1::2], strict=True)]
        ids, barred = np.array(others, np.int64), np.zeros(len(others), np.bool_)
        for direction, state in itertools.product(Direction, BARRING):
            barred |= await self._store.contains(Listing(self._blocks, user, direction, state), ids)
        return barred.tolist()

    async def blocks(self, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each (source, destination): does the source block the destination?

        A block that is archived, while an account is away, counts too.
        """
        blocks = await self._store.get_many(self._blocks, pairs)
        return [block is not None and block.state in BARRING for block in blocks]

    def blocks_between(self, one: NodeId, others: Iterable[int]) -> tuple[tuple[int, int, int], ...]:
        """The edges that are blocks between `one` and each of the others, for `EdgeWrite.unless`."""
        return tuple((self._blocks, *pair) for other in others for pair in ((one, other), (other, one)))

    async def shown_to(self, viewer: Viewer, page: Page) -> Page:
        """The page without users who block `viewer` or are not there for them. It may be short and still have more."""
        if viewer is SYSTEM:
            return page
        ids = [mark.id for mark in page.items]
        nodes = await self._store.nodes(ids)
        away = [not is_there(node, id_, viewer) for node, id_ in zip(nodes, ids, strict=True)]
        if viewer is None:
            return _less(page, away)
        blocked = await self.blocks([(id_, viewer) for id_ in ids])
        return _less(page, [gone or bar for gone, bar in zip(away, blocked, strict=True)])

    async def present_to(self, viewer: Viewer, page: Page) -> Page:
        """The page without users who are away, hidden by the app, or have a block with `viewer`, whoever made it.

        It may be short and still have more. The back office sees all who are not away; a visitor nobody private.
        """
        users = [mark.id for mark in page.items]
        standings = await self.standings(viewer, users)

        def gone(user: int) -> bool:
            one = standings[user]
            hidden = viewer is not SYSTEM and viewer != user and bool(one.labels & HIDE)
            return one.state != State.NORMAL or one.blocked or hidden or (viewer is None and one.private)

        return _less(page, [gone(user) for user in users])

    async def unhidden(self, page: Page) -> Page:
        """The page without users whom the app hides. It may be short and still have more."""
        return _less(page, await self.hidden([mark.id for mark in page.items]))

    async def hidden(self, users: Sequence[int]) -> list[bool]:
        """For each of `users`: does the app hide the account?"""
        return [bool(node.labels & HIDE) for node in await self._store.nodes(users)]

    async def standings(
        self, viewer: Viewer, authors: Iterable[int], ties_of: Collection[int] = ()
    ) -> Mapping[int, Standing]:
        """How each author stands to `viewer`.

        Follows are read for authors who are private or labelled LIMIT, and for those in `ties_of`.
        """
        known = list(dict.fromkeys(authors))
        nodes = dict(zip(known, await self._store.nodes(known), strict=True))
        if viewer is None or viewer is SYSTEM:
            return {author: Standing(node.state, node.private, labels=node.labels) for author, node in nodes.items()}
        others = [author for author in known if author != viewer]
        blocked = dict(zip(others, await self.blocked_either_way(viewer, others), strict=True))
        asked = [
            author for author in others if (node := nodes[author]).private or node.labels & LIMIT or author in ties_of
        ]
        pairs = [pair for author in asked for pair in ((viewer, author), (author, viewer))]
        follows = await self._store.exists_many(self._follows, pairs) if pairs else []
        ties = {author: (follows[2 * at], follows[2 * at + 1]) for at, author in enumerate(asked)}
        return {
            author: Standing(
                node.state, node.private, blocked.get(author, False), *ties.get(author, _NO_TIES), node.labels
            )
            for author, node in nodes.items()
        }

    async def standing_to(self, author: int, viewers: Sequence[int], *, ties: bool = False) -> list[Standing]:
        """How the author stands to each of `viewers`. `ties`: read follows even if the author needs none."""
        (node,) = await self._store.nodes([author])
        blocked = await self.blocked_either_way(NodeId(author), viewers)
        follows, count = self._follows, len(viewers)
        followed = [False] * count
        follows_back = [False] * count
        if ties or node.private or node.labels & LIMIT:
            followed = await self._store.exists_many(follows, [(viewer, author) for viewer in viewers])
        if ties:
            follows_back = await self._store.exists_many(follows, [(author, viewer) for viewer in viewers])
        return [
            Standing(node.state, node.private, *row, labels=node.labels)
            for row in zip(blocked, followed, follows_back, strict=True)
        ]


def is_there(node: Node, user: int, viewer: Viewer) -> bool:
    """Whether the account `user`, of which `node` is stored, is there for `viewer`; blocks are looked up apart.

    Removed ones are there for nobody, deactivated ones and those that the app hides for themselves and the back office,
    private ones not for visitors.
    """
    if viewer is SYSTEM or viewer == user:
        return node.state != State.REMOVED
    return node.state == State.NORMAL and not node.labels & HIDE and not (viewer is None and node.private)


def _less(page: Page, dropped: Sequence[bool]) -> Page:
    """The page without the items to drop. It still covers the same part of the list."""
    if True not in dropped:
        return page
    covers = (page.newest, page.oldest) if page.newest and page.oldest else None
    shown = [mark for mark, drop in zip(page.items, dropped, strict=True) if not drop]
    return Page(shown, page.more_after, page.more_before, covers)
