"""Follows of boards, explicit or through the owner: writes, checks, lists and counts, as programs over plain edges.

A board's followers are the followers of its owner, minus those who unfollowed the board, plus those who follow the
board explicitly. A check looks up three rows, however many boards a user ever unfollowed. A page of followers reads as
many entries of two lists as it shows. A count adds up the lengths of three lists. `reconciler` keeps these lists
disjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from kith.boards.board import Board, missing
from kith.boards.boards import Boards
from kith.boards.reconciler import BoardFollowRows, void_edges
from kith.boards.visibility import may_see_board
from kith.core.errors import BatchTooLarge, FollowLimitReached, Forbidden, NotFollowing, SelfEdge
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import Direction, EdgeChange, EdgeLimit, Outcome, State
from kith.graph.graph import write_mark_of
from kith.graph.page_merge import merge_pages
from kith.graph.questions import Questions
from kith.graph.shapes import Listing
from kith.graph.walk import walk
from kith.people.accounts import check_active
from kith.people.privacy import Privacy, Standing, Viewer

CHECKED_MAX = 25
"""Users and boards that one check takes (article 002)."""
FOLLOWERS_SCANNED_MAX = 10_000
"""Entries of a list that a page of followers may look at."""
_NORMAL = State.NORMAL
FollowKind: TypeAlias = Literal["explicit", "implicit", "none"]


class BoardFollowWritten(NamedTuple):
    """Whether the acting user now follows a board, whether that is new, and the place of the write."""

    following: bool
    changed: bool
    mark: WriteMark


class FollowKinds(NamedTuple):
    """How the acting user follows each user and board of a check, in the order asked."""

    users: list[FollowKind]
    boards: list[FollowKind]


class Interests(NamedTuple):
    """Exact counts of a user's lists. Only the user may see `boards_unfollowed`."""

    boards: int
    boards_followed: int
    boards_unfollowed: int
    implicit_following: int
    implicit_followers: int


class BoardFollowing:
    """The rules of following boards. `follows_max`: boards that a user may follow explicitly, and may unfollow."""

    def __init__(self, boards: Boards, *, follows_max: int) -> None:
        self._boards, self._reconciler, self._follows_max = boards, boards.reconciler, follows_max
        self._graph, self._store = boards.graph, boards.store
        self._privacy = Privacy(self._graph)

    # --- writing ---------------------------------------------------------------------------------------

    async def follow(self, actor: NodeId, id_: int) -> BoardFollowWritten:
        """Make `actor` follow a board. If they follow its owner, this only undoes their unfollow of the board.

        Errors: BoardNotFound; SelfEdge for their own; Forbidden for a secret board, for a collaborator who does not
        follow the board's private owner, and if `actor` is deactivated; FollowLimitReached.
        """
        board = await self._boards.get(actor, id_)
        if board.owner == actor:
            raise SelfEdge("nobody follows their own boards", id=str(id_))
        if board.secret:
            raise Forbidden("a secret board has members, no followers", id=str(id_))
        rows = await self._observe(actor, board)
        follow, reconciler, target = rows.follow, self._reconciler, NodeId(id_)
        if follow is not None and follow.state == State.NORMAL:
            changes = await self._store.apply([self._graph.remove_write(reconciler.unfollowed, actor, target)])
        elif rows.owner_private:
            raise Forbidden("this board is of a private account; follow the account", id=str(board.owner))
        else:
            changes = await self._add(reconciler.explicit, actor, board, rows)
        mark = self._graph.later_mark(write_mark_of(changes), await reconciler.reconcile([(actor, board)]))
        return BoardFollowWritten(True, changes[0].outcome is Outcome.APPLIED, mark)

    async def unfollow(self, actor: NodeId, id_: int) -> BoardFollowWritten:
        """End `actor`'s follow of a board, also of one that they follow through its owner.

        Errors: BoardNotFound; SelfEdge for their own; NotFollowing for one that they never followed; Forbidden if
        `actor` is deactivated and follows the owner.
        """
        (board,) = await self._reconciler.read([id_])
        if board is None or board.deleted:
            raise missing(id_)
        if board.owner == actor:
            raise SelfEdge("nobody follows their own boards", id=str(id_))
        rows = await self._observe(actor, board)
        follow, reconciler, target = rows.follow, self._reconciler, NodeId(id_)
        explicit = rows.explicit
        if explicit is None or explicit.state == State.REMOVED:
            await self._boards.get(actor, id_)  # a user who does not follow the board must be allowed to see it
        if rows.user_deactivated and follow is not None and follow.state == State.ARCHIVED:
            await check_active(self._store, actor)  # the follow returns with the account; an unfollow now has no effect
        if follow is not None and follow.state == State.NORMAL and board.is_open:
            changes = await self._add(reconciler.unfollowed, actor, board, rows)
        elif explicit is None:
            if rows.unfollowed is None:
                raise NotFollowing("you do not follow this board", id=str(id_))
            return BoardFollowWritten(False, False, NO_MARK)
        else:
            changes = await self._store.apply([self._graph.remove_write(reconciler.explicit, actor, target)])
        mark = self._graph.later_mark(write_mark_of(changes), await reconciler.reconcile([(actor, board)]))
        return BoardFollowWritten(False, changes[0].outcome is Outcome.APPLIED, mark)

    async def _observe(self, actor: NodeId, board: Board) -> BoardFollowRows:
        """The rows of a user and a board. Also advances the clock, so that the next write is newer than anything that
        could void it.
        """
        (rows,) = await self._reconciler.rows([(actor, board)])
        for edge in (rows.follow, *rows.blocks):
            if edge is not None:
                self._graph.clock.observe(edge.updated_at)
        self._graph.clock.observe(max(board.since, board.owned_since))
        return rows

    async def _add(self, graph: int, actor: NodeId, board: Board, rows: BoardFollowRows) -> list[EdgeChange]:
        """Write a user's follow or unfollow of a board, under the conditions of a follow. A void one that is still
        stored is written again.
        """
        write = msgspec.structs.replace(
            self._graph.add_write(graph, actor, NodeId(board.id)),
            keep_live=all(edge.graph != graph for edge in void_edges(actor, board, rows)),
            limit=EdgeLimit(self._follows_max),
            unless=self._privacy.blocks_between(actor, [board.owner]),
            if_active=True,
        )
        changes = await self._store.apply([write])
        match changes[0].outcome:
            case Outcome.OVER_LIMIT:
                limit = self._follows_max
                raise FollowLimitReached(
                    f"a user may follow, and unfollow, {limit} boards at most; follow fewer first", max=limit
                )
            case Outcome.FORBIDDEN:
                raise missing(board.id)
            case Outcome.INACTIVE:
                await check_active(self._store, actor)
                raise missing(board.id)
            case _:
                return changes

    # --- checks ----------------------------------------------------------------------------------------

    async def check(self, actor: NodeId, users: Sequence[int], boards: Sequence[int]) -> FollowKinds:
        """How `actor` follows each user and board; "none" for those that they must not see.

        A user is followed implicitly if one of their boards is followed explicitly. A board is followed implicitly if
        its owner is followed. Costs one batch of records and one of the graph. BatchTooLarge beyond CHECKED_MAX.
        """
        if len(users) + len(boards) > CHECKED_MAX:
            raise BatchTooLarge(f"at most {CHECKED_MAX} users and boards a request", max=CHECKED_MAX)
        reconciler, stored_boards, questions = self._reconciler, await self._reconciler.read(boards), Questions()
        owners = [board.owner for board in stored_boards if board is not None]
        standings = self._privacy.ask_standings(questions, actor, [*users, *owners])
        explicit = questions.towards(reconciler.explicit, actor, boards)
        unfollowed = questions.towards(reconciler.unfollowed, actor, boards)
        implicit = questions.states([(reconciler.implicit, actor, user) for user in users])
        answers = await self._store.answer(questions)
        states, standings_by_id = answers.towards, standings(answers)
        rows = zip(stored_boards, states[explicit], states[unfollowed], strict=True)
        return FollowKinds(
            [
                _kind_of_user(standings_by_id[user], tie, user == actor)
                for user, tie in zip(users, answers.states[implicit], strict=True)
            ],
            [
                "none" if board is None else _kind_of(board, actor, standings_by_id[board.owner], followed, unfollowed)
                for board, followed, unfollowed in rows
            ],
        )

    # --- lists -----------------------------------------------------------------------------------------

    async def followers(self, viewer: Viewer, id_: int, window: Window) -> Page:
        """The followers of a board, through its owner or explicit, newest follow first.

        Errors: BoardNotFound; Forbidden for a collaborator who does not follow the board's private owner.
        """
        board = await self._boards.get(viewer, id_)
        if not board.is_open:
            return Page([], False, False)
        await self._privacy.check_may_see(viewer, NodeId(board.owner))  # most of these follow the owner
        reconciler, first = self._reconciler, window.limit + 1

        async def not_unfollowed(marks: Sequence[Mark]) -> list[bool]:
            unfollowed = await self._store.exists_many(reconciler.unfollowed, [(mark.id, id_) for mark in marks])
            return [not flag for flag in unfollowed]

        async def not_through(marks: Sequence[Mark]) -> list[bool]:
            through = await self._store.exists_many(reconciler.follows, [(mark.id, board.owner) for mark in marks])
            return [not flag for flag in through]

        pages = [
            await walk(self._store, listing, window, shown, entries_max=FOLLOWERS_SCANNED_MAX, first=first)
            for listing, shown in (
                (Listing(reconciler.follows, board.owner, Direction.IN), not_unfollowed),
                (Listing(reconciler.explicit, id_, Direction.IN), not_through),
            )
        ]
        return merge_pages(pages, window)

    async def follower_count(self, viewer: Viewer, id_: int) -> int:
        """The number of followers of a board. BoardNotFound."""
        return (await self.follower_counts([await self._boards.get(viewer, id_)]))[0]

    async def follower_counts(self, boards: Sequence[Board]) -> list[int]:
        """The number of followers of each board, from the lengths of three lists."""
        reconciler = self._reconciler
        counts = await self._store.count_many(
            [
                listing
                for board in boards
                for listing in (
                    Listing(reconciler.follows, board.owner, Direction.IN),
                    Listing(reconciler.unfollowed, board.id, Direction.IN),
                    Listing(reconciler.explicit, board.id, Direction.IN),
                )
            ]
        )
        threes = zip(counts[::3], counts[1::3], counts[2::3], strict=True)
        return [
            through - unfollowed + explicit if board.is_open else 0
            for board, (through, unfollowed, explicit) in zip(boards, threes, strict=True)
        ]

    async def followed(self, viewer: Viewer, user: NodeId, window: Window) -> tuple[list[Board], Page]:
        """The boards that a user follows explicitly and that `viewer` may see, newest follow first."""
        return await self._boards.listed(viewer, [Listing(self._reconciler.explicit, user, Direction.OUT)], window)

    async def unfollowed(self, user: NodeId, window: Window) -> tuple[list[Board], Page]:
        """The boards that a user unfollowed though they follow the owner, newest unfollow first."""
        return await self._boards.listed(user, [Listing(self._reconciler.unfollowed, user, Direction.OUT)], window)

    async def implicit_following(self, user: NodeId, window: Window) -> Page:
        """The users of whom `user` follows boards explicitly, newest first."""
        return await self._store.page(Listing(self._reconciler.implicit, user, Direction.OUT), window)

    async def implicit_followers(self, user: NodeId, window: Window) -> Page:
        """The users who follow boards of `user` explicitly, newest first."""
        return await self._store.page(Listing(self._reconciler.implicit, user, Direction.IN), window)

    async def interests(self, user: NodeId) -> Interests:
        """Exact counts of a user's lists. `boards` counts the public ones."""
        reconciler = self._reconciler
        return Interests(
            *await self._store.count_many(
                [
                    Listing(reconciler.boards, user, Direction.OUT),
                    Listing(reconciler.explicit, user, Direction.OUT),
                    Listing(reconciler.unfollowed, user, Direction.OUT),
                    Listing(reconciler.implicit, user, Direction.OUT),
                    Listing(reconciler.implicit, user, Direction.IN),
                ]
            )
        )


def _kind_of(
    board: Board, actor: NodeId, owner: Standing, explicit: State | None, unfollowed: State | None
) -> FollowKind:
    """How a board is followed. Pure. `owner`: the owner's standing to the actor. `explicit`, `unfollowed`: the states
    of the follow and the unfollow of the board.
    """
    through = owner.followed
    holds = unfollowed is not _NORMAL if through else explicit is _NORMAL
    if not holds or board.secret or board.deleted or not may_see_board(board, actor, owner, member=False):
        return "none"
    return "implicit" if through else "explicit"


def _kind_of_user(user: Standing, implicit: State | None, oneself: bool) -> FollowKind:
    """How a user is followed. Pure. `implicit`: the state of the implicit follow, by one or more of their boards."""
    if not (user.followed or (implicit is _NORMAL and not user.private)) or oneself:
        return "none"
    if user.blocked or user.state is not _NORMAL or user.labels & HIDE:
        return "none"
    return "explicit" if user.followed else "implicit"
