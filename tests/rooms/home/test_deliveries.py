"""Posts of authors with many followers, pushed chunk by chunk by a worker over timelines at their most obvious."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from naive_timelines import NaiveTimelines
from reference_edges import ReferenceEdges
from services import service_over

from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, BUILT_IN, FOLLOWS
from kith.home.fanout import consumer, deliveries
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.deliveries import Chunks, Delivery
from kith.home.fanout.plan import Plan, Thresholds, plan_fanout
from kith.home.fanout.rates import ByRates
from kith.home.sources import Sources
from kith.home.timelines import RATE_MAX

READERS = [BOB, CAROL, *(NodeId(100 + at) for at in range(7)), DANA]
POST, LATER = 1 << 40, 1 << 41


class Town:
    """Ten readers with timelines follow Alice; BOB follows CAROL too."""

    def __init__(self, graph: Graph, clock: FakeClock) -> None:
        self.graph, self.clock, self.sources = graph, clock, Sources(graph)
        self.timelines = NaiveTimelines(100, clock)
        self.worker = self.restarted()

    def restarted(self, policy: Thresholds | ByRates | None = None, size: int = 4, checkpoint_s: float = 0.0) -> Fanout:
        """A new worker process."""
        self.worker = Fanout(
            self.sources,
            self.timelines,
            graphs=self.graph.graphs,
            policy=policy or Thresholds(push_max=5),
            chunks=Chunks(size, size, size, checkpoint_s=checkpoint_s),
            now_ms=lambda: self.clock.ms,
        )
        return self.worker

    async def post(self, author: NodeId, post: int) -> None:
        number = self.graph.graphs.number(AUTHORED)
        await self.worker.handle([Event(0, number, None, State.NORMAL, author, post, 0, self.graph.clock.next())])

    def having(self, post: int) -> list[int]:
        """Readers in whose timelines the post is."""
        timelines = {reader: self.timelines.read(reader) for reader in READERS}
        return [reader for reader, timeline in timelines.items() if timeline is not None and post in timeline.ids]


@pytest.fixture
def town(run: Run) -> Town:
    async def begun() -> Town:
        clock, store = FakeClock(), ReferenceEdges()
        await store.declare(BUILT_IN)
        town = Town(await service_over(store, clock), clock)
        for reader in READERS:
            await town.graph.people.follow(reader, ALICE)
            town.timelines.put(reader, np.array([], np.int64))
        await town.graph.people.follow(BOB, CAROL)
        return town

    return run(begun())  # type: ignore[no-any-return]


def test_deliveries_are_read_as_they_were_packed() -> None:
    under_way = [Delivery(POST, ALICE), Delivery(LATER, BOB, 2**62)]
    assert deliveries.unpack(deliveries.pack(under_way)) == under_way
    assert deliveries.unpack(None) == deliveries.unpack(deliveries.pack([])) == []


def test_chunks_take_about_as_long_as_wanted() -> None:
    chunks = Chunks(size_min=4, size_first=16, size_max=64, target_s=0.02)
    next_sizes = {took_s: chunks.next_size(16, took_s) for took_s in (0.001, 0.009, 0.01, 0.02, 0.021, 5.0)}
    assert next_sizes == {0.001: 32, 0.009: 32, 0.01: 16, 0.02: 16, 0.021: 8, 5.0: 8}
    assert (chunks.next_size(4, 1.0), chunks.next_size(64, 0.0)) == (4, 64)


def test_a_delivery_goes_on_by_a_chunk_and_others_come_in_between(run: Run, town: Town) -> None:
    run(town.post(ALICE, POST))
    assert town.having(POST) == []
    assert run(town.worker.work_backlog())
    assert town.having(POST) == READERS[:4]
    run(town.post(CAROL, LATER))
    assert town.having(LATER) == [BOB, CAROL]
    assert run(town.worker.work_backlog())
    assert not run(town.worker.work_backlog())
    assert town.having(POST) == READERS
    assert run(town.sources.deliveries()) == []
    assert not run(town.worker.work_backlog())


@pytest.mark.parametrize("policy", [Thresholds(push_max=11), ByRates()], ids=["by followers", "by rates"])
def test_few_followers_are_pushed_to_at_once(run: Run, town: Town, policy: Thresholds | ByRates) -> None:
    town.restarted(policy, size=10)
    run(town.post(ALICE, POST))
    assert town.having(POST) == READERS
    assert run(town.sources.deliveries()) == []


PLANS = {
    "none": (0, Plan.PUSH),
    "just below push_max": (9_999, Plan.PUSH),
    "push_max": (10_000, Plan.HYBRID),
    "pull_min": (1_000_000, Plan.HYBRID),
    "just above pull_min": (1_000_001, Plan.PULL),
}


@pytest.mark.parametrize(("followers", "plan"), PLANS.values(), ids=PLANS)
def test_the_plan_is_made_by_the_thresholds_of_the_article(followers: int, plan: Plan) -> None:
    assert plan_fanout(followers, Thresholds()) is plan


def test_nobody_is_pushed_to_beyond_pull_min_whatever_push_max_says() -> None:
    plans = [plan_fanout(followers, Thresholds(push_max=50, pull_min=10)) for followers in (10, 11, 49, 50)]
    assert plans == [Plan.PUSH, Plan.PULL, Plan.PULL, Plan.PULL]


def test_the_next_worker_goes_on_where_the_last_one_noted(run: Run, town: Town) -> None:
    run(town.post(ALICE, POST))
    for number in (4, 8, 10):
        run(town.restarted().work_backlog())
        assert town.having(POST) == READERS[:number]
    assert run(town.sources.deliveries()) == []


def test_what_was_not_noted_is_pushed_again(run: Run, town: Town) -> None:
    town.restarted(checkpoint_s=60.0)
    run(town.post(ALICE, POST))
    for number in (4, 8):
        run(town.worker.work_backlog())
        assert town.having(POST) == READERS[:number]
    assert run(town.sources.deliveries()) == [Delivery(POST, ALICE)]
    town.restarted()
    while run(town.worker.work_backlog()):
        pass
    assert town.having(POST) == READERS
    assert run(town.sources.deliveries()) == []


def test_an_event_that_is_handled_again_begins_its_delivery_again(run: Run, town: Town) -> None:
    run(town.post(ALICE, POST))
    run(town.worker.work_backlog())
    run(town.post(ALICE, POST))
    assert run(town.sources.deliveries()) == [Delivery(POST, ALICE)]
    while run(town.worker.work_backlog()):
        pass
    assert town.having(POST) == READERS
    assert town.timelines.read(BOB).ids.tolist() == [POST]  # type: ignore[union-attr]


LEAVING = {
    "those who have it but the last": slice(3),
    "the last who has it and the next one": slice(3, 5),
    "those to come": slice(5, 9),
    "the last to come": slice(8, 10),
    "all": slice(10),
}


@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING)
def test_who_stops_following_meanwhile_holds_up_nobody_else(run: Run, town: Town, leaving: slice) -> None:
    run(town.post(ALICE, POST))
    run(town.worker.work_backlog())
    for reader in READERS[leaving]:
        run(town.graph.people.unfollow(reader, ALICE))
    while run(town.restarted().work_backlog()):
        pass
    left = set(READERS[leaving])
    assert set(town.having(POST)) >= set(READERS) - left
    assert run(town.sources.deliveries()) == []


async def moved(town: Town, reader: NodeId, position: int) -> None:
    """The reader's follow gets another place in the list, as a write of an edge with a position gives it."""
    number = town.graph.graphs.number(FOLLOWS)
    write = EdgeWrite(Edge(number, reader, ALICE, State.NORMAL, position, town.graph.clock.next()))
    ((change,), _) = await town.graph.write([write])
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    assert after.position == position
    event = Event(0, number, before.state, after.state, reader, ALICE, position, after.updated_at)
    await town.worker.handle([event])


MOVED = {
    "the first who has it": READERS[0],
    "the last who has it": READERS[3],
    "the next one": READERS[4],
    "the last to come": READERS[9],
}


@pytest.mark.parametrize("position", [1, 2**62], ids=["to the end", "to the top"])
@pytest.mark.parametrize("reader", MOVED.values(), ids=MOVED)
def test_places_in_the_list_that_change_meanwhile_lose_nobody(
    run: Run, town: Town, reader: NodeId, position: int
) -> None:
    run(town.post(ALICE, POST))
    run(town.worker.work_backlog())
    run(moved(town, reader, position))
    while run(town.restarted().work_backlog()):
        pass
    assert town.having(POST) == READERS


def test_deliveries_come_one_after_the_other(run: Run, town: Town) -> None:
    for post in (1, 2):
        run(town.post(ALICE, post))
    assert [delivery.post for delivery in run(town.sources.deliveries())] == [1, 2]
    assert run(town.sources.delivering()).tolist() == [ALICE]
    for _ in range(3):
        run(town.worker.work_backlog())
    assert (town.having(1), town.having(2)) == (READERS, [])
    while run(town.worker.work_backlog()):
        pass
    assert town.having(2) == READERS
    assert run(town.sources.delivering()).tolist() == []


def test_where_too_many_are_under_way_one_ends_before_another_begins(
    run: Run, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "DELIVERIES_MAX", 2)
    for post in (1, 2):
        run(town.post(ALICE, post))
    run(town.post(ALICE, 2))  # again, which takes no place of its own
    assert [delivery.post for delivery in run(town.sources.deliveries())] == [1, 2]
    run(town.post(ALICE, 3))
    assert [delivery.post for delivery in run(town.sources.deliveries())] == [2, 3]
    assert town.having(1) == READERS
    assert run(town.sources.authors_lacked(BOB, RATE_MAX)) == [], "nobody is looked up for ever"


def test_a_delivery_that_fails_holds_up_no_other(run: Run, town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in READERS:
        if reader != CAROL:
            run(town.graph.people.follow(reader, CAROL))
    run(town.post(ALICE, POST))
    run(town.post(CAROL, LATER))
    followers = town.sources.followers
    broken = [ALICE]

    async def failing(author: int) -> object:
        if author in broken:
            raise ValueError("this author's list is broken")
        return await followers(author)

    monkeypatch.setattr(town.sources, "followers", failing)
    for _ in range(8):
        with contextlib.suppress(ValueError):
            run(town.worker.work_backlog())
    assert town.having(LATER) == READERS
    assert run(town.sources.deliveries()) == [Delivery(POST, ALICE)], "its author is looked up meanwhile"
    broken.clear()
    while run(town.worker.work_backlog()):
        pass
    assert town.having(POST) == READERS


def test_when_all_timelines_are_lost_nothing_is_left_to_deliver(run: Run, town: Town) -> None:
    run(town.post(ALICE, POST))
    number = town.graph.graphs.number(FOLLOWS)
    run(town.worker.handle([Event(0, number, None, BULK_LOADED, 10, 0, 0, town.graph.clock.next())]))
    assert run(town.sources.deliveries()) == []
    assert town.timelines.count() == 0


def test_by_rates_each_chunk_is_decided_for_itself(run: Run, town: Town) -> None:
    town.restarted(ByRates(pull_cost=1000.0))
    run(town.post(ALICE, POST))
    while run(town.worker.work_backlog()):
        pass
    assert town.having(POST) == READERS, "everybody reads often enough"
    town.restarted(ByRates(pull_cost=0.0))
    authored = town.graph.graphs.number(AUTHORED)
    run(town.graph.write([town.graph.adding(authored, ALICE, NodeId(post)) for post in range(LATER, LATER + 5)]))
    run(town.post(ALICE, LATER))
    while run(town.worker.work_backlog()):
        pass
    assert town.having(LATER) == []
    assert run(town.sources.authors_lacked(BOB, 1)) == [ALICE]


def test_timelines_that_are_not_this_stores_are_dropped_and_its_own_are_kept(run: Run, town: Town) -> None:
    run(town.worker.claim())
    assert town.timelines.count() == 0, "nobody knows whose they were"
    town.timelines.put(BOB, np.array([], np.int64))
    run(town.restarted().claim())
    assert town.timelines.count() == 1
    town.timelines.rename()  # another store had them
    run(town.restarted().claim())
    assert town.timelines.count() == 0
    assert run(town.sources.timelines_name()) == town.timelines.name()


def test_posts_that_come_back_with_their_author_are_no_new_ones(run: Run, town: Town) -> None:
    """They are in the outbox, and the follows that come back after them have the followers' timelines built again."""
    town.timelines.put(ALICE, np.array([POST], np.int64))
    number = town.graph.graphs.number(AUTHORED)
    back = [
        Event(0, number, State.ARCHIVED, State.NORMAL, ALICE, POST + at, 0, town.graph.clock.next())
        for at in range(deliveries.DELIVERIES_MAX + 5)
    ]
    run(town.worker.handle(back))
    assert run(town.sources.deliveries()) == []
    assert len(run(town.sources.withheld()).authors) == 0, "nobody is looked up for ever"
    assert town.timelines.read(ALICE) is None
    assert town.having(POST) == []


def test_who_follows_an_author_before_the_posts_are_back_gets_a_timeline_that_has_them(run: Run, town: Town) -> None:
    """The account is back, its posts are not yet: a timeline made in between lacks them."""
    town.timelines.put(READERS[0], np.array([1], np.int64))
    number = town.graph.graphs.number(AUTHORED)
    run(town.worker.handle([Event(0, number, State.ARCHIVED, State.NORMAL, ALICE, POST, 0, town.graph.clock.next())]))
    assert town.timelines.read(READERS[0]) is None
