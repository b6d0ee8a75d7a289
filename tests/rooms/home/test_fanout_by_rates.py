"""Fan-out by rates: which readers get a push, as tables; whose outboxes they look up; and what the worker does."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run
from fanout_scene import FanoutScene
from hypothesis import given
from hypothesis import strategies as st
from reference_leases import own_leases

from kith.core.clock import hlc_of
from kith.core.events import NORMAL, TIMELINE_REQUESTED, Event
from kith.core.ids import EPOCH_MS, TIME_SHIFT, NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import AUTHORED
from kith.graph.shapes import Ids
from kith.home.fanout import consumer
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.plan import Thresholds
from kith.home.fanout.rates import POSTS_LOOKED_AT, ByRates, pushes_to_all, rate_of, worth_pushing, worth_rebuilding
from kith.home.timelines import RATE_MAX, RATE_WINDOW_MS, Habits, Timeline, TimelineStore
from kith.run import consumers
from kith.run.config import Settings

HOUR_MS = 3_600_000
NOW_MS = START_MS


def made(*ages_ms: float) -> Ids:
    """Posts of these ages, newest first."""
    return np.array([int(NOW_MS - age - EPOCH_MS) << TIME_SHIFT for age in ages_ms], np.int64)


DISTANT = pytest.mark.parametrize("distant", [False, True], ids=["at once", "distant"])


class RatesScene(FanoutScene):
    """Posts that are fanned out at once, and the timelines that show them."""

    async def post(self, author: NodeId) -> int:
        """Write a post and fan it out."""
        self.clock.ms += 1
        post, ms = NodeId((self.clock.ms - EPOCH_MS) << TIME_SHIFT), self.clock.ms
        number = self.graph.graphs.number(AUTHORED)
        edge = Edge(number, author, post, State.NORMAL, ms, hlc_of(ms))
        await self.graph.store.apply([EdgeWrite(edge)])
        await self.worker.handle([Event(number, None, NORMAL, author, post, ms, edge.updated_at)])
        return post

    def shown(self, reader: NodeId) -> list[int]:
        """The reader's timeline, each post once."""
        return list(dict.fromkeys(self.timeline(reader).ids.tolist()))

    def timeline(self, reader: NodeId) -> Timeline:
        """The reader's timeline with its metadata."""
        timeline = self.timelines.read(reader)
        assert timeline is not None
        return timeline


# --- the decision --------------------------------------------------------------------------------------


RATES = {
    "none": (made(), 1),
    "one": (made(0), 1),
    "one of long ago": (made(RATE_WINDOW_MS + 1), 1),
    "two": (made(0, 1), 2),
    "three": (made(0, 1, 2), 4),
    "three and one of long ago": (made(0, 1, 2, RATE_WINDOW_MS + 1), 4),
    "16": (made(*range(16)), 16),
    "17": (made(*range(17)), 32),
    "all looked at, in a week": (made(*np.linspace(0, RATE_WINDOW_MS + 1, POSTS_LOOKED_AT)), 64),
    "all looked at, in half a week": (made(*np.linspace(0, RATE_WINDOW_MS / 2, POSTS_LOOKED_AT)), 128),
    "all looked at, in an hour": (made(*np.linspace(0, HOUR_MS, POSTS_LOOKED_AT)), 16_384),  # 10,752 a week
    "all looked at, at once": (made(*[0] * POSTS_LOOKED_AT), 1 << 36),
}


@pytest.mark.parametrize(("posts", "rate"), RATES.values(), ids=RATES)
def test_a_rate_is_posts_a_week_rounded_up_to_a_power_of_two(posts: Ids, rate: int) -> None:
    assert rate_of(posts, NOW_MS) == rate


def test_posts_of_the_future_are_counted_like_others() -> None:
    assert rate_of(made(-HOUR_MS, 0, 1), NOW_MS) == 4


PUSHED = {  #                          reads a week: 0     0.25   1      9.9    10     1000
    "one post, a pull costs 4 pushes": (1, 4.0, [True, True, True, True, True, True]),
    "two posts, a pull costs 4 pushes": (2, 4.0, [False, False, True, True, True, True]),
    "1,000 posts, a pull costs 100 pushes": (1_000, 100.0, [False, False, False, False, True, True]),
    "10 posts, a pull costs a push": (10, 1.0, [False, False, False, False, True, True]),
    "more than anybody can post": (RATE_MAX // 2, 1e6, [False] * 6),
}


@pytest.mark.parametrize(("rate", "pull_cost", "pushed"), PUSHED.values(), ids=PUSHED)
def test_posts_are_pushed_to_readers_who_read_more_often_than_the_author_posts(
    rate: int, pull_cost: float, pushed: list[bool]
) -> None:
    reads = np.array([0, 0.25, 1, 9.9, 10, 1000])
    assert worth_pushing(rate, reads, ByRates(pull_cost)).tolist() == pushed


@given(st.integers(0, 40), st.lists(st.floats(0, 70_000)), st.floats(0.01, 1e6))
def test_where_no_reader_is_checked_each_would_get_the_post(power: int, reads: list[float], pull_cost: float) -> None:
    if pushes_to_all(1 << power, ByRates(pull_cost)):
        assert worth_pushing(1 << power, np.array(reads), ByRates(pull_cost)).all()


def test_a_timeline_is_rebuilt_for_a_reader_who_lacks_posts_and_reads_four_times_break_even() -> None:
    readers = {  # reads a week, the lowest rate that the timeline lacks, rebuilt?
        "has no timeline": (-1, 0, False),
        "reads seldom": (1, 8, False),
        "reads nearly often enough": (39, 8, False),
        "reads often enough": (40, 8, True),
        "lacks only posts of more prolific authors": (40, 128, False),
        "lacks nothing": (1e9, RATE_MAX, False),
    }
    reads, withheld_rate_min, rebuilt = zip(*readers.values(), strict=True)
    found = worth_rebuilding(100, Habits(np.array(reads), np.array(withheld_rate_min)), ByRates(10.0)).tolist()
    assert dict(zip(readers, found, strict=True)) == dict(zip(readers, rebuilt, strict=True))


def test_the_settings_choose_the_policy() -> None:
    assert consumers.fanout_policy(Settings(fanout_push_max=5, fanout_pull_min=7)) == Thresholds(5, 7)
    assert consumers.fanout_policy(Settings(fanout_policy="rates", fanout_pull_cost=3.0)) == ByRates(3.0)


# --- whose outboxes are looked up ----------------------------------------------------------------------


@pytest.mark.parametrize("at_once_max", [0, 16], ids=["follows are looked up first", "all are read at once"])
@pytest.mark.parametrize("lookups_max", [0, 100], ids=["the whole list is read", "each follow is looked up"])
@DISTANT
def test_only_the_outboxes_of_followed_authors_count(
    run: Run, distant: bool, lookups_max: int, at_once_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kith.home.skeleton.sources._LOOKUPS_MAX", lookups_max)
    monkeypatch.setattr("kith.home.skeleton.sources._AT_ONCE_MAX", at_once_max)

    async def check() -> None:
        scene = await RatesScene.begun(ByRates(), distant=distant)
        await scene.follow(ALICE, BOB, CAROL, DANA)
        posts = {author: [await scene.post(author) for _ in range(9)] for author in (ALICE, BOB, CAROL, DANA)}

        async def read(reader: NodeId, *authors: int) -> list[int]:
            asked = np.array(authors, np.int64)
            return [mark.id for mark in await scene.sources.outboxes_of_followed(reader, asked, 12)]

        assert await read(ALICE, 999, ALICE, BOB, CAROL) == [*posts[CAROL][::-1], *posts[BOB][:-4:-1]]
        assert await read(ALICE, ALICE, 999) == posts[ALICE][::-1], "a reader sees their own posts"
        assert await read(BOB, ALICE, CAROL, DANA) == []

    run(check())


# --- the worker ----------------------------------------------------------------------------------------


@DISTANT
def test_the_timeline_of_a_rare_reader_lacks_posts_of_a_prolific_author_and_says_so(run: Run, distant: bool) -> None:
    async def check() -> None:
        scene = await RatesScene.begun(ByRates(5.0), distant=distant)
        await scene.follow(ALICE, CAROL, DANA)
        await scene.follow(BOB, CAROL)
        for _ in range(20):
            scene.timelines.touch(BOB)
        posts = [await scene.post(CAROL) for _ in range(10)]
        single = await scene.post(DANA)
        assert scene.shown(ALICE) == [single, *posts[3::-1]]  # up to 4 a week for one read a week
        assert scene.timeline(ALICE).withheld_rate_min == 8
        assert scene.shown(BOB) == posts[::-1]
        assert scene.timeline(BOB).withheld_rate_min == RATE_MAX
        assert await scene.lacked(ALICE, scene.timeline(ALICE).withheld_rate_min) == [CAROL]
        assert await scene.lacked(BOB, scene.timeline(BOB).withheld_rate_min) == []

    run(check())


@DISTANT
def test_a_reader_who_starts_to_read_often_gets_a_timeline_that_lacks_nothing(run: Run, distant: bool) -> None:
    async def check() -> None:
        scene = await RatesScene.begun(ByRates(5.0), distant=distant)
        await scene.follow(ALICE, CAROL)
        posts = [await scene.post(CAROL) for _ in range(10)]
        assert len(scene.shown(ALICE)) == 4
        for _ in range(20):
            scene.timelines.touch(ALICE)
        posts.append(await scene.post(CAROL))
        assert scene.shown(ALICE) == posts[::-1]
        assert scene.timeline(ALICE).withheld_rate_min == RATE_MAX
        assert scene.timelines.habits(np.array([ALICE])).reads[0] > 20, (
            "the rebuild counts as no read, and forgets none"
        )

    run(check())


@DISTANT
def test_one_post_causes_a_bounded_number_of_rebuilds(run: Run, distant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "_REBUILDS_PER_POST_MAX", 1)

    async def check() -> None:
        scene = await RatesScene.begun(ByRates(5.0), distant=distant)
        for reader in (ALICE, BOB):
            await scene.follow(reader, CAROL)
        for _ in range(10):
            await scene.post(CAROL)
        for _ in range(40):
            scene.timelines.touch(ALICE)
            scene.timelines.touch(BOB)
        lacking = []
        for _ in range(3):
            await scene.post(CAROL)
            lacking.append(sum(scene.timeline(reader).withheld_rate_min < RATE_MAX for reader in (ALICE, BOB)))
        assert lacking == [1, 0, 0]

    run(check())


@DISTANT
def test_beyond_the_limit_of_withholding_authors_others_push_to_all(
    run: Run, distant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "WITHHELD_MAX", 1)

    async def check() -> None:
        scene = await RatesScene.begun(ByRates(1.5), distant=distant)
        await scene.follow(ALICE, BOB, CAROL)
        of_bob = [await scene.post(BOB) for _ in range(8)]
        of_carol = [await scene.post(CAROL) for _ in range(8)]
        assert scene.shown(ALICE) == [*of_carol[::-1], of_bob[0]]
        assert [(await scene.state.snapshot()).withheld.rate_of(author) for author in (BOB, CAROL)] == [8, 0]

    run(check())


def test_a_timeline_that_is_being_built_is_pushed_to_or_says_what_it_lacks(run: Run) -> None:
    """Another worker builds it, and has read the outboxes before the post is written."""

    async def check() -> None:
        scene = await RatesScene.begun(ByRates(1.0), distant=False)
        await scene.graph.people.follow(ALICE, BOB)
        for _ in range(8):
            await scene.post(BOB)
        written, meanwhile = scene.timelines.store, list[int]()

        class Overtaken:
            def __getattr__(self, name: str) -> Any:
                return getattr(written, name)

            async def put(self, *timeline: Any) -> bool:
                meanwhile.append(await scene.post(BOB))
                return await written.put(*timeline)

        other = Fanout(
            scene.sources, cast("TimelineStore", Overtaken()), scene.state, own_leases(),
            graphs=scene.graph.graphs, policy=ByRates(1.0), now_ms=scene.clock,
        )  # fmt: skip
        await other.handle([Event(0, None, TIMELINE_REQUESTED, ALICE, 0, 0, scene.graph.clock.next())])
        looked_up = await scene.lacked(ALICE, scene.timeline(ALICE).withheld_rate_min)
        assert meanwhile[0] in scene.shown(ALICE) or BOB in looked_up

    run(check())
