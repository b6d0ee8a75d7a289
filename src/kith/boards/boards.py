"""Creates, changes, moves, merges and deletes boards, and reads those that a viewer may see (see `visibility`).

A board is a record and an edge from its owner; the edge's state says whether the board is public or secret. A note of a
change is written before the change. From it, `consumer` reconciles the board's followers page by page. So a process may
stop anywhere, and another resumes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from kith.boards.board import (
    BOARDS_MAX,
    LISTED,
    Board,
    board_record,
    canonical_board,
    check_name,
    missing,
    not_owner,
    owned_by,
    read_board,
)
from kith.boards.reconciler import PAGES_PER_REQUEST, FollowReconciler, ReconcileResult
from kith.boards.visibility import visible_boards
from kith.core.clock import Hlc
from kith.core.errors import BadRequest, BoardLimitReached, Conflict, Forbidden, KithError, SelfEdge, UserNotFound
from kith.core.ids import NodeId, Snowflakes, made_at_ms
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, EdgeLimit, EdgeWrite, Outcome, State
from kith.graph.graphs import BOARD_MEMBERS
from kith.graph.page_merge import merge_pages
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.graph.walk import read_whole_list, walk
from kith.people.accounts import check_active, is_removed
from kith.people.privacy import SYSTEM, Privacy, Viewer
from kith.records.claims import claim_of, first_of
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Put, Record, RecordKind

BOARDS_SCANNED_MAX = 5_000
"""Boards that a page of a list may look at to find those that its viewer may see."""

NoteChange: TypeAlias = Callable[[Board, Board, Hlc], Awaitable[None]]
"""Takes (before, after, version). Notes a change of a board before it is written, so that its followers are reconciled
even if the process stops. Implemented by `BoardsConsumer.note_change`.
"""
PAGES_BEFORE_MOVE = 40
"""Pages of a board's lists that a move reconciles for earlier changes. It is refused if more remain."""


class FinishChange(Protocol):
    """Reconciles the noted changes of a board, as far as a request waits for it. Implemented by
    `BoardsConsumer.finish`.
    """

    def __call__(self, board: int, pages_max: int = PAGES_PER_REQUEST) -> Awaitable[ReconcileResult]:
        """`pages_max`: pages of lists to reconcile at most."""
        ...


class BoardWritten(NamedTuple):
    """A board after a write, and the place of the write for read-your-writes."""

    board: Board
    mark: WriteMark


class Boards:
    """Writes boards, and reads those that a viewer may see."""

    def __init__(
        self, reconciler: FollowReconciler, snowflakes: Snowflakes, prepare: NoteChange, finish: FinishChange
    ) -> None:
        self.reconciler, self._snowflakes = reconciler, snowflakes
        self._prepare, self._finish = prepare, finish
        self.graph, self.store, self._records = reconciler.graph, reconciler.store, reconciler.records
        self.privacy = Privacy(self.graph)
        self._boards, self.members = reconciler.boards, self.graph.graphs.number(BOARD_MEMBERS)

    # --- writing ---------------------------------------------------------------------------------------

    async def create(self, actor: NodeId, name: str, *, secret: bool = False, key: str | None = None) -> BoardWritten:
        """Create a board of `actor`. With a `key`, a repetition within 24 h returns the same board, as it is by then.

        Errors: InvalidContent; Forbidden if the actor is deactivated; BoardLimitReached; IdempotencyKeyReused;
        BoardNotFound if a repeated key's board was deleted, or is another owner's and secret by now.
        """
        check_name(name)
        await check_active(self.store, actor)
        id_, version = self._snowflakes.next(), self.graph.clock.next()
        claim = None if key is None else claim_of("board", actor, key, canonical_board(name, secret), id_, version)
        board = Board(actor, id_, made_at_ms(id_), name, secret, owned_since=version)
        put = await self._records.put([board_record(board, version)], [self._listing(board, version)], claim=claim)
        again = put.claimed is not None
        if claim is not None and put.claimed is not None:
            id_, version = first_of(put.claimed, claim)
            (record,) = await self._records.get_many(RecordKind.BOARD, [id_])
            stored = None if record is None else read_board(record)
            if stored is not None and (stored.deleted or stored.owner != actor):
                return BoardWritten(await self.get(actor, id_), put.mark)
            board = stored or Board(actor, id_, made_at_ms(id_), name, secret, owned_since=version)
            record = record or board_record(board, version)
            # completes a first try that stopped half way, such as on a cluster whose store was moved here since
            put = await self._records.put([record], [self._listing(board, version)])
            version = record.updated_at
        refused = put.refusal is not None
        separate = not self._records.transactional  # then the record is stored even if its edge is refused
        # of a removed account, the edge of a public board is refused, that of a secret board is not
        if (separate and refused and not again) or ((separate or secret) and await is_removed(self.store, actor)):
            emptied, later = msgspec.structs.replace(board, name="", deleted=True), Hlc(version + 1)
            await self._records.put([board_record(emptied, later)], [self._listing(emptied, later)])
            refused = True
        if put.refusal is Outcome.OVER_LIMIT:
            raise _too_many_boards()
        if refused:
            await check_active(self.store, actor)
            raise Forbidden("your account was deactivated meanwhile; try again", id=str(actor))
        return BoardWritten(board, put.mark)

    async def change(
        self, actor: NodeId, id_: int, *, name: str | None = None, secret: bool | None = None
    ) -> BoardWritten:
        """Rename a board, or make it secret or public. A board that becomes secret loses its followers.

        Errors: BoardNotFound; Forbidden for all but its owner.
        """
        if name is not None:
            check_name(name)

        def changed(board: Board, version: Hlc) -> Board:
            hidden = board.secret if secret is None else secret
            since = version if hidden and not board.secret else board.since
            return msgspec.structs.replace(board, name=name or board.name, secret=hidden, since=since)

        return await self._rewrite(actor, id_, changed)

    async def delete(self, actor: NodeId, id_: int) -> WriteMark:
        """Empty a board for good. Errors: BoardNotFound; Forbidden for all but its owner."""
        return (await self._rewrite(actor, id_, lambda board, _: _emptied(board))).mark

    async def move(self, actor: NodeId, id_: int, to: NodeId) -> BoardWritten:
        """Give a board to `to`, one of its members. Its explicit followers continue to follow it.

        Repeating it changes nothing until the new owner changes the board. Errors: BoardNotFound; Forbidden for all but
        its owner, if `to` is no member, and if there is a block between `to` and the owner or an explicit follower;
        UserNotFound if `to` is inactive or hidden by the app; BoardLimitReached; Conflict while followers are still
        being reconciled after an earlier change.
        """
        if (already_moved := await self._already_given(actor, id_, to)) is not None:
            return BoardWritten(already_moved, (await self._finish(id_)).mark)
        board = await self.owned(actor, id_)
        if board.owner == to:
            raise SelfEdge("this board is theirs already; name another user", id=str(to))
        await self._check_may_take(board, actor, to)
        # after the move, the rows no longer tell what earlier changes mean for the followers
        if not (await self._finish(id_, PAGES_BEFORE_MOVE)).done:
            raise Conflict(
                "this board was changed a moment ago, and what that means for its many followers is still being "
                "settled; try again in some seconds",
                id=str(id_),
            )
        return await self._rewrite(actor, id_, lambda board, version: owned_by(board, to, version))

    async def merge(self, actor: NodeId, id_: int, into: int) -> WriteMark:
        """Move the pins and followers of a board to the board `into` of the same owner, and delete the first.

        Repeating it changes nothing. Errors: BadRequest if both are the same; BoardNotFound; Forbidden for boards of
        others; Conflict if one is secret and the other public, because pins would become visible or hidden.
        """
        if id_ == into:
            raise BadRequest("a board cannot be merged into itself; name another", id=str(id_))
        (board,) = await self.reconciler.read([id_])
        if board is not None and board.deleted and (board.owner, board.merged_into) == (actor, into):
            return (await self._finish(id_)).mark
        return (
            await self._rewrite(actor, id_, lambda merged, version: _emptied(merged, into, version), into=into)
        ).mark

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty boards of a removed owner. May be repeated. `listing`: the list that is being removed."""
        if (listing.graph, listing.direction) != (self._boards, Direction.OUT):
            return
        for id_ in ids:

            async def empty(id_: int = id_) -> tuple[Put, None]:
                (record,) = await self._records.get_many(RecordKind.BOARD, [id_])
                board = None if record is None else read_board(record)
                if record is None or board is None or board.deleted or board.owner != listing.node:
                    return NOTHING_TO_DO, None
                emptied, version = _emptied(board), next_version(self.graph.clock, record)
                await self._prepare(board, emptied, version)
                unchanged = AtVersion(RecordKind.BOARD, id_, record.updated_at)
                return await self._records.put([board_record(emptied, version)], only_if=[unchanged]), None

            await rewrite("a board of this account", id_, empty)

    # --- reading ---------------------------------------------------------------------------------------

    async def get(self, viewer: Viewer, id_: int) -> Board:
        """One board; BoardNotFound if `viewer` must not see it."""
        (board,) = await self.visible(viewer, [id_])
        if board is None:
            raise missing(id_)
        return board

    async def owned(self, actor: NodeId, id_: int) -> Board:
        """One board of `actor`. Errors: BoardNotFound; Forbidden for a board of somebody else."""
        board = await self.get(actor, id_)
        if board.owner != actor:
            raise not_owner(id_)
        return board

    async def is_member(self, viewer: Viewer, id_: int) -> bool:
        """Whether `viewer` is a collaborator of the board; see `collaborators`."""
        return isinstance(viewer, int) and await self.graph.exists(self.members, NodeId(viewer), NodeId(id_))

    async def visible(self, viewer: Viewer, ids: Sequence[int], *, deleted_too: bool = False) -> list[Board | None]:
        """The board of each id, or None if `viewer` must not see it.

        `deleted_too`: treat deleted boards as if they were not. Costs one batch of records and one of the graph.
        """
        boards, questions = await self.reconciler.read(ids), Questions()
        if deleted_too:
            boards = [None if board is None else msgspec.structs.replace(board, deleted=False) for board in boards]
        visible = self.ask_visible(questions, viewer, boards)
        return visible(await self.store.answer(questions))

    def ask_visible(
        self, questions: Questions, viewer: Viewer, boards: Sequence[Board | None]
    ) -> Callable[[Answers], list[Board | None]]:
        """Ask which of these boards `viewer` may see. The answer has None for the others."""
        existing = [board for board in boards if board is not None and not board.deleted]
        standings = self.privacy.ask_standings(questions, viewer, [board.owner for board in existing])
        foreign_ids = [board.id for board in existing if board.owner != viewer]
        member_rows = questions.states(
            [(self.members, viewer, id_) for id_ in foreign_ids] if isinstance(viewer, int) else []
        )

        def visible(answers: Answers) -> list[Board | None]:
            states = zip(foreign_ids, answers.states[member_rows], strict=False)
            joined = {id_ for id_, state in states if state == State.NORMAL}
            return visible_boards(boards, viewer, standings(answers), joined)

        return visible

    async def of_owner(self, viewer: Viewer, owner: NodeId, window: Window) -> tuple[list[Board], Page]:
        """The boards of `owner` that `viewer` may see, newest first, and their page, as if there were no others.

        A deactivated owner has none.
        """
        lists = [Listing(self._boards, owner, Direction.OUT, state) for state in LISTED]
        if viewer in (SYSTEM, owner) and (await self.store.nodes([owner]))[0].state is not State.NORMAL:
            del lists[1:]  # public boards are archived with the account; secret ones are not, so skip their list
        return await self.listed(viewer, lists, window)

    async def listed(self, viewer: Viewer, lists: Sequence[Listing], window: Window) -> tuple[list[Board], Page]:
        """The boards in some lists that `viewer` may see, newest first, and their page."""
        visible_by_id: dict[int, Board] = {}

        async def are_shown(marks: Sequence[Mark]) -> list[bool]:
            boards = await self.visible(viewer, [mark.id for mark in marks])
            visible_by_id.update((board.id, board) for board in boards if board is not None)
            return [board is not None for board in boards]

        first = window.limit + 1
        pages = [
            await walk(self.store, listing, window, are_shown, entries_max=BOARDS_SCANNED_MAX, first=first)
            for listing in lists
        ]
        page = pages[0] if len(pages) == 1 else merge_pages(pages, window)
        return [visible_by_id[mark.id] for mark in page.items], page

    # --- how -------------------------------------------------------------------------------------------

    async def _already_given(self, actor: NodeId, id_: int, to: NodeId) -> Board | None:
        """The board if it is unchanged since `actor` gave it to `to`, whom they may see, so that a move is repeated."""
        (record,) = await self._records.get_many(RecordKind.BOARD, [id_])
        if record is None or record.updated_at != (board := read_board(record)).owned_since:
            return None
        was_given = (board.owner, *board.past_owners[:1]) == (to, actor)
        return board if was_given and await self.privacy.are_visible(actor, [to]) == [True] else None

    async def _check_may_take(self, board: Board, actor: NodeId, to: NodeId) -> None:
        """The errors of `move` that concern the new owner."""
        (node,) = await self.store.nodes([to])
        if node.state != State.NORMAL or node.labels & HIDE:
            raise _cannot_give_error(Outcome.INACTIVE, to)
        if any(await self.privacy.blocked_either_way(actor, [to])):
            raise _cannot_give_error(Outcome.FORBIDDEN, to)
        if not await self.is_member(to, board.id):
            raise Forbidden("only a collaborator can take a board; invite them first", id=str(to))
        counts = await self.store.count_many([Listing(self._boards, to, Direction.OUT, state) for state in LISTED])
        if sum(counts) >= BOARDS_MAX:
            raise _too_many_boards()
        followers = Listing(self.reconciler.explicit, board.id, Direction.IN)
        for direction in Direction:
            barred = await read_whole_list(self.store, Listing(self.reconciler.blocks, to, direction))
            if len(barred) and (await self.store.contains(followers, barred)).any():
                raise Forbidden(
                    "some who follow this board and its new owner block each other; it cannot be theirs with these "
                    "followers. Make it secret first, or merge what they should have",
                    id=str(to),
                )

    def _listing(self, board: Board, version: Hlc) -> EdgeWrite:
        """The write of the edge that lists a board with a new owner. Equal arguments give an equal edge."""
        return EdgeWrite(
            self._edge_of(board, version),
            if_active=board.listed_as == State.NORMAL,
            limit=EdgeLimit(BOARDS_MAX, states=LISTED),
        )

    async def _rewrite(
        self, actor: NodeId, id_: int, change: Callable[[Board, Hlc], Board], into: int | None = None
    ) -> BoardWritten:
        """Replace a board by `change(board, new version)`; retry if another write came between.

        `into`: the board that it is merged into. It is written too, unchanged but with a new version, so that a
        concurrent change of it, or a merge the other way, must retry.
        """

        async def replace() -> tuple[Put, Board]:
            (record, board), *target = await self._read_owned(actor, [id_] if into is None else [id_, into])
            await check_active(self.store, actor)
            if any(board.secret != target_board.secret for _, target_board in target):
                raise Conflict("one of these boards is secret; make both secret, or neither, first", id=str(id_))
            version = next_version(self.graph.clock, record)
            new = change(board, version)
            await self._prepare(board, new, version)
            edges = [EdgeWrite(self._edge_of(new, version))]
            if new.owner != board.owner:
                old_edge = Edge(
                    self._boards, NodeId(board.owner), NodeId(id_), State.REMOVED, board.created_at, version
                )
                edges.append(EdgeWrite(old_edge))
                if self._records.transactional:  # without, the record is written before an edge can be refused
                    barring = self.privacy.blocks_between(board.owner, [new.owner])
                    edges[0] = msgspec.structs.replace(self._listing(new, version), unless=barring)
            target_records = [
                msgspec.structs.replace(old, updated_at=next_version(self.graph.clock, old)) for old, _ in target
            ]
            changed = board_record(new, version)
            changed = changed if new.deleted else with_newer_fields(changed, record)
            unchanged = [
                AtVersion(RecordKind.BOARD, row.id, row.updated_at) for row in (record, *(row for row, _ in target))
            ]
            put = await self._records.put([*target_records, changed], edges, only_if=unchanged)
            if put.refusal is not None:
                raise _cannot_give_error(put.refusal, new.owner)
            return put, new

        put, new = await rewrite("this board", id_, replace)
        if await is_removed(self.store, NodeId(new.owner)):
            # the job that removes the owner empties only boards whose edge it finds, and this edge ended with the write
            await self.erase(Listing(self._boards, new.owner, Direction.OUT), [id_])
        mark, _ = await self._finish(id_)
        return BoardWritten(new, self.graph.later_mark(put.mark, mark))

    async def _read_owned(self, actor: NodeId, ids: Sequence[int]) -> list[tuple[Record, Board]]:
        """Boards of `actor`, with their records. Errors: BoardNotFound; Forbidden for boards of others."""
        records, questions = await self._records.get_many(RecordKind.BOARD, ids), Questions()
        stored = [None if record is None else read_board(record) for record in records]
        boards = self.ask_visible(questions, actor, stored)(await self.store.answer(questions))
        rows = []
        for id_, record, board in zip(ids, records, boards, strict=True):
            if record is None or board is None:
                raise missing(id_)
            if board.owner != actor:
                raise not_owner(id_)
            rows.append((record, board))
        return rows

    def _edge_of(self, board: Board, version: Hlc) -> Edge:
        return Edge(self._boards, NodeId(board.owner), NodeId(board.id), board.listed_as, board.created_at, version)


def _emptied(board: Board, into: int = 0, version: int = 0) -> Board:
    """What remains of a board that was deleted, or merged into another."""
    return msgspec.structs.replace(board, name="", deleted=True, merged_into=into, merged_at=version)


def _too_many_boards() -> BoardLimitReached:
    return BoardLimitReached(f"a user may own {BOARDS_MAX} boards; delete or merge some first", max=BOARDS_MAX)


def _cannot_give_error(refusal: Outcome, to: int) -> KithError:
    """The error for a board that cannot be given to a user, because the edge was refused."""
    if refusal is Outcome.OVER_LIMIT:
        return _too_many_boards()
    if refusal is Outcome.FORBIDDEN:
        return Forbidden("one of you has blocked the other", id=str(to))
    return UserNotFound("there is no such account, or it is hidden from you", id=str(to))
