"""Who may see whom: blocks, private accounts, and accounts that the app hides.

The methods `ask_...` add questions to a batch (`Questions`) and return a function that reads the result from the
batch's answers. `posts.visibility` decides who may see which post from the standings that are read here. Everything
that standings need of any number of authors (node states, labels, blocks, follows) is read in one call, even if no post
turns out to need it, because a second call would cost more.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import Forbidden, UserNotFound
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Page
from kith.graph.edge import FORBIDDING_STATES, Direction, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOWS
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import EdgeKey, Ids, Listing, Node

_DEFAULT_NODE = Node()
"""The node of most accounts: active, public, unlabelled."""
_NORMAL = State.NORMAL
_LOOKED_UP_MAX = 16
"""Up to this many users, looking up each block is faster than searching the user's block lists."""
_BLOCKERS_LOOKED_UP_MAX = 6
"""The same bound for blocks in one direction."""
_BARRING_LISTS = tuple(itertools.product(Direction, FORBIDDING_STATES))


class System(enum.Enum):
    """The type of SYSTEM."""

    SYSTEM = "system"


SYSTEM: Final = System.SYSTEM
"""The app's back office as a viewer. It sees everything that is not deleted."""
Viewer: TypeAlias = NodeId | System | None
"""Who reads: a user, the back office, or None: a visitor, who sees only what everybody may see."""


class Standing(NamedTuple):
    """How an author and a viewer are related. The defaults are those of strangers."""

    state: State = State.NORMAL
    private: bool = False
    blocked: bool = False  # one blocks the other, in either direction
    followed: bool = False  # the viewer follows the author
    follows_back: bool = False  # the author follows the viewer
    labels: int = 0  # the author's, see `core.labels`


_STRANGER, _FOLLOWED = Standing(), Standing(followed=True)  # the standings of most pairs


class Privacy:
    """Reads from the graph who may see whom. It caches nothing."""

    def __init__(self, graph: Graph) -> None:
        self._store = graph.store
        self._follows, self._blocks = graph.graphs.number(FOLLOWS), graph.graphs.number(BLOCKS)

    async def check_may_see(self, viewer: Viewer, *users: NodeId) -> None:
        """Forbidden if one of `users` blocks `viewer`, or is private and not followed by `viewer`.

        UserNotFound if one of the accounts does not exist for `viewer` (`is_visible_account`).
        """
        questions = Questions()
        checks = [self.ask_may_see(questions, viewer, user) for user in users if viewer not in (SYSTEM, user)]
        if checks:
            answers = await self._store.answer(questions)
            for check in checks:
                check(answers)

    def ask_may_see(self, questions: Questions, viewer: Viewer, user: NodeId) -> Callable[[Answers], None]:
        """Ask `check_may_see` for one user. The returned function raises its errors."""
        if viewer is SYSTEM or viewer == user:
            return lambda _: None
        nodes = questions.nodes([user])
        edges: list[EdgeKey] = []
        if viewer is not None:
            edges = [(self._blocks, user, viewer), (self._follows, viewer, user)]
        rows = questions.states(edges)

        def check(answers: Answers) -> None:
            (node,) = answers.nodes[nodes]
            if not is_visible_account(node, user, viewer):
                raise UserNotFound("there is no such account, or it is hidden from you", id=str(user))
            if edges:
                block, follow = answers.states[rows]
                if block in FORBIDDING_STATES:
                    raise Forbidden("this account is not available to you", id=str(user))
                if node.private and follow != State.NORMAL:
                    raise Forbidden("this account is private; follow it to see its lists", id=str(user))

        return check

    async def blocked_either_way(self, user: NodeId, others: Sequence[int]) -> list[bool]:
        """For each of `others`, whether there is a block between them and `user`, in either direction."""
        questions = Questions()
        blocked = self.ask_blocked(questions, user, others)
        return blocked(await self._store.answer(questions))

    def ask_blocked(self, questions: Questions, user: int, others: Sequence[int]) -> Callable[[Answers], list[bool]]:
        """Ask `blocked_either_way`."""
        if len(others) <= _LOOKED_UP_MAX:
            blocks = self.ask_blocks(questions, [pair for other in others for pair in ((user, other), (other, user))])

            def by_rows(answers: Answers) -> list[bool]:
                bars = blocks(answers)
                return [out or into for out, into in zip(bars[::2], bars[1::2], strict=True)]

            return by_rows
        return self._ask_blocked_of_many(questions, user, np.array(others, np.int64))

    def _ask_blocked_of_many(self, questions: Questions, user: int, ids: Ids) -> Callable[[Answers], list[bool]]:
        """Ask `blocked_either_way` by searching the user's block lists."""
        lists = [
            questions.members(Listing(self._blocks, user, direction, state), ids) for direction, state in _BARRING_LISTS
        ]

        def by_lists(answers: Answers) -> list[bool]:
            return _any_of([answers.members[row] for row in lists])

        return by_lists

    async def blocks(self, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each (source, destination), whether the source blocks the destination.

        An archived block counts too: it is of an account that is deactivated.
        """
        questions = Questions()
        blocks = self.ask_blocks(questions, pairs)
        return blocks(await self._store.answer(questions))

    def ask_blocks(self, questions: Questions, pairs: Iterable[tuple[int, int]]) -> Callable[[Answers], list[bool]]:
        """Ask `blocks`."""
        rows = questions.states([(self._blocks, *pair) for pair in pairs])
        return lambda answers: [state in FORBIDDING_STATES for state in answers.states[rows]]

    def blocks_between(self, user: int, others: Iterable[int]) -> tuple[tuple[int, int, int], ...]:
        """The edges of possible blocks between `user` and each of the others, both ways, for `EdgeWrite.unless`."""
        return tuple((self._blocks, *pair) for other in others for pair in ((user, other), (other, user)))

    async def without_blockers(self, viewer: Viewer, page: Page) -> Page:
        """The page without users who block `viewer` or do not exist for `viewer` (`is_visible_account`).

        It may be short although more entries follow.
        """
        return _without(
            page, [not visible for visible in await self.are_visible(viewer, [mark.id for mark in page.items])]
        )

    async def are_visible(self, viewer: Viewer, users: Sequence[int]) -> list[bool]:
        """For each of `users`, whether the account exists for `viewer` (`is_visible_account`) and does not block them.

        The back office sees all, even removed accounts.
        """
        if viewer is SYSTEM:
            return [True] * len(users)
        if viewer is None:
            nodes = await self._store.nodes(users)
            return [is_visible_account(node, user, viewer) for node, user in zip(nodes, users, strict=True)]
        questions = Questions()
        node_rows, blocking = questions.nodes(users), self._ask_blocking(questions, viewer, users)
        answers = await self._store.answer(questions)
        nodes, blocks = answers.nodes[node_rows], blocking(answers)
        if True not in blocks and nodes.count(_DEFAULT_NODE) == len(nodes):  # nearly every page
            return [True] * len(users)
        accounts = zip(nodes, users, blocks, strict=True)
        return [not block and is_visible_account(node, user, viewer) for node, user, block in accounts]

    def _ask_blocking(self, questions: Questions, user: int, others: Sequence[int]) -> Callable[[Answers], list[bool]]:
        """Ask which of `others` block the user."""
        if len(others) <= _BLOCKERS_LOOKED_UP_MAX:
            return self.ask_blocks(questions, [(other, user) for other in others])
        ids = np.array(others, np.int64)
        lists = [
            questions.members(Listing(self._blocks, user, Direction.IN, state), ids) for state in FORBIDDING_STATES
        ]
        return lambda answers: _any_of([answers.members[row] for row in lists])

    def ask_without_blocks(self, questions: Questions, viewer: Viewer, page: Page) -> Callable[[Answers], Page]:
        """Ask for the page without users who are not active, hidden by the app, or in a block with `viewer`.

        Blocks count in either direction. The page may be short although more entries follow. The back office sees all
        active users; a visitor sees no private ones.
        """
        users = [mark.id for mark in page.items]
        read_standings = self.ask_standings(questions, viewer, users)

        def is_dropped(user: int, standing: Standing) -> bool:
            hidden = viewer is not SYSTEM and viewer != user and bool(standing.labels & HIDE)
            return standing.state != State.NORMAL or standing.blocked or hidden or (viewer is None and standing.private)

        def present(answers: Answers) -> Page:
            standings = read_standings(answers)
            return _without(page, [is_dropped(user, standings[user]) for user in users])

        return present

    async def without_hidden(self, page: Page) -> Page:
        """The page without users whom the app hides. It may be short although more entries follow."""
        return _without(page, await self.hidden([mark.id for mark in page.items]))

    async def hidden(self, users: Sequence[int]) -> list[bool]:
        """For each of `users`, whether the app hides the account."""
        return [bool(node.labels & HIDE) for node in await self._store.nodes(users)]

    def ask_standings(
        self, questions: Questions, viewer: Viewer, authors: Iterable[int], follow_back_of: Collection[int] = ()
    ) -> Callable[[Answers], Mapping[int, Standing]]:
        """Ask the standing of each author to `viewer`.

        `follows_back` is asked only for the authors in `follow_back_of`; it is False for the others.
        """
        author_ids = list(dict.fromkeys(authors))
        nodes = questions.nodes(author_ids)
        if viewer is None or viewer is SYSTEM:
            return lambda answers: {
                author: Standing(node.state, node.private, labels=node.labels)
                for author, node in zip(author_ids, answers.nodes[nodes], strict=True)
            }
        tied = [author for author in author_ids if author in follow_back_of] if follow_back_of else []
        back = questions.states([(self._follows, author, viewer) for author in tied])
        blocks_and_follows = self._ask_blocks_and_follows(questions, viewer, author_ids)

        def standings(answers: Answers) -> Mapping[int, Standing]:
            states = zip(tied, answers.states[back], strict=True)
            follow_back = {author for author, state in states if state is State.NORMAL}
            author_nodes, (blocked, followed) = answers.nodes[nodes], blocks_and_follows(answers)
            if (
                not follow_back and True not in blocked and author_nodes.count(_DEFAULT_NODE) == len(author_ids)
            ):  # nearly every page
                return {
                    author: _FOLLOWED if follow else _STRANGER
                    for author, follow in zip(author_ids, followed, strict=True)
                }
            return {
                author: Standing(node.state, node.private, bar, follow, author in follow_back, node.labels)
                for author, node, bar, follow in zip(author_ids, author_nodes, blocked, followed, strict=True)
            }

        return standings

    def ask_standings_between(
        self, questions: Questions, pairs: Collection[tuple[int, int]], follow_back_of: Collection[tuple[int, int]] = ()
    ) -> Callable[[Answers], Mapping[tuple[int, int], Standing]]:
        """`ask_standings` for many viewers: the standing of the author to the viewer in each pair (viewer, author)."""
        blocks, follows = self._blocks, self._follows
        nodes = questions.nodes([author for _, author in pairs])
        edges = [
            edge
            for viewer, author in pairs
            for edge in ((blocks, viewer, author), (blocks, author, viewer), (follows, viewer, author))
        ]
        rows = questions.states(edges)
        back = questions.states([(follows, author, viewer) for viewer, author in follow_back_of])

        def standings(answers: Answers) -> Mapping[tuple[int, int], Standing]:
            returned = {
                pair for pair, state in zip(follow_back_of, answers.states[back], strict=True) if state is _NORMAL
            }
            states = iter(answers.states[rows])  # three for each
            by_pair = {}
            for pair, node, out, into, follow in zip(pairs, answers.nodes[nodes], states, states, states, strict=True):
                if node == _DEFAULT_NODE and out is into is None and pair not in returned:
                    by_pair[pair] = _FOLLOWED if follow is _NORMAL else _STRANGER
                else:
                    blocked = out in FORBIDDING_STATES or into in FORBIDDING_STATES
                    by_pair[pair] = Standing(
                        node.state, node.private, blocked, follow is _NORMAL, pair in returned, node.labels
                    )
            return by_pair

        return standings

    def _ask_blocks_and_follows(
        self, questions: Questions, user: int, others: Sequence[int]
    ) -> Callable[[Answers], tuple[list[bool], list[bool]]]:
        """Ask for each of `others` whether there is a block with `user`, and whether `user` follows them."""
        if len(others) > _LOOKED_UP_MAX:
            ids = np.array(others, np.int64)
            blocked = self._ask_blocked_of_many(questions, user, ids)
            row = questions.members(Listing(self._follows, user, Direction.OUT), ids)
            return lambda answers: (blocked(answers), answers.members[row].tolist())
        blocks, follows = self._blocks, self._follows
        edges = [
            edge for other in others for edge in ((blocks, user, other), (blocks, other, user), (follows, user, other))
        ]
        rows = questions.states(edges)

        def by_rows(answers: Answers) -> tuple[list[bool], list[bool]]:
            states = answers.states[rows]  # three for each
            barred = [
                out in FORBIDDING_STATES or into in FORBIDDING_STATES
                for out, into in zip(states[::3], states[1::3], strict=True)
            ]
            return barred, [follow is _NORMAL for follow in states[2::3]]

        return by_rows

    def ask_standing_to(
        self, questions: Questions, author: int, viewers: Sequence[int], *, with_follow_back: bool = False
    ) -> Callable[[Answers], list[Standing]]:
        """Ask the standing of the author to each of `viewers`. `with_follow_back`: ask for `follows_back`, too."""
        nodes = questions.nodes([author])
        blocked = self.ask_blocked(questions, author, viewers)
        follow_rows = questions.states([(self._follows, viewer, author) for viewer in viewers])
        back = questions.states([(self._follows, author, viewer) for viewer in viewers if with_follow_back])

        def standings(answers: Answers) -> list[Standing]:
            (node,) = answers.nodes[nodes]
            follow_back = answers.states[back] if with_follow_back else itertools.repeat(None)
            return [
                Standing(node.state, node.private, bar, follow is State.NORMAL, follows is State.NORMAL, node.labels)
                for bar, follow, follows in zip(
                    blocked(answers), answers.states[follow_rows], follow_back, strict=False
                )
            ]

        return standings


def is_visible_account(node: Node, user: int, viewer: Viewer) -> bool:
    """Whether the account `user` with this stored node exists for `viewer`. Blocks are checked separately.

    Removed accounts exist for nobody. Deactivated accounts, and those that the app hides, exist for themselves and the
    back office only. Private accounts do not exist for visitors.
    """
    if viewer is SYSTEM or viewer == user:
        return node.state != State.REMOVED
    return node.state == State.NORMAL and not node.labels & HIDE and not (viewer is None and node.private)


def _any_of(flags: Sequence[NDArray[np.bool_]]) -> list[bool]:
    """The element-wise "or" of these arrays."""
    combined: list[bool] = reduce(np.bitwise_or, flags).tolist()
    return combined


def _without(page: Page, dropped: Sequence[bool]) -> Page:
    """The page without the dropped items. It still covers the same part of the list, so its cursors stay right."""
    if True not in dropped:
        return page
    covers = (page.newest, page.oldest) if page.newest and page.oldest else None
    marks = [mark for mark, drop in zip(page.items, dropped, strict=True) if not drop]
    return Page(marks, page.more_after, page.more_before, covers)
