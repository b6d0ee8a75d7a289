"""The whole Graph against the rules of the product, which are written as a dict of pairs.

Random people do random things, while clocks jump and hosts restart with a clock in their own past. Engines: reference,
embedded, and one without transactions. There rows are right at once, and lists and counts after all late updates.
`test_interleavings` has several hosts that act at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from itertools import permutations, product
from pathlib import Path
from typing import Any

import msgspec
from cast import FakeClock
from coroutines import answer, without_waits
from edges import all_pages, marks_of
from embedded_engine import open_embedded
from history_lengths import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from naive_graph import ADDED, NEGATIVE, NORMAL, USERS, NaiveRules, WriteAnswer
from reference_edges import ReferenceEdges
from reference_leases import own_leases
from scrambled_edges import ScrambledEdges
from services import GRAPHS, SocialGraph, service_over

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import Forbidden, SelfEdge, UserNotFound
from kith.core.ids import NodeId
from kith.graph.edge import Direction, Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.graph.store import EdgeStore
from kith.people.relations import RelationWritten
from kith.people.removal import account_jobs

PAIRS = [*permutations(USERS, 2)]
pairs = st.sampled_from(PAIRS)
users = st.sampled_from(USERS)


class GraphMachine(RuleBasedStateMachine):
    """One example: a store, a service over it, and the rules that it must follow."""

    follows_max = 2

    def __init__(self) -> None:
        super().__init__()
        self._open = contextlib.ExitStack()
        self._run = self._open.enter_context(asyncio.Runner()).run
        self.clock = FakeClock()
        self.rules = NaiveRules(self.follows_max)

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
            WriteAnswer(found.holds, found.changed, found.requested) if isinstance(found, RelationWritten) else found
        ) == expected

    async def _position_of_added(self, found: RelationWritten, a: NodeId, b: NodeId, graph: str) -> int:
        """The position of a new edge: by the clock of its host, which is never behind wall time."""
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

    @precondition(lambda self: self.rules.live_edges())
    @rule(data=st.data())
    def end_an_existing_edge(self, data: st.DataObject) -> None:
        standing = self.rules.live_edges()
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
    def end_an_edge_that_may_be_missing(self, pair: tuple[NodeId, NodeId], name: str) -> None:
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

        self.settle()  # a job walks lists; test_interleavings covers lists that lag
        with without_waits():
            job = self._run(answer(operate()))
        expected = self.rules.operate(operation, user)
        if isinstance(expected, int):
            assert job.done
            assert job.edges >= expected  # the job may read more edges than it has to change
        else:
            assert job is expected

    @rule(pair=pairs, position=st.integers(-2, 2))
    def negate(self, pair: tuple[NodeId, NodeId], position: int) -> None:
        """As an app: give an edge the state NEGATIVE, which no operation of the product gives."""
        a, b = pair
        graph = self.service.graphs.number(FOLLOWS)

        now = self.service.edge_now(graph, a, b, NEGATIVE)
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
        self.service = SocialGraph(
            self.store, service.graphs, HybridClock(self.clock), **msgspec.structs.asdict(service.limits)
        )

    @precondition(lambda self: isinstance(self.store, ScrambledEdges))
    @rule()
    def wait(self) -> None:
        self.settle()
        self.compare_lists()

    # --- what must hold --------------------------------------------------------------------------------

    @invariant()
    def rows_follow_the_rules(self) -> None:
        self._run(self._compare_rows())

    @precondition(lambda self: self.store.transactional)
    @invariant()
    def lists_and_counts_follow_the_rules(self) -> None:
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
