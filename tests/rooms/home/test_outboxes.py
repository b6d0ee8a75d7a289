"""Merging outboxes finds the newest posts of any number of authors, reads few of each, and yields to other tasks."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from types import SimpleNamespace

import pytest
from coroutines import Run
from hypothesis import given
from hypothesis import strategies as st
from reference_edges import cut_page

from kith.core.paging import Mark, Page, Window
from kith.graph.graphs import AUTHORED, FOLLOWS
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.home.skeleton.sources import Sources


class Outboxes:
    """A store of outboxes only, newest first, that counts its reads."""

    immediate = True

    def __init__(self, posts: dict[int, list[Mark]]) -> None:
        self.posts, self.calls, self.pages, self.rows = posts, 0, 0, 0

    async def answer(self, questions: Questions) -> Answers:
        self.calls += 1
        return Answers([], [], [], [], [], [self._page(*asked) for asked in questions.asked_pages])

    def _page(self, listing: Listing, window: Window) -> Page:
        page = cut_page(self.posts.get(listing.node, []), window)
        self.pages += 1
        self.rows += len(page.items)
        return page

    def number(self, name: str) -> int:
        return [FOLLOWS, AUTHORED].index(name)


def over(store: Outboxes) -> Sources:
    return Sources(SimpleNamespace(store=store, graphs=store))  # type: ignore[arg-type]


def naive(store: Outboxes, limit: int, after: Mark | None) -> list[Mark]:
    merged = heapq.merge(*store.posts.values(), reverse=True)
    return list(itertools.islice((mark for mark in merged if after is None or mark < after), limit))


marks = st.builds(Mark, st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), st.integers(0, 2**63 - 1))
stores = st.lists(st.lists(marks, max_size=30), max_size=12).map(
    lambda lists: Outboxes({at: sorted(set(marks), reverse=True) for at, marks in enumerate(lists)})
)


@given(stores, st.integers(1, 100), st.none() | marks)
def test_the_newest_of_all_are_found_whoever_wrote_them(store: Outboxes, limit: int, after: Mark | None) -> None:
    assert asyncio.run(over(store).outboxes(store.posts, limit, after)) == naive(store, limit, after)


def even(authors: int, posts: int) -> Outboxes:
    """Outboxes whose posts alternate."""
    return Outboxes(
        {at: [Mark(n * authors + at, n * authors + at) for n in range(posts)][::-1] for at in range(authors)}
    )


@pytest.mark.parametrize("limit", [40, 500], ids=["a page", "a timeline"])
def test_for_a_reader_who_follows_many_few_posts_of_each_author_are_read(run: Run, limit: int) -> None:
    store = even(2_000, 30)
    assert run(over(store).outboxes(store.posts, limit)) == naive(store, limit, None)
    assert store.rows <= 4 * 2_000 + 2 * limit
    assert store.pages <= 2_000 + limit


def test_one_prolific_author_among_many_is_read_further_alone(run: Run) -> None:
    store = even(1_000, 10)
    store.posts[0] = [Mark(10**9 + at, 10**9 + at) for at in range(2_000)][::-1]
    assert run(over(store).outboxes(store.posts, 500)) == store.posts[0][:500]
    assert store.pages <= 1_000 + 10
    assert store.rows <= 4 * 1_000 + 1_500


def test_other_tasks_run_while_many_outboxes_are_read(run: Run) -> None:
    store = even(2_000, 3)
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(store.pages)
            await asyncio.sleep(0)

    async def both() -> None:
        task = asyncio.create_task(others())
        await over(store).outboxes(store.posts, 100)
        task.cancel()

    run(both())
    assert len(turns) >= 10
    assert max(later - sooner for sooner, later in itertools.pairwise(turns)) <= 200


def test_across_a_network_all_outboxes_are_read_in_a_call_a_round(run: Run) -> None:
    store = even(2_000, 30)
    store.immediate = False
    assert run(over(store).outboxes(store.posts, 500)) == naive(store, 500, None)
    assert store.calls == 1


def test_no_authors_and_empty_outboxes_give_no_posts(run: Run) -> None:
    assert run(over(Outboxes({})).outboxes([], 10)) == []
    assert run(over(Outboxes({})).outboxes([5, 6], 10)) == []
