"""Follows that an app archives, negates or moves as raw edges, beside explicit follows and unfollows of boards."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from cast import ALICE, BOB, FakeClock
from coroutines import Run
from reference_leases import own_leases
from services import Services, settle_boards

from kith.graph.edge import EdgeWrite, State
from kith.graph.node_jobs import NodeOperation
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs


class Scene(NamedTuple):
    """Bob follows Alice, and unfollowed a board of hers."""

    run: Run
    kith: Services
    board: int

    def set_state(self, state: State) -> None:
        """Change the state of the follow at its position, and let the consumer of boards handle it."""
        self.kith.clock.ms += 5
        edge = self.kith.graph.edge_now(self.kith.reconciler.follows, BOB, ALICE, state)
        self.run(self.kith.edges.apply([EdgeWrite(edge, supersede=True, keep_place=True)]))
        self.settle()

    def move(self, position: int) -> None:
        """Move the follow to another position in its lists, and let the consumer of boards handle it."""
        edge = self.kith.graph.edge_now(self.kith.reconciler.follows, BOB, ALICE, State.NORMAL)
        self.run(self.kith.edges.apply([EdgeWrite(msgspec.structs.replace(edge, position=position), supersede=True)]))
        self.settle()

    def settle(self) -> None:
        self.kith.clock.ms += 5
        self.run(settle_boards(self.kith))

    def summary(self) -> tuple[int, str, tuple[int, ...]]:
        """Followers of the board, Bob's relation to it, and how many boards he follows and unfollowed explicitly."""
        following = self.kith.board_following
        count, checked, lengths = (
            self.run(asked)
            for asked in (
                following.follower_count(SYSTEM, self.board),
                following.check(BOB, [], [self.board]),
                following.interests(BOB),
            )
        )
        return count, checked.boards[0], lengths[1:3]


UNFOLLOWED, NO_RELATION = (0, "none", (0, 1)), (0, "none", (0, 0))


@pytest.fixture(params=[True, False], ids=["transactional", "lagging"])
def scene(run: Run, request: pytest.FixtureRequest) -> Scene:
    kith: Services = run(Services.in_memory(transactional=request.param, clock=FakeClock()))
    board = run(kith.boards.create(ALICE, "Recipes")).board.id
    run(kith.people.follow(BOB, ALICE))
    kith.clock.ms += 5
    run(kith.board_following.unfollow(BOB, board))
    made = Scene(run, kith, board)
    made.settle()
    assert made.summary() == UNFOLLOWED
    return made


def test_an_unfollow_is_archived_and_comes_back_with_the_follow_of_the_owner(scene: Scene) -> None:
    scene.set_state(State.ARCHIVED)
    assert scene.summary() == NO_RELATION
    scene.set_state(State.NORMAL)
    assert scene.summary() == UNFOLLOWED


def test_an_unfollow_ends_with_a_follow_that_is_negated(scene: Scene) -> None:
    scene.set_state(State.NEGATIVE)
    assert scene.summary() == NO_RELATION
    scene.set_state(State.NORMAL)
    assert scene.summary() == (1, "implicit", (0, 0))


def test_a_board_can_be_followed_explicitly_while_the_follow_of_the_owner_is_archived(scene: Scene) -> None:
    scene.set_state(State.ARCHIVED)
    scene.run(scene.kith.board_following.follow(BOB, scene.board))
    scene.settle()
    assert scene.summary() == (1, "explicit", (1, 0))


def test_an_archived_unfollow_is_restored_with_its_user(scene: Scene) -> None:
    jobs = account_jobs(scene.kith.graph, own_leases())

    async def run_job(operation: NodeOperation) -> None:
        await jobs.start(operation, BOB)
        await jobs.wait()

    scene.set_state(State.ARCHIVED)
    for operation in (NodeOperation.ARCHIVE, NodeOperation.RESTORE):
        scene.run(run_job(operation))
        scene.settle()
    assert scene.summary() == UNFOLLOWED, "an account that comes back restores all its edges"


@pytest.mark.parametrize("later_ms", [-1_000_000, -1, 1_000_000], ids=["down", "up", "before all"])
def test_an_unfollow_outlives_a_move_of_the_follow_in_its_lists(scene: Scene, later_ms: int) -> None:
    scene.move(scene.kith.clock.ms + later_ms)
    assert scene.summary() == UNFOLLOWED
