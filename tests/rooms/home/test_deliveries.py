"""Posts of authors with many followers, pushed chunk by chunk by a worker into reference timelines."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA
from coroutines import Run
from fanout_scene import FanoutScene
from reference_leases import ReferenceLeases
from services import Services

from kith.core.events import BULK_LOADED, Event
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.home.fanout import consumer, deliveries
from kith.home.fanout.consumer import Fanout
from kith.home.fanout.deliveries import Chunks
from kith.home.fanout.plan import FanoutPlan, Thresholds, plan_fanout
from kith.home.fanout.rates import ByRates
from kith.home.fanout.state import Delivery
from kith.home.timelines import RATE_MAX
from kith.leases.background import POLL_S
from kith.leases.holding import Leases

READERS = [BOB, CAROL, *(NodeId(100 + at) for at in range(7)), DANA]
POST, LATER = 1 << 40, 1 << 41


class DeliveryScene(FanoutScene):
    """Ten readers with timelines follow Alice; BOB follows CAROL too."""

    async def populate(self) -> None:
        for reader in READERS:
            await self.follow(reader, ALICE)
        await self.graph.people.follow(BOB, CAROL)

    def restarted(self, policy: Thresholds | ByRates | None = None, size: int = 4, checkpoint_s: float = 0.0) -> Fanout:
        """Start a new worker process."""
        return self.start(policy or Thresholds(push_max=5), Chunks(size, size, size, checkpoint_s=checkpoint_s))

    async def post(self, author: NodeId, post: int) -> None:
        number = self.graph.graphs.number(AUTHORED)
        await self.worker.handle([Event(number, None, State.NORMAL, author, post, 0, self.graph.clock.next())])

    def having(self, post: int) -> list[int]:
        """Readers whose timelines have the post."""
        timelines = {reader: self.timelines.read(reader) for reader in READERS}
        return [reader for reader, timeline in timelines.items() if timeline is not None and post in timeline.ids]


@pytest.fixture(params=[False, True], ids=["at once", "distant"])
def scene(run: Run, request: pytest.FixtureRequest) -> DeliveryScene:
    async def begun() -> DeliveryScene:
        scene = DeliveryScene(await Services.in_memory(), distant=request.param)
        await scene.populate()
        scene.restarted()
        return scene

    return run(begun())  # type: ignore[no-any-return]


def test_chunks_take_about_as_long_as_wanted() -> None:
    chunks = Chunks(size_min=4, size_first=16, size_max=64, target_s=0.02)
    next_sizes = {took_s: chunks.next_size(16, took_s) for took_s in (0.001, 0.009, 0.01, 0.02, 0.021, 5.0)}
    assert next_sizes == {0.001: 32, 0.009: 32, 0.01: 16, 0.02: 16, 0.021: 8, 5.0: 8}
    assert (chunks.next_size(4, 1.0), chunks.next_size(64, 0.0)) == (4, 64)


def test_a_delivery_advances_by_a_chunk_and_others_come_in_between(run: Run, scene: DeliveryScene) -> None:
    run(scene.post(ALICE, POST))
    assert scene.having(POST) == []
    assert run(scene.worker.work_backlog())
    assert scene.having(POST) == READERS[:4]
    run(scene.post(CAROL, LATER))
    assert scene.having(LATER) == [BOB, CAROL]
    assert run(scene.worker.work_backlog())
    assert not run(scene.worker.work_backlog())
    assert scene.having(POST) == READERS
    assert run(scene.deliveries()) == []
    assert not run(scene.worker.work_backlog())


@pytest.mark.parametrize("policy", [Thresholds(push_max=11), ByRates()], ids=["by followers", "by rates"])
def test_few_followers_are_pushed_to_at_once(run: Run, scene: DeliveryScene, policy: Thresholds | ByRates) -> None:
    scene.restarted(policy, size=10)
    run(scene.post(ALICE, POST))
    assert scene.having(POST) == READERS
    assert run(scene.deliveries()) == []


PLANS = {
    "none": (0, FanoutPlan.PUSH),
    "just below push_max": (9_999, FanoutPlan.PUSH),
    "push_max": (10_000, FanoutPlan.HYBRID),
    "pull_min": (1_000_000, FanoutPlan.HYBRID),
    "just above pull_min": (1_000_001, FanoutPlan.PULL),
}


@pytest.mark.parametrize(("followers", "plan"), PLANS.values(), ids=PLANS)
def test_the_plan_is_made_by_the_thresholds_of_the_article(followers: int, plan: FanoutPlan) -> None:
    assert plan_fanout(followers, Thresholds()) is plan


def test_nobody_is_pushed_to_beyond_pull_min_whatever_push_max_says() -> None:
    plans = [plan_fanout(followers, Thresholds(push_max=50, pull_min=10)) for followers in (10, 11, 49, 50)]
    assert plans == [FanoutPlan.PUSH, FanoutPlan.PULL, FanoutPlan.PULL, FanoutPlan.PULL]


def test_beyond_the_limit_of_withholding_authors_others_begin_a_delivery(
    run: Run, scene: DeliveryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "WITHHELD_MAX", 1)
    scene.restarted(Thresholds(pull_min=0))
    for author, post in ((CAROL, POST), (ALICE, LATER), (CAROL, POST + 1)):
        run(scene.post(author, post))
    assert run(scene.state.snapshot()).withheld.authors.tolist() == [CAROL]
    assert run(scene.deliveries()) == [Delivery(LATER, ALICE)]
    while run(scene.worker.work_backlog()):
        pass
    assert [scene.having(post) for post in (POST, LATER, POST + 1)] == [[CAROL], READERS, [CAROL]]


def test_the_next_worker_resumes_at_the_last_checkpoint(run: Run, scene: DeliveryScene) -> None:
    run(scene.post(ALICE, POST))
    for number in (4, 8, 10):
        run(scene.restarted().work_backlog())
        assert scene.having(POST) == READERS[:number]
    assert run(scene.deliveries()) == []


def test_a_restart_repeats_the_pushes_since_the_last_checkpoint(run: Run, scene: DeliveryScene) -> None:
    scene.restarted(checkpoint_s=60.0)
    run(scene.post(ALICE, POST))
    for number in (4, 8):
        run(scene.worker.work_backlog())
        assert scene.having(POST) == READERS[:number]
    assert run(scene.deliveries()) == [Delivery(POST, ALICE)]
    scene.restarted()
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(POST) == READERS
    assert run(scene.deliveries()) == []


def test_an_event_that_is_handled_again_restarts_its_delivery(run: Run, scene: DeliveryScene) -> None:
    run(scene.post(ALICE, POST))
    run(scene.worker.work_backlog())
    run(scene.post(ALICE, POST))
    assert run(scene.deliveries()) == [Delivery(POST, ALICE)]
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(POST) == READERS
    assert scene.timelines.read(BOB).ids.tolist() == [POST]  # type: ignore[union-attr]


LEAVING = {
    "those who have it but the last": slice(3),
    "the last who has it and the next one": slice(3, 5),
    "those to come": slice(5, 9),
    "the last to come": slice(8, 10),
    "all": slice(10),
}


@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING)
def test_unfollows_during_a_delivery_cost_no_other_reader_the_post(
    run: Run, scene: DeliveryScene, leaving: slice
) -> None:
    run(scene.post(ALICE, POST))
    run(scene.worker.work_backlog())
    for reader in READERS[leaving]:
        run(scene.graph.people.unfollow(reader, ALICE))
    while run(scene.restarted().work_backlog()):
        pass
    left = set(READERS[leaving])
    assert set(scene.having(POST)) >= set(READERS) - left
    assert run(scene.deliveries()) == []


async def moved(scene: DeliveryScene, reader: NodeId, position: int) -> None:
    """Move the reader's follow to another position in the list, as a write with a position does."""
    number = scene.graph.graphs.number(FOLLOWS)
    write = EdgeWrite(Edge(number, reader, ALICE, State.NORMAL, position, scene.graph.clock.next()))
    ((change,), _) = await scene.graph.write([write])
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    assert after.position == position
    event = Event(number, before.state, after.state, reader, ALICE, position, after.updated_at)
    await scene.worker.handle([event])


MOVED = {
    "the first who has it": READERS[0],
    "the last who has it": READERS[3],
    "the next one": READERS[4],
    "the last to come": READERS[9],
}


@pytest.mark.parametrize("position", [1, 2**62], ids=["to the end", "to the top"])
@pytest.mark.parametrize("reader", MOVED.values(), ids=MOVED)
def test_moves_in_the_list_of_followers_lose_no_reader(
    run: Run, scene: DeliveryScene, reader: NodeId, position: int
) -> None:
    run(scene.post(ALICE, POST))
    run(scene.worker.work_backlog())
    run(moved(scene, reader, position))
    while run(scene.restarted().work_backlog()):
        pass
    assert scene.timelines.read(reader) is None, "it is rebuilt with the post"
    assert scene.having(POST) == [one for one in READERS if one != reader]


def test_deliveries_come_one_after_the_other(run: Run, scene: DeliveryScene) -> None:
    for post in (1, 2):
        run(scene.post(ALICE, post))
    assert [delivery.post for delivery in run(scene.deliveries())] == [1, 2]
    assert run(scene.state.snapshot()).undelivered().tolist() == [ALICE, ALICE]
    for _ in range(3):
        run(scene.worker.work_backlog())
    assert (scene.having(1), scene.having(2)) == (READERS, [])
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(2) == READERS
    assert run(scene.state.snapshot()).undelivered().tolist() == []


def test_beyond_the_limit_of_deliveries_one_ends_before_another_begins(
    run: Run, scene: DeliveryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "DELIVERIES_MAX", 2)
    for post in (1, 2):
        run(scene.post(ALICE, post))
    run(scene.post(ALICE, 2))  # a repetition takes no place of its own
    assert [delivery.post for delivery in run(scene.deliveries())] == [1, 2]
    run(scene.post(ALICE, 3))
    assert [delivery.post for delivery in run(scene.deliveries())] == [2, 3]
    assert scene.having(1) == READERS
    assert run(scene.lacked(BOB, RATE_MAX)) == [], "no outbox is looked up for ever"


def test_a_delivery_that_fails_blocks_no_other(run: Run, scene: DeliveryScene, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in READERS:
        if reader != CAROL:
            run(scene.graph.people.follow(reader, CAROL))
    run(scene.post(ALICE, POST))
    run(scene.post(CAROL, LATER))
    followers = scene.sources.followers_chunk
    broken = [ALICE]

    async def failing(author: int, after: bytes | None, limit: int) -> object:
        if author in broken:
            raise ValueError("this author's list is broken")
        return await followers(author, after, limit)

    monkeypatch.setattr(scene.sources, "followers_chunk", failing)
    for _ in range(8):
        with contextlib.suppress(ValueError):
            run(scene.worker.work_backlog())
    assert scene.having(LATER) == READERS
    assert run(scene.deliveries()) == [Delivery(POST, ALICE)], "its author's outbox is looked up meanwhile"
    broken.clear()
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(POST) == READERS


@pytest.mark.parametrize("ends", ["it is killed", "it stops"])
def test_deliveries_of_a_worker_that_ends_are_taken_over_by_another(run: Run, scene: DeliveryScene, ends: str) -> None:
    shared = ReferenceLeases(scene.clock)
    one, other = [
        scene.start(Thresholds(push_max=5), Chunks(4, 4, 4), Leases(shared, lambda: scene.clock.ms / 1_000))
        for _ in range(2)
    ]
    assert not run(other.work_backlog()), "there is no delivery yet"
    scene.worker = one
    run(scene.post(ALICE, POST))
    scene.clock.ms += 20_000
    assert run(one.work_backlog())
    scene.clock.ms += int(POLL_S * 1_000) - 19_000
    assert not run(other.work_backlog()), "the first worker has it"
    assert scene.having(POST) == READERS[:4]
    if ends == "it stops":
        run(one.close())
    scene.clock.ms += int((POLL_S + 1) * 1_000)
    while run(other.work_backlog()):
        pass
    assert scene.having(POST) == READERS
    assert run(scene.deliveries()) == []
    assert not run(one.work_backlog()), "it was only slow, and has lost the delivery"
    assert run(scene.deliveries()) == []


def test_when_all_timelines_are_lost_no_delivery_is_left(run: Run, scene: DeliveryScene) -> None:
    run(scene.post(ALICE, POST))
    number = scene.graph.graphs.number(FOLLOWS)
    run(scene.worker.handle([Event(number, None, BULK_LOADED, 10, 0, 0, scene.graph.clock.next())]))
    assert run(scene.deliveries()) == []
    assert scene.timelines.count() == 0


def test_by_rates_each_chunk_is_decided_on_its_own(run: Run, scene: DeliveryScene) -> None:
    scene.restarted(ByRates(pull_cost=1000.0))
    run(scene.post(ALICE, POST))
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(POST) == READERS, "everybody reads often enough"
    scene.restarted(ByRates(pull_cost=0.0))
    authored = scene.graph.graphs.number(AUTHORED)
    run(scene.graph.write([scene.graph.add_write(authored, ALICE, NodeId(post)) for post in range(LATER, LATER + 5)]))
    run(scene.post(ALICE, LATER))
    while run(scene.worker.work_backlog()):
        pass
    assert scene.having(LATER) == []
    assert run(scene.lacked(BOB, 1)) == [ALICE]


def test_timelines_of_another_store_are_dropped_and_its_own_are_kept(run: Run, scene: DeliveryScene) -> None:
    run(scene.worker.claim())
    assert scene.timelines.count() == 0, "whose they were is unknown"
    scene.timelines.put(BOB, np.array([], np.int64))
    run(scene.restarted().claim())
    assert scene.timelines.count() == 1
    scene.timelines.rename()  # another store had them
    run(scene.restarted().claim())
    assert scene.timelines.count() == 0
    assert run(scene.state.snapshot()).name == scene.timelines.name()


def test_restored_posts_of_an_author_are_not_delivered_as_new(run: Run, scene: DeliveryScene) -> None:
    """They are in the outbox, and the restored follows that come after them have the followers' timelines rebuilt."""
    scene.timelines.put(ALICE, np.array([POST], np.int64))
    number = scene.graph.graphs.number(AUTHORED)
    back = [
        Event(number, State.ARCHIVED, State.NORMAL, ALICE, POST + at, 0, scene.graph.clock.next())
        for at in range(deliveries.DELIVERIES_MAX + 5)
    ]
    run(scene.worker.handle(back))
    assert run(scene.deliveries()) == []
    assert len(run(scene.state.snapshot()).withheld.authors) == 0, "no outbox is looked up for ever"
    assert scene.timelines.read(ALICE) is None
    assert scene.having(POST) == []


def test_a_timeline_made_before_an_authors_posts_are_restored_is_dropped(run: Run, scene: DeliveryScene) -> None:
    """The account is back, its posts are not yet: a timeline made in between lacks them."""
    scene.timelines.put(READERS[0], np.array([1], np.int64))
    number = scene.graph.graphs.number(AUTHORED)
    run(scene.worker.handle([Event(number, State.ARCHIVED, State.NORMAL, ALICE, POST, 0, scene.graph.clock.next())]))
    assert scene.timelines.read(READERS[0]) is None


def test_an_author_who_is_deactivated_keeps_no_timeline(run: Run, scene: DeliveryScene) -> None:
    run(scene.post(CAROL, POST))
    number = scene.graph.graphs.number(AUTHORED)
    run(scene.worker.handle([Event(number, State.NORMAL, State.REMOVED, CAROL, POST, 0, scene.graph.clock.next())]))
    assert scene.having(POST) == [BOB, CAROL], "a deleted post changes nothing"
    run(scene.worker.handle([Event(number, State.NORMAL, State.ARCHIVED, CAROL, POST, 0, scene.graph.clock.next())]))
    assert scene.having(POST) == [BOB], "the rules keep it out of the homes of others"
