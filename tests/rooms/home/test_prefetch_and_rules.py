"""Which posts a page checks beyond those that it shows, and what it prefetches while it checks the rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from home_scene import HomeScene, alices_home, ids_of
from store_types import EngineStores

from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import EdgeWrite, State
from kith.graph.graphs import AUTHORED, HIDES, LIKES
from kith.home.timelines import TIMELINE_IDS_MAX
from kith.posts.post import Post


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return alices_home(run, whole, clock)


class RecordingPrefetch:
    """A Prefetch that records the posts that it is called with."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    async def __call__(self, posts: Sequence[Post]) -> None:
        self.ids += [post.id for post in posts]


def test_the_prefetch_is_for_the_posts_of_the_page(run: Run, home: HomeScene) -> None:
    made = [run(home.post((BOB, CAROL)[at % 2])).id for at in range(10)][::-1]
    run(home.engagement.add(HIDES, ALICE, NodeId(made[1])))
    latest, ranked = RecordingPrefetch(), RecordingPrefetch()
    page = run(home.feed.latest(ALICE, Window(3), prefetch=latest))
    assert ids_of(page.posts) == [made[0], made[2], made[3]]
    assert latest.ids == made[:3], "the one in place of the hidden post is read with the page"
    assert len(run(home.feed.ranked(ALICE, 3, prefetch=ranked)).posts) == 3
    assert len(ranked.ids) <= 4, "neither copies, nor posts left for the next page"


@pytest.mark.parametrize(("limit", "lost"), [(1, 30), (1, 600), (20, 600)])
@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_a_page_of_the_newest_is_full_however_many_newer_posts_are_hidden(
    run: Run, home: HomeScene, timeline: bool, limit: int, lost: int
) -> None:
    shown = [run(home.post(CAROL)).id for _ in range(limit + 1)]
    newer = [run(home.post(BOB)).id for _ in range(lost)]
    run(home.catch_up_fanout())
    if timeline:
        newest = [*shown, *newer][-TIMELINE_IDS_MAX:]
        home.timelines.put(ALICE, np.array(newest[::-1], np.int64))
    run(home.graph.people.mute(ALICE, BOB))
    run(home.catch_up_fanout())
    page = run(home.feed.latest(ALICE, Window(limit)))
    assert ids_of(page.posts) == shown[:0:-1]
    assert page.rest is not None
    assert ids_of(run(home.feed.latest(ALICE, Window(limit, after=page.rest))).posts) == shown[:1]


@pytest.mark.parametrize("kind", ["latest", "ranked"])
def test_an_unchanged_page_is_not_prefetched_again(run: Run, home: HomeScene, kind: str) -> None:
    made = [run(home.post((BOB, CAROL)[at % 2])).id for at in range(10)][::-1]

    def page() -> tuple[set[int], int]:
        """The posts of a page, and for how many of them details are prefetched."""
        asked = RecordingPrefetch()
        if kind == "latest":
            posts = run(home.feed.latest(ALICE, Window(20), prefetch=asked)).posts
        else:
            posts = run(home.feed.ranked(ALICE, 20, prefetch=asked)).posts
        return set(ids_of(posts)), len(asked.ids)

    assert page() == (set(made), 10)
    if not home.feed._rules.read_cache.generation:
        pytest.skip("on this engine nothing is kept")
    run(home.engagement.add(LIKES, CAROL, NodeId(made[0])))
    run(home.graph.people.follow(BOB, CAROL))
    assert page() == (set(made), 0)
    run(home.engagement.add(HIDES, ALICE, NodeId(made[1])))
    assert page() == ({*made} - {made[1]}, 10)
    run(home.posts.delete(BOB, made[3]))
    run(home.graph.people.mute(ALICE, CAROL))
    assert page()[0] == {id_ for id_ in made[1::2] if id_ not in (made[1], made[3])}
    assert page()[1] == 0


def test_a_page_knows_whether_a_short_rest_has_any_post_for_the_reader(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(BOB)).id for _ in range(6)]
    reads: list[list[int]] = []
    read = home.posts.read

    async def noted(ids: Sequence[int]) -> list[Post | None]:
        reads.append(list(ids))
        return await read(ids)

    monkeypatch.setattr(home.posts, "read", noted)
    first = run(home.page(2))
    assert first.rest is not None
    assert (len(reads), {*reads[0]}) == (1, {*made})
    for id_ in first.rest.ids:
        run(home.engagement.add(HIDES, ALICE, NodeId(id_)))
    assert run(home.page(2)).rest is None, "no post that is left is for her"


@pytest.mark.parametrize("kind", ["latest", "ranked"])
def test_a_post_that_is_forbidden_after_its_record_was_read_is_not_shown(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    kept, hidden = run(home.post(BOB)), run(home.post(CAROL))
    read = home.posts.read

    async def overtaken(ids: Sequence[int]) -> list[Post | None]:
        found = await read(ids)
        monkeypatch.setattr(home.posts, "read", read)
        await home.graph.people.block(CAROL, ALICE)
        return found

    def page() -> list[int]:
        return ids_of(run(home.page() if kind == "ranked" else home.feed.latest(ALICE, Window(5))).posts)

    monkeypatch.setattr(home.posts, "read", overtaken)
    assert page() == [kept.id]
    run(home.graph.people.unblock(CAROL, ALICE))
    run(home.graph.people.follow(ALICE, CAROL))
    run(home.catch_up_fanout())
    assert hidden.id in page()


@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_the_home_of_a_deactivated_user_lacks_their_posts_until_they_are_back(
    run: Run, home: HomeScene, timeline: bool
) -> None:
    made = [run(home.post(ALICE)).id for _ in range(3)]
    run(home.catch_up_fanout())
    if timeline:
        home.timelines.put(ALICE, np.array(made[::-1], np.int64))
    authored = home.graph.graphs.number(AUTHORED)
    for state, there in ((State.ARCHIVED, []), (State.NORMAL, made[::-1])):
        edges = [home.graph.edge_now(authored, ALICE, NodeId(post), state) for post in made]
        run(home.graph.write([EdgeWrite(edge) for edge in edges]))
        assert ids_of(run(home.feed.latest(ALICE, Window(5))).posts) == there, "before fan-out handled it"
