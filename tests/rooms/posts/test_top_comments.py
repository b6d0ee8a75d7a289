"""Threads in the order of likes: equal to a naive sort, with a short delay for likes where threads are long."""

from __future__ import annotations

import random

import pytest
from cast import FakeClock
from coroutines import Run
from services import Services

from kith.core.ids import NodeId
from kith.core.paging import Mark, Window, cut
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graphs import COMMENT_LIKES, COMMENTS
from kith.graph.shapes import Listing
from kith.posts import top_comments
from kith.posts.top_comments import LIKES_CACHED_S, UNCACHED_COMMENTS_MAX, TopComments

POST = 77


class Thread:
    """Comments on a post with their numbers of likes; and `top`, on a clock of its own."""

    def __init__(self, run: Run, room: Services) -> None:
        self._run, self._graph, self.now_s = run, room.graph, 0.0
        number = room.graph.graphs.number
        self._comments, self._likes = number(COMMENTS), number(COMMENT_LIKES)
        self.top = TopComments(room.graph.store, self._likes, lambda: self.now_s)
        self.likes: dict[int, int] = {}

    def _write(self, graph: int, source: int, destination: int, state: State = State.NORMAL) -> None:
        edge = self._graph.edge_now(graph, NodeId(source), NodeId(destination), state)
        self._run(self._graph.write([EdgeWrite(edge)]))

    def comment(self, id_: int) -> None:
        self._write(self._comments, POST, id_)
        self.likes[id_] = 0

    def like(self, id_: int) -> None:
        self.likes[id_] += 1
        self._write(self._likes, 10_000 + self.likes[id_], id_)

    def delete(self, id_: int) -> None:
        self._write(self._comments, POST, id_, State.REMOVED)
        del self.likes[id_]

    def page(self, window: Window) -> list[int]:
        listings = [Listing(self._comments, NodeId(POST), Direction.OUT)]
        return [mark.id for mark in self._run(self.top.page(listings, window)).items]

    def best(self) -> list[int]:
        """The ids in the order of a naive sort."""
        return [mark.id for mark in self.marks()]

    def marks(self) -> list[Mark]:
        return sorted((Mark(likes, id_) for id_, likes in self.likes.items()), reverse=True)


@pytest.fixture
def thread(run: Run, clock: FakeClock) -> Thread:
    return Thread(run, run(Services.in_memory(clock=clock)))


@pytest.mark.parametrize("seed", range(20))
def test_pages_of_a_thread_are_those_of_a_naive_sort(run: Run, thread: Thread, seed: int) -> None:
    rng = random.Random(seed)
    for id_ in rng.sample(range(1, 500), rng.randrange(40)):
        thread.comment(id_)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
            thread.like(id_)
    listings = [Listing(thread._comments, NodeId(POST), Direction.OUT)]
    for _ in range(30):
        place = rng.choice((*thread.marks(), Mark(rng.randrange(6), rng.randrange(500))))
        window = Window(rng.randrange(1, 9), **rng.choice(({}, {"after": place}, {"before": place})))
        assert run(thread.top.page(listings, window)) == cut(thread.marks(), window), (seed, window)


def test_in_a_short_thread_each_like_counts_at_once(thread: Thread) -> None:
    for id_ in range(1, UNCACHED_COMMENTS_MAX + 1):
        thread.comment(id_)
    for id_ in (7, 3, 3):
        thread.like(id_)
        assert thread.page(Window(5)) == thread.best()[:5]


def test_in_a_long_thread_likes_count_a_moment_later_and_comments_at_once(thread: Thread) -> None:
    for id_ in range(1, UNCACHED_COMMENTS_MAX + 2):
        thread.comment(id_)
    thread.like(9)
    before = thread.best()
    assert thread.page(Window(200)) == before
    thread.like(3)
    thread.like(3)
    assert thread.page(Window(200)) == before, "a like moves nothing yet"
    thread.comment(999)
    thread.like(999)
    assert thread.page(Window(200)) == [999, *before], "a new comment has its place"
    thread.delete(50)
    assert thread.page(Window(200)) == [id_ for id_ in (999, *before) if id_ != 50]
    thread.now_s += LIKES_CACHED_S
    assert thread.page(Window(200)) == thread.best()


def test_only_a_few_threads_are_cached(monkeypatch: pytest.MonkeyPatch, thread: Thread) -> None:
    monkeypatch.setattr(top_comments, "UNCACHED_COMMENTS_MAX", 1)
    monkeypatch.setattr(top_comments, "_THREADS_MAX", 3)
    for id_ in range(1, 4):
        thread.comment(id_)
    for post in range(10):
        own = [
            Listing(thread._comments, NodeId(POST), Direction.OUT),
            Listing(thread._comments, NodeId(post), Direction.OUT),
        ]
        thread._run(thread.top.page(own[::-1], Window(3)))
    assert len(thread.top._cached) == 3
