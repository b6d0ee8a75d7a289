"""Whatever else an author made, the pages of an outbox are those of what the reader may see, as if it were all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ReferenceEdges, cut_page
from reference_records import ReferenceRecords
from world import ALICE, BOB, CAROL, ENGINES, FakeClock, all_pages, open_embedded, run_all

from kith.core.clock import HybridClock
from kith.core.ids import Snowflakes
from kith.core.paging import Mark, Page, Window
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.graph.graph import Graph
from kith.graph.graphs import BUILT_IN, Graphs
from kith.graph.store import EdgeStore
from kith.posts import posts as service_module
from kith.posts.post import Draft
from kith.posts.posts import Posts
from kith.records.store import RecordStore
from kith.stories.stories import Stories

limits = st.sampled_from([1, 2, 7, 50])
SHOWN, NOT_SHOWN = {"visibility": "public"}, {"visibility": "custom", "audience": (CAROL,)}


class Author:
    """Alice, who makes posts and stories, some of which Bob may see."""

    def __init__(self, edges: EdgeStore, objects: RecordStore) -> None:
        self.edges, self.objects, self.clock = edges, objects, FakeClock()
        self.marks: list[Mark] = []
        """What Bob may see of the posts, newest first, and so of the stories, which were made when they were."""

    async def make(self, shows: list[bool]) -> None:
        """A post and a story for each."""
        graph = Graph(self.edges, Graphs(await self.edges.declare(BUILT_IN)), HybridClock(self.clock))
        self.posts = Posts(self.objects, graph, Snowflakes(0, self.clock))
        self.stories = Stories(self.objects, graph, Snowflakes(1, self.clock), hours=24, now_ms=self.clock)
        self.told: list[int] = []
        for at, show in enumerate(shows):
            self.clock.ms += at % 2
            draft = Draft(text="x", **(SHOWN if show else NOT_SHOWN))  # type: ignore[arg-type]
            post = (await self.posts.create(ALICE, draft)).post
            story = (await self.stories.create(ALICE, draft)).post
            if show:
                self.marks.insert(0, Mark(post.created_at, post.id))
                self.told.append(story.id)

    async def fetch(self, window: Window) -> Page:
        posts, page = await self.posts.outbox(BOB, ALICE, window)
        assert [post.id for post in posts] == [mark.id for mark in page.items]
        return page

    async def tell(self, limit: int) -> list[list[int]]:
        """The stories by their pages."""
        pages, window = [], Window(limit)
        while True:
            stories, page = await self.stories.of_author(BOB, ALICE, window)
            pages.append([story.id for story in stories])
            assert page.more_before == (window.after is not None)
            if not page.more_after:
                return pages
            window = Window(limit, after=page.oldest)


@contextmanager
def opened(engine: str, looks_max: int = 5_000) -> Iterator[Author]:
    with patch.object(service_module, "OUTBOX_LOOKS_MAX", looks_max):
        if engine == "reference":
            edges = ReferenceEdges()
            yield Author(edges, ReferenceRecords(edges))
        else:
            with (
                tempfile.TemporaryDirectory(prefix="kith-") as folder,
                open_embedded(Path(folder)) as (environment, store),
            ):
                yield Author(store, EmbeddedRecords(environment, store._commits))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20)
@given(shows=st.lists(st.booleans(), max_size=30), limit=limits)
def test_a_page_is_the_one_of_a_list_without_what_is_not_shown(engine: str, shows: list[bool], limit: int) -> None:
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
                assert page.oldest == expected.oldest, "the cursor stands at what is shown"
            if page.more_before and page.items:
                assert page.newest == expected.newest

    with opened(engine) as author:
        run_all(check(author))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20)
@given(shows=st.lists(st.booleans(), max_size=30), limit=limits)
def test_stories_are_paged_as_if_there_were_no_others(engine: str, shows: list[bool], limit: int) -> None:
    async def check(author: Author) -> None:
        await author.make(shows)
        told = author.told
        assert await author.tell(limit) == [told[at : at + limit] for at in range(0, len(told), limit)] or [[]]

    with opened(engine) as author:
        run_all(check(author))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("looks_max", [1, 3, 10, 5_000])
@settings(max_examples=20)
@given(shows=st.lists(st.sampled_from([False, False, False, True]), max_size=40), limit=limits)
def test_an_outbox_is_whole_both_ways_however_little_a_page_looks_at(
    engine: str, looks_max: int, shows: list[bool], limit: int
) -> None:
    async def check(author: Author) -> None:
        await author.make(shows)
        assert await all_pages(author.fetch, limit) == author.marks
        assert await all_pages(author.fetch, limit, backward=True) == author.marks
        assert [id_ for page in await author.tell(limit) for id_ in page] == author.told

    with opened(engine, looks_max) as author:
        run_all(check(author))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_lies_beyond_thousands_that_are_not_shown_is_reached(engine: str) -> None:
    async def check(author: Author) -> None:
        await author.make([True, *[False] * 2_000, True])
        assert await all_pages(author.fetch, 1) == author.marks
        first = await author.fetch(Window(1))
        assert (first.items, first.more_after) == (author.marks[:1], True), "what it does not know it does not deny"

    with opened(engine, 700) as author:
        run_all(check(author))
