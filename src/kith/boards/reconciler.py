"""Decides from rows alone whether a user follows a board, with the same result in any process and in any order.

A user follows a board if they follow its owner and did not unfollow the board, or if they do not follow its owner and
followed the board itself (an explicit follow). So that a board's followers can be counted from three disjoint lists, an
unfollow of a board is stored only beside a follow of its owner, and an explicit follow only without one. `reconcile`
drops the edges that a later write made void. The writer calls it after each write, and `consumer` calls it again for
the event in the log. A drop names the version that it drops, so newer edges stay and repeating it changes nothing. No
engine needs transactions for this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from kith.boards.board import Board, decode_board, given_away_version
from kith.core.clock import COUNTER_BITS, HLC_MAX, Hlc, ms_of
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import FORBIDDING_STATES, Direction, Edge, EdgeWrite, State
from kith.graph.graph import Graph, write_mark_of
from kith.graph.graphs import BLOCKS, BOARD_FOLLOWS, BOARD_UNFOLLOWS, BOARDS, FOLLOWS, IMPLICIT_FOLLOWS
from kith.graph.shapes import Ids, Listing
from kith.graph.walk import read_whole_list
from kith.records.store import RecordKind, RecordStore

Pair: TypeAlias = tuple[int, Board]
_IMPLICIT_TRIES_MAX = 8
"""Rounds in which `update_implicit_follows` reads follows and corrects them, because other writers may interfere."""
PAGES_PER_REQUEST = 6
"""Pages of a board's lists that a request reconciles itself."""


class ReconcileResult(NamedTuple):
    """The mark of the writes that reconciled a board, and whether all of the board's changes are reconciled."""

    mark: WriteMark
    done: bool


class BoardFollowRows(NamedTuple):
    """The stored edges that decide whether a user follows a board. `blocks`: between user and owner, both ways.

    `user_deactivated`, `owner_deactivated`: the account is deactivated. `owner_private`: the owner's account is
    private.
    """

    follow: Edge | None  # user -> owner
    explicit: Edge | None  # user -> board, the explicit follow
    unfollowed: Edge | None  # user -> board, the unfollow
    blocks: Sequence[Edge | None] = ()
    user_deactivated: bool = False
    owner_deactivated: bool = False
    owner_private: bool = False


class FollowReconciler:
    """Reads the rows of users and boards, and drops void follows and unfollows."""

    def __init__(self, graph: Graph, records: RecordStore) -> None:
        self.graph, self.store, self.records = graph, graph.store, records
        number = graph.graphs.number
        self.follows, self.blocks = number(FOLLOWS), number(BLOCKS)
        self.explicit, self.unfollowed = number(BOARD_FOLLOWS), number(BOARD_UNFOLLOWS)
        self.implicit, self.boards = number(IMPLICIT_FOLLOWS), number(BOARDS)
        self._board_exists = False

    async def read(self, ids: Sequence[int]) -> list[Board | None]:
        """The board of each id as stored, or None if there never was one. Visibility is not checked."""
        return await read_boards(self.records, ids)

    async def rows(self, pairs: Sequence[Pair]) -> list[BoardFollowRows]:
        """The rows of each (user, board)."""
        follow_pairs = [(user, board.owner) for user, board in pairs]
        board_pairs = [(user, board.id) for user, board in pairs]
        immediate, get_many = self.store.immediate, self.store.get_many
        nodes, (follows, out, into, explicit, unfollowed) = await gather(
            immediate,
            self.store.nodes([id_ for pair in follow_pairs for id_ in pair]),
            gather(
                immediate,
                get_many(self.follows, follow_pairs),
                get_many(self.blocks, follow_pairs),
                get_many(self.blocks, [(owner, user) for user, owner in follow_pairs]),
                get_many(self.explicit, board_pairs),
                get_many(self.unfollowed, board_pairs),
            ),
        )
        away = [node.state is State.ARCHIVED for node in nodes]
        private = [node.private for node in nodes[1::2]]
        columns = zip(
            follows, explicit, unfollowed, zip(out, into, strict=True), away[::2], away[1::2], private, strict=True
        )
        return [BoardFollowRows(*row) for row in columns]

    async def reconcile(self, pairs: Sequence[Pair]) -> WriteMark:
        """Drop the void follows and unfollows of each (user, board), and correct the implicit follows.

        Followers of a board that was merged into another are carried over first. Valid edges are archived while the
        owner is deactivated, or private and not followed by the user, and restored when that ends.
        """
        later, mark, follow_pairs = self.graph.later_mark, NO_MARK, dict[tuple[int, int], None]()
        while pairs:
            rows = await self.rows(pairs)
            writes, target_pairs = await self._follows_of_targets(pairs, rows)
            paired = list(zip(pairs, rows, strict=True))
            writes += [EdgeWrite(_removal_of(edge)) for pair, row in paired for edge in void_edges(*pair, row)]
            writes += [
                self._state_write(edge, state) for pair, row in paired for edge, state in archive_changes(*pair, row)
            ]
            if writes:
                mark = later(mark, write_mark_of(await self.store.apply(writes)))
            follow_pairs |= {
                (user, owner): None
                for (user, board), row in paired
                for owner in (board.owner, *board.past_owners)
                if not (row.user_deactivated or (row.owner_deactivated and owner == board.owner))
            }
            pairs = target_pairs
        return later(mark, await self.update_implicit_follows(follow_pairs))

    async def _follows_of_targets(
        self, pairs: Sequence[Pair], rows: Sequence[BoardFollowRows]
    ) -> tuple[list[EdgeWrite], list[Pair]]:
        """The writes that carry follows of merged boards over, and the pairs that these concern."""
        merged = [
            (user, board, row.explicit)
            for (user, board), row in zip(pairs, rows, strict=True)
            if row.explicit is not None and _is_follow_of_merged(user, board, row)
        ]
        targets = await self.read([board.merged_into for _, board, _ in merged])
        found = [(*row, target) for row, target in zip(merged, targets, strict=True) if target is not None]
        target_pairs = [(user, target) for user, _, _, target in found]
        target_rows = await self.rows(target_pairs) if found else []
        return [
            _follow_of_target(edge, board, _void_until(user, target, row))
            for (user, board, edge, target), row in zip(found, target_rows, strict=True)
        ], target_pairs

    def _state_write(self, edge: Edge, state: State) -> EdgeWrite:
        """The write that changes the state of an edge and keeps its place."""
        new_edge = self.graph.edge_now(edge.graph, edge.source, edge.destination, state)
        return EdgeWrite(new_edge, supersede=True, keep_place=True, only_from=frozenset({edge.state}))

    async def any_board_exists(self) -> bool:
        """Whether anybody has, or had, a board. The answer "yes" is cached."""
        if not self._board_exists:
            self._board_exists = bool((await self.store.degrees(self.boards, None, 1)).nodes)
        return self._board_exists

    def lists_of(self, user: int) -> tuple[Listing, ...]:
        """Four lists: the boards that a user follows explicitly and those that they unfollowed, live and archived."""
        graphs, states = (self.explicit, self.unfollowed), (State.NORMAL, State.ARCHIVED)
        return tuple(Listing(graph, user, Direction.OUT, state) for graph in graphs for state in states)

    async def pairs_to_reconcile(self, pairs: Sequence[tuple[NodeId, NodeId]]) -> Sequence[tuple[NodeId, NodeId]]:
        """The pairs (user, owner) in which the user followed or unfollowed any board, and the owner has any.

        Most users did neither, which one call for all of them shows. If lists may lag, only the owners' lists are read.
        """
        if not pairs:
            return []
        if self.store.transactional:
            if not await self.any_board_exists():
                return []
            lengths = await self.store.count_many([listing for user, _ in pairs for listing in self.lists_of(user)])
            counts = zip(pairs, lengths[::4], lengths[1::4], lengths[2::4], lengths[3::4], strict=True)
            pairs = [pair for pair, *of_user in counts if any(of_user)]
            if not pairs:
                return []
        boards = await self.store.count_many([listing for _, owner in pairs for listing in self._board_lists_of(owner)])
        return [pair for pair, *counts in zip(pairs, boards[::2], boards[1::2], strict=True) if any(counts)]

    def _board_lists_of(self, owner: int) -> list[Listing]:
        return [Listing(self.boards, owner, Direction.OUT, state) for state in (State.NORMAL, State.ARCHIVED)]

    async def on_change(self, user: NodeId, owner: NodeId, *, ended: bool) -> WriteMark:
        """Reconcile a user's follows and unfollows of an owner's boards after a follow, unfollow or block between them.

        `ended`: the user follows nothing of the owner any more. The row of their removed follow then gets a new version
        (`_note_unfollow`) if the user follows or unfollowed any of the owner's boards. If lists may lag, it gets one in
        any case, because the lists may not show these yet.
        """
        noted = NO_MARK
        if ended and not self.store.transactional:
            boards, noted = await gather(
                self.store.immediate, self.boards_with_edges_of(user, owner), self._note_unfollow(user, owner)
            )
        else:
            boards = await self.boards_with_edges_of(user, owner)
            if ended and boards:
                noted = await self._note_unfollow(user, owner)
        reconciled = await self.reconcile([(user, board) for board in boards])
        if reconciled is NO_MARK:  # nothing ended
            return reconciled
        return self.graph.later_mark(noted, reconciled)

    async def _note_unfollow(self, user: NodeId, owner: NodeId) -> WriteMark:
        """Give the row of a removed follow a new version, which makes the user's earlier follows and unfollows of the
        owner's boards void.
        """
        edge = self.graph.edge_now(self.follows, user, owner, State.REMOVED)
        write = EdgeWrite(edge, supersede=True, keep_place=True, only_from=frozenset({State.REMOVED}))
        return write_mark_of(await self.store.apply([write]))

    async def boards_with_edges_of(self, user: int, owner: int) -> list[Board]:
        """The boards of an owner that a user follows explicitly or unfollowed, archived edges included.

        If lists may lag, the owner's lists are read, because the user's lists are just changing.
        """
        user_lists, owner_lists = self.lists_of(user), self._board_lists_of(owner)
        if self.store.transactional:
            counts = await self.store.count_many([*user_lists, *owner_lists])
            edge_count, owned = sum(counts[: len(user_lists)]), sum(counts[len(user_lists) :])
            if not edge_count or not owned:
                return []
            if edge_count < owned:
                ids = np.concatenate([await read_whole_list(self.store, listing) for listing in user_lists])
                boards = await self.read(np.unique(ids).tolist())
                return [board for board in boards if board is not None and board.owner == owner]
        elif not any(await self.store.count_many(owner_lists)):
            return []
        at_once = self.store.immediate
        ids = np.concatenate(await gather(at_once, *(read_whole_list(self.store, listing) for listing in owner_lists)))
        if not len(ids):
            return []
        membership = await gather(at_once, *(self.store.contains(listing, ids) for listing in user_lists))
        boards = await self.read(ids[np.logical_or.reduce(membership)].tolist())
        return [board for board in boards if board is not None and board.owner == owner]

    async def update_implicit_follows(self, pairs: Collection[tuple[int, int]]) -> WriteMark:
        """Correct the implicit follows of each (user, owner): it exists if the user follows any of the owner's boards
        explicitly. All are written together, because a board may have many followers.

        Reads again after each write, so the last writer, in any process, sees the final state.
        """
        mark, remaining = NO_MARK, list(pairs)
        for _ in range(_IMPLICIT_TRIES_MAX):
            rows = await self.store.get_many(self.implicit, remaining) if remaining else []
            wrong = dict[tuple[int, int], EdgeWrite]()
            for (user, owner), row in zip(remaining, rows, strict=True):
                if row is not None and row.state == State.ARCHIVED:
                    continue  # one of the two is deactivated
                should_hold = user != owner and await self._follows_any(user, owner)
                if should_hold != (row is not None and row.state == State.NORMAL):
                    change = self.graph.add_write if should_hold else self.graph.remove_write
                    wrong[user, owner] = change(self.implicit, NodeId(user), NodeId(owner))
            if not wrong:
                break
            mark = self.graph.later_mark(mark, write_mark_of(await self.store.apply(list(wrong.values()))))
            remaining = list(wrong)
        return mark

    async def _follows_any(self, user: int, owner: int) -> bool:
        """Whether a user follows any board of an owner explicitly."""
        followed_list, owned_list = (
            Listing(self.explicit, user, Direction.OUT),
            Listing(self.boards, owner, Direction.OUT),
        )
        followed, owned = await self.store.count_many([followed_list, owned_list])
        if self.store.transactional and not (followed and owned):
            return False
        if self.store.transactional and followed < owned:
            return await self._have_common_id(followed_list, owned_list)
        return await self._have_common_id(owned_list, followed_list)

    async def _have_common_id(self, listing: Listing, searched: Listing) -> bool:
        """Whether two lists have an id in common. The first list is read whole; the second is searched for its ids."""
        ids: Ids = await read_whole_list(self.store, listing)
        return bool(len(ids)) and bool((await self.store.contains(searched, ids)).any())


async def read_boards(records: RecordStore, ids: Sequence[int]) -> list[Board | None]:
    """The board of each id as stored, or None if there never was one. Visibility is not checked."""
    rows = await records.get_many(RecordKind.BOARD, ids) if ids else []
    return [None if record is None else decode_board(record.data) for record in rows]


def void_edges(user: int, board: Board, rows: BoardFollowRows) -> list[Edge]:
    """The stored follow and unfollow of a board by a user, as far as they are void (no longer count). Pure.

    Of a follow of the owner and a follow or unfollow of the board, the later one counts. A dropped follow of the owner,
    and a block between the two, make everything before their last change void. So does a change of owner, for what its
    past owner wrote about the board before giving it away.
    """
    live = [edge for edge in (rows.explicit, rows.unfollowed) if edge is not None and edge.state == State.NORMAL]
    if not board.is_open or user == board.owner:
        return live
    follow, follows = rows.follow, rows.follow is not None and rows.follow.state == State.NORMAL
    void_until = _void_until(user, board, rows)
    return [
        edge
        for edge in live
        if edge.updated_at <= void_until
        or (edge is rows.explicit and follows)
        or (edge is rows.unfollowed and _is_unfounded(edge, follow, board))
    ]


def archive_changes(user: int, board: Board, rows: BoardFollowRows) -> list[tuple[Edge, State]]:
    """The edges to archive, to restore, or to remove while they are archived, each with its new state. Pure.

    All edges are archived while the owner is deactivated. Explicit follows are also archived while the owner is
    private, because the board is then for followers of the account only. Unfollows are also archived while the follow
    of the owner is. When a deactivated user returns, all their archived edges are restored; so an edge that became void
    meanwhile is removed at once.
    """
    stored = [edge for edge in (rows.explicit, rows.unfollowed) if edge is not None]
    void = void_edges(user, board, rows)
    changed: list[tuple[Edge, State]] = []
    for edge in stored:
        shut = rows.owner_deactivated or (rows.owner_private and edge is rows.explicit)
        archived_at = _archived_at(rows.follow) if edge is rows.unfollowed else 0
        if edge.state == State.ARCHIVED:
            if not board.is_open or _is_ended(user, board, rows, edge):
                changed.append((edge, State.REMOVED))
            elif not (shut or archived_at or rows.user_deactivated):
                changed.append((edge, State.NORMAL))
        elif edge.state == State.NORMAL and edge not in void and (shut or edge.updated_at < archived_at):
            changed.append((edge, State.ARCHIVED))  # a newer unfollow was restored with its user; the follow will be
    return changed


def _archived_at(follow: Edge | None) -> int:
    """The version with which a follow was archived; 0: it is not archived."""
    return follow.updated_at if follow is not None and follow.state == State.ARCHIVED else 0


def _is_ended(user: int, board: Board, rows: BoardFollowRows, edge: Edge) -> bool:
    """Whether an archived edge would be void if it were restored."""
    again = msgspec.structs.replace(edge, state=State.NORMAL, updated_at=Hlc(first_version(edge)))
    return again in void_edges(
        user, board, rows._replace(explicit=again) if edge is rows.explicit else rows._replace(unfollowed=again)
    )


def _is_unfounded(unfollow: Edge, follow: Edge | None, board: Board) -> bool:
    """Whether an unfollow of a board lacks the follow of the owner that it is an exception to.

    That is so if there is no such follow, or if the follow was begun after the unfollow.
    """
    if follow is None or follow.state not in (State.NORMAL, State.ARCHIVED):
        return True
    begun = ms_of(follow.updated_at) == follow.position  # else it was restored, extended, or moved by the app
    return (
        follow.state == State.NORMAL and begun and max(first_version(unfollow), board.owned_since) < follow.updated_at
    )


def _void_until(user: int, board: Board, rows: BoardFollowRows) -> int:
    """The version up to which a user's follow and unfollow of a board are void."""
    return max(board.since, _unfollowed_at(rows, board), given_away_version(board, user))


def _unfollowed_at(rows: BoardFollowRows, board: Board) -> int:
    """The version with which the user last unfollowed the owner, or a block between them ended; 0: neither happened.

    Versions from before the owner got the board do not count. While there is a block, it is HLC_MAX.
    """
    if any(block is not None and block.state in FORBIDDING_STATES for block in rows.blocks):
        return HLC_MAX
    ended = [edge for edge in (rows.follow, *rows.blocks) if edge is not None and edge.state == State.REMOVED]
    return max((edge.updated_at for edge in ended if edge.updated_at > board.owned_since), default=0)


def first_version(edge: Edge) -> int:
    """The version with which a valid edge was first written. An edge that was restored with an account has a newer
    version, but its old position.
    """
    return min(edge.updated_at, (edge.position + 1) << COUNTER_BITS)


def _removal_of(edge: Edge) -> Edge:
    """The removal of exactly this version of an edge. Of two writes with the same version the removal wins."""
    return msgspec.structs.replace(edge, state=State.REMOVED)


def _is_follow_of_merged(user: int, board: Board, rows: BoardFollowRows) -> bool:
    """Whether a user explicitly follows a board that was merged into another, so the follow is carried over. Pure."""
    if not board.merged_into or rows.explicit is None:
        return False
    unmerged = msgspec.structs.replace(board, deleted=False)
    if rows.explicit.state == State.ARCHIVED:
        return not _is_ended(user, unmerged, rows, rows.explicit)
    return rows.explicit.state == State.NORMAL and rows.explicit not in void_edges(user, unmerged, rows)


def _follow_of_target(edge: Edge, board: Board, void_until: int) -> EdgeWrite:
    """The follow of the board that this one was merged into, with the version of the merge. It keeps its place, but
    none at which it would be void once it is archived and restored (`first_version`).
    """
    position = max(edge.position, ms_of(min(void_until, board.merged_at)))
    into = Edge(edge.graph, edge.source, NodeId(board.merged_into), State.NORMAL, position, Hlc(board.merged_at))
    return EdgeWrite(into, keep_live=True)
