"""The whole Graph against the rules of the product, told as plainly as a dict of pairs can tell them.

Random people do random things while clocks jump and hosts restart behind their own past. Engines: reference,
embedded, and one without transactions (rows right at once; lists and counts once all that is late arrived).
What several hosts do at the same moment is in `test_interleavings`.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cast import ALICE, BOB, DANA, FakeClock
from coroutines import answer, time_flies
from edges import all_pages, marks_of
from engines import open_embedded
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lengths import examples
from reference_edges import ReferenceEdges, ScrambledEdges
from reference_leases import own_leases
from services import GRAPHS, Social, service_over

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import FollowLimitReached, Forbidden, RequesterLimitReached, SelfEdge, UserNotFound
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.nodes import NodeOperation
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore
from kith.people.relations import Relationship, RelationWritten
from kith.people.removal import account_jobs

USERS = (ALICE, BOB, NodeId(0), DANA)
PAIRS = [*permutations(USERS, 2)]
NORMAL, NEGATIVE, ARCHIVED, REMOVED = State

ADDED = {"follow": FOLLOWS, "accept": FOLLOWS, "block": BLOCKS, "mute": MUTES}
Pair = tuple[int, int]


class Told(NamedTuple):
    """What a write answers."""

    holds: bool
    changed: bool
    requested: bool = False


class Rules:
    """The product without an engine: which edges there are, in which state, and where in their lists."""

    def __init__(self, follows_max: int) -> None:
        self.follows_max = follows_max
        self.edges: dict[str, dict[Pair, tuple[State, int]]] = {name: {} for name in GRAPHS}
        self.users = dict.fromkeys(USERS, NORMAL)
        self.private: set[int] = set()

    def live(self, graph: str, a: int, b: int) -> bool:
        return self.state(graph, a, b) == NORMAL

    def state(self, graph: str, a: int, b: int) -> State:
        return self.edges[graph].get((a, b), (REMOVED, 0))[0]

    def standing(self) -> list[tuple[str, Pair]]:
        return sorted((graph, pair) for graph, edges in self.edges.items() for pair in edges if self.live(graph, *pair))

    def add(self, graph: str, a: int, b: int, position: int) -> bool:
        if self.live(graph, a, b):
            return False
        self.edges[graph][a, b] = (NORMAL, position)
        return True

    def drop(self, graph: str, a: int, b: int) -> bool:
        if self.state(graph, a, b) == REMOVED:
            return False
        self.edges[graph][a, b] = (REMOVED, self.edges[graph][a, b][1])
        return True

    def blocked(self, a: int, b: int) -> bool:
        return self.bars(a, b) or self.bars(b, a)

    def bars(self, a: int, b: int) -> bool:
        """A block holds while either end is away, and until it is restored."""
        return self.state(BLOCKS, a, b) in (NORMAL, ARCHIVED)

    def refusal(self, a: int, b: int) -> type[Exception] | None:
        if self.users[a] != NORMAL:
            return Forbidden
        if self.users[b] != NORMAL:
            return UserNotFound
        return Forbidden if self.blocked(a, b) else None

    def full(self, graph: str, a: int, b: int) -> bool:
        standing = sum(pair[0] == a and state == NORMAL for pair, (state, _) in self.edges[graph].items())
        return not self.live(graph, a, b) and standing >= self.follows_max

    def _follow(self, a: int, b: int, position: int) -> Told | type[Exception]:
        if self.full(FOLLOWS, a, b):
            return FollowLimitReached
        changed = self.add(FOLLOWS, a, b, position)
        self.drop(FOLLOW_REQUESTS, a, b)  # who follows need not ask any more
        return Told(True, changed)

    def follow(self, a: int, b: int, position: int) -> Told | type[Exception]:
        if refused := self.refusal(a, b):
            return refused
        if b in self.private and not self.live(FOLLOWS, a, b):
            if self.full(FOLLOW_REQUESTS, a, b):
                return FollowLimitReached
            return Told(False, self.add(FOLLOW_REQUESTS, a, b, position), requested=True)
        return self._follow(a, b, position)

    def unfollow(self, a: int, b: int, _: int) -> Told:
        return Told(False, any([self.drop(FOLLOWS, a, b), self.drop(FOLLOW_REQUESTS, a, b)]))

    def remove_follower(self, a: int, b: int, _: int) -> Told:
        return self.unfollow(b, a, _)

    def accept(self, a: int, b: int, position: int) -> Told | type[Exception]:
        if not self.live(FOLLOW_REQUESTS, b, a):
            return Told(True, False) if self.live(FOLLOWS, b, a) else UserNotFound
        told = self.refusal(b, a) or self._follow(b, a, position)
        return RequesterLimitReached if told is FollowLimitReached else told

    def decline(self, a: int, b: int, _: int) -> Told:
        return Told(False, self.drop(FOLLOW_REQUESTS, b, a))

    def block(self, a: int, b: int, position: int) -> Told:
        changed = self.add(BLOCKS, a, b, position)
        for graph, pair in product((FOLLOWS, FOLLOW_REQUESTS), ((a, b), (b, a))):
            self.drop(graph, *pair)
        return Told(True, changed)

    def unblock(self, a: int, b: int, _: int) -> Told:
        return Told(False, self.drop(BLOCKS, a, b))

    def mute(self, a: int, b: int, position: int) -> Told:
        return Told(True, self.add(MUTES, a, b, position))

    def unmute(self, a: int, b: int, _: int) -> Told:
        return Told(False, self.drop(MUTES, a, b))

    def operate(self, operation: NodeOperation, user: int) -> int | type[Exception]:
        """Deactivate, reactivate or remove; how many edges that rewrites."""
        if self.users[user] == REMOVED and operation is not NodeOperation.REMOVE:
            return UserNotFound
        after = {NodeOperation.ARCHIVE: ARCHIVED, NodeOperation.RESTORE: NORMAL, NodeOperation.REMOVE: REMOVED}
        self.users[user] = after[operation]
        rewritten = 0
        for edges in self.edges.values():
            for (a, b), (state, position) in edges.items():
                touched = {
                    NodeOperation.ARCHIVE: state == NORMAL,
                    NodeOperation.RESTORE: state == ARCHIVED and self.users[a] == self.users[b] == NORMAL,
                    NodeOperation.REMOVE: state != REMOVED,
                }
                if user in (a, b) and touched[operation]:
                    edges[a, b] = (after[operation], position)
                    rewritten += 1
        return rewritten

    def relationship(self, a: int, b: int) -> Relationship:
        asked = [(FOLLOWS, a, b), (FOLLOWS, b, a), (FOLLOW_REQUESTS, a, b)]
        held = self.bars(a, b), self.bars(b, a), self.live(MUTES, a, b)
        return Relationship(NodeId(b), *(self.live(*edge) for edge in asked), *held)

    def may_see(self, viewer: int, user: int) -> bool:
        hidden = user in self.private and not self.live(FOLLOWS, viewer, user)
        return viewer == user or not (self.bars(user, viewer) or hidden)

    def marks(self, graph: str, node: int, end: Direction, state: State = NORMAL) -> list[Mark]:
        edges = self.edges[graph].items()
        found = [Mark(at, pair[1 - end]) for pair, (its, at) in edges if pair[end] == node and its == state]
        return sorted(found, reverse=True)

    def both(self, node: int, other: int, other_end: Direction) -> list[Mark]:
        kept = {mark.id for mark in self.marks(FOLLOWS, other, other_end)}
        return [mark for mark in self.marks(FOLLOWS, node, Direction.OUT) if mark.id in kept]


pairs = st.sampled_from(PAIRS)
users = st.sampled_from(USERS)


class GraphMachine(RuleBasedStateMachine):
    """One example: a store, a service over it, and the rules it must follow."""

    follows_max = 2

    def __init__(self) -> None:
        super().__init__()
        self._open = contextlib.ExitStack()
        self._run = self._open.enter_context(asyncio.Runner()).run
        self.clock = FakeClock()
        self.rules = Rules(self.follows_max)

    def open_store(self, seed: int) -> EdgeStore:
        raise NotImplementedError

    @initialize(seed=st.integers(0, 2**16))
    def start(self, seed: int) -> None:
        self.store = self.open_store(seed)
        self.service: Graph = self._run(service_over(self.store, self.clock, follows_max=self.follows_max))

    def teardown(self) -> None:
        if hasattr(self, "service") and not self.store.transactional:
            self.settle()
            self.compare_lists()
        self._open.close()

    def settle(self) -> None:
        if isinstance(self.store, ScrambledEdges):
            self.store.settle()

    # --- what people do --------------------------------------------------------------------------------

    def act(self, name: str, a: NodeId, b: NodeId) -> None:
        found = self._run(answer(getattr(self.service.people, name)(a, b)))
        position = 0
        if isinstance(found, RelationWritten) and found.changed and name in ADDED:
            position = self._run(self._position_of_added(found, *((b, a) if name == "accept" else (a, b)), ADDED[name]))
        expected = getattr(self.rules, name)(a, b, position)
        assert (
            Told(found.holds, found.changed, found.requested) if isinstance(found, RelationWritten) else found
        ) == expected

    async def _position_of_added(self, found: RelationWritten, a: NodeId, b: NodeId, graph: str) -> int:
        """Where a new edge stands: by the clock of its host, which never falls behind the wall."""
        number = self.service.graphs.number(FOLLOW_REQUESTS if found.requested else graph)
        (row,) = await self.store.get_many(number, [(a, b)])
        assert row is not None
        assert self.clock.ms <= row.position <= ms_of(self.service.clock.next())
        return row.position

    @rule(pair=pairs)
    def follow(self, pair: tuple[NodeId, NodeId]) -> None:
        self.act("follow", *pair)

    @rule(user=users)
    def follow_everyone(self, user: NodeId) -> None:
        for other in USERS:
            if other != user:
                self.act("follow", user, other)

    @rule(pair=pairs, name=st.sampled_from(["block", "mute"]))
    def shun(self, pair: tuple[NodeId, NodeId], name: str) -> None:
        if all(self.rules.users[user] == NORMAL for user in pair):
            self.act(name, *pair)

    @precondition(lambda self: self.rules.standing())
    @rule(data=st.data())
    def end_what_stands(self, data: st.DataObject) -> None:
        standing = self.rules.standing()
        graph = data.draw(st.sampled_from(sorted({graph for graph, _ in standing})))
        a, b = data.draw(st.sampled_from([pair for its, pair in standing if its == graph]))
        verbs = {
            FOLLOWS: [("unfollow", a, b), ("remove_follower", b, a)],
            FOLLOW_REQUESTS: [("accept", b, a), ("accept", b, a), ("decline", b, a), ("unfollow", a, b)],
            BLOCKS: [("unblock", a, b)],
            MUTES: [("unmute", a, b)],
        }
        self.act(*data.draw(st.sampled_from(verbs[graph])))

    @rule(pair=pairs, name=st.sampled_from(["unfollow", "remove_follower", "accept", "decline", "unblock", "unmute"]))
    def end_what_may_not_stand(self, pair: tuple[NodeId, NodeId], name: str) -> None:
        self.act(name, *pair)

    @rule(user=users, name=st.sampled_from(["follow", "unfollow", "accept", "decline", "block", "unblock", "mute"]))
    def do_it_to_oneself(self, user: NodeId, name: str) -> None:
        assert self._run(answer(getattr(self.service.people, name)(user, user))) is SelfEdge

    @rule(user=users, private=st.booleans())
    def go_private_or_public(self, user: NodeId, private: bool) -> None:
        self._run(self.store.change_node(user, private=private))
        (self.rules.private.add if private else self.rules.private.discard)(user)

    @rule(user=users, operation=st.sampled_from([*NodeOperation, NodeOperation.RESTORE]))
    def operate_on_node(self, user: NodeId, operation: NodeOperation) -> None:
        async def operate() -> Any:
            jobs = account_jobs(self.service, own_leases())
            job = await jobs.start(operation, user)
            await jobs.wait()
            return await jobs.get(job.id)

        self.settle()  # a job walks lists; what they do not show yet is in test_interleavings
        with time_flies(self.store):
            job = self._run(answer(operate()))
        expected = self.rules.operate(operation, user)
        if isinstance(expected, int):
            assert job.done
            assert job.edges >= expected  # it may look at more than it must change
        else:
            assert job is expected

    @rule(pair=pairs, position=st.integers(-2, 2))
    def negate(self, pair: tuple[NodeId, NodeId], position: int) -> None:
        """An app may give an edge the state that no verb of the product gives."""
        a, b = pair
        graph = self.service.graphs.number(FOLLOWS)

        now = self.service.now(graph, a, b, NEGATIVE)
        edge = Edge(graph, a, b, NEGATIVE, position, now.updated_at)
        self._run(self.service.write([EdgeWrite(edge, supersede=True)]))
        self.rules.edges[FOLLOWS][pair] = (NEGATIVE, position)

    # --- what time does --------------------------------------------------------------------------------

    @rule(ms=st.integers(-5_000, 5_000))
    def let_the_clock_jump(self, ms: int) -> None:
        self.clock.ms += ms

    @rule(ahead_ms=st.integers(-100_000, 100_000))
    def restart_on_a_host_with_another_clock(self, ahead_ms: int) -> None:
        now = self.clock.ms + ahead_ms
        self.clock = FakeClock(now)
        service = self.service
        self.service = Social(
            self.store, service.graphs, HybridClock(self.clock), **msgspec.structs.asdict(service.limits)
        )

    @precondition(lambda self: isinstance(self.store, ScrambledEdges))
    @rule()
    def wait(self) -> None:
        self.settle()
        self.compare_lists()

    # --- what must hold --------------------------------------------------------------------------------

    @invariant()
    def rows_say_what_the_rules_say(self) -> None:
        self._run(self._compare_rows())

    @precondition(lambda self: self.store.transactional)
    @invariant()
    def lists_and_counts_say_what_the_rules_say(self) -> None:
        self.compare_lists()

    def compare_lists(self) -> None:
        self._run(self._compare_lists())

    async def _compare_rows(self) -> None:
        service, rules = self.service, self.rules
        for name in GRAPHS:
            rows = await self.store.get_many(service.graphs.number(name), PAIRS)
            found = {pair: (row.state, row.position) for pair, row in zip(PAIRS, rows, strict=True) if row is not None}
            assert found == rules.edges[name], name
        for user in USERS:
            others = [other for other in USERS if other != user]
            assert await service.people.relationships(user, others) == [
                rules.relationship(user, other) for other in others
            ]
            for other in USERS:
                away = user != other and rules.users[other] != NORMAL
                expected = UserNotFound if away else None if rules.may_see(user, other) else Forbidden
                assert await answer(service.privacy.check_may_see(user, other)) is expected

    async def _compare_lists(self) -> None:
        service, rules = self.service, self.rules
        asked = [*product(GRAPHS, USERS, Direction, State)]
        listings = [Listing(service.graphs.number(name), *rest) for name, *rest in asked]
        counts = await self.store.count_many(listings)
        for question, listing, count in zip(asked, listings, counts, strict=True):
            expected = rules.marks(*question)
            assert count == len(expected), question
            assert await marks_of(self.store, listing) == expected, question
        for user in USERS:
            out, in_ = rules.marks(FOLLOWS, user, Direction.OUT), rules.marks(FOLLOWS, user, Direction.IN)
            assert await all_pages(lambda window: service.people.following(user, window), 2) == out  # noqa: B023
            assert await all_pages(lambda window: service.people.followers(user, window), 2, backward=True) == in_  # noqa: B023
            requests = rules.marks(FOLLOW_REQUESTS, user, Direction.IN)
            assert await all_pages(lambda window: service.people.requests(user, window), 1) == requests  # noqa: B023
            friends = await all_pages(lambda window: service.people.friends(user, window), 1, backward=True)  # noqa: B023
            assert friends == rules.both(user, user, Direction.IN)
        for one, two in PAIRS:
            mutuals = await all_pages(lambda window: service.people.mutuals(one, two, window), 2)  # noqa: B023
            assert mutuals == rules.both(one, two, Direction.OUT)
            known = await all_pages(lambda window: service.people.followers_you_know(one, two, window), 1)  # noqa: B023
            assert known == rules.both(one, two, Direction.IN)
        for name in GRAPHS:
            assert await self.store.check_counts(service.graphs.number(name), False) == []
            async for chunk in self.store.edges(service.graphs.number(name)):
                assert all(ends.agree for ends in chunk)


class OnReference(GraphMachine):
    def open_store(self, seed: int) -> EdgeStore:
        return ReferenceEdges()


class OnEmbedded(GraphMachine):
    def open_store(self, seed: int) -> EdgeStore:
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="kith-"))
        return self._open.enter_context(open_embedded(Path(folder)))[1]


class WithoutTransactions(GraphMachine):
    follows_max = 100  # a limit is best effort where counts lag

    def open_store(self, seed: int) -> EdgeStore:
        return ScrambledEdges(seed)


LONG = settings(max_examples=examples(60, 40), stateful_step_count=40)

TestOnReference = OnReference.TestCase
TestOnEmbedded = OnEmbedded.TestCase
TestWithoutTransactions = WithoutTransactions.TestCase
TestOnReference.settings = TestOnEmbedded.settings = TestWithoutTransactions.settings = LONG
