"""Posts that a reader has seen come after all others in the ranked home, each once, and are marked as seen."""

from __future__ import annotations

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from home_scene import HomeScene, alices_home, ids_of
from services import home_over
from store_types import EngineStores

from kith.core.ids import NodeId
from kith.graph.graphs import LIKES, VIEWS
from kith.home import visit as visits
from kith.home.home import Home
from kith.home.rank.ranker import SEEN_MAX
from kith.home.slate import SLATE_MAX, unpack
from kith.posts.post import PostEdit


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return alices_home(run, whole, clock)


def test_a_seen_post_comes_after_all_others_however_much_was_seen_since(run: Run, home: HomeScene) -> None:
    old = run(home.post(BOB))
    run(home.engagement.add(VIEWS, ALICE, old.id))
    for at in range(SEEN_MAX):  # views of any posts
        home.clock.ms += 1
        run(home.graph.write([home.graph.add_write(home.graph.graphs.number(VIEWS), ALICE, NodeId(10**12 + at))]))
    new = run(home.post(BOB))
    page = run(home.page())
    assert (ids_of(page.posts), page.seen) == ([new.id, old.id], {old.id})
    assert run(home.feed.why(ALICE, old)).excluded_by == ["seen"]
    assert run(home.feed.why(ALICE, new)).excluded_by == []


def test_a_reader_who_has_seen_the_newest_gets_older_posts_at_once(run: Run, home: HomeScene) -> None:
    old = [run(home.post(author)).id for author in (BOB, CAROL)]
    for at in range(SLATE_MAX):
        post = run(home.post((BOB, CAROL, DANA)[at % 3]))
        run(home.engagement.add(VIEWS, ALICE, post.id))
    page = run(home.page(20))
    assert (len(page.posts), sorted(ids_of(page.posts[:2])), len(page.seen)) == (20, old, 18)


def test_a_home_whose_posts_were_all_seen_shows_each_once(run: Run, home: HomeScene) -> None:
    made = [run(home.post((BOB, CAROL, DANA)[at % 3])).id for at in range(SLATE_MAX + 30)]
    for id_ in made:
        run(home.engagement.add(VIEWS, ALICE, NodeId(id_)))
    home.clock.ms += 1
    found, slate = [], None
    while slate is None or found:
        page = run(home.page(50, slate))
        assert set(page.seen) == set(ids_of(page.posts))
        found += ids_of(page.posts)
        run(home.post(BOB))  # a new post comes with the next load
        if page.rest is None:
            break
        slate = unpack(page.rest.pack())
    assert len(found) == len(made)
    assert set(found) == set(made)


def test_posts_seen_during_a_scroll_do_not_come_a_second_time(run: Run, home: HomeScene) -> None:
    before, *others = [run(home.post((BOB, CAROL, DANA)[at % 3])).id for at in range(9)]
    run(home.engagement.add(VIEWS, ALICE, NodeId(before)))
    found, seen, slate = [], set(), None
    for _ in range(9):
        page = run(home.page(2, slate))
        home.clock.ms += 5
        for post in page.posts:  # an app reports what was on the screen
            run(home.engagement.add(VIEWS, ALICE, NodeId(post.id)))
        found += ids_of(page.posts)
        seen |= set(page.seen)
        if page.rest is None:
            break
        slate = unpack(page.rest.pack())
    assert (sorted(found[:-1]), found[-1], seen) == (others, before, {before})


def test_a_view_that_was_being_written_when_a_scroll_began_does_not_repeat_its_post(run: Run, home: HomeScene) -> None:
    earlier, late = [run(home.post(author)) for author in (BOB, CAROL)]
    run(home.engagement.add(VIEWS, ALICE, earlier.id))
    home.clock.ms += 5
    view = home.graph.add_write(home.graph.graphs.number(VIEWS), ALICE, late.id)
    home.clock.ms += 5
    first = run(home.page(1))
    run(home.graph.write([view]))
    assert first.rest is not None
    rest = run(home.all(1, unpack(first.rest.pack())))
    assert (ids_of(first.posts), rest) == ([late.id], [earlier.id])


def test_a_view_written_while_the_first_page_is_made_loses_no_post(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts = [run(home.post(author)) for author in (BOB, CAROL)]
    run(home.engagement.add(VIEWS, ALICE, posts[0].id))
    read_own = home.ranker.own

    async def own_before_a_view(reader: NodeId) -> object:
        own = await read_own(reader)
        monkeypatch.undo()
        home.clock.ms += 5
        await home.engagement.add(VIEWS, ALICE, posts[1].id)
        return own

    monkeypatch.setattr(home.ranker, "own", own_before_a_view)
    assert sorted(run(home.all(1))) == sorted(ids_of(posts))


@pytest.mark.parametrize("on_top", [0, 3])
def test_a_reader_who_has_seen_a_great_deal_gets_it_again_before_older_unseen_posts(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch, on_top: int
) -> None:
    monkeypatch.setattr(visits, "SLATE_MAX", 10)
    made = [run(home.post((BOB, CAROL, DANA)[at % 3])).id for at in range(130)]
    unseen = {*made[:5], *made[len(made) - on_top :]}
    for id_ in made:
        if id_ not in unseen:
            run(home.engagement.add(VIEWS, ALICE, NodeId(id_)))
    page = run(home.page(7))
    found, seen = ids_of(page.posts), set(page.seen)
    while page.rest is not None:
        assert len(page.posts) == 7, "a page is full while there is more"
        home.clock.ms += 5
        run(home.engagement.add(VIEWS, ALICE, NodeId(found[-1])))  # on the screen by now
        page = run(home.page(7, unpack(page.rest.pack())))
        found += ids_of(page.posts)
        seen |= set(page.seen)
    assert sorted(found[:on_top]) == made[len(made) - on_top :]
    assert (len(found), sorted(found)) == (len(made), made)
    assert seen == set(made) - unseen
    assert found.index(made[0]) > 30, "that is further down than anybody waits for"


def test_a_copy_of_a_seen_post_is_not_new_either_and_stands_behind_it(run: Run, home: HomeScene) -> None:
    link = "https://example.com/a"
    bobs, carols = run(home.post(BOB, "", link=link)), run(home.post(CAROL, "", link=link))
    other = run(home.post(DANA)).id
    run(home.engagement.add(VIEWS, ALICE, bobs.id))
    run(home.engagement.add(LIKES, DANA, carols.id))
    home.clock.ms += 1
    page = run(home.page())
    assert (ids_of(page.posts), page.seen, page.copies) == ([other, bobs.id], {bobs.id}, {bobs.id: [carols.id]})
    why = run(home.feed.why(ALICE, carols))
    assert (why.excluded_by, why.copy_of) == (["copy"], bobs.id)
    run(home.graph.people.mute(ALICE, BOB))
    page = run(home.page())
    assert (ids_of(page.posts), page.seen) == ([other, carols.id], {carols.id}), (
        "it takes the place of the post that she saw"
    )
    run(home.posts.delete(BOB, bobs.id))
    home.clock.ms += 40_000
    page = run(home.page())
    assert (set(ids_of(page.posts)), page.seen) == ({other, carols.id}, set()), "then it is a copy of no post"


@pytest.mark.parametrize("change", ["deleted", "edited"])
@pytest.mark.parametrize("begun_by", ["one who knew it", "one who did not"])
def test_processes_agree_on_copies_of_a_seen_post_that_was_changed_just_now(
    run: Run, home: HomeScene, change: str, begun_by: str
) -> None:
    text = "what everybody copies " * 5
    seen, like_it = run(home.post(BOB, text)), run(home.post(CAROL, text))
    others = [run(home.post(DANA)).id for _ in range(3)]
    run(home.engagement.add(VIEWS, ALICE, seen.id))
    give_timeline(run, home, [seen.id, like_it.id, *others])
    assert run(home.page()).copies == {seen.id: [like_it.id]}
    if not home.feed._rules.read_cache.generation:
        pytest.skip("on this engine the log cannot tell")
    home.clock.ms += 1_000
    if change == "deleted":
        run(home.posts.delete(BOB, seen.id))
    else:
        run(home.posts.edit(BOB, seen.id, PostEdit(text="something else")))
    other = home_over(home.graph, home.posts, home.timelines.store, home.fanout, home.log, now_ms=home.clock)
    first, then = (home.feed, other) if begun_by == "one who knew it" else (other, home.feed)
    found = scrolled(run, home, first, then)
    assert sorted(found) == sorted({like_it.id, *others} | ({seen.id} if change == "edited" else set()))


def test_a_post_that_is_no_copy_since_it_was_edited_is_new_at_once(run: Run, home: HomeScene) -> None:
    text = "what everybody copies " * 5
    seen, like_it, other = run(home.post(BOB, text)), run(home.post(CAROL, text)), run(home.post(DANA))
    run(home.engagement.add(VIEWS, ALICE, seen.id))
    give_timeline(run, home, [seen.id, like_it.id, other.id])
    assert run(home.page()).copies == {seen.id: [like_it.id]}
    if not home.feed._rules.read_cache.generation:
        pytest.skip("on this engine the log cannot tell")
    run(home.posts.edit(CAROL, like_it.id, PostEdit(text="her own words")))
    home.clock.ms += 1_000
    page = run(home.page())
    assert (set(ids_of(page.posts[:2])), page.posts[2].id) == ({like_it.id, other.id}, seen.id)
    assert (page.seen, page.copies) == ({seen.id}, {})


def give_timeline(run: Run, home: HomeScene, posts: list[int]) -> None:
    """Give Alice a timeline with these posts, which come oldest first."""
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(posts[::-1], np.int64))
    home.clock.ms += 1


def scrolled(run: Run, home: HomeScene, first: Home, then: Home) -> list[int]:
    """Alice's ranked home, post by post: one process makes the first page, and another all others."""
    page = run(first.ranked(ALICE, 1))
    found = ids_of(page.posts)
    while page.rest is not None:
        home.clock.ms += 5
        page = run(then.ranked(ALICE, 1, unpack(page.rest.pack())))
        found += ids_of(page.posts)
    return found
