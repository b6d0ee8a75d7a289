"""Several hosts at the same moment: whatever the order of their steps, the hard rules hold in the end.

The store gives way to other tasks at random around every operation, from a seed, and hosts have skewed clocks.
It comes in two kinds: one where each call is a transaction, and one where each write is atomic by itself only,
and what its conditions ask of other edges may be out of date when it is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import permutations
from typing import Any
from unittest.mock import patch

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import answer, run_all
from edges import marks_of
from interleaving import Hosts, finished, for_all_seeds, hosts
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from services import service_over

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import FollowLimitReached, RequesterLimitReached, UserNotFound
from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.graph import nodes as nodes_module
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, State
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.nodes import NodeOperation
from kith.graph.shapes import Listing
from kith.people.going_public import GoingPublic
from kith.people.removal import account_jobs

either_store = pytest.mark.parametrize("transactional", [True, False], ids=["transactions", "no-transactions"])
NORMAL, NEGATIVE, ARCHIVED, REMOVED = State


# --- blocks --------------------------------------------------------------------------------------------


@either_store
def test_no_follow_outlives_a_block(transactional: bool) -> None:
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
def test_no_accepted_follow_outlives_a_block(transactional: bool) -> None:
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
def test_no_request_outlives_a_block(transactional: bool) -> None:
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


async def asks_dana(seed: int, transactional: bool) -> Hosts:
    """Dana is private, and Alice asks to follow her."""
    world = await hosts(seed, transactional)
    await world.store.change_node(DANA, private=True)
    await world.any().people.follow(ALICE, DANA)
    return world


@either_store
def test_a_request_that_was_taken_back_is_not_accepted(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await asks_dana(seed, transactional)
        await world.together(
            [world.any().people.accept(DANA, ALICE), world.any().people.unfollow(ALICE, DANA)]
        )  # in either order she does not follow
        return world.state(FOLLOWS, ALICE, DANA) == REMOVED == world.state(FOLLOW_REQUESTS, ALICE, DANA)

    for_all_seeds(check)


@either_store
def test_a_request_that_was_taken_back_is_not_accepted_as_the_account_opens(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await asks_dana(seed, transactional)

        async def open_account() -> None:
            await world.store.change_node(DANA, private=False)
            await GoingPublic(world.any(), world.any().people, own_leases()).returned(DANA)

        await world.together([open_account(), world.any().people.unfollow(ALICE, DANA)])
        return world.state(FOLLOWS, ALICE, DANA) == REMOVED

    for_all_seeds(check)


@either_store
def test_who_was_accepted_meanwhile_does_not_ask_again(transactional: bool) -> None:
    async def check(seed: int) -> bool:
        world = await asks_dana(seed, transactional)
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
def test_the_last_of_archive_and_restore_holds(transactional: bool) -> None:
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

    with patch.object(nodes_module, "_PAGE", 2):
        for_all_seeds(check)


@pytest.mark.parametrize("operation", [NodeOperation.ARCHIVE, NodeOperation.RESTORE])
@either_store
def test_who_is_removed_stays_removed(transactional: bool, operation: NodeOperation) -> None:
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
def test_an_edge_stays_archived_while_its_other_end_is(transactional: bool) -> None:
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
def test_whom_one_mutes_is_never_followed_without_the_mute(who: NodeId) -> None:
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


# --- what a write answers ------------------------------------------------------------------------------


def test_who_follows_an_account_that_went_public_no_longer_asks() -> None:
    async def asked() -> tuple[Any, list[Any]]:
        service = (await hosts(0)).services[0]
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=False)
        await service.people.follow(ALICE, DANA)
        (row,) = await service.people.relationships(ALICE, [DANA])
        requests = Listing(service.graphs.number(FOLLOW_REQUESTS), DANA, Direction.IN)
        return row, await marks_of(service.store, requests)

    row, requests = run_all(asked())
    assert row.following
    assert not row.requested
    assert requests == []


def test_a_request_that_cannot_be_accepted_yet_still_waits() -> None:
    async def asked() -> tuple[Any, bool]:
        service = await service_over(ReferenceEdges(), FakeClock(), follows_max=1)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.people.follow(ALICE, BOB)
        refused = await answer(service.people.accept(DANA, ALICE))
        (row,) = await service.people.relationships(ALICE, [DANA])
        return refused, row.requested

    assert run_all(asked()) == (RequesterLimitReached, True)


def test_a_follow_that_is_refused_leaves_the_request_that_was_there() -> None:
    async def asked() -> tuple[Any, bool]:
        service = await service_over(ReferenceEdges(), FakeClock(), follows_max=1)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=False)
        await service.people.follow(ALICE, BOB)
        refused = await answer(service.people.follow(ALICE, DANA))
        (row,) = await service.people.relationships(ALICE, [DANA])
        return refused, row.requested

    assert run_all(asked()) == (FollowLimitReached, True)


class Leaving(ReferenceEdges):
    """Whoever is followed first is deactivated when all was looked up, right before the follow is written."""

    left = False

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        if not self.left:
            self.left = True
            await self.change_node(writes[0].edge.destination, state=ARCHIVED)
        return await super().apply(writes)


def test_a_follow_refused_because_the_account_just_left_does_not_come_back_with_it() -> None:
    async def after_all() -> tuple[Any, bool]:
        store = Leaving()
        service = await service_over(store, FakeClock())
        refused = await answer(service.people.follow(ALICE, BOB))
        await finished(account_jobs(service, own_leases()), NodeOperation.RESTORE, BOB)
        return refused, (await service.people.relationships(ALICE, [BOB]))[0].following

    assert run_all(after_all()) == (UserNotFound, False)


@pytest.mark.parametrize("verb", ["block", "accept"])
def test_the_mark_of_a_write_covers_all_that_it_wrote(verb: str) -> None:
    """With the token in hand the next read, on any instance, shows every part of the write."""

    async def marks() -> tuple[LogPosition, LogPosition]:
        world = await hosts(0)
        service = world.services[0]
        await service.people.follow(ALICE, DANA)
        await service.store.change_node(DANA, private=True)
        await service.people.follow(BOB, DANA)
        written = await (service.people.block(DANA, ALICE) if verb == "block" else service.people.accept(DANA, BOB))
        return written.mark.at, world.store.inner.events.end

    mark, end = run_all(marks())
    assert mark == end


def test_a_write_wins_over_what_a_host_with_a_fast_clock_stored() -> None:
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

    run_all(check())


def test_the_same_write_by_two_hosts_changes_something_once() -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
        follows = await world.together([service.people.follow(ALICE, BOB) for service in world.services])
        unfollows = await world.together([service.people.unfollow(ALICE, BOB) for service in world.services])
        changes = [sum(written.changed for written in answers) for answers in (follows, unfollows)]
        return changes == [1, 1]

    for_all_seeds(check)
