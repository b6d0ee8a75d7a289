"""Repeated requests, as after a lost answer, get the same answer; concurrent merges of boards lose no pin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from reference_leases import own_leases
from services import Services, settle_boards
from store_wrappers import ProcessDied

from kith.boards import boards, collaborators
from kith.core.errors import BoardNotFound, Conflict, Forbidden, KithError
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import EdgeChange, EdgeWrite
from kith.graph.graphs import BOARD_MEMBERS
from kith.graph.node_jobs import NodeOperation
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs

NOBODYS_BOARD = 999


@pytest.fixture(params=[True, False])
def kith(run: Run, request: pytest.FixtureRequest) -> Services:
    made: Services = run(Services.in_memory(transactional=request.param, clock=FakeClock()))
    return made


def test_creating_a_board_and_inviting_can_be_repeated_when_they_took_the_last_place(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "BOARDS_MAX", 1)
    monkeypatch.setattr(collaborators, "MEMBERS_MAX", 1)
    board = run(kith.boards.create(ALICE, "Recipes", key="mine")).board
    run(settle_boards(kith))
    assert run(kith.boards.create(ALICE, "Recipes", key="mine")).board == board
    for _ in range(2):
        run(kith.collaborators.invite(ALICE, board.id, BOB))
        run(settle_boards(kith))
    for refused in (kith.boards.create(ALICE, "Soups", key="other"), kith.collaborators.invite(ALICE, board.id, CAROL)):
        with pytest.raises(KithError, match=r"at most|1 boards"):
            run(refused)


def test_a_repeated_key_answers_the_board_as_it_is_by_then(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", key="mine")).board
    run(kith.boards.change(ALICE, board.id, name="Soups"))
    run(settle_boards(kith))
    assert run(kith.boards.create(ALICE, "Recipes", key="mine")).board.name == "Soups"
    run(kith.boards.delete(ALICE, board.id))
    run(settle_boards(kith))
    with pytest.raises(BoardNotFound):
        run(kith.boards.create(ALICE, "Recipes", key="mine"))
    assert run(kith.boards.visible(ALICE, [board.id])) == [None]


def test_leaving_a_secret_board_can_be_repeated(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    for id_ in (board.id, board.id, NOBODYS_BOARD):
        run(kith.collaborators.dismiss(BOB, id_, BOB))
    assert run(kith.boards.visible(BOB, [board.id])) == [None]
    with pytest.raises(BoardNotFound):
        run(kith.collaborators.dismiss(BOB, board.id, CAROL))


def test_merging_boards_can_be_repeated(run: Run, kith: Services) -> None:
    board, into = (run(kith.boards.create(ALICE, name)).board for name in ("Recipes", "Soups"))
    for _ in range(2):
        run(kith.boards.merge(ALICE, board.id, into.id))
    for actor, target in ((BOB, into.id), (ALICE, NOBODYS_BOARD)):
        with pytest.raises(BoardNotFound):
            run(kith.boards.merge(actor, board.id, target))


def test_moving_a_board_can_be_repeated_until_its_new_owner_changes_it(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    run(settle_boards(kith))
    given = run(kith.boards.move(ALICE, board.id, BOB)).board
    assert run(kith.boards.move(ALICE, board.id, BOB)).board == given
    for actor in (BOB, CAROL):
        with pytest.raises(KithError):
            run(kith.boards.move(actor, board.id, BOB))
    run(kith.people.block(BOB, ALICE))
    with pytest.raises(BoardNotFound):
        run(kith.boards.move(ALICE, board.id, BOB))
    run(kith.people.unblock(BOB, ALICE))
    assert run(kith.boards.move(ALICE, board.id, BOB)).board == given
    run(kith.boards.change(BOB, board.id, name="What Alice may not know"))
    with pytest.raises(BoardNotFound):
        run(kith.boards.move(ALICE, board.id, BOB))


def overlap(kith: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next two board changes overlap: both read the boards before either writes."""
    real, both = kith.boards._read_owned, asyncio.Barrier(2)
    left = [2]

    async def read(actor: NodeId, ids: list[int]) -> object:
        found = await real(actor, ids)
        if left[0]:
            left[0] -= 1
            await both.wait()
        return found

    monkeypatch.setattr(kith.boards, "_read_owned", read)


def test_of_two_boards_that_are_merged_crosswise_one_is_left_with_all_pins(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (run(kith.boards.create(ALICE, name)).board.id for name in ("Recipes", "Soups"))
    for board in (one, other):
        run(kith.pins.add(ALICE, board, run(kith.write(ALICE)).id))
    overlap(kith, monkeypatch)

    async def crosswise() -> list[object]:
        merging = (kith.boards.merge(ALICE, one, other), kith.boards.merge(ALICE, other, one))
        return list(await asyncio.gather(*merging, return_exceptions=True))

    assert sum(isinstance(answer, BoardNotFound) for answer in run(crosswise())) == 1
    run(settle_boards(kith))
    (left,) = (board.id for board in run(kith.boards.visible(ALICE, [one, other])) if board is not None)
    assert run(kith.pins.counts([left])) == [2]


@pytest.mark.parametrize(("change", "error"), [("delete", BoardNotFound), ("open", Conflict)])
def test_a_board_is_not_merged_into_one_that_is_deleted_or_made_public_meanwhile(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch, change: str, error: type[KithError]
) -> None:
    one, other = (run(kith.boards.create(ALICE, name, secret=True)).board.id for name in ("Recipes", "Soups"))
    real = kith.boards._read_owned

    async def read(actor: NodeId, ids: list[int]) -> object:
        found = await real(actor, ids)
        monkeypatch.setattr(kith.boards, "_read_owned", real)
        await (
            kith.boards.delete(ALICE, other) if change == "delete" else kith.boards.change(ALICE, other, secret=False)
        )
        return found

    monkeypatch.setattr(kith.boards, "_read_owned", read)
    with pytest.raises(error):
        run(kith.boards.merge(ALICE, one, other))
    run(settle_boards(kith))
    assert run(kith.boards.visible(ALICE, [one])) != [None]


def test_a_block_ends_memberships_on_each_others_boards(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board.id
    theirs = run(kith.boards.create(BOB, "Soups", secret=True)).board.id
    kept = run(kith.boards.create(CAROL, "Cakes", secret=True)).board.id
    for owner, id_, member in ((ALICE, board, BOB), (BOB, theirs, ALICE), (CAROL, kept, BOB)):
        run(kith.collaborators.invite(owner, id_, member))
    run(settle_boards(kith))
    run(kith.people.block(ALICE, BOB))
    run(kith.people.unblock(ALICE, BOB))
    run(settle_boards(kith))
    assert run(kith.boards.visible(BOB, [board, kept])) == [None, run(kith.boards.get(SYSTEM, kept))]
    assert run(kith.boards.visible(ALICE, [theirs])) == [None]
    with pytest.raises((BoardNotFound, Forbidden)):
        run(kith.pins.add(BOB, board, run(kith.write(BOB)).id))
    run(kith.collaborators.invite(ALICE, board, BOB))
    run(settle_boards(kith))
    assert run(kith.boards.visible(BOB, [board])) != [None], "an invitation after the block stands"


@pytest.mark.parametrize("unblocked", ["while deactivated", "after the return"])
def test_a_block_of_a_deactivated_member_ends_the_membership(run: Run, kith: Services, unblocked: str) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board.id
    run(kith.collaborators.invite(ALICE, board, BOB))
    jobs = account_jobs(kith.graph, own_leases())

    async def run_job(operation: NodeOperation) -> None:
        await jobs.start(operation, BOB)
        await jobs.wait()
        await settle_boards(kith)

    run(run_job(NodeOperation.ARCHIVE))
    run(kith.people.block(ALICE, BOB))
    run(settle_boards(kith))
    if unblocked == "while deactivated":
        run(kith.people.unblock(ALICE, BOB))
    run(run_job(NodeOperation.RESTORE))
    run(kith.people.unblock(ALICE, BOB))
    run(settle_boards(kith))
    assert run(kith.boards.visible(BOB, [board])) == [None]


def test_a_new_owner_is_no_collaborator_though_the_move_stops_half_way(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board.id
    run(kith.collaborators.invite(ALICE, board, BOB))
    run(settle_boards(kith))

    apply, members = kith.edges.apply, kith.graph.graphs.number(BOARD_MEMBERS)

    async def stops_before_members(writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        if members in {write.edge.graph for write in writes}:
            raise ProcessDied
        return await apply(writes)

    with monkeypatch.context() as stopping:
        stopping.setattr(kith.edges, "apply", stops_before_members)
        with pytest.raises(ProcessDied):
            run(kith.boards.move(ALICE, board, BOB))
    assert run(kith.boards.move(ALICE, board, BOB)).board.owner == BOB
    run(settle_boards(kith))
    assert run(kith.collaborators.of(BOB, board, Window(5))).items == []


@pytest.mark.parametrize("blocker", [BOB, CAROL])
def test_a_move_ends_the_membership_of_a_user_whom_the_new_owner_blocks(
    run: Run, kith: Services, blocker: NodeId
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board.id
    blocked = CAROL if blocker == BOB else BOB
    run(kith.people.block(blocker, blocked))
    for member in (BOB, CAROL, DANA):
        run(kith.collaborators.invite(ALICE, board, member))
    run(settle_boards(kith))
    run(kith.boards.move(ALICE, board, BOB))
    run(settle_boards(kith))
    run(kith.people.unblock(blocker, blocked))
    assert run(kith.boards.visible(CAROL, [board])) == [None]
    assert [mark.id for mark in run(kith.collaborators.of(BOB, board, Window(5))).items] == [DANA]
