"""Bulk operations on accounts, stopped at any write; and edges to accounts that are deactivated meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import answer, run_coroutine, without_waits
from interleaving import finished, hosts
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from scrambled_edges import ScrambledEdges
from services import service_over

from kith.core.errors import Forbidden, KithError, UserNotFound
from kith.graph import node_jobs
from kith.graph.edge import EdgeChange, EdgeWrite, State
from kith.graph.graphs import BLOCKS, FOLLOWS, MUTES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import NodeChange
from kith.people.removal import account_jobs

NORMAL, NEGATIVE, ARCHIVED, REMOVED = State


class Killed(KithError):
    """The process is gone. Not a subclass of `Unavailable`, because a job waits for a store that is unavailable."""


class Failing(ReferenceEdges):
    """A store that fails from its n-th write on, like that of a killed process."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left = 10**9

    def _spend(self) -> None:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise Killed("stopped here")

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        self._spend()
        return await super().apply(writes)

    async def put_note(self, key: str, value: bytes | None, **condition: Any) -> bool:
        self._spend()
        return await super().put_note(key, value, **condition)

    async def change_node(self, node: int, **changes: Any) -> NodeChange:
        self._spend()
        return await super().change_node(node, **changes)


@pytest.mark.parametrize("operation", NodeOperation)
def test_a_job_stopped_anywhere_resumes_to_the_same_edges(operation: NodeOperation) -> None:
    async def states(stop_after: int) -> tuple[bool, Any]:
        store = Failing()
        service = await service_over(store, FakeClock())
        for pair in (*product((ALICE,), range(10, 15)), *product(range(20, 24), (ALICE,))):
            await service.people.follow(*pair)  # type: ignore[arg-type]
        if operation is NodeOperation.RESTORE:
            await finished(account_jobs(service, own_leases()), NodeOperation.ARCHIVE)
        store.writes_left = stop_after
        stopped = await answer(finished(account_jobs(service, own_leases()), operation)) is Killed
        store.writes_left = 10**9
        second = account_jobs(service, own_leases())
        await second.resume()
        await second.wait()
        left = {key: (row.state, row.position) for key, row in store.rows.items()}
        return stopped, (await store.nodes([ALICE]), left)

    with patch.object(node_jobs, "_PAGE", 2):
        _, whole = run_coroutine(states(10**6))
        _, untouched = run_coroutine(states(1))  # the job is stored, but has not changed the node: it has not begun
        assert whole != untouched
        for stop_after in range(2, 200):
            stopped, left = run_coroutine(states(stop_after))
            assert left == whole, f"stopped after {stop_after} writes"
            if not stopped:
                return
    raise AssertionError("the job never ends")


def test_a_bulk_operation_reaches_edges_that_the_lists_do_not_show_yet() -> None:
    """Without transactions lists lag by up to 2 s. A job must wait that long before it relies on them."""

    async def left(store: ScrambledEdges) -> set[State]:
        service = await service_over(store, FakeClock())
        await service.people.follow(ALICE, BOB)
        await service.people.follow(CAROL, ALICE)
        await finished(account_jobs(service, own_leases()), NodeOperation.ARCHIVE)
        return {row.state for row in store.rows.values()}

    for seed in range(5):
        store = ScrambledEdges(seed, late_max=10**6)
        with without_waits():
            assert run_coroutine(left(store)) == {ARCHIVED}


def test_an_edge_added_to_a_deactivated_node_is_stored_in_its_state() -> None:
    """As `nodes` and `store.Node` promise: nothing shows while the node is inactive, and everything afterwards."""

    async def states() -> list[State]:
        world = await hosts(0)
        await world.operate(NodeOperation.ARCHIVE, DANA)
        await world.any().people.mute(ALICE, DANA)
        archived = world.state(MUTES, ALICE, DANA)
        await world.operate(NodeOperation.RESTORE, DANA)
        return [archived, world.state(MUTES, ALICE, DANA)]

    assert run_coroutine(states()) == [ARCHIVED, NORMAL]


@pytest.mark.parametrize("away", [ALICE, DANA])
@pytest.mark.parametrize("before", [True, False])
def test_a_block_holds_while_either_account_is_inactive_and_after_its_return(before: bool, away: int) -> None:
    async def barred() -> list[Any]:
        world = await hosts(0)
        service = world.services[0]
        await service.people.follow(DANA, ALICE)
        if before:
            await service.people.block(ALICE, DANA)
        await world.operate(NodeOperation.ARCHIVE, away)
        if not before:
            await service.people.block(ALICE, DANA)
        found = [await answer(service.privacy.check_may_see(DANA, ALICE))]
        await world.operate(NodeOperation.RESTORE, away)
        found += [
            await answer(service.privacy.check_may_see(DANA, ALICE)),
            await answer(service.people.follow(DANA, ALICE)),
        ]
        return [*found, world.state(BLOCKS, ALICE, DANA), world.state(FOLLOWS, DANA, ALICE)]

    gone = UserNotFound if away == ALICE else Forbidden
    assert run_coroutine(barred()) == [gone, Forbidden, Forbidden, NORMAL, REMOVED]


@pytest.mark.parametrize("verb", ["block", "mute"])
def test_repeating_a_block_or_mute_of_an_inactive_account_changes_nothing(verb: str) -> None:
    async def changes() -> list[bool]:
        world = await hosts(0)
        await world.operate(NodeOperation.ARCHIVE, DANA)
        return [(await getattr(service.people, verb)(ALICE, DANA)).changed for service in world.services]

    assert run_coroutine(changes()) == [True, False, False]
