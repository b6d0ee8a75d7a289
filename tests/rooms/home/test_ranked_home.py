"""The ranked home: whose posts, in which order, each once, through every cursor; and never a forbidden post."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run, answer
from home_scene import HIDING_ACTIONS, Act, HomeScene, alices_home, failing, ids_of
from store_types import EngineStores

from kith.core.errors import PostNotFound, SelfEdge, StoreUnavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graphs import HIDES, LIKES, VIEWS
from kith.home.home import CANDIDATES_PER_PAGE, HomePage
from kith.home.rank import light
from kith.home.rank.features import FEATURES, VERSION, Facts
from kith.home.rank.ranker import FEWER_HALF_LIFE_MS
from kith.home.slate import SLATE_MAX, Slate

DAY_MS = 86_400_000


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return alices_home(run, whole, clock)


# --- order, pages ------------------------------------------------------------------------------------------


def test_each_page_is_best_first_with_two_an_author(run: Run, home: HomeScene) -> None:
    made = [run(home.post(author)).id for _ in range(5) for author in (BOB, CAROL, DANA, ALICE)]
    pages = run(home.pages(8))
    assert [len(page) for page in pages] == [8, 8, 4]
    assert all(max(Counter(post.author for post in page).values()) <= 2 for page in pages)
    assert sorted(id_ for page in pages for id_ in ids_of(page)) == sorted(made)
    first = run(home.page(20))
    scores = [first.placed[post.id].score for post in first.posts]
    assert scores == sorted(scores, reverse=True)


def test_a_prolific_author_does_not_hide_the_others_behind_the_best_fifty(run: Run, home: HomeScene) -> None:
    others = [run(home.post(author)).id for author in (CAROL, DANA)]
    home.clock.ms += 3 * DAY_MS
    bobs = [run(home.post(BOB)).id for _ in range(60)]
    first = run(home.page(20)).posts
    assert sorted(ids_of(first)) == sorted([*others, *bobs[-18:]])
    assert run(home.all(20))[20:] == bobs[-19::-1], "then there is nobody else"


@pytest.mark.parametrize("authors", [1, 2, 3])
def test_no_page_of_a_reader_who_follows_few_is_short_while_there_is_more(
    run: Run, home: HomeScene, authors: int
) -> None:
    made = [run(home.post((BOB, CAROL, DANA)[at % authors])).id for at in range(90)]
    pages = run(home.pages(20))
    assert [len(page) for page in pages] == [20, 20, 20, 20, 10]
    assert sorted(id_ for page in pages for id_ in ids_of(page)) == made
    per_author = [Counter(post.author for post in page).values() for page in pages]
    assert all(max(counts) - min(counts) <= 1 for counts in per_author), "no author crowds out the others"


def test_a_slate_that_is_used_up_continues_with_older_posts(run: Run, home: HomeScene) -> None:
    authors = [BOB, CAROL, DANA]
    made = [run(home.post(authors[at % 3])).id for at in range(SLATE_MAX + 130)]
    found = run(home.all(50))
    assert len(found) == len(made)
    assert set(found) == set(made)
    assert set(found[:SLATE_MAX]) == set(made[-SLATE_MAX:])


def test_paging_is_the_same_with_and_without_a_timeline(run: Run, home: HomeScene) -> None:
    made = [run(home.post(author)).id for _ in range(20) for author in (BOB, CAROL)]
    run(home.catch_up_fanout())
    without = run(home.all(7))
    home.timelines.put(ALICE, np.array(made[::-1], np.int64))
    assert run(home.all(7)) == without
    assert set(without) == set(made)
    for _ in range(480):  # enough to push out the oldest
        home.timelines.push(made[-1], np.array([ALICE]))
    assert set(run(home.all(7))) == set(made)


def test_a_timeline_that_holds_all_posts_ends_home_without_reading_outboxes(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(home.post(author)).id for _ in range(20) for author in (BOB, CAROL, DANA)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array(made[::-1], np.int64))
    monkeypatch.setattr(home.feed._skeletons, "_from_outboxes", failing(StoreUnavailable("not needed")))
    assert set(run(home.all(7))) == set(made)


def test_a_newly_followed_author_is_at_home_at_once_where_the_timeline_is_short(run: Run, home: HomeScene) -> None:
    made = [run(home.post(author)).id for author in (BOB, CAROL)]
    run(home.catch_up_fanout())
    home.timelines.put(ALICE, np.array([], np.int64))  # made before anybody was followed
    assert set(run(home.all(7))) == set(made)


def test_a_reader_who_follows_many_gets_the_newest_posts_of_all(run: Run, home: HomeScene) -> None:
    crowd = [NodeId(1000 + at) for at in range(250)]
    for author in crowd:
        run(home.graph.people.follow(ALICE, author))
    made = [run(home.post(crowd[at % 7 if at % 3 else at % 250])).id for at in range(700)]
    run(home.catch_up_fanout())
    found: list[int] = []
    window = Window(50)
    while True:
        page = run(home.feed.latest(ALICE, window))
        found += ids_of(page.posts)
        if page.rest is None:
            break
        window = Window(50, after=page.rest)
    assert found == made[::-1]


@pytest.mark.parametrize("limit", [1, 20])
def test_a_page_is_full_however_many_of_the_best_are_hidden(run: Run, home: HomeScene, limit: int) -> None:
    shown = [run(home.post(BOB)).id for _ in range(20)]
    home.clock.ms += 3 * DAY_MS
    for _ in range(300):
        run(home.post(CAROL, visibility="friends"))
    assert [len(page) for page in run(home.pages(limit))] == [limit] * (20 // limit)
    assert sorted(run(home.all(limit))) == shown


def test_a_page_is_full_however_many_copies_of_one_post_are_hidden(run: Run, home: HomeScene) -> None:
    other = run(home.post(BOB)).id
    alike = [run(home.post(CAROL, "the same", visibility="friends" if at else "public")).id for at in range(30)]
    assert sorted(ids_of(run(home.page(2)).posts)) == sorted([other, alike[0]])


# --- hidden, forbidden -------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", HIDING_ACTIONS.values(), ids=HIDING_ACTIONS)
@pytest.mark.parametrize("timeline", [False, True], ids=["from outboxes", "from a timeline"])
def test_a_forbidden_post_does_not_come_out_of_a_cursor_either(
    run: Run, home: HomeScene, act: Act, timeline: bool
) -> None:
    made = [run(home.post(author)) for _ in range(3) for author in (BOB, CAROL)]
    bobs = next(post for post in made if post.author == BOB)
    run(home.catch_up_fanout())
    if timeline:
        home.timelines.put(ALICE, np.array(ids_of(made[::-1]), np.int64))
    first = run(home.page(1))
    while bobs in first.posts or first.posts[0].author == BOB:  # start with one of Carol's
        run(home.engagement.add(LIKES, ALICE, made[1].id))
        home.clock.ms += 40_000
        first = run(home.page(1))
    run(act(home, bobs))
    carols = {post.id for post in made if post.author == CAROL}
    kept = {post.id for post in made if post.author == BOB} - {bobs.id}
    expected = carols | (kept if act in (HIDING_ACTIONS["hidden"], HIDING_ACTIONS["deleted"]) else set())
    assert first.rest is not None
    assert bobs.id in first.rest.every_id(), "the cursor knows the post"
    assert set(run(home.all(2, first.rest))) == expected - set(ids_of(first.posts))
    assert set(run(home.all(2))) == expected


@pytest.mark.parametrize("visibility", ["private", "friends", "custom"])
def test_posts_for_others_stay_out(run: Run, home: HomeScene, visibility: str) -> None:
    audience = {"audience": (CAROL,)} if visibility == "custom" else {}
    run(home.post(BOB, visibility=visibility, **audience))
    shown = run(home.post(BOB, visibility="custom", audience=(ALICE,)))
    assert run(home.all()) == [shown.id]
    assert not {post for page in home.served for post in page.ids} - {shown.id}


def test_where_no_visible_post_is_left_there_is_no_cursor(run: Run, home: HomeScene) -> None:
    for at in range(CANDIDATES_PER_PAGE):
        run(home.post(BOB, visibility="private"))
        if at in (0, 1, 20, CANDIDATES_PER_PAGE - 1):
            empty = run(home.page(1))
            assert (empty.posts, empty.rest) == ([], None), at
    shown = run(home.post(CAROL))
    only = run(home.page(1))
    assert (only.posts, only.rest) == ([shown], None)
    run(home.post(CAROL))
    assert run(home.page(1)).rest is not None


# --- copies ------------------------------------------------------------------------------------------------

LONG = "the same " * 12
"""So long that no two authors write it independently."""


def test_posts_that_friends_write_independently_are_no_copies(run: Run, home: HomeScene) -> None:
    made = [run(home.post(author, text)).id for text in ("Happy new year!", "🎉") for author in (BOB, CAROL, DANA)]
    link = "https://example.com/a"
    made += [run(home.post(author, f"what {author} thinks", link=link)).id for author in (BOB, CAROL, DANA)]
    page = run(home.page())
    assert sorted(ids_of(page.posts)) == made
    assert not page.copies


def test_copies_come_once_the_best_of_them_and_the_others_are_named(run: Run, home: HomeScene) -> None:
    copies = [run(home.post(author, text)).id for author, text in ((CAROL, LONG.upper()), (DANA, f"  {LONG}"))]
    best = run(home.post(BOB, LONG))
    other = run(home.post(DANA))
    for limit in (1, 20):
        assert sorted(run(home.all(limit))) == sorted([best.id, other.id])
    assert run(home.page()).copies == {best.id: copies[::-1]}
    for copy in copies:
        why = run(home.feed.why(ALICE, run(home.posts.get(ALICE, copy))))
        assert (why.excluded_by, why.copy_of) == (["copy"], best.id)
    why = run(home.feed.why(ALICE, best))
    assert (why.excluded_by, why.copy_of) == ([], None)


def test_an_author_who_says_the_same_again_is_shown_once(run: Run, home: HomeScene) -> None:
    first = run(home.post(BOB, "good  morning")).id
    last = run(home.post(BOB, "Good morning")).id
    carols = run(home.post(CAROL, "good morning")).id
    page = run(home.page())
    assert sorted(ids_of(page.posts)) == [last, carols]
    assert page.copies == {last: [first]}


@pytest.mark.parametrize("act", HIDING_ACTIONS.values(), ids=HIDING_ACTIONS)
def test_of_copies_a_visible_one_is_shown(run: Run, home: HomeScene, act: Act) -> None:
    carols, others = run(home.post(CAROL, LONG)), [run(home.post(DANA)).id for _ in range(2)]
    bobs = run(home.post(BOB, LONG))
    before = run(home.page(20))
    assert carols.id not in ids_of(before.posts)
    begun = run(home.page(1))
    run(act(home, bobs))
    assert sorted(run(home.all())) == sorted([carols.id, *others])
    later = run(home.all(1, begun.rest))
    assert len(later) == len(set(later))
    if bobs not in begun.posts:
        assert carols.id in later


def test_a_private_copy_neither_hides_nor_betrays_itself(run: Run, home: HomeScene) -> None:
    carols = run(home.post(CAROL, LONG))
    private = run(home.post(BOB, LONG, visibility="private"))
    page = run(home.page())
    assert (ids_of(page.posts), page.copies) == ([carols.id], {})
    shown = run(home.post(DANA, LONG))
    assert run(home.page()).copies == {shown.id: [carols.id]}, f"{private.id} is revealed to nobody"
    assert run(home.feed.why(ALICE, carols)).copy_of == shown.id


def test_of_many_copies_the_only_visible_one_is_found(run: Run, home: HomeScene) -> None:
    seen = run(home.post(CAROL, LONG))
    for _ in range(5):
        run(home.post(BOB, LONG, visibility="private"))
    found: list[int] = []
    slate: Slate | None = None
    for _ in range(10):
        page: HomePage[Slate] = run(home.page(20, slate))
        found += ids_of(page.posts)
        if (slate := page.rest) is None:
            break
    assert found == [seen.id]


# --- see fewer ---------------------------------------------------------------------------------------------


def by(*authors: int) -> Facts:
    """A post of each author."""
    size = len(authors)
    ids, amounts = np.arange(size), np.zeros(size, np.float32)
    return Facts(ids, np.array(authors, np.int64), ids, amounts, np.zeros(size, np.int8), np.zeros(size, np.bool_))


def test_see_fewer_lowers_an_author_fades_and_can_be_taken_back(run: Run, home: HomeScene) -> None:
    def damping(reader: NodeId, *authors: int) -> list[float]:
        return home.ranker.damping(run(home.ranker.reader_facts(reader)), by(*authors)).tolist()

    def factor() -> float:
        return damping(ALICE, BOB, CAROL)[0]

    assert factor() == 1
    written = run(home.graph.people.see_fewer(ALICE, BOB))
    assert written.holds
    assert factor() == pytest.approx(0.1)
    assert damping(ALICE, CAROL, DANA) == [1, 1]
    assert damping(BOB, BOB) == [1], "it holds for Alice alone"
    home.clock.ms += FEWER_HALF_LIFE_MS
    assert factor() == pytest.approx(0.55)
    home.clock.ms += FEWER_HALF_LIFE_MS
    assert factor() == pytest.approx(0.775)
    run(home.graph.people.see_fewer(ALICE, BOB))
    assert factor() == pytest.approx(0.1), "saying it again restarts the fading"
    assert not run(home.graph.people.undo_see_fewer(ALICE, BOB)).holds
    assert factor() == 1
    assert run(answer(home.graph.people.see_fewer(ALICE, ALICE))) is SelfEdge


def test_fewer_of_an_author_means_later_not_never(run: Run, home: HomeScene) -> None:
    bobs, carols = [run(home.post(BOB)).id for _ in range(2)], [run(home.post(CAROL)).id for _ in range(2)]
    run(home.graph.people.see_fewer(ALICE, BOB))
    found = run(home.all())
    assert set(found[:2]) == set(carols)
    assert set(found[2:]) == set(bobs)


# --- why, and what was served ------------------------------------------------------------------------------


def test_why_says_what_the_feed_showed(run: Run, home: HomeScene) -> None:
    posts = [run(home.post(author)) for author in (BOB, CAROL, DANA, ALICE)]
    run(home.engagement.add(LIKES, ALICE, posts[1].id))
    run(home.graph.people.see_fewer(ALICE, DANA))
    page = run(home.page())
    assert set(page.placed) == set(ids_of(posts))
    for post in posts:
        why = run(home.feed.why(ALICE, post))
        assert why.placed.score == pytest.approx(page.placed[post.id].score, abs=1e-6)
        assert why.placed.reason == page.placed[post.id].reason
        assert why.placed.score == pytest.approx(sum(adds for *_, adds in why.parts) * why.damping, abs=1e-6)
        assert [(name, weight) for name, _, weight, _ in why.parts] == list(light.WEIGHTS.items())
        assert why.excluded_by == []
    assert page.placed[posts[3].id].reason == light.OWN


def test_why_names_what_keeps_a_post_out(run: Run, home: HomeScene) -> None:
    post = run(home.post(BOB))
    run(home.graph.people.unfollow(ALICE, BOB))
    run(home.graph.people.mute(ALICE, BOB))
    run(home.engagement.add(HIDES, ALICE, post.id))
    run(home.engagement.add(VIEWS, ALICE, post.id))
    assert set(run(home.feed.why(ALICE, post)).excluded_by) == {"not_followed", "muted", "hidden", "seen"}


def test_why_of_a_post_that_is_deleted_meanwhile_is_not_found(run: Run, home: HomeScene) -> None:
    post = run(home.post(BOB))
    run(home.posts.delete(BOB, post.id))
    assert run(answer(home.feed.why(ALICE, post))) is PostNotFound


def test_the_log_of_served_pages_matches_the_answers(run: Run, home: HomeScene) -> None:
    for _ in range(3):
        for author in (BOB, CAROL, DANA):
            run(home.post(author))
    slate = None
    for number in range(3):
        home.clock.ms += 10
        page = run(home.feed.ranked(ALICE, 4, slate, request=f"request {number}"))
        logged = home.served[-1]
        assert len(home.served) == number + 1
        assert logged.ids == ids_of(page.posts) == list(page.placed)
        assert logged.scores == [page.placed[id_].score for id_ in logged.ids]
        assert (logged.request, logged.reader, logged.at_ms) == (f"request {number}", ALICE, home.clock.ms)
        assert (logged.model, logged.version) == (light.MODEL, VERSION)
        rows = np.frombuffer(logged.rows, "<f4").reshape(len(logged.ids), len(FEATURES))
        assert light.score(rows, np.ones(len(rows), np.float32)).tolist() == pytest.approx(logged.scores, abs=1e-6)
        slate = page.rest


def test_an_empty_page_is_not_logged(run: Run, home: HomeScene) -> None:
    assert run(home.page()).posts == []
    assert home.served == []
