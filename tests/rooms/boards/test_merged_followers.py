"""Followers of a board that was merged into another follow the other for good, whatever it was before."""

from __future__ import annotations

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from reference_leases import own_leases
from services import Services, settle_boards

from kith.boards.collaborators import Collaborators
from kith.core.ids import NodeId
from kith.graph.node_jobs import NodeOperation
from kith.people.removal import account_jobs


@pytest.mark.parametrize("away", [ALICE, BOB])
@pytest.mark.parametrize("target", ["was secret", "was the follower's", "is of an owner once followed"])
def test_a_follow_that_came_with_a_merged_board_returns_with_its_accounts(run: Run, away: NodeId, target: str) -> None:
    """Bob followed the merged board before the other one became what it is now."""
    kith: Services = run(Services.in_memory(clock=FakeClock()))
    jobs, collaborators = account_jobs(kith.graph, own_leases()), Collaborators(kith.boards)

    async def create(owner: NodeId, name: str) -> int:
        kith.clock.ms += 5
        return (await kith.boards.create(owner, name)).board.id

    async def give(owner: NodeId, board: int, to: NodeId) -> None:
        kith.clock.ms += 5
        await collaborators.invite(owner, board, to)
        await kith.boards.move(owner, board, to)

    async def scene() -> list[str]:
        soups = await create(CAROL if target == "is of an owner once followed" else ALICE, "Soups")
        await kith.board_following.follow(BOB, soups)
        stews = await create(BOB if target == "was the follower's" else ALICE, "Stews")
        kith.clock.ms += 5
        match target:
            case "was secret":
                await kith.boards.change(ALICE, stews, secret=True)
                await kith.boards.change(ALICE, stews, secret=False)
            case "was the follower's":
                await give(BOB, stews, ALICE)
            case _:
                await kith.people.follow(BOB, ALICE)
                await kith.people.unfollow(BOB, ALICE)
                await give(CAROL, soups, ALICE)
        kith.clock.ms += 5
        await kith.boards.merge(ALICE, soups, stews)
        kinds = list[str]()
        for operation in (None, NodeOperation.ARCHIVE, NodeOperation.RESTORE):
            kith.clock.ms += 5
            if operation is not None:
                await jobs.start(operation, away)
                await jobs.wait()
            await settle_boards(kith)
            kinds += (await kith.board_following.check(BOB, [], [stews])).boards
        return kinds

    assert run(scene()) == ["explicit", "none", "explicit"]
