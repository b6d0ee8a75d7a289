"""Ranking over arrays: features, the light pass, and the choice of posts for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from cast import START_MS
from hypothesis import given
from hypothesis import strategies as st

from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.home.rank import light
from kith.home.rank.features import FEATURES, TYPES, VELOCITY_HALF, Facts, Floats, features
from kith.home.rank.mixing import Mix, choose

HOUR_MS = 3_600_000
NOW = START_MS
TEXT, LINK, IMAGE, VIDEO = range(4)
MIX = Mix()


def posts(*, age_h: list[float], engagement: list[float] | None = None, types: list[int] | None = None) -> Facts:
    """Facts of posts that differ only in the given fields."""
    size = len(age_h)
    made_ms = np.array([NOW - int(age * HOUR_MS) for age in age_h], np.int64)
    return Facts(
        (made_ms - EPOCH_MS) << TIME_SHIFT,
        np.arange(size),
        np.arange(size),
        np.array(engagement or [0.0] * size, np.float32),
        np.array(types or [0] * size, np.int8),
        np.zeros(size, np.bool_),
    )


def column(rows: Floats, name: str) -> list[float]:
    values: list[float] = rows[:, FEATURES.index(name)].tolist()
    return values


# --- features and the light pass ---------------------------------------------------------------------------

ages = st.floats(-1e5, 1e5)
amounts = st.floats(0, 1e9)


@given(st.lists(st.tuples(ages, amounts, st.integers(0, len(TYPES) - 1), st.floats(0, 1, width=32)), max_size=20))
def test_every_feature_and_every_score_is_from_0_to_1(rows: list[tuple[float, float, int, float]]) -> None:
    age, engagement, types, affinity = (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [], [])
    found = features(posts(age_h=age, engagement=engagement, types=types), np.array(affinity, np.float32), NOW)
    assert found.shape == (len(rows), len(FEATURES))
    assert ((found >= 0) & (found <= 1)).all()
    scores = light.score(found, np.ones(len(rows), np.float32))
    assert ((scores >= 0) & (scores <= 1 + 1e-6)).all()
    assert np.allclose(light.contributions(found).sum(axis=1), scores, atol=1e-6)
    assert set(light.reasons(found)) <= set(light.REASONS.values())
    assert len(light.reasons(found)) == len(rows)


def test_a_newer_post_is_more_recent_and_a_post_from_the_future_is_new() -> None:
    found = column(features(posts(age_h=[-5, 0, 1, 24, 48, 1e5]), np.zeros(6, np.float32), NOW), "recency")
    assert found[0] == found[1] == 1
    assert found[1:] == sorted(found[1:], reverse=True)
    assert found[3:5] == pytest.approx([0.5, 0.25])


def test_velocity_grows_with_engagement_and_shrinks_with_age() -> None:
    by_count = features(posts(age_h=[10] * 4, engagement=[0, 1, 10, 1e6]), np.zeros(4, np.float32), NOW)
    assert column(by_count, "velocity") == sorted(column(by_count, "velocity"))
    assert column(by_count, "velocity")[0] == 0
    by_age = features(posts(age_h=[0, 2, 3, 100], engagement=[10] * 4), np.zeros(4, np.float32), NOW)
    first, second, third, last = column(by_age, "velocity")
    assert first == second == pytest.approx((10 / 2) / (10 / 2 + VELOCITY_HALF)), "the first like counts as of 2 h"
    assert second > third > last > 0


def test_pictures_and_videos_go_before_links_and_those_before_text() -> None:
    found = features(posts(age_h=[1] * 4, types=[TEXT, LINK, IMAGE, VIDEO]), np.zeros(4, np.float32), NOW)
    text, link, image, video = column(found, "type")
    assert text < link < image == video


def test_the_light_pass_weighs_as_the_article_says() -> None:
    units = np.eye(len(FEATURES), dtype=np.float32)
    scores = dict(zip(FEATURES, light.score(units, np.ones(len(FEATURES), np.float32)).tolist(), strict=True))
    assert scores == pytest.approx({"recency": 0.3, "affinity": 0.4, "velocity": 0.2, "type": 0.1})
    assert light.score(units, np.full(len(FEATURES), 0.5, np.float32)).tolist() == pytest.approx([0.15, 0.2, 0.1, 0.05])
    assert light.reasons(units) == ["recent", "friend_interaction", "popular", "content_type"]


# --- a page ------------------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A post for a page, with the fields that `choose` reads."""

    id: int
    author: int
    type: int
    age_h: float


def candidate(id_: int, author: int, kind: int = TEXT, age_h: float = 100) -> Candidate:
    return Candidate(id_, author, kind, age_h)


def facts_of(rows: Sequence[Candidate]) -> Facts:
    """The candidates as columns. The ids encode their ages, so posts of one age share an id."""
    found = posts(age_h=[row.age_h for row in rows], types=[row.type for row in rows])
    return found._replace(authors=np.array([row.author for row in rows], np.int64))


def places_of(ranked: list[Candidate], taken: list[Candidate], want: int, *, more: bool = False) -> list[int]:
    return choose(facts_of(ranked), facts_of(taken), want, MIX, NOW, more=more)


candidates = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 3), st.sampled_from([0.1, 5.9, 6.1, 100])), max_size=60
).map(lambda rows: [candidate(at, *row) for at, row in enumerate(rows)])


def page_of(ranked: list[Candidate], want: int, *, more: bool = False) -> list[Candidate]:
    return [ranked[at] for at in places_of(ranked, [], want, more=more)]


@given(candidates, st.integers(1, 20))
def test_pages_show_each_candidate_exactly_once(ranked: list[Candidate], want: int) -> None:
    waiting, shown = list(ranked), []
    for _ in range(len(ranked)):
        page = page_of(waiting, want)
        assert page == page_of(waiting, want), "the choice is deterministic"
        assert bool(page) == bool(waiting)
        assert len(page) <= want
        assert len(page) == min(want, len(waiting)), "no page is short while there is more"
        on_page, left = (Counter(post.author for post in part) for part in (page, set(waiting) - set(page)))
        most = max(on_page.values(), default=0)
        assert most <= MIX.author_max or all(on_page[author] >= most - 1 for author in left), (
            "as few of each author as possible"
        )
        assert [waiting.index(post) for post in page] == sorted(waiting.index(post) for post in page), "best first"
        shown += page
        waiting = [post for post in waiting if post not in page]
    assert not waiting
    assert sorted(shown) == sorted(ranked)


@given(candidates, st.integers(1, 20), st.integers(1, 19))
def test_a_page_chosen_in_two_steps_keeps_its_bounds(ranked: list[Candidate], want: int, cut: int) -> None:
    taken = page_of(ranked, min(cut, want), more=True)
    rest = [post for post in ranked if post not in taken]
    more = [rest[at] for at in places_of(rest, taken, want - len(taken), more=True)]
    whole = Counter(post.author for post in [*taken, *more])
    assert len(taken) + len(more) <= want
    assert max(whole.values(), default=0) <= MIX.author_max


def test_an_author_has_at_most_two_posts_on_a_page_while_others_have_any() -> None:
    bobs, carols = [candidate(at, 1) for at in range(30)], [candidate(at, 2) for at in range(30, 50)]
    others = [candidate(at, at) for at in range(50, 60)]
    assert [post.id for post in page_of([*bobs, *carols, *others], 14)] == [0, 1, 30, 31, *range(50, 60)]
    assert page_of(bobs, 20) == bobs[:20]
    assert page_of(bobs, 20, more=True) == bobs[:2], "other authors may be among the posts not looked at yet"


def test_a_short_page_is_filled_evenly_from_all_authors() -> None:
    bobs, carols = [candidate(at, 1) for at in range(30)], [candidate(at, 2) for at in range(30, 50)]
    dana = [candidate(50, 3)]
    page = page_of([*bobs, *carols, *dana], 20)
    assert Counter(post.author for post in page) == {1: 10, 2: 9, 3: 1}
    assert [post.id for post in page] == [*range(10), *range(30, 39), 50], "the best of each author"
    rest = [*bobs[3:], *carols]
    assert places_of(rest, bobs[:3], 5) == [0, 27, 28, 29, 30], "posts already on the page count"


def test_a_type_beyond_its_share_gives_way_while_others_are_left() -> None:
    texts = [candidate(at, at, TEXT) for at in range(20)]
    images = [candidate(at, at, IMAGE) for at in range(20, 30)]
    page = page_of([*texts, *images], 20)
    assert Counter(post.type for post in page) == {TEXT: 10, IMAGE: 10}
    assert [post.id for post in page[:10]] == list(range(10)), "the first ten are simply the best"
    assert page_of(texts, 20) == texts, "no other type is left"


def test_a_fifth_of_a_page_is_reserved_for_the_best_fresh_posts() -> None:
    old, fresh = [candidate(at, at) for at in range(30)], [candidate(at, at, age_h=1) for at in range(30, 40)]
    page = page_of([*old, *fresh], 20)
    assert [post.id for post in page] == [*range(16), 30, 31, 32, 33]
    assert page_of([*fresh, *old], 20) == [*fresh, *old][:20], "fresh posts that rank best need no quota"
    assert page_of(fresh, 1) == fresh[:1]
    taken = fresh[:4]
    rest = places_of([*old, *fresh[4:]], taken, 16)
    assert rest == list(range(16)), "the quota counts for the whole page"


def test_no_candidates_or_no_room_give_an_empty_page() -> None:
    assert places_of([], [], 20) == []
    assert places_of([candidate(1, 1)], [], 0) == []
