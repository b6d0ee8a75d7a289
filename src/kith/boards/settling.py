"""Decides from rows alone whether a user follows a board: the same in any process, in any order.

A user follows a board if they follow its owner and did not unfollow the board, or do not follow its owner and followed
the board itself. So that a board's followers can be counted from three lists, an unfollow of a board is stored only
beside a follow of its owner, and a follow of a board only without one. `settle` drops the edges that a later write made
void: the writer calls it after each write, and `upkeep` again for each such event of the log. A drop names the version
that it drops, so newer edges stay, and repeating it changes nothing. Works on an engine without transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from kith.boards.board import Board, decode_board, given_by
from kith.core.clock import COUNTER_BITS, HLC_MAX, Hlc, ms_of
from kith.core.ids import NodeId
from kith.core.together import together
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import BARRING, Direction, Edge, EdgeWrite, State
from kith.graph.graph import Graph, write_mark_of
from kith.graph.graphs import BLOCKS, BOARD_FOLLOWS, BOARD_UNFOLLOWS, BOARDS, FOLLOWS, IMPLICIT_FOLLOWS
from kith.graph.shapes import Ids, Listing
from kith.graph.walk import whole_list
from kith.records.store import RecordKind, RecordStore

Pair: TypeAlias = tuple[int, Board]
_AGREED_TRIES = 8
"""How often an implicit follow is looked at again, as others may change what it depends on meanwhile."""


SLICES_AT_ONCE = 6
"""How many pages of a board's lists a request settles itself."""


class Finished(NamedTuple):
    """The mark of what was written to settle a board, and whether all of its changes are settled."""

    mark: WriteMark
    done: bool


class DecidingEdges(NamedTuple):
    """The stored edges that decide about a user and a board. `blocks`: of the user and the owner, either way.

    `user_away`, `owner_away`: their account is deactivated. `owner_private`: it is for its followers.
    """

    follow: Edge | None  # user -> owner
    explicit: Edge | None  # user -> board, followed by itself
    unfollowed: Edge | None  # user -> board, unfollowed
    blocks: Sequence[Edge | None] = ()
    user_away: bool = False
    owner_away: bool = False
    owner_private: bool = False


class Settling:
    """Reads the rows of users and boards, and drops what is void."""

    def __init__(self, graph: Graph, records: RecordStore) -> None:
        self.graph, self.store, self.records = graph, graph.store, records
        number = graph.graphs.number
        self.follows, self.blocks = number(FOLLOWS), number(BLOCKS)
        self.explicit, self.unfollowed = number(BOARD_FOLLOWS), number(BOARD_UNFOLLOWS)
        self.implicit, self.boards = number(IMPLICIT_FOLLOWS), number(BOARDS)
        self._are_any = False

    async def read(self, ids: Sequence[int]) -> list[Board | None]:
        """The board of each id as it is stored, whoever may see it; None where there never was one."""
        return await read_boards(self.records, ids)

    async def rows(self, pairs: Sequence[Pair]) -> list[DecidingEdges]:
        """The rows of each user and board."""
        ties = [(user, board.owner) for user, board in pairs]
        said = [(user, board.id) for user, board in pairs]
        immediate, get_many = self.store.immediate, self.store.get_many
        nodes, (follows, out, into, explicit, unfollowed) = await together(
            immediate,
            self.store.nodes([id_ for tie in ties for id_ in tie]),
            together(
                immediate,
                get_many(self.follows, ties),
                get_many(self.blocks, ties),
                get_many(self.blocks, [(owner, user) for user, owner in ties]),
                get_many(self.explicit, said),
                get_many(self.unfollowed, said),
            ),
        )
        away = [node.state is State.ARCHIVED for node in nodes]
        private = [node.private for node in nodes[1::2]]
        each = zip(
            follows, explicit, unfollowed, zip(out, into, strict=True), away[::2], away[1::2], private, strict=True
        )
        return [DecidingEdges(*row) for row in each]

    async def settle(self, pairs: Sequence[Pair]) -> WriteMark:
        """Drop the void follows and unfollows of these boards by these users, and make the implicit follows agree.

        Followers of a board that was merged into another are carried over first. Edges that hold are archived while the
        owner is deactivated, or private and not followed by the user, and restored when that ends.
        """
        later, mark, ties = self.graph.later_mark, NO_MARK, dict[tuple[int, int], None]()
        while pairs:
            rows = await self.rows(pairs)
            carried = [
                (user, board.merged_into, _carried(row.explicit, board))
                for (user, board), row in zip(pairs, rows, strict=True)
                if row.explicit is not None and _is_carried(user, board, row)
            ]
            writes = [write for *_, write in carried]
            writes += [
                EdgeWrite(_dropped(edge)) for pair, row in zip(pairs, rows, strict=True) for edge in void(*pair, row)
            ]
            writes += [
                self._put(edge, state)
                for pair, row in zip(pairs, rows, strict=True)
                for edge, state in returned(*pair, row)
            ]
            if writes:
                mark = later(mark, write_mark_of(await self.store.apply(writes)))
            ties |= {
                (user, owner): None
                for (user, board), row in zip(pairs, rows, strict=True)
                for owner in (board.owner, *board.past_owners)
                if not (row.user_away or (row.owner_away and owner == board.owner))
            }
            targets = await self.read([into for _, into, _ in carried])
            pairs = [(user, board) for (user, *_), board in zip(carried, targets, strict=True) if board is not None]
        for user, owner in ties:
            mark = later(mark, await self.agree(user, owner))
        return mark

    def _put(self, edge: Edge, state: State) -> EdgeWrite:
        """The write that gives an edge another state, at its place."""
        now = self.graph.edge_now(edge.graph, edge.source, edge.destination, state)
        return EdgeWrite(now, supersede=True, keep_place=True, only_from=frozenset({edge.state}))

    async def are_any(self) -> bool:
        """Whether anybody has a board, or had one. Once somebody has, it is not asked again."""
        if not self._are_any:
            self._are_any = bool((await self.store.degrees(self.boards, None, 1)).nodes)
        return self._are_any

    def lists_of(self, user: int) -> tuple[Listing, ...]:
        """Four lists: the boards that a user follows by themselves, those that they unfollowed, and of both those that
        are archived.
        """
        graphs, states = (self.explicit, self.unfollowed), (State.NORMAL, State.ARCHIVED)
        return tuple(Listing(graph, user, Direction.OUT, state) for graph in graphs for state in states)

    async def depending(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> Sequence[tuple[NodeId, NodeId]]:
        """The pairs in which the user followed or unfollowed any board, and the owner has any.

        Most users did not: one call for all of them tells. If lists may lag, only the owners are asked about.
        """
        if not pairs:
            return []
        if self.store.transactional:
            if not await self.are_any():
                return []
            said = await self.store.count_many([listing for user, _ in pairs for listing in self.lists_of(user)])
            counts = zip(pairs, said[::4], said[1::4], said[2::4], said[3::4], strict=True)
            pairs = [pair for pair, *some in counts if any(some)]
            if not pairs:
                return []
        boards = await self.store.count_many([listing for _, owner in pairs for listing in self._boards_of(owner)])
        return [pair for pair, *counts in zip(pairs, boards[::2], boards[1::2], strict=True) if any(counts)]

    def _boards_of(self, owner: int) -> list[Listing]:
        return [Listing(self.boards, owner, Direction.OUT, state) for state in (State.NORMAL, State.ARCHIVED)]

    async def changed(self, user: NodeId, owner: NodeId, *, ended: bool) -> WriteMark:
        """Settle a user's follows and unfollows of an owner's boards, after a follow, unfollow or block between the
        two.

        `ended`: the user follows nothing of the owner's any more; where there was no follow of the owner to drop, this
        is noted in its row. Where lists may lag it is noted in any case: they may not show yet what it ends.
        """
        noted = NO_MARK
        if ended and not self.store.transactional:
            boards, noted = await together(
                self.store.immediate, self.boards_named_by(user, owner), self._note_end(user, owner)
            )
        else:
            boards = await self.boards_named_by(user, owner)
            if ended and boards:
                noted = await self._note_end(user, owner)
        settled = await self.settle([(user, board) for board in boards])
        if settled is NO_MARK:  # without boards it ended nothing
            return settled
        return self.graph.later_mark(noted, settled)

    async def _note_end(self, user: NodeId, owner: NodeId) -> WriteMark:
        """Give the row of a follow that is not there a new version: from then on, what the user said of boards is
        void.
        """
        edge = self.graph.edge_now(self.follows, user, owner, State.REMOVED)
        write = EdgeWrite(edge, supersede=True, keep_place=True, only_from=frozenset({State.REMOVED}))
        return write_mark_of(await self.store.apply([write]))

    async def boards_named_by(self, user: int, owner: int) -> list[Board]:
        """The boards of an owner that a user followed or unfollowed by themselves, as the rows say.

        If lists may lag, the owner's lists are read, because the user's are just changing.
        """
        theirs, boards = self.lists_of(user), self._boards_of(owner)
        if self.store.transactional:
            counts = await self.store.count_many([*theirs, *boards])
            said, owned = sum(counts[: len(theirs)]), sum(counts[len(theirs) :])
            if not said or not owned:
                return []
            if said < owned:
                ids = np.concatenate([await whole_list(self.store, listing) for listing in theirs])
                found = await self.read(np.unique(ids).tolist())
                return [board for board in found if board is not None and board.owner == owner]
        elif not any(await self.store.count_many(boards)):
            return []
        at_once = self.store.immediate
        ids = np.concatenate(await together(at_once, *(whole_list(self.store, listing) for listing in boards)))
        if not len(ids):
            return []
        there = await together(at_once, *(self.store.contains(listing, ids) for listing in theirs))
        found = await self.read(ids[np.logical_or.reduce(there)].tolist())
        return [board for board in found if board is not None and board.owner == owner]

    async def agree(self, user: int, owner: int) -> WriteMark:
        """Make the implicit follow of an owner say whether the user follows any board of theirs by itself.

        Looks again after it wrote: so the last writer, here or on another host, sees the final state.
        """
        mark = NO_MARK
        for _ in range(_AGREED_TRIES):
            (row,) = await self.store.get_many(self.implicit, [(user, owner)])
            if row is not None and row.state == State.ARCHIVED:
                break  # one of the two is away
            holds = row is not None and row.state == State.NORMAL
            wanted = user != owner and await self._follows_any(user, owner)
            if holds == wanted:
                break
            change = self.graph.add_write if wanted else self.graph.remove_write
            changes = await self.store.apply([change(self.implicit, NodeId(user), NodeId(owner))])
            mark = self.graph.later_mark(mark, write_mark_of(changes))
        return mark

    async def _follows_any(self, user: int, owner: int) -> bool:
        """Whether a user follows a board of an owner's by itself."""
        theirs, boards = Listing(self.explicit, user, Direction.OUT), Listing(self.boards, owner, Direction.OUT)
        followed, owned = await self.store.count_many([theirs, boards])
        if self.store.transactional and not (followed and owned):
            return False
        if self.store.transactional and followed < owned:
            return await self._meet(theirs, boards)
        return await self._meet(boards, theirs)

    async def _meet(self, listing: Listing, other: Listing) -> bool:
        """Whether two lists have an id in common; the first is read, the second asked."""
        ids: Ids = await whole_list(self.store, listing)
        return bool(len(ids)) and bool((await self.store.contains(other, ids)).any())


async def read_boards(records: RecordStore, ids: Sequence[int]) -> list[Board | None]:
    """The board of each id as it is stored, whoever may see it; None where there never was one."""
    found = await records.get_many(RecordKind.BOARD, ids) if ids else []
    return [None if record is None else decode_board(record.data) for record in found]


def void(user: int, board: Board, rows: DecidingEdges) -> list[Edge]:
    """The stored follow or unfollow of a board by a user that no longer counts. Pure.

    Of a follow of the owner and a follow or unfollow of the board, the later one counts; a dropped follow, and blocks
    between the two, count from their last change on. What a user wrote of a board before they stopped owning it does
    not count.
    """
    said = [edge for edge in (rows.explicit, rows.unfollowed) if edge is not None and edge.state == State.NORMAL]
    if not board.is_open or user == board.owner:
        return said
    follow, follows = rows.follow, rows.follow is not None and rows.follow.state == State.NORMAL
    dropped_at = _dropped_at(rows, board)
    return [
        edge
        for edge in said
        if edge.updated_at <= max(board.since, dropped_at)
        or (bool(board.past_owners) and edge.updated_at <= given_by(board, user))
        or (edge is rows.explicit and follows)
        or (edge is rows.unfollowed and _is_unfounded(edge, follow, board))
    ]


def returned(user: int, board: Board, rows: DecidingEdges) -> list[tuple[Edge, State]]:
    """Edges that are archived, restored, or ended meanwhile, and the states that they get. Pure.

    All are archived while the owner is deactivated; explicit follows of the board also while the owner is private,
    because the board is then for followers of the account; unfollows also while the follow of the owner is. The edges
    of a deactivated user are restored with the account, whatever happened: so an edge that ends is ended at once.
    """
    said, gone = [edge for edge in (rows.explicit, rows.unfollowed) if edge is not None], void(user, board, rows)
    changed: list[tuple[Edge, State]] = []
    for edge in said:
        shut = rows.owner_away or (rows.owner_private and edge is rows.explicit)
        archived_at = _archived_at(rows.follow) if edge is rows.unfollowed else 0
        if edge.state == State.ARCHIVED:
            if not board.is_open or _is_ended(user, board, rows, edge):
                changed.append((edge, State.REMOVED))
            elif not (shut or archived_at or rows.user_away):
                changed.append((edge, State.NORMAL))
        elif edge.state == State.NORMAL and edge not in gone and (shut or edge.updated_at < archived_at):
            changed.append((edge, State.ARCHIVED))  # a newer one came back with its user, whose follows come last
    return changed


def _archived_at(follow: Edge | None) -> int:
    """The version with which a follow was archived; 0: it is not."""
    return follow.updated_at if follow is not None and follow.state == State.ARCHIVED else 0


def _is_ended(user: int, board: Board, rows: DecidingEdges, edge: Edge) -> bool:
    """Whether an archived edge would be void if it came back."""
    again = msgspec.structs.replace(edge, state=State.NORMAL, updated_at=Hlc(said_at(edge)))
    return again in void(
        user, board, rows._replace(explicit=again) if edge is rows.explicit else rows._replace(unfollowed=again)
    )


def _is_unfounded(unfollow: Edge, follow: Edge | None, board: Board) -> bool:
    """Whether an unfollow is not of a follow of the owner that is there, or follows were begun anew after it."""
    if follow is None or follow.state not in (State.NORMAL, State.ARCHIVED):
        return True
    begun = ms_of(follow.updated_at) == follow.position  # else it came back, lasts longer now, or an app moved it
    return follow.state == State.NORMAL and begun and max(said_at(unfollow), board.owned_since) < follow.updated_at


def _dropped_at(rows: DecidingEdges, board: Board) -> int:
    """When the user last unfollowed the owner, or a block between them ended, since the board is the owner's; 0: never.

    Where one blocks the other now: at the end of time.
    """
    if any(block is not None and block.state in BARRING for block in rows.blocks):
        return HLC_MAX
    ended = [edge for edge in (rows.follow, *rows.blocks) if edge is not None and edge.state == State.REMOVED]
    return max((edge.updated_at for edge in ended if edge.updated_at > board.owned_since), default=0)


def said_at(edge: Edge) -> int:
    """The version with which an edge that holds was made. One that came back with an account has a newer one, and its
    old position.
    """
    return min(edge.updated_at, (edge.position + 1) << COUNTER_BITS)


def _dropped(edge: Edge) -> Edge:
    """The end of exactly this version of an edge: of two with one version, the removed one remains."""
    return msgspec.structs.replace(edge, state=State.REMOVED)


def _is_carried(user: int, board: Board, rows: DecidingEdges) -> bool:
    """Whether a user followed, by itself, a board that was merged into another. Pure."""
    if not board.merged_into or rows.explicit is None:
        return False
    there = msgspec.structs.replace(board, deleted=False)
    if rows.explicit.state == State.ARCHIVED:
        return not _is_ended(user, there, rows, rows.explicit)
    return rows.explicit.state == State.NORMAL and rows.explicit not in void(user, there, rows)


def _carried(edge: Edge, board: Board) -> EdgeWrite:
    """The follow of the board into which one was merged, as if said when it was."""
    into = msgspec.structs.replace(
        edge, destination=NodeId(board.merged_into), state=State.NORMAL, updated_at=Hlc(board.merged_at)
    )
    return EdgeWrite(into, keep_live=True)
