"""Reconciles the followers of a board after a change of the board, and follows of boards after any event of the log.

A board that is deleted, hidden, moved or merged may have a million followers. A note announces the change before it is
written. Then the lists of the board are reconciled page by page, with a checkpoint after each. The request that makes
the change reconciles the first pages; the consumer of the log reconciles the rest, also after a process that stopped.

The consumer reconciles every follow, unfollow and block again once lists show it, and checks every pin. That repairs
what a stopped process left undone, what was written past the rules (imports, raw edges, restored accounts), and what
was added to a board after it had been emptied. All of it may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.boards.board import Board, given_away_version, read_board
from kith.boards.reconciler import PAGES_PER_REQUEST, FollowReconciler, ReconcileResult, first_version
from kith.core.clock import Hlc, ms_of
from kith.core.events import BULK_LOADED, NODE_CHANGED, Event
from kith.core.ids import NodeId
from kith.core.paging import Mark, Window
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.graph import write_mark_of
from kith.graph.graphs import AUTHORED, BOARD_MEMBERS, PINS
from kith.graph.shapes import Listing, Pair
from kith.graph.walk import read_whole_list
from kith.people.block_conflicts import drop_blocked
from kith.people.privacy import Privacy
from kith.posts.post import read_post
from kith.records.rewriting import newer_fields
from kith.records.store import RecordKind

NAME = "boards"
_PAGE = 500  # entries of a slice
_NOTE = "boards/"
_NOTE_GRACE_MS = 60_000
"""Age from which a note without its change is deleted: longer than a request takes from the note to the change."""


class ReconcileTask(msgspec.Struct, frozen=True, array_like=True):
    """A noted change of a board: the version that it makes, the owner before it, and how far it is reconciled.

    `away`: the change is one of the owner, who was deactivated or reactivated, or became private or public; the board
    itself did not change.
    """

    board: int
    version: int
    owner: int
    step: int = 0  # index of the list of the board that is reconciled next; see `BoardsConsumer._lists`
    after: Mark | None = None
    away: bool = False


class BoardsConsumer:
    """The consumer `boards`, and the steps that writers of boards call."""

    name = NAME

    def __init__(self, reconciler: FollowReconciler) -> None:
        self._reconciler, self._graph, self._store = reconciler, reconciler.graph, reconciler.store
        number = self._graph.graphs.number
        self._pins, self._members, self._authored = number(PINS), number(BOARD_MEMBERS), number(AUTHORED)
        self._privacy = Privacy(self._graph)

    # --- changes of boards -----------------------------------------------------------------------------

    async def note_change(self, before: Board, after: Board, version: Hlc) -> None:
        """Note that a board is about to change, if the change concerns followers."""
        if (before.owner, before.is_open, before.deleted) == (after.owner, after.is_open, after.deleted):
            return
        change = ReconcileTask(before.id, version, before.owner)
        await self._store.put_note(_key(change), _encode(change))

    async def finish(self, board: int, pages_max: int = PAGES_PER_REQUEST) -> ReconcileResult:
        """Reconcile the first pages of a board's noted changes.

        The latest change comes first, so that the request that made it finds it reconciled, even if another process
        repeats the work meanwhile.
        """
        mark, noted = NO_MARK, await self._store.notes(f"{_NOTE}{board}-")
        if not noted:
            return ReconcileResult(mark, True)
        for key, raw in sorted(noted.items(), key=lambda item: _decode(item[1]).version, reverse=True):
            rest: bytes | None = raw
            while rest is not None and pages_max:
                written, rest = await self._reconcile_page(key, rest)
                mark, pages_max = self._graph.later_mark(mark, written), pages_max - 1
        (record,) = await self._reconciler.records.get_many(RecordKind.BOARD, [board])
        changed = 0 if record is None else record.updated_at
        notes_left = (await self._store.notes(f"{_NOTE}{board}-")).values()
        return ReconcileResult(mark, all(_decode(raw).version > changed for raw in notes_left))

    async def work_backlog(self) -> bool:
        """Reconcile a page of each noted change; true if more can be done now."""
        noted = await self._store.notes(_NOTE)
        for item in noted.items():
            await self._reconcile_page(*item)
        return bool(noted) and await self._store.notes(_NOTE) not in ({}, noted)

    async def _reconcile_page(self, key: str, raw: bytes) -> tuple[WriteMark, bytes | None]:
        """Reconcile a page of a change and save a checkpoint; returns the mark, and the rest of the change or None.

        Does nothing until the change itself is written. A note whose change never came is deleted.
        """
        change = _decode(raw)
        (record,) = await self._reconciler.records.get_many(RecordKind.BOARD, [change.board])
        if record is None or record.updated_at < change.version:
            if ms_of(self._graph.clock.next()) >= ms_of(change.version) + _NOTE_GRACE_MS:
                await self._store.put_note(key, None, only_if=raw)
            return NO_MARK, None
        board, lists = read_board(record), self._lists(change)
        if change.step == len(lists):
            await self._store.put_note(key, None, only_if=raw)
            return NO_MARK, None
        mark = NO_MARK if change.step or change.after else await self._correct_lists(board, change)
        step, after, has_entries = change.step, change.after, False
        while step < len(lists) and not has_entries:  # skip empty lists, as most are: each checkpoint is a write
            listing = lists[step]
            page = await self._store.page(listing, Window(_PAGE, after=after))
            mark, has_entries = (
                self._graph.later_mark(mark, await self._reconcile_entries(board, listing, page.items)),
                bool(page.items),
            )
            step, after = (step, page.oldest) if page.more_after else (step + 1, None)
        further = msgspec.structs.replace(change, step=step, after=after)
        rest = None if step == len(lists) else newer_fields(_encode(further), raw)
        await self._store.put_note(key, rest, only_if=raw)
        return mark, rest

    def _lists(self, change: ReconcileTask) -> list[Listing]:
        """The lists of a board that a change may concern, in the order in which they are reconciled."""
        board, into, follows = change.board, Direction.IN, (self._reconciler.explicit, self._reconciler.unfollowed)
        states = (State.NORMAL, State.ARCHIVED)
        followers = [Listing(graph, board, into, state) for state in states for graph in follows]
        if change.away:
            return followers
        members = [Listing(self._members, board, into, state) for state in states]
        return [*followers, Listing(self._pins, board, Direction.OUT), *members]

    async def _correct_lists(self, board: Board, change: ReconcileTask) -> WriteMark:
        """Correct the lists of the old and the new owner's boards, so that they show the board as its record says. A
        new owner is no collaborator any more.
        """
        boards = self._reconciler.boards
        owners = dict.fromkeys((board.owner, change.owner))
        rows = await self._store.get_many(boards, [(owner, board.id) for owner in owners])
        writes = []
        for owner, row in zip(owners, rows, strict=True):
            state = board.listed_as if owner == board.owner else State.REMOVED
            stored = State.REMOVED if row is None else row.state
            if stored not in (state, State.ARCHIVED) or (stored == State.ARCHIVED and state == State.REMOVED):
                edge = self._graph.edge_now(boards, NodeId(owner), NodeId(board.id), state)
                writes.append(EdgeWrite(msgspec.structs.replace(edge, position=board.created_at), supersede=True))
        if board.owner != change.owner:
            writes.append(self._graph.remove_write(self._members, NodeId(board.owner), NodeId(board.id)))
        return write_mark_of(await self._store.apply(writes)) if writes else NO_MARK

    async def _reconcile_entries(self, board: Board, listing: Listing, marks: Sequence[Mark]) -> WriteMark:
        if not marks:
            return NO_MARK
        if listing.graph in (self._reconciler.explicit, self._reconciler.unfollowed):
            return await self._reconciler.reconcile([(mark.id, board) for mark in marks])
        if board.deleted:
            return await self._remove_entries(board, listing, marks)
        return await self._drop_blocked_members(board, marks) if listing.graph == self._members else NO_MARK

    async def _drop_blocked_members(self, board: Board, marks: Sequence[Mark]) -> WriteMark:
        """Drop members of a board between whom and its owner, who may be new, there is a block."""
        ids = [NodeId(mark.id) for mark in marks]
        blocked = await self._privacy.blocked_either_way(NodeId(board.owner), ids)
        writes = [
            self._graph.remove_write(self._members, id_, NodeId(board.id))
            for id_, is_blocked in zip(ids, blocked, strict=True)
            if is_blocked
        ]
        return write_mark_of(await self._store.apply(writes)) if writes else NO_MARK

    async def _remove_entries(self, board: Board, listing: Listing, marks: Sequence[Mark]) -> WriteMark:
        """Drop pins and members of a deleted board. If it was merged, its pins are first added to the other board.

        That takes a call of its own, because the writes of one call may be applied in any order, or only in part.
        """
        out = listing.direction is Direction.OUT
        ends = [(board.id, mark.id) if out else (mark.id, board.id) for mark in marks]
        edges = [
            edge
            for edge in await self._store.get_many(listing.graph, ends)
            if edge is not None and edge.state == listing.state
        ]
        if board.merged_into and out and edges:
            ends = [(board.merged_into, edge.destination) for edge in edges]
            there = await self._store.get_many(self._pins, ends)
            await self._store.apply([_pin_of_target(*pins, board) for pins in zip(edges, there, strict=True)])
        return write_mark_of(await self._store.apply([EdgeWrite(_ended(edge)) for edge in edges])) if edges else NO_MARK

    # --- changes in the log ----------------------------------------------------------------------------

    async def handle(self, events: Sequence[Event]) -> None:
        """Reconcile what the events concern. They may be repeated, and may come in any order."""
        reconciler, relations = self._reconciler, dict[tuple[NodeId, NodeId], None]()
        blocks, pins = list[Event](), list[Pair]()
        for event in events:
            source, destination = NodeId(event.source), NodeId(event.destination)
            if event.state == BULK_LOADED:
                await self.rebuild()
            elif event.state == NODE_CHANGED:
                await self._note_boards_of(source)
            elif event.state > State.REMOVED:
                continue
            elif event.graph == reconciler.follows:
                relations[source, destination] = None
            elif event.graph == reconciler.blocks and _is_block_made(event):
                relations[source, destination] = relations[destination, source] = None
                blocks.append(event)
            elif event.graph == self._pins:
                if event.state == State.NORMAL:
                    pins.append((source, destination))
            else:
                await self._handle(event, source, destination)
        await drop_blocked(self._graph, [(NodeId(event.source), NodeId(event.destination)) for event in blocks])
        for event in blocks:
            await self._remove_member(event, event.source, event.destination)
            await self._remove_member(event, event.destination, event.source)
        for user, owner in await reconciler.pairs_to_reconcile(list(relations)):
            await reconciler.on_change(user, owner, ended=False)
        listings = [event for event in events if event.graph == reconciler.boards and event.state <= State.REMOVED]
        await self._note_relisted(listings)
        if pins:
            await self._check_pins(pins)

    async def _remove_member(self, block: Event, member: int, owner: int) -> None:
        """End the collaborations of `member` on boards that `owner` had at the time of a block between the two.

        An invitation that is newer than the block stays. A membership is archived while the member is deactivated.
        """
        states = (State.NORMAL, State.ARCHIVED)
        lists = [Listing(self._members, member, Direction.OUT, state) for state in states]
        ids = [id_ for listing in lists for id_ in (await read_whole_list(self._store, listing)).tolist()]
        for start in range(0, len(ids), _PAGE):
            boards = await self._reconciler.read(ids[start : start + _PAGE])
            pairs = [
                (member, board.id)
                for board in boards
                if board is not None
                and (board.owner == owner or given_away_version(board, owner) > block.updated_at)  # given away since
            ]
            edges = await self._store.get_many(self._members, pairs) if pairs else []
            writes = [
                EdgeWrite(msgspec.structs.replace(_ended(edge), updated_at=Hlc(max(edge.updated_at, block.updated_at))))
                for edge in edges
                if edge is not None and edge.state in states and first_version(edge) < block.updated_at
            ]
            if writes:
                await self._store.apply(writes)

    async def _handle(self, event: Event, source: NodeId, destination: NodeId) -> None:
        """Reconcile what an event of an explicit follow, an unfollow, an implicit follow or an author's post
        concerns.
        """
        reconciler = self._reconciler
        if event.graph in (reconciler.explicit, reconciler.unfollowed):
            await self._reconcile_one(source, destination)
        elif event.graph == reconciler.implicit and event.before == State.ARCHIVED:
            await reconciler.update_implicit_follows([(source, destination)])
        elif event.graph == self._authored and event.state == State.REMOVED:
            await self._unpin(destination)

    async def rebuild(self) -> None:
        """After a bulk load, or after events were lost: reconcile all follows and unfollows, unpin all deleted
        posts.
        """
        for graph in (self._reconciler.explicit, self._reconciler.unfollowed):
            async for chunk in self._store.stored(graph):
                edges = [edge for edge in chunk if edge.state in (State.NORMAL, State.ARCHIVED)]
                boards = await self._reconciler.read([edge.destination for edge in edges])
                pairs = [(edge.source, board) for edge, board in zip(edges, boards, strict=True) if board is not None]
                await self._reconciler.reconcile(pairs)
        async for chunk in self._store.stored(self._authored):
            for edge in chunk:
                if edge.state == State.REMOVED:
                    await self._unpin(edge.destination)

    async def _reconcile_one(self, user: int, id_: int) -> None:
        (board,) = await self._reconciler.read([id_])
        if board is not None:
            await self._reconciler.reconcile([(user, board)])

    async def _note_board(self, id_: int, *, away: bool = False) -> None:
        """Note a board to be reconciled again, because its owners' lists may not have shown its change the first time.

        `away`: see `ReconcileTask`.
        """
        (record,) = await self._reconciler.records.get_many(RecordKind.BOARD, [id_])
        if record is not None:
            change = ReconcileTask(id_, record.updated_at, read_board(record).owner, away=away)
            await self._store.put_note(_key(change), _encode(change))

    async def _note_boards_of(self, owner: int) -> None:
        """Note those boards of an owner that have explicit followers, after a change such as to a private account."""
        ids: list[int] = (
            await read_whole_list(self._store, Listing(self._reconciler.boards, owner, Direction.OUT))
        ).tolist()
        await self._note_with_edges(ids, self._reconciler.explicit)

    async def _note_relisted(self, events: Sequence[Event]) -> None:
        """Note boards to be reconciled whose edges from their owners changed.

        These are the boards of owners who were deactivated or reactivated, if anybody follows or unfollowed them; and
        all of the boards if lists may lag.
        """
        moved = [event.destination for event in events if State.ARCHIVED in (event.state, event.before)]
        await self._note_with_edges(list(dict.fromkeys(moved)), self._reconciler.explicit, self._reconciler.unfollowed)
        if not self._store.transactional:
            for event in events:
                await self._note_board(event.destination)

    async def _note_with_edges(self, boards: Sequence[int], *graphs: int) -> None:
        """Note those of these boards that have any edge in one of these graphs. Most boards have none."""
        kinds = [(graph, state) for graph in graphs for state in (State.NORMAL, State.ARCHIVED)]
        for start in range(0, len(boards), _PAGE):
            chunk = boards[start : start + _PAGE]
            counts = await self._store.count_many(
                [Listing(graph, id_, Direction.IN, state) for id_ in chunk for graph, state in kinds]
            )
            for index, id_ in enumerate(chunk):
                if any(counts[index * len(kinds) : (index + 1) * len(kinds)]):
                    await self._note_board(id_, away=True)

    async def _unpin(self, post: int) -> None:
        """Remove a deleted post from every board."""
        listing, window = Listing(self._pins, post, Direction.IN), Window(_PAGE)
        while True:
            page = await self._store.page(listing, window)
            await self._drop_pins([(mark.id, post) for mark in page.items])
            if not page.more_after:
                break
            window = Window(_PAGE, after=page.oldest)

    async def _check_pins(self, pins: Sequence[Pair]) -> None:
        """Unpin posts that were deleted before they were pinned, and note boards that were deleted before the pin."""
        for board in await self._reconciler.read(list({board for board, _ in pins})):
            if board is not None and board.deleted:
                await self._note_board(board.id)
        posts = await self._reconciler.records.get_many(RecordKind.POST, list({post for _, post in pins}))
        deleted = {record.id for record in posts if record is not None and read_post(record).deleted}
        await self._drop_pins([pin for pin in pins if pin[1] in deleted])

    async def _drop_pins(self, pins: Sequence[Pair]) -> None:
        if not pins:
            return
        edges = await self._store.get_many(self._pins, pins)
        writes = [EdgeWrite(_ended(edge)) for edge in edges if edge is not None and edge.state == State.NORMAL]
        if writes:
            await self._store.apply(writes)


def _is_block_made(event: Event) -> bool:
    """Whether a block was made, or restored. One that is made while either account is deactivated is archived."""
    return event.state == State.NORMAL or (event.state == State.ARCHIVED and event.before != State.NORMAL)


def _ended(edge: Edge) -> Edge:
    return msgspec.structs.replace(edge, state=State.REMOVED)


def _pin_of_target(edge: Edge, there: Edge | None, board: Board) -> EdgeWrite:
    """The pin on the board that this one was merged into. `there`: the pin of the post there. Of two the later one
    stays; one that was taken off before the merge returns.
    """
    was_taken_off = there is not None and there.state == State.REMOVED
    version = Hlc(max(edge.updated_at, board.merged_at)) if was_taken_off else edge.updated_at
    return EdgeWrite(msgspec.structs.replace(edge, source=NodeId(board.merged_into), updated_at=version))


def _key(change: ReconcileTask) -> str:
    return f"{_NOTE}{change.board}-{change.version:x}" + ("-away" if change.away else "")


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ReconcileTask).decode
