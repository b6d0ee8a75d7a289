"""Several hosts act at the same moment: in any order of their steps, the hard rules hold in the end.

Around every operation the store yields to other tasks at random, from a seed. Hosts have skewed clocks. There are two
kinds of store: in one each call is a transaction. In the other only each write is atomic, and its conditions on other
edges may be out of date when it is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import permutations
from typing import Any
from unittest.mock import patch

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import answer, run_coroutine
from edges import marks_of
from interleaving import Hosts, finished, for_all_seeds, hosts
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from services import service_over

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import FollowLimitReached, RequesterLimitReached, UserNotFound
from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.graph import node_jobs
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, State
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.privacy_switch import PrivacySwitch
from kith.people.removal import account_jobs

either_store = pytest.mark.parametrize("transactional", [True, False], ids=["transactions", "no-transactions"])
NORMAL, NEGATIVE, ARCHIVED, REMOVED = State


# --- blocks --------------------------------------------------------------------------------------------


@either_store
def test_no_follow_survives_a_block(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        if seed % 2:
            await world.any().people.follow(ALICE, BOB)
        await world.together(
            [world.any().people.follow(*pair) for pair in ((ALICE, BOB), (BOB, ALICE), (ALICE, BOB))]
            + [world.any().people.unfollow(ALICE, BOB), world.any().people.block(BOB, ALICE)]
        )
        followed = [world.state(FOLLOWS, *pair) == NORMAL for pair in permutations((ALICE, BOB))]
        return world.state(BLOCKS, BOB, ALICE) == NORMAL and not any(followed)

    for_all_seeds(check)


@either_store
def test_no_accepted_follow_survives_a_block(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.store.change_node(BOB, private=True)
        await world.any().people.follow(ALICE, BOB)
        await world.together(
            [
                world.any().people.accept(BOB, ALICE),
                world.any().people.accept(BOB, ALICE),
                world.any().people.block(ALICE, BOB),
            ]
        )
        return world.state(FOLLOWS, ALICE, BOB) != NORMAL

    for_all_seeds(check)


@either_store
def test_no_request_survives_a_block(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.store.change_node(BOB, private=True)
        await world.together([world.any().people.follow(ALICE, BOB), world.any().people.block(BOB, ALICE)])
        return world.state(FOLLOW_REQUESTS, ALICE, BOB) != NORMAL

    for_all_seeds(check)


@either_store
def test_no_follow_is_restored_over_a_block(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.any().people.follow(ALICE, BOB)
        await world.operate(NodeOperation.ARCHIVE, ALICE)
        await world.together([world.operate(NodeOperation.RESTORE, ALICE), world.any().people.block(BOB, ALICE)])
        return world.state(FOLLOWS, ALICE, BOB) != NORMAL

    for_all_seeds(check)


# --- requests ------------------------------------------------------------------------------------------


async def alice_requests_dana(seed: int, transactional: bool) -> Hosts:
    """Dana is private, and Alice has sent her a follow request."""
    world = await hosts(seed, transactional)
    await world.store.change_node(DANA, private=True)
    await world.any().people.follow(ALICE, DANA)
    return world


@either_store
def test_a_withdrawn_request_is_not_accepted(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await alice_requests_dana(seed, transactional)
        await world.together(
            [world.any().people.accept(DANA, ALICE), world.any().people.unfollow(ALICE, DANA)]
        )  # in either order she does not follow
        return world.state(FOLLOWS, ALICE, DANA) == REMOVED == world.state(FOLLOW_REQUESTS, ALICE, DANA)

    for_all_seeds(check)


@either_store
def test_a_withdrawn_request_is_not_accepted_when_the_account_becomes_public(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await alice_requests_dana(seed, transactional)

        async def open_account() -> None:
            await world.store.change_node(DANA, private=False)
            await PrivacySwitch(world.any(), world.any().people, own_leases()).account_restored(DANA)

        await world.together([open_account(), world.any().people.unfollow(ALICE, DANA)])
        return world.state(FOLLOWS, ALICE, DANA) == REMOVED

    for_all_seeds(check)


@either_store
def test_a_follower_accepted_meanwhile_leaves_no_new_request(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await alice_requests_dana(seed, transactional)
        await world.together([world.any().people.follow(ALICE, DANA), world.any().people.accept(DANA, ALICE)])
        return world.state(FOLLOWS, ALICE, DANA) == NORMAL and world.state(FOLLOW_REQUESTS, ALICE, DANA) == REMOVED

    for_all_seeds(check)


# --- nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [NodeOperation.ARCHIVE, NodeOperation.REMOVE])
@either_store
def test_no_follow_made_meanwhile_escapes_a_bulk_operation(transactional: bool, operation: NodeOperation) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.any().people.follow(ALICE, DANA)
        follows = [world.any().people.follow(*pair) for pair in ((ALICE, BOB), (BOB, ALICE), (CAROL, ALICE))]
        await world.together([*follows, world.operate(operation, ALICE)])
        return not any(row.state == NORMAL for row in world.store.inner.rows.values())

    for_all_seeds(check)


@either_store
def test_the_last_of_several_archives_and_restores_wins(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        for other in (BOB, CAROL, DANA):
            await world.any().people.follow(ALICE, other)
            await world.any().people.follow(other, ALICE)
        await world.together([world.operate(operation, ALICE) for operation in (NodeOperation.ARCHIVE,) * 2])
        archive, restore = NodeOperation.ARCHIVE, NodeOperation.RESTORE
        await world.together([world.operate(operation, ALICE) for operation in (restore, archive, restore)])
        ((node,), states) = await world.store.nodes([ALICE]), {row.state for row in world.store.inner.rows.values()}
        return states == {node.state}

    with patch.object(node_jobs, "_PAGE", 2):
        for_all_seeds(check)


@pytest.mark.parametrize("operation", [NodeOperation.ARCHIVE, NodeOperation.RESTORE])
@either_store
def test_a_removed_account_stays_removed(transactional: bool, operation: NodeOperation) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.any().people.follow(ALICE, BOB)
        if operation is NodeOperation.RESTORE:
            await world.operate(NodeOperation.ARCHIVE, ALICE)
        await world.together([world.operate(NodeOperation.REMOVE, ALICE), world.operate(operation, ALICE)])
        (node,) = await world.store.nodes([ALICE])
        return node.state == REMOVED == world.state(FOLLOWS, ALICE, BOB)

    for_all_seeds(check)


@either_store
def test_two_ends_restored_at_once_restore_their_edge(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        await world.any().people.follow(ALICE, BOB)
        await world.together([world.operate(NodeOperation.ARCHIVE, user) for user in (ALICE, BOB)])
        archived = world.state(FOLLOWS, ALICE, BOB) == ARCHIVED
        await world.together([world.operate(NodeOperation.RESTORE, user) for user in (ALICE, BOB)])
        return archived and world.state(FOLLOWS, ALICE, BOB) == NORMAL

    for_all_seeds(check)


@either_store
def test_an_edge_stays_archived_while_its_other_end_is_archived(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed, transactional)
        for pair in permutations((ALICE, BOB)):
            await world.any().people.follow(*pair)
            await world.any().people.mute(*pair)
        await world.operate(NodeOperation.ARCHIVE, ALICE)
        await world.together([world.operate(NodeOperation.RESTORE, ALICE), world.operate(NodeOperation.ARCHIVE, BOB)])
        return {row.state for row in world.store.inner.rows.values()} == {ARCHIVED}

    for_all_seeds(check)


@pytest.mark.parametrize("who", [ALICE, BOB], ids=["the-muter", "the-muted"])
def test_a_follow_is_never_restored_before_the_mute_of_the_same_pair(who: NodeId) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
        await world.any().people.follow(ALICE, BOB)
        await world.any().people.mute(ALICE, BOB)
        seen: list[tuple[bool, bool]] = []

        async def look() -> None:
            for _ in range(40):
                seen.append((world.state(FOLLOWS, ALICE, BOB) == NORMAL, world.state(MUTES, ALICE, BOB) == NORMAL))
                await asyncio.sleep(0)

        for operation in (NodeOperation.ARCHIVE, NodeOperation.RESTORE):
            await world.together([world.operate(operation, who), look()])
        await look()
        return (True, False) not in seen and seen[-1] == (True, True)

    for_all_seeds(check)


# --- answers of a write ------------------------------------------------------------------------------


def test_a_follow_of_an_account_that_became_public_removes_the_request() -> None:
    async def asked() -> tuple[Any, list[Any]]:
        service = (await hosts(0)).services[0]
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=False)
        await service.people.follow(ALICE, DANA)
        (row,) = await service.people.relationships(ALICE, [DANA])
        requests = Listing(service.graphs.number(FOLLOW_REQUESTS), DANA, Direction.IN)
        return row, await marks_of(service.store, requests)

    row, requests = run_coroutine(asked())
    assert row.following
    assert not row.requested
    assert requests == []


def test_a_request_that_cannot_be_accepted_yet_stays() -> None:
    async def asked() -> tuple[Any, bool]:
        service = await service_over(ReferenceEdges(), FakeClock(), follows_max=1)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.people.follow(ALICE, BOB)
        refused = await answer(service.people.accept(DANA, ALICE))
        (row,) = await service.people.relationships(ALICE, [DANA])
        return refused, row.requested

    assert run_coroutine(asked()) == (RequesterLimitReached, True)


def test_a_refused_follow_keeps_an_earlier_request() -> None:
    async def asked() -> tuple[Any, bool]:
        service = await service_over(ReferenceEdges(), FakeClock(), follows_max=1)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=False)
        await service.people.follow(ALICE, BOB)
        refused = await answer(service.people.follow(ALICE, DANA))
        (row,) = await service.people.relationships(ALICE, [DANA])
        return refused, row.requested

    assert run_coroutine(asked()) == (FollowLimitReached, True)


class Leaving(ReferenceEdges):
    """Deactivates the account that is followed first, after all look-ups and right before the follow is written."""

    left = False

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        if not self.left:
            self.left = True
            await self.change_node(writes[0].edge.destination, state=ARCHIVED)
        return await super().apply(writes)


def test_a_follow_refused_for_a_deactivated_account_does_not_appear_on_its_return() -> None:
    async def after_all() -> tuple[Any, bool]:
        store = Leaving()
        service = await service_over(store, FakeClock())
        refused = await answer(service.people.follow(ALICE, BOB))
        await finished(account_jobs(service, own_leases()), NodeOperation.RESTORE, BOB)
        return refused, (await service.people.relationships(ALICE, [BOB]))[0].following

    assert run_coroutine(after_all()) == (UserNotFound, False)


@pytest.mark.parametrize("verb", ["block", "accept"])
def test_the_mark_of_a_write_covers_everything_that_it_wrote(verb: str) -> None:
    """With this token the next read, on any instance, shows every part of the write."""

    async def marks() -> tuple[LogPosition, LogPosition]:
        world = await hosts(0)
        service = world.services[0]
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(BOB, DANA)
        written = await (service.people.block(DANA, ALICE) if verb == "block" else service.people.accept(DANA, BOB))
        return written.mark.at, world.store.inner.events.end

    mark, end = run_coroutine(marks())
    assert mark == end


def test_a_write_wins_over_a_stored_one_of_a_host_with_a_fast_clock() -> None:
    async def check() -> None:
        world = await hosts(0)
        graph = world.services[0].graphs.number(FOLLOWS)
        ahead = HybridClock(FakeClock(START_MS + 50_000)).next()
        await world.store.apply([EdgeWrite(Edge(graph, ALICE, BOB, NORMAL, 5, ahead))])
        written = await world.services[1].people.unfollow(ALICE, BOB)
        assert written.changed
        assert written.mark.updated_at == Hlc(ahead + 1)
        assert world.state(FOLLOWS, ALICE, BOB) == REMOVED
        again = await world.services[0].people.follow(ALICE, BOB)
        assert again.changed
        assert again.mark.updated_at > ahead + 1

    run_coroutine(check())


def test_the_same_write_by_two_hosts_reports_one_change() -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
        follows = await world.together([service.people.follow(ALICE, BOB) for service in world.services])
        unfollows = await world.together([service.people.unfollow(ALICE, BOB) for service in world.services])
        changes = [sum(written.changed for written in answers) for answers in (follows, unfollows)]
        return changes == [1, 1]

    for_all_seeds(check)
