"""Limits and blocks hold for concurrent requests that all check before any of them writes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from reference_leases import own_leases
from services import Services

from kith.boards import boards, collaborators
from kith.boards.board import read_board
from kith.core.errors import BoardLimitReached, Forbidden, UserNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import State
from kith.graph.node_jobs import NodeOperation
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs
from kith.records.store import Record, RecordKind

FIRST = Window(10)


@pytest.fixture
def kith(run: Run) -> Services:
    made: Services = run(Services.in_memory(clock=FakeClock()))
    return made


def run_concurrently(
    monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, run: Run, *calls: Coroutine[Any, Any, Any]
) -> Any:
    """Let all calls reach `method` before any of them continues; return their answers."""
    real, all_of_them, left = getattr(owner, method), asyncio.Barrier(len(calls)), [len(calls)]

    async def wait(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            await all_of_them.wait()
        return await real(*args, **options)

    async def at_once() -> list[Any]:
        return list(await asyncio.gather(*calls, return_exceptions=True))

    monkeypatch.setattr(owner, method, wait)
    answers = run(at_once())
    monkeypatch.setattr(owner, method, real)
    return answers


def refused(answers: list[Any]) -> list[type]:
    """The errors among answers."""
    return [type(answer) for answer in answers if isinstance(answer, Exception)]


def boards_of(run: Run, kith: Services, owner: NodeId) -> list[str]:
    shown, _ = run(kith.boards.of_owner(owner, owner, FIRST))
    return [board.name for board in shown]


def test_the_last_place_for_a_board_is_taken_once(run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "BOARDS_MAX", 2)
    run(kith.boards.create(ALICE, "Secrets", secret=True))
    creating = (kith.boards.create(ALICE, "Soups"), kith.boards.create(ALICE, "Cakes", secret=True))
    answers = run_concurrently(monkeypatch, kith.boards._records, "put", run, *creating)
    assert refused(answers) == [BoardLimitReached]
    assert len(boards_of(run, kith, ALICE)) == 2


@pytest.mark.parametrize("secret", [True, False])
def test_only_one_of_two_boards_moves_into_the_last_place(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch, secret: bool
) -> None:
    monkeypatch.setattr(boards, "BOARDS_MAX", 1)
    moves = []
    for owner in (ALICE, CAROL):
        board = run(kith.boards.create(owner, "Recipes", secret=secret)).board
        run(kith.collaborators.invite(owner, board.id, BOB))
        moves.append(kith.boards.move(owner, board.id, BOB))
    answers = run_concurrently(monkeypatch, kith.boards, "_read_owned", run, *moves)
    assert refused(answers) == [BoardLimitReached]
    assert sorted(len(boards_of(run, kith, user)) for user in (ALICE, BOB, CAROL)) == [0, 1, 1]


@pytest.mark.parametrize("who", [(ALICE, BOB), (BOB, ALICE)])
def test_a_block_meanwhile_stops_the_move_of_a_board(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch, who: tuple[NodeId, NodeId]
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    run_before_the_write(kith, monkeypatch, kith.people.block(*who))
    with pytest.raises(Forbidden):
        run(kith.boards.move(ALICE, board.id, BOB))
    assert run(kith.boards.get(SYSTEM, board.id)).owner == ALICE


def test_a_board_cannot_move_to_a_user_deactivated_meanwhile(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    run_before_the_write(kith, monkeypatch, kith.graph.store.change_node(BOB, state=State.ARCHIVED))
    with pytest.raises(UserNotFound):
        run(kith.boards.move(ALICE, board.id, BOB))
    assert run(kith.boards.get(SYSTEM, board.id)).owner == ALICE


def test_a_board_moved_to_a_user_removed_meanwhile_is_removed_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kith: Services = run(Services.in_memory(transactional=False, clock=FakeClock()))
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    jobs = account_jobs(kith.graph, own_leases())

    async def remove() -> None:
        await jobs.start(NodeOperation.REMOVE, BOB)
        await jobs.wait()

    run_before_the_write(kith, monkeypatch, remove())
    run(kith.boards.move(ALICE, board.id, BOB))
    (record,) = run(kith.records.get_many(RecordKind.BOARD, [board.id]))
    assert read_board(record).deleted


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("secret", [True, False])
def test_a_removed_account_keeps_no_board_that_was_changed_meanwhile(
    run: Run, monkeypatch: pytest.MonkeyPatch, transactional: bool, secret: bool
) -> None:
    kith: Services = run(Services.in_memory(transactional=transactional, clock=FakeClock()))
    board = run(kith.boards.create(ALICE, "Recipes", secret=secret)).board
    jobs, put = account_jobs(kith.graph, own_leases(), kith.boards.erase), kith.records.put

    async def overtaken(*written: Any, **named: Any) -> Any:
        monkeypatch.setattr(kith.records, "put", put)
        await kith.graph.store.change_node(ALICE, state=State.REMOVED)  # the first step of the job
        return await put(*written, **named)

    async def scene() -> None:
        await kith.boards.change(ALICE, board.id, name="Secrets")
        await jobs.start(NodeOperation.REMOVE, ALICE)
        await jobs.wait()

    monkeypatch.setattr(kith.records, "put", overtaken)
    run(scene())
    (record,) = run(kith.records.get_many(RecordKind.BOARD, [board.id]))
    assert read_board(record).name == ""


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("secret", [True, False])
def test_a_board_is_not_created_for_an_account_removed_meanwhile(
    run: Run, monkeypatch: pytest.MonkeyPatch, transactional: bool, secret: bool
) -> None:
    kith: Services = run(Services.in_memory(transactional=transactional, clock=FakeClock()))
    jobs, put, boards_put = account_jobs(kith.graph, own_leases(), kith.boards.erase), kith.records.put, list[int]()

    async def overtaken(records: list[Record], *written: Any, **named: Any) -> Any:
        monkeypatch.setattr(kith.records, "put", put)
        boards_put.append(records[0].id)
        await jobs.start(NodeOperation.REMOVE, ALICE)
        await jobs.wait()
        return await put(records, *written, **named)

    monkeypatch.setattr(kith.records, "put", overtaken)
    with pytest.raises(Forbidden):
        run(kith.boards.create(ALICE, "Recipes", secret=secret))
    (record,) = run(kith.records.get_many(RecordKind.BOARD, boards_put))
    assert record is None or read_board(record).name == ""


def test_a_deactivated_owner_invites_nobody(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.graph.store.change_node(ALICE, state=State.ARCHIVED))
    with pytest.raises(Forbidden):
        run(kith.collaborators.invite(ALICE, board.id, BOB))
    assert not run(kith.boards.is_member(BOB, board.id))


def test_a_member_who_leaves_while_deactivated_stays_out_after_return(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes", secret=True)).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    jobs = account_jobs(kith.graph, own_leases())

    async def change(operation: NodeOperation) -> None:
        await jobs.start(operation, BOB)
        await jobs.wait()

    run(change(NodeOperation.ARCHIVE))
    run(kith.collaborators.dismiss(BOB, board.id, BOB))
    run(change(NodeOperation.RESTORE))
    assert not run(kith.boards.is_member(BOB, board.id))


def run_before_the_write(kith: Services, monkeypatch: pytest.MonkeyPatch, meanwhile: Coroutine[Any, Any, Any]) -> None:
    """Run `meanwhile` between the checks of a board change and its write."""
    real = kith.boards._read_owned

    async def read(actor: NodeId, ids: list[int]) -> Any:
        found = await real(actor, ids)
        monkeypatch.setattr(kith.boards, "_read_owned", real)
        await meanwhile
        return found

    monkeypatch.setattr(kith.boards, "_read_owned", read)


def test_the_last_invitation_is_given_once(run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collaborators, "MEMBERS_MAX", 2)
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.collaborators.invite(ALICE, board.id, BOB))
    inviting = [kith.collaborators.invite(ALICE, board.id, member) for member in (CAROL, DANA)]
    assert refused(run_concurrently(monkeypatch, kith.graph, "write", run, *inviting)) == [BoardLimitReached]
    assert len(run(kith.collaborators.of(ALICE, board.id, FIRST)).items) == 2
