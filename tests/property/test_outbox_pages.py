"""The pages of an outbox are those of a list that holds only what the reader may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import run_coroutine
from edges import all_pages
from engines import SERVICE_ENGINES, Engine, in_new_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_edges import cut_page
from services import Services
from store_types import Stores

from kith.core.ids import Snowflakes
from kith.core.paging import Mark, Page, Window
from kith.posts import posts as service_module
from kith.posts.post import Draft
from kith.stories.stories import Stories

limits = st.sampled_from([1, 2, 7, 50])
SHOWN, NOT_SHOWN = {"visibility": "public"}, {"visibility": "custom", "audience": (CAROL,)}


class Author:
    """Alice, who makes posts and stories. Bob may see some of them."""

    def __init__(self, stores: Stores) -> None:
        self.stores, self.clock = stores, FakeClock()
        self.marks: list[Mark] = []
        """The posts that Bob may see, newest first. His visible stories have the same order."""

    async def make(self, shows: list[bool], *, stories: bool = True) -> None:
        """Make a post for each value, and a story. Bob sees them if the value is true."""
        services = await Services.over(self.stores.edges, self.stores.records, self.clock)
        self.posts, graph = services.posts, services.graph
        self.stories = Stories(services.records, graph, Snowflakes(1, self.clock), hours=24, now_ms=self.clock)
        self.story_ids: list[int] = []
        for at, show in enumerate(shows):
            self.clock.ms += at % 2
            draft = Draft(text="x", **(SHOWN if show else NOT_SHOWN))  # type: ignore[arg-type]
            post = (await self.posts.create(ALICE, draft)).post
            if show:
                self.marks.insert(0, Mark(post.created_at, post.id))
            if stories:
                story = (await self.stories.create(ALICE, draft)).post
                self.story_ids += [story.id] * show

    async def fetch(self, window: Window) -> Page:
        posts, page = await self.posts.outbox(BOB, ALICE, window)
        assert [post.id for post in posts] == [mark.id for mark in page.items]
        return page

    async def story_pages(self, limit: int) -> list[list[int]]:
        """The ids of the stories, by page."""
        pages, window = [], Window(limit)
        while True:
            stories, page = await self.stories.of_author(BOB, ALICE, window)
            pages.append([story.id for story in stories])
            assert page.more_before == (window.after is not None)
            if not page.more_after:
                return pages
            window = Window(limit, after=page.oldest)


@contextmanager
def opened(engine: Engine, looks_max: int = 5_000) -> Iterator[Author]:
    with patch.object(service_module, "POSTS_SCANNED_MAX", looks_max):
        assert engine.stores
        with in_new_folder(engine.stores) as stores:
            yield Author(stores)


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@settings(max_examples=20)
@given(shows=st.lists(st.booleans(), max_size=30), limit=limits)
def test_a_page_equals_that_of_a_list_without_hidden_posts(engine: Engine, shows: list[bool], limit: int) -> None:
    async def check(author: Author) -> None:
        await author.make(shows)
        end_ms = author.clock.ms
        ranges = [(None, None), (end_ms - 5, None), (None, end_ms - 5), (end_ms - 5, end_ms - 4)]
        places = [(None, None), *((mark, None) for mark in author.marks), *((None, mark) for mark in author.marks)]
        windows = [Window(limit, *place, *range_) for place in places for range_ in ranges]
        for window in windows:
            page, expected = await author.fetch(window), cut_page(author.marks, window)
            if window.before is None:
                assert (page.items, page.more_after) == (expected.items, expected.more_after), window
                assert page.more_before == (window.after is not None)
            else:
                assert (page.items, page.more_before) == (expected.items, expected.more_before), window
            if page.more_after and window.before is None:
                assert page.oldest == expected.oldest, "the cursor is at a shown post"
            if page.more_before and page.items:
                assert page.newest == expected.newest

    with opened(engine) as author:
        run_coroutine(check(author))


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@settings(max_examples=20)
@given(shows=st.lists(st.booleans(), max_size=30), limit=limits)
def test_stories_are_paged_as_if_there_were_no_hidden_ones(engine: Engine, shows: list[bool], limit: int) -> None:
    async def check(author: Author) -> None:
        await author.make(shows)
        story_ids = author.story_ids
        assert await author.story_pages(limit) == [
            story_ids[at : at + limit] for at in range(0, len(story_ids), limit)
        ] or [[]]

    with opened(engine) as author:
        run_coroutine(check(author))


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
@pytest.mark.parametrize("looks_max", [1, 3, 10, 5_000])
@settings(max_examples=20)
@given(shows=st.lists(st.sampled_from([False, False, False, True]), max_size=40), limit=limits)
def test_an_outbox_is_complete_both_ways_however_few_posts_a_page_looks_at(
    engine: Engine, looks_max: int, shows: list[bool], limit: int
) -> None:
    async def check(author: Author) -> None:
        await author.make(shows)
        assert await all_pages(author.fetch, limit) == author.marks
        assert await all_pages(author.fetch, limit, backward=True) == author.marks
        assert [id_ for page in await author.story_pages(limit) for id_ in page] == author.story_ids

    with opened(engine, looks_max) as author:
        run_coroutine(check(author))


@pytest.mark.parametrize("engine", SERVICE_ENGINES, ids=str)
def test_a_post_beyond_thousands_of_hidden_ones_is_reached(engine: Engine) -> None:
    async def check(author: Author) -> None:
        await author.make([True, *[False] * 2_000, True], stories=False)
        assert await all_pages(author.fetch, 1) == author.marks
        first = await author.fetch(Window(1))
        assert (first.items, first.more_after) == (author.marks[:1], True), (
            "a page that has not looked further answers that there may be more"
        )

    with opened(engine, 700) as author:
        run_coroutine(check(author))
