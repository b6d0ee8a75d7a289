"""Cached ranked orders: used while nothing that they were made from changed, and never to show a forbidden post."""

from __future__ import annotations

import home_scene
import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from home_scene import Act, HomeScene, alices_home, failing, ids_of
from services import home_over
from store_types import EngineStores

from kith.core.events import NOWHERE
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.graph.graphs import FEWER, HIDES, LIKES, VIEWS
from kith.home.home import Home
from kith.home.orders import ORDER_KEPT_MS, Basis, CachedOrders
from kith.home.rank.affinity import ListState
from kith.home.rank.candidates import Candidates
from kith.home.rank.ranker import ReaderFacts
from kith.home.slate import PageChoice, Scroll, Slate
from kith.posts.labels import Moderation
from kith.posts.post import Post, PostEdit
from kith.records.cache_tables import CacheGeneration, ChangeHistory

EVE = NodeId(88)


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return alices_home(run, whole, clock)


@pytest.fixture
def rankings(home: HomeScene, monkeypatch: pytest.MonkeyPatch) -> list[NodeId]:
    """The reader of each first page that was ranked."""
    ranked: list[NodeId] = []
    seen = home.ranker.seen

    async def noted(reader: ReaderFacts, ids: np.ndarray) -> np.ndarray:
        ranked.append(reader.id)
        return await seen(reader, ids)

    monkeypatch.setattr(home.ranker, "seen", noted)
    return ranked


def in_another_process(home: HomeScene) -> Home:
    """A home over the same store and timelines, which has cached nothing and learned of no change."""
    return home_over(home.graph, home.posts, home.timelines.store, home.fanout, home.log, now_ms=home.clock)


def written(run: Run, home: HomeScene, *, timeline: bool = True) -> list[Post]:
    """Some posts of authors whom Alice follows, delivered by fan-out."""
    made = [run(home.post(author)) for _ in range(4) for author in (BOB, CAROL, DANA)]
    run(home.catch_up_fanout())
    if timeline:
        home.timelines.put(ALICE, np.array(ids_of(made[::-1]), np.int64))
    return made


# --- cached ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_a_reader_who_returns_is_not_ranked_again(
    run: Run, home: HomeScene, rankings: list[NodeId], timeline: bool
) -> None:
    written(run, home, timeline=timeline)
    first = run(home.page(5))
    home.clock.ms += ORDER_KEPT_MS - 1
    again = run(home.page(5))
    assert (ids_of(again.posts), again.placed, again.copies) == (ids_of(first.posts), first.placed, first.copies)
    assert rankings == [ALICE]
    assert first.rest is not None
    assert again.rest is not None
    assert again.rest.ids == first.rest.ids
    assert again.rest.scroll.begun_ms == home.clock.ms, "posts that are seen from now on do not come again"
    everything = run(home.all(7))
    assert len(everything) == len(set(everything)) == 12


def test_pages_of_any_size_are_made_of_a_cached_order(run: Run, home: HomeScene, rankings: list[NodeId]) -> None:
    made = [run(home.post((BOB, CAROL, DANA)[at % 3], "alike " * 20 if at < 6 else None)).id for at in range(120)]
    run(home.page(1))
    for limit in (50, 20, 3):
        found = run(home.all(limit))
        assert len(found) == len(set(found)) == len(made) - 5
    assert rankings == [ALICE]


def test_an_order_is_cached_for_a_while(run: Run, home: HomeScene, rankings: list[NodeId]) -> None:
    written(run, home)
    run(home.page(5))
    home.clock.ms += ORDER_KEPT_MS
    run(home.page(5))
    assert rankings == [ALICE] * 2
    home.clock.ms -= 5_000  # the clock is put back
    run(home.page(5))
    assert rankings == [ALICE] * 3


def test_cached_orders_are_bounded_and_expire() -> None:
    orders = CachedOrders(lambda *_: True, ChangeHistory(CacheGeneration()), readers_max=2)
    basis = Basis(b"", ListState([], []))
    choice = PageChoice(Candidates.unranked(np.arange(2)), {2}, 3, {})

    def keep(reader: int, now_ms: int) -> None:
        orders.keep(reader, basis, 0, NOWHERE, Slate([0, 1, 2], None, scroll=Scroll(now_ms)), 2, choice)

    def are_kept(now_ms: int) -> set[int]:
        return {
            reader
            for reader in range(5)
            if orders.find(reader, basis, choice.posts.facts.ids, 2, must_reflect=NOWHERE, now_ms=now_ms) is not None
        }

    for reader in (0, 1, 0, 2):
        keep(reader, 1_000)
    assert (are_kept(1_000), len(orders)) == ({0, 2}, 2), "the order made first goes"
    keep(3, 1_000 + ORDER_KEPT_MS)
    assert (are_kept(1_000 + ORDER_KEPT_MS), len(orders)) == ({3}, 1)


def test_a_token_of_a_later_write_forces_a_new_ranking(run: Run, home: HomeScene, rankings: list[NodeId]) -> None:
    made = written(run, home)
    run(home.page(5))
    run(home.engagement.add(LIKES, ALICE, NodeId(made[0].id)))
    run(home.catch_up_fanout())
    token = run(home.log.end())
    run(home.page(5))
    assert rankings == [ALICE], "a like moves posts a little later"
    for _ in range(2):
        run(home.feed.ranked(ALICE, 5, must_reflect=token))
    assert rankings == [ALICE] * 2, "at once with the token, and the new order reflects it"
    run(home.feed.ranked(ALICE, 5, refresh=True))
    assert rankings == [ALICE] * 3


def test_an_order_made_without_a_part_is_not_cached(run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    written(run, home)
    monkeypatch.setattr(home.timelines.store, "read", failing(ZeroDivisionError()))
    assert run(home.page()).degraded == ["timelines"]
    monkeypatch.undo()
    monkeypatch.setattr(home.ranker, "score", failing(RuntimeError()))
    assert run(home.page()).degraded == ["ranking"]
    monkeypatch.undo()
    assert run(home.page()).placed


# --- invalidated -------------------------------------------------------------------------------------------

HIDING_ACTIONS: dict[str, Act] = {
    **home_scene.HIDING_ACTIONS,
    "made private": lambda home, post: home.posts.edit(BOB, NodeId(post.id), PostEdit(visibility="private")),
    "labelled": lambda home, post: Moderation(home.posts).set("post", NodeId(post.id), HIDE),
    "author labelled": lambda home, _: Moderation(home.posts).set("user", BOB, HIDE),
}
OF_ALL_BOBS = {"muted", "blocking", "blocked", "unfollowed", "author labelled", "deactivated", "removed"}


@pytest.mark.parametrize("name", HIDING_ACTIONS)
@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_a_cached_order_shows_nothing_that_is_forbidden_by_now(
    run: Run, home: HomeScene, name: str, timeline: bool
) -> None:
    made = written(run, home, timeline=timeline)
    bobs = [post.id for post in made if post.author == BOB]
    assert set(run(home.all())) == set(ids_of(made))
    run(HIDING_ACTIONS[name](home, made[0]))
    gone = set(bobs) if name in OF_ALL_BOBS else {bobs[0]}
    for limit in (20, 2):
        assert set(run(home.all(limit))) == set(ids_of(made)) - gone
    fresh = run(in_another_process(home).ranked(ALICE, 20))
    assert set(ids_of(fresh.posts)) == set(ids_of(made)) - gone


ALLOWING: dict[str, tuple[Act, Act]] = {
    "muted": (HIDING_ACTIONS["muted"], lambda home, _: home.graph.people.unmute(ALICE, BOB)),
    "hidden": (
        HIDING_ACTIONS["hidden"], lambda home, post: home.engagement.drop(HIDES, ALICE, NodeId(post.id))
    ),
    "labelled": (HIDING_ACTIONS["labelled"], lambda home, post: Moderation(home.posts).set("post", NodeId(post.id), 0)),
    "unfollowed": (HIDING_ACTIONS["unfollowed"], lambda home, _: home.graph.people.follow(ALICE, BOB)),
}  # fmt: skip


@pytest.mark.parametrize(("forbid", "allow"), ALLOWING.values(), ids=ALLOWING)
def test_posts_that_may_be_seen_again_are_there_at_once(run: Run, home: HomeScene, forbid: Act, allow: Act) -> None:
    made = written(run, home)
    run(forbid(home, made[0]))
    assert made[0].id not in run(home.all())
    run(allow(home, made[0]))
    assert set(run(home.all())) == set(ids_of(made))


@pytest.mark.parametrize("author", [BOB, ALICE], ids=["of one who is followed", "of the reader"])
@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_a_new_post_is_at_home_at_once(
    run: Run, home: HomeScene, rankings: list[NodeId], author: NodeId, timeline: bool
) -> None:
    made = written(run, home, timeline=timeline)
    run(home.page())
    new = run(home.post(author))
    assert set(run(home.all())) == {*ids_of(made), new.id}, "before fan-out handled it"
    run(home.catch_up_fanout())
    home.timelines.push(new.id, np.array([ALICE]))
    rankings.clear()
    assert new.id in ids_of(run(home.page(5)).posts)
    assert rankings == [], "it is the same home, whichever source its posts come from"


def test_posts_of_a_newly_followed_author_are_at_home_at_once(run: Run, home: HomeScene) -> None:
    theirs = run(home.post(EVE))
    made = written(run, home)
    assert theirs.id not in run(home.all())
    run(home.graph.people.follow(ALICE, EVE))
    assert set(run(home.all())) == {*ids_of(made), theirs.id}


def test_a_seen_post_goes_behind_unseen_ones_at_once(run: Run, home: HomeScene) -> None:
    written(run, home)
    for count in range(1, 4):
        best = run(home.page(20)).posts[0]
        run(home.engagement.add(VIEWS, ALICE, NodeId(best.id)))
        home.clock.ms += 1
        page = run(home.page(20))
        assert (len(page.posts), len(page.seen), page.posts[0] != best) == (12, count, True)


def test_see_fewer_holds_at_once_and_so_does_taking_it_back(run: Run, home: HomeScene) -> None:
    written(run, home)
    before = run(home.page())
    fewer = home.graph.graphs.number(FEWER)
    run(home.graph.write([home.graph.add_write(fewer, ALICE, BOB)]))
    assert {post.author for post in run(home.page(20)).posts[-4:]} == {BOB}
    run(home.graph.write([home.graph.remove_write(fewer, ALICE, BOB)]))
    assert ids_of(run(home.page()).posts) == ids_of(before.posts)


def test_a_cached_order_of_one_process_follows_writes_of_another(run: Run, home: HomeScene) -> None:
    made = written(run, home)
    other = in_another_process(home)
    for act in (
        HIDING_ACTIONS["hidden"],
        HIDING_ACTIONS["muted"],
        HIDING_ACTIONS["deleted"],
        HIDING_ACTIONS["unfollowed"],
    ):
        for feed in (home.feed, other):
            run(feed.ranked(ALICE, 20))
        run(act(home, made[0]))
        shown = [ids_of(run(feed.ranked(ALICE, 20)).posts) for feed in (home.feed, other, in_another_process(home))]
        assert shown[0] == shown[1] == shown[2]
        assert made[0].id not in shown[0]
