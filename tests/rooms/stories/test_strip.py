"""The strip over a feed: which authors have stories for a reader, in which order, and how it reports its bounds."""

from __future__ import annotations

import asyncio

import pytest
from cast import ALICE, BOB, CAROL, DANA
from story_scene import FIRST_PAGE, StoryScene

from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.stories import strip as strips
from kith.stories.strip import StripEntry


def test_the_strip_begins_with_the_readers_own_then_the_unseen_then_the_closest(scene: StoryScene) -> None:
    others = [NodeId(author) for author in range(10, 16)]
    scene.follow(*((BOB, author) for author in others))
    stories = {author: scene.tell(author) for author in [*others, BOB]}
    scene.close = {10: 0.5, 11: 7.25, 12: 0.5, 13: 0.0, 14: 3e5}
    scene.view(BOB, stories[NodeId(11)], stories[NodeId(12)])
    assert scene.authors() == [BOB, 14, 10, 15, 13, 11, 12]
    scene.close = {}
    assert scene.authors() == [BOB, 15, 14, 13, 10, 12, 11], "the latest author first, where nobody is closer"


def test_an_entry_counts_what_the_reader_may_see_and_has_not_seen(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    one, two = scene.tell(), scene.tell()
    scene.tell(visibility="friends")
    scene.view(BOB, one)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 1, two.created_at, False)]
    scene.view(BOB, two)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 0, two.created_at, False)]
    assert scene.strip(ALICE).entries[0][1:3] == (3, 0), "a reader's own stories count as seen"


def test_authors_not_followed_muted_or_without_visible_stories_are_not_in_the_strip(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE), (BOB, CAROL))
    scene.tell(ALICE)
    scene.tell(CAROL, visibility="custom", audience=(DANA,))
    scene.tell(DANA)
    assert scene.authors() == [ALICE]
    scene.run(scene.graph.people.mute(BOB, ALICE))
    scene.settle()
    assert scene.authors() == []


def test_the_strip_is_paged_and_whole(scene: StoryScene) -> None:
    others = [NodeId(author) for author in range(10, 20)]
    scene.follow(*((BOB, author) for author in others))
    for author in others:
        scene.tell(author)
    whole, window, found = scene.authors(), Window(3), []
    while True:
        part = scene.strip(BOB, window)
        found += [entry.author for entry in part.entries]
        if not part.page.more_after:
            break
        window = Window(3, after=part.page.oldest)
    assert found == whole
    assert len(whole) == 10


def test_of_very_many_authors_the_closest_are_shown_and_the_strip_says_so(
    scene: StoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "AUTHORS_MAX", 3)
    monkeypatch.setattr(strips, "STORIES_MAX", 2)
    others = [NodeId(author) for author in range(10, 15)]
    scene.follow(*((BOB, author) for author in others))
    for author in [*others, NodeId(12), NodeId(12), BOB]:
        scene.tell(author)
    scene.close = {10: 1.0, 12: 3.0, 14: 2.0}
    shown = scene.strip()
    assert [entry.author for entry in shown.entries] == [BOB, 12, 14, 10]
    assert [(entry.stories, entry.more) for entry in shown.entries] == [(1, False), (2, True), (1, False), (1, False)]
    assert shown.partial
    scene.run(scene.graph.people.unfollow(BOB, NodeId(11)))
    scene.run(scene.graph.people.unfollow(BOB, NodeId(13)))
    scene.settle()
    assert not scene.strip().partial


def test_beyond_the_bound_of_follows_the_newest_are_read_and_the_strip_says_so(
    scene: StoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [NodeId(author) for author in range(10, 15)]
    scene.follow(*((BOB, author) for author in others))
    for author in others:
        scene.tell(author)
    monkeypatch.setattr(strips, "FOLLOWED_MAX", 5)
    assert not scene.strip().partial
    monkeypatch.setattr(strips, "FOLLOWED_MAX", 4)
    shown = scene.strip()
    assert shown.partial
    assert len(shown.entries) == 4


def test_stories_that_the_reader_may_not_see_neither_hide_others_nor_count(
    scene: StoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "STORIES_MAX", 2)
    scene.follow((BOB, ALICE))
    shown = scene.tell(ALICE)
    for _ in range(3):
        scene.tell(ALICE, visibility="custom", audience=(CAROL,))
    assert scene.strip().entries == [StripEntry(ALICE, 1, 1, shown.created_at, False)]
    second = scene.tell(ALICE)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 2, second.created_at, False)]
    third = scene.tell(ALICE)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 2, third.created_at, True)]


def test_other_tasks_run_while_a_long_strip_is_read(scene: StoryScene) -> None:
    others = [NodeId(author) for author in range(10, 10 + 4 * strips.AUTHORS_PER_BATCH)]
    scene.follow(*((BOB, author) for author in others))
    for author in others:
        scene.tell(author)

    async def turns() -> int:
        reading, taken = asyncio.ensure_future(scene.strips.page(BOB, FIRST_PAGE)), 0
        while not reading.done():
            taken += 1
            await asyncio.sleep(0)
        return taken

    assert scene.run(turns()) > 4


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), -5.0, 1e300])
def test_any_closeness_makes_an_order(scene: StoryScene, odd: float) -> None:
    scene.follow((BOB, ALICE), (BOB, CAROL))
    scene.tell(CAROL)
    scene.tell(ALICE)
    scene.close = {ALICE: odd, CAROL: 1.0}
    assert scene.authors() == ([ALICE, CAROL] if odd > 1 else [CAROL, ALICE])
