"""Several hosts at the same moment: whatever the order of their steps, the hard rules hold in the end.

The store gives way to other tasks at random around every operation, from a seed, and hosts have skewed clocks.
It comes in two kinds: one where each call is a transaction, and one where each write is atomic by itself only,
and what its conditions ask of other edges may be out of date when it is stored.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from itertools import permutations, product
from types import coroutine
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import answer, run_all, time_flies
from edges import marks_of
from reference_edges import ReferenceEdges, ScrambledEdges
from reference_leases import own_leases
from services import service_over

from kith.core.clock import Hlc, HybridClock
from kith.core.errors import FollowLimitReached, Forbidden, KithError, RequesterLimitReached, UserNotFound
from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.graph import nodes as nodes_module
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.nodes import NodeJobs, NodeOperation
from kith.graph.shapes import Listing, NodeChanged
from kith.people.removal import account_jobs

SEEDS = range(300)
either_store = pytest.mark.parametrize("transactional", [True, False], ids=["transactions", "no-transactions"])
SKEWS_MS = (0, -7_000, 30_000)
_MOMENTS = {"operate": 100}  # about how often one such step gives way; 8 where not named
Step = Coroutine[Any, Any, Any]
NORMAL, NEGATIVE, ARCHIVED, REMOVED = State


class Yielding:
    """An EdgeStore that lets others run before and after each of its operations, a random number of times.

    At one moment, chosen by the seed, whoever is about to go on stands still until the others are done.
    """

    def __init__(self, chance: random.Random, transactional: bool) -> None:
        self.inner, self._chance, self.transactional = ReferenceEdges(), chance, transactional
        self._moment, self._stands_still_at = 0, -1

    def begin(self, moments: int) -> None:
        """From here on somebody stands still, once, within so many moments."""
        self._stands_still_at = self._moment + self._chance.randrange(moments)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        operation = getattr(self.inner, name)

        async def yielding(*args: Any, **named: Any) -> Any:
            await self._give_way()
            answered = await operation(*args, **named)
            await self._give_way()
            return answered

        return yielding

    async def apply(self, writes: Sequence[EdgeWrite]) -> list[EdgeChange]:
        changes: list[EdgeChange] = []
        await self._give_way()
        for write in writes:
            asked_before = write
            if not self.transactional:
                asked_before = msgspec.structs.replace(write, unless=write.unless if self.inner._barred(write) else ())
                await self._give_way()
            changes += await self.inner.apply([asked_before])
        await self._give_way()
        return changes

    async def _give_way(self) -> None:
        self._moment += 1
        if self._moment == self._stands_still_at:
            seen = 0
            while seen != self._moment:
                seen = self._moment
                await _let_run(12)
        await _let_run(self._chance.choice((0, 0, 1, 2, 4, 9)))


@coroutine
def _let_run(turns: int) -> Generator[None, None, None]:
    """Let every other task run, so many times; each as `asyncio.sleep(0)`, without its cost."""
    for _ in range(turns):
        yield


class Hosts:
    """Three services with clocks of their own over one store."""

    def __init__(self, seed: int, transactional: bool) -> None:
        self.chance = random.Random(seed)
        self.store = Yielding(self.chance, transactional)
        self.services: list[Graph] = []

    async def start(self) -> Hosts:
        for skew_ms in SKEWS_MS:
            self.services.append(await service_over(self.store, FakeClock(START_MS + skew_ms)))  # type: ignore[arg-type]
        return self

    def any(self) -> Graph:
        """The host that a request happens to meet."""
        return self.chance.choice(self.services)

    async def together(self, steps: Sequence[Step]) -> list[Any]:
        """What each of the steps answers, each begun at some moment while the others are under way."""
        moments = sum(_MOMENTS.get(step.__name__, 8) for step in steps)
        self.store.begin(moments)

        async def begun(step: Step) -> Any:
            await _let_run(self.chance.randrange(moments))
            return await answer(step)

        return await asyncio.gather(*map(begun, steps))

    async def operate(self, operation: NodeOperation, user: int) -> None:
        jobs = account_jobs(self.any(), own_leases())
        await jobs.start(operation, user)  # type: ignore[arg-type]
        await jobs.wait()

    def state(self, graph: str, a: int, b: int) -> State:
        row = self.store.inner.rows.get((self.services[0].graphs.number(graph), a, b))
        return REMOVED if row is None else row.state


async def hosts(seed: int, transactional: bool = True) -> Hosts:
    return await Hosts(seed, transactional).start()


def for_all_seeds(check: Callable[[int], Step]) -> None:
    """Run `check` for every seed; a failure names its seed."""
    with time_flies():
        failed = [seed for seed in SEEDS if not run_all(check(seed))]
    assert not failed, f"{len(failed)} of {len(SEEDS)} interleavings, the first with seed {failed[0]}"


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


# --- nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [NodeOperation.ARCHIVE, NodeOperation.REMOVE])
def test_no_follow_made_meanwhile_escapes_a_bulk_operation(operation: NodeOperation) -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
        await world.any().people.follow(ALICE, DANA)
        follows = [world.any().people.follow(*pair) for pair in ((ALICE, BOB), (BOB, ALICE), (CAROL, ALICE))]
        await world.together([*follows, world.operate(operation, ALICE)])
        return not any(row.state == NORMAL for row in world.store.inner.rows.values())

    for_all_seeds(check)


def test_the_last_of_archive_and_restore_holds() -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
        for other in (BOB, CAROL, DANA):
            await world.any().people.follow(ALICE, other)
        await world.together([world.operate(operation, ALICE) for operation in (NodeOperation.ARCHIVE,) * 2])
        archive, restore = NodeOperation.ARCHIVE, NodeOperation.RESTORE
        await world.together([world.operate(operation, ALICE) for operation in (restore, archive, restore)])
        ((node,), states) = await world.store.nodes([ALICE]), {row.state for row in world.store.inner.rows.values()}
        return states == {node.state}

    with patch.object(nodes_module, "_PAGE", 2):
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


def test_an_edge_stays_archived_while_its_other_end_is() -> None:
    async def check(seed: int) -> bool:
        world = await hosts(seed)
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


class Killed(KithError):
    """The process is gone. Not `Unavailable`: a job waits for a store that may come back."""


class Failing(ReferenceEdges):
    """Fails from its n-th write on, as a store does whose process is killed."""

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

    async def change_node(self, node: int, **changes: Any) -> NodeChanged:
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
            await _finished(account_jobs(service, own_leases()), NodeOperation.ARCHIVE)
        store.writes_left = stop_after
        stopped = await answer(_finished(account_jobs(service, own_leases()), operation)) is Killed
        store.writes_left = 10**9
        second = account_jobs(service, own_leases())
        await second.resume()
        await second.wait()
        left = {key: (row.state, row.position) for key, row in store.rows.items()}
        return stopped, (await store.nodes([ALICE]), left)

    with patch.object(nodes_module, "_PAGE", 2):
        _, whole = run_all(states(10**6))
        _, untouched = run_all(states(1))  # journaled, but the node not yet set: not begun
        assert whole != untouched
        for stop_after in range(2, 200):
            stopped, left = run_all(states(stop_after))
            assert left == whole, f"stopped after {stop_after} writes"
            if not stopped:
                return
    raise AssertionError("the job never ends")


async def _finished(jobs: NodeJobs, operation: NodeOperation, user: NodeId = ALICE) -> None:
    await jobs.start(operation, user)
    await jobs.wait()


def test_a_bulk_operation_reaches_edges_that_the_lists_do_not_show_yet() -> None:
    """Without transactions lists lag by up to 2 s: a job must let that pass before it trusts them."""

    async def left(store: ScrambledEdges) -> set[State]:
        service = await service_over(store, FakeClock())
        await service.people.follow(ALICE, BOB)
        await service.people.follow(CAROL, ALICE)
        await _finished(account_jobs(service, own_leases()), NodeOperation.ARCHIVE)
        return {row.state for row in store.rows.values()}

    for seed in range(5):
        store = ScrambledEdges(seed, late_max=10**6)
        with time_flies(store):
            assert run_all(left(store)) == {ARCHIVED}


def test_an_edge_added_to_a_deactivated_node_is_stored_in_its_state() -> None:
    """As `nodes` and `store.Node` promise; so nothing shows while the node is away, and all of it afterwards."""

    async def states() -> list[State]:
        world = await hosts(0)
        await world.operate(NodeOperation.ARCHIVE, DANA)
        await world.any().people.mute(ALICE, DANA)
        archived = world.state(MUTES, ALICE, DANA)
        await world.operate(NodeOperation.RESTORE, DANA)
        return [archived, world.state(MUTES, ALICE, DANA)]

    assert run_all(states()) == [ARCHIVED, NORMAL]


@pytest.mark.parametrize("away", [ALICE, DANA])
@pytest.mark.parametrize("before", [True, False])
def test_a_block_holds_while_either_end_is_away_and_when_it_comes_back(before: bool, away: int) -> None:
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
    assert run_all(barred()) == [gone, Forbidden, Forbidden, NORMAL, REMOVED]


@pytest.mark.parametrize("verb", ["block", "mute"])
def test_doing_it_again_to_an_account_that_is_away_changes_nothing(verb: str) -> None:
    async def changes() -> list[bool]:
        world = await hosts(0)
        await world.operate(NodeOperation.ARCHIVE, DANA)
        return [(await getattr(service.people, verb)(ALICE, DANA)).changed for service in world.services]

    assert run_all(changes()) == [True, False, False]


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
        await _finished(account_jobs(service, own_leases()), NodeOperation.RESTORE, BOB)
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
