"""Who is pushed to by rates, as tables; who must look up whom; and what the worker then does with few people."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_timelines import NaiveTimelines
from reference import ReferenceEdges
from world import ALICE, BOB, CAROL, DANA, START_MS, FakeClock, Run, service_over

from kith.core.clock import hlc_of
from kith.core.events import NORMAL, Event
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, BUILT_IN
from kith.home.fanout import consumer
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import POSTS_LOOKED_AT, ByRates, pushed_to_all, rate_of, worth_making_anew, worth_pushing
from kith.home.fanout.withheld import Withheld
from kith.home.sources import Sources
from kith.home.timelines import RATE_MAX, READS_MS, Habits, Ids, Timeline
from kith.run import limits
from kith.run.config import Settings

HOUR_MS = 3_600_000
NOW_MS = START_MS


def made(*ages_ms: float) -> Ids:
    """Posts of these ages, newest first."""
    return np.array([int(NOW_MS - age - EPOCH_MS) << TIME_SHIFT for age in ages_ms], np.int64)


class Town:
    """A worker over a graph and timelines at their most obvious."""

    def __init__(self, graph: Graph, policy: ByRates, clock: FakeClock) -> None:
        self.graph, self.clock = graph, clock
        self.authored = graph.graphs.number(AUTHORED)
        self.sources, self.timelines = Sources(graph), NaiveTimelines(100, clock)
        self.fanout = Fanout(self.sources, self.timelines, graphs=graph.graphs, policy=policy, now_ms=lambda: clock.ms)

    @classmethod
    async def begun(cls, policy: ByRates) -> Town:
        """Nobody follows anybody yet."""
        clock, store = FakeClock(), ReferenceEdges()
        await store.declare(BUILT_IN)
        return cls(await service_over(store, clock), policy, clock)

    async def follow(self, reader: NodeId, *authors: int) -> None:
        """The reader follows them, and then has an empty timeline."""
        for author in authors:
            await self.graph.people.follow(reader, NodeId(author))
        self.timelines.put(reader, np.array([], np.int64))

    async def post(self, author: NodeId) -> int:
        """A post that is fanned out."""
        self.clock.ms += 1
        post, ms = NodeId((self.clock.ms - EPOCH_MS) << TIME_SHIFT), self.clock.ms
        edge = Edge(self.authored, author, post, State.NORMAL, ms, hlc_of(ms))
        await self.graph.store.apply([EdgeWrite(edge)])
        await self.fanout.handle([Event(0, self.authored, None, NORMAL, author, post, ms, edge.updated_at)])
        return post

    def shown(self, reader: NodeId) -> list[int]:
        """The reader's timeline, each post once."""
        return list(dict.fromkeys(self.timeline(reader).ids.tolist()))

    def timeline(self, reader: NodeId) -> Timeline:
        """The reader's timeline, and what is known of it."""
        timeline = self.timelines.read(reader)
        assert timeline is not None
        return timeline


# --- the decision --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("posts", "rate"),
    [
        (made(), 1),
        (made(0), 1),
        (made(READS_MS + 1), 1),
        (made(0, 1), 2),
        (made(0, 1, 2), 4),
        (made(0, 1, 2, READS_MS + 1), 4),
        (made(*range(16)), 16),
        (made(*range(17)), 32),
        (made(*np.linspace(0, READS_MS + 1, POSTS_LOOKED_AT)), 64),
        (made(*np.linspace(0, READS_MS / 2, POSTS_LOOKED_AT)), 128),
        (made(*np.linspace(0, HOUR_MS, POSTS_LOOKED_AT)), 16_384),  # 64 an hour are 10,752 a week
        (made(*[0] * POSTS_LOOKED_AT), 1 << 36),
    ],
)
def test_a_rate_is_posts_a_week_rounded_up_to_a_power_of_two(posts: Ids, rate: int) -> None:
    assert rate_of(posts, NOW_MS) == rate


def test_posts_of_the_future_are_counted_like_others() -> None:
    assert rate_of(made(-HOUR_MS, 0, 1), NOW_MS) == 4


@pytest.mark.parametrize(
    ("rate", "pull_cost", "pushed"),
    #                      reads a week: 0     0.25   1      9.9    10     1000
    [
        (1, 4.0, [True, True, True, True, True, True]),
        (2, 4.0, [False, False, True, True, True, True]),
        (1_000, 100.0, [False, False, False, False, True, True]),
        (10, 1.0, [False, False, False, False, True, True]),
        (RATE_MAX // 2, 1e6, [False] * 6),
    ],
)
def test_it_is_pushed_to_those_who_read_more_often_than_the_author_posts(
    rate: int, pull_cost: float, pushed: list[bool]
) -> None:
    reads = np.array([0, 0.25, 1, 9.9, 10, 1000])
    assert worth_pushing(rate, reads, ByRates(pull_cost)).tolist() == pushed


@given(st.integers(0, 40), st.lists(st.floats(0, 70_000)), st.floats(0.01, 1e6))
def test_where_nobody_is_looked_at_everybody_would_get_it(power: int, reads: list[float], pull_cost: float) -> None:
    if pushed_to_all(1 << power, ByRates(pull_cost)):
        assert worth_pushing(1 << power, np.array(reads), ByRates(pull_cost)).all()


def test_a_timeline_is_made_anew_for_who_lacks_such_posts_and_reads_four_times_as_often_as_needed() -> None:
    habits = Habits(
        np.array([-1, 1, 39, 40, 40, 1e9]),
        np.array([0, 8, 8, 8, 128, RATE_MAX]),
    )
    assert worth_making_anew(100, habits, ByRates(10.0)).tolist() == [False, False, False, True, False, False]


def test_the_settings_choose_the_policy() -> None:
    assert limits.fanout(Settings(fanout_push_max=5, fanout_pull_min=7)) == Thresholds(5, 7)
    assert limits.fanout(Settings(fanout_policy="rates", fanout_pull_cost=3.0)) == ByRates(3.0)


# --- who must look up whom -----------------------------------------------------------------------------


def test_withheld_authors_keep_their_highest_rate_and_nobody_leaves() -> None:
    known = Withheld.unpack(None)
    assert known.since(0).tolist() == []
    known = known.raised({BOB: 8, ALICE: 64}).raised({BOB: 4, CAROL: RATE_MAX})
    assert [known.rate_of(author) for author in (ALICE, BOB, CAROL, DANA)] == [64, 8, RATE_MAX, 0]
    assert known.raised({BOB: 8, ALICE: 1}) is known
    again = Withheld.unpack(known.pack())
    assert again.since(9).tolist() == sorted([ALICE, CAROL])
    assert again.since(8).tolist() == sorted([ALICE, BOB, CAROL])
    assert again.since(RATE_MAX).tolist() == [CAROL]


@pytest.mark.parametrize("asked_max", [0, 100])
def test_of_withheld_authors_only_those_followed_are_looked_up(
    run: Run, asked_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether each follow is looked up or the whole list is read."""
    monkeypatch.setattr("kith.home.sources._ASKED_MAX", asked_max)

    async def check() -> None:
        town = await Town.begun(ByRates())
        sources = town.sources
        await sources.note_withheld({BOB: 8, CAROL: 64, 999: 64, ALICE: 64})
        await town.follow(ALICE, BOB, CAROL, DANA)
        assert sorted(await sources.authors_lacked(ALICE, 0)) == sorted([ALICE, BOB, CAROL])
        assert sorted(await sources.authors_lacked(ALICE, 9)) == sorted([ALICE, CAROL])
        assert await sources.authors_lacked(ALICE, RATE_MAX) == []
        assert await sources.authors_lacked(DANA, 0) == []

    run(check())


# --- the worker ----------------------------------------------------------------------------------------


def test_who_reads_seldom_lacks_posts_of_a_prolific_author_and_knows_it(run: Run) -> None:
    async def check() -> None:
        town = await Town.begun(ByRates(5.0))
        await town.follow(ALICE, CAROL, DANA)
        await town.follow(BOB, CAROL)
        for _ in range(20):
            town.timelines.touch(BOB)
        posts = [await town.post(CAROL) for _ in range(10)]
        single = await town.post(DANA)
        assert town.shown(ALICE) == [single, *posts[3::-1]]  # up to 4 a week for one read a week
        assert town.timeline(ALICE).lacks_from == 8
        assert town.shown(BOB) == posts[::-1]
        assert town.timeline(BOB).lacks_from == RATE_MAX
        assert await town.sources.authors_lacked(ALICE, town.timeline(ALICE).lacks_from) == [CAROL]
        assert await town.sources.authors_lacked(BOB, town.timeline(BOB).lacks_from) == []

    run(check())


def test_who_comes_to_read_often_gets_a_timeline_that_lacks_nothing(run: Run) -> None:
    async def check() -> None:
        town = await Town.begun(ByRates(5.0))
        await town.follow(ALICE, CAROL)
        posts = [await town.post(CAROL) for _ in range(10)]
        assert len(town.shown(ALICE)) == 4
        for _ in range(20):
            town.timelines.touch(ALICE)
        posts.append(await town.post(CAROL))
        assert town.shown(ALICE) == posts[::-1]
        assert town.timeline(ALICE).lacks_from == RATE_MAX
        assert town.timelines.habits(np.array([ALICE])).reads[0] > 20, "it was no further read, and none was forgotten"

    run(check())


def test_of_one_post_only_so_many_timelines_are_made_anew(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_ANEW_A_POST", 1)

    async def check() -> None:
        town = await Town.begun(ByRates(5.0))
        for reader in (ALICE, BOB):
            await town.follow(reader, CAROL)
        for _ in range(10):
            await town.post(CAROL)
        for _ in range(40):
            town.timelines.touch(ALICE)
            town.timelines.touch(BOB)
        lacking = []
        for _ in range(3):
            await town.post(CAROL)
            lacking.append(sum(town.timeline(reader).lacks_from < RATE_MAX for reader in (ALICE, BOB)))
        assert lacking == [1, 0, 0]

    run(check())


def test_where_no_more_authors_may_withhold_others_push_to_all(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "AUTHORS_MAX", 1)

    async def check() -> None:
        town = await Town.begun(ByRates(1.5))
        await town.follow(ALICE, BOB, CAROL)
        of_bob = [await town.post(BOB) for _ in range(8)]
        of_carol = [await town.post(CAROL) for _ in range(8)]
        assert town.shown(ALICE) == [*of_carol[::-1], of_bob[0]]
        assert [(await town.sources.withheld()).rate_of(author) for author in (BOB, CAROL)] == [8, 0]

    run(check())
