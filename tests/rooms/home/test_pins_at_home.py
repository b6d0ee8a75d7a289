"""Pins of followed boards come home with the posts of followed users, at the time of the pin, each once."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from home_scene import HomeScene, alices_home, failing, ids_of
from services import boards_over
from store_types import EngineStores

from kith.boards.collaborators import Collaborators
from kith.boards.following import BoardFollowing
from kith.boards.pins import Pins
from kith.core.errors import StoreUnavailable
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.graphs import HIDES
from kith.home import visit as visits
from kith.home.skeleton.pinned import BOARDS_KEPT_MS, PINS_EACH

ERIN, FRANK, HEIR = NodeId(50), NodeId(51), NodeId(52)
HOUR_MS = 3_600_000


class Pinning:
    """Alice's home, and boards. She follows Bob, Carol and Dana, and not Erin, Frank and the heir."""

    def __init__(self, home: HomeScene) -> None:
        self.home, self.boards = home, boards_over(home.graph, home.posts)
        self.following, self.pins = BoardFollowing(self.boards, follows_max=100), Pins(self.boards, home.posts)

    async def board(self, owner: NodeId, *, followed: bool = True) -> int:
        board = (await self.boards.create(owner, "a board")).board.id
        if followed:
            await self.following.follow(ALICE, board)
        self.home.clock.ms += BOARDS_KEPT_MS
        return board

    async def pin(self, board: int, post: int, by: NodeId = ERIN) -> None:
        self.home.clock.ms += 1_000
        await self.pins.add(by, board, post)

    async def latest(self, limit: int = 50) -> list[int]:
        """The ids of all pages of Alice's home, newest first."""
        found: list[int] = []
        window = Window(limit)
        while True:
            page = await self.home.feed.latest(ALICE, window)
            found += ids_of(page.posts)
            if page.rest is None:
                return found
            window = Window(limit, after=page.rest, until=page.until)

    async def both(self) -> list[int]:
        """Alice's home, newest first. Checks that her ranked home has the same posts."""
        latest = await self.latest()
        assert sorted(await self.home.all()) == sorted(latest)
        return latest


@pytest.fixture
def at(run: Run, whole: EngineStores, clock: FakeClock) -> Pinning:
    return Pinning(alices_home(run, whole, clock))


def test_an_old_post_pinned_today_stands_where_it_was_pinned_and_says_why(run: Run, at: Pinning) -> None:
    async def live() -> None:
        old = (await at.home.post(FRANK)).id
        at.home.clock.ms += 100 * HOUR_MS
        before = (await at.home.post(BOB)).id
        board = await at.board(ERIN)
        await at.pin(board, old)
        at.home.clock.ms += 1_000
        after = (await at.home.post(CAROL)).id
        assert await at.both() == [after, old, before]
        page = await at.home.page()
        assert page.placed[old].reason == "followed_board"
        assert page.placed[before].reason != "followed_board"
        (post,) = await at.home.posts.read([old])
        assert post is not None
        why = await at.home.feed.why(ALICE, post)
        assert (why.placed.reason, why.excluded_by) == ("followed_board", [])
        assert {name: value for name, value, *_ in why.parts}["recency"] > 0.9
        assert await at.latest(1) == [after, old, before]

    run(live())


def test_boards_of_a_followed_user_come_home_but_for_those_unfollowed(run: Run, at: Pinning) -> None:
    async def live() -> None:
        posts = [(await at.home.post(FRANK)).id for _ in range(3)]
        one, other = await at.board(BOB, followed=False), await at.board(BOB, followed=False)
        strangers = await at.board(ERIN, followed=False)
        for board, post, by in zip((one, other, strangers), posts, (BOB, BOB, ERIN), strict=True):
            await at.pin(board, post, by)
        assert await at.both() == [posts[1], posts[0]]
        await at.following.unfollow(ALICE, one)
        assert await at.both() == [posts[1]]
        await at.home.graph.people.follow(ALICE, ERIN)
        assert await at.both() == [posts[2], posts[1]]

    run(live())


def test_the_first_board_of_all_comes_home_with_the_next_page(run: Run, at: Pinning) -> None:
    async def live() -> None:
        post = (await at.home.post(FRANK)).id
        assert await at.both() == []
        board = await at.board(BOB, followed=False)
        await at.pins.add(BOB, board, post)
        assert await at.both() == [post]

    run(live())


def test_a_further_board_comes_home_with_the_next_page_whichever_process_answers(run: Run, at: Pinning) -> None:
    async def live() -> None:
        old, *posts = [(await at.home.post(BOB)).id for _ in range(6)]
        await at.boards.create(BOB, "the first")
        assert await at.both() == [*posts[::-1], old]
        if not at.home.feed._rules.read_cache.generation:
            pytest.skip("on this engine the log cannot tell")
        further = (await at.boards.create(BOB, "another")).board.id
        await at.pin(further, old, BOB)
        assert await at.both() == [old, *posts[::-1]]
        await at.boards.delete(BOB, further)
        assert await at.both() == [*posts[::-1], old]
        await at.pin((await at.boards.create(CAROL, "Carol's first")).board.id, old, CAROL)
        assert await at.both() == [old, *posts[::-1]]

    run(live())


def test_a_user_followed_in_place_of_another_brings_their_boards_at_once(run: Run, at: Pinning) -> None:
    """As many are followed as before, in all and on the newest page."""

    async def live() -> None:
        posts = [(await at.home.post(FRANK)).id for _ in range(2)]
        boards = [await at.board(owner, followed=False) for owner in (BOB, ERIN)]
        for board, post, owner in zip(boards, posts, (BOB, ERIN), strict=True):
            await at.pin(board, post, owner)
        assert await at.both() == posts[:1]
        if not at.home.feed._rules.read_cache.generation:
            pytest.skip("on this engine the log cannot tell")
        await at.home.graph.people.unfollow(ALICE, CAROL)
        await at.home.graph.people.follow(ALICE, ERIN)
        assert await at.both() == posts[::-1]
        await at.home.graph.people.unfollow(ALICE, ERIN)
        await at.home.graph.people.follow(ALICE, CAROL)
        assert await at.both() == posts[:1]

    run(live())


Act = Callable[[Pinning, int, int], Awaitable[object]]
ENDS: dict[str, Act] = {
    "unfollowed": lambda at, board, _: at.following.unfollow(ALICE, board),
    "taken off": lambda at, board, post: at.pins.remove(ERIN, board, post),
    "secret": lambda at, board, _: at.boards.change(ERIN, board, secret=True),
    "deleted board": lambda at, board, _: at.boards.delete(ERIN, board),
    "deleted post": lambda at, _, post: at.home.posts.delete(FRANK, NodeId(post)),
    "hidden post": lambda at, _, post: at.home.engagement.add(HIDES, ALICE, NodeId(post)),
    "muted owner": lambda at, *_: at.home.graph.people.mute(ALICE, ERIN),
    "muted author": lambda at, *_: at.home.graph.people.mute(ALICE, FRANK),
    "blocked by the owner": lambda at, *_: at.home.graph.people.block(ERIN, ALICE),
    "blocked by the author": lambda at, *_: at.home.graph.people.block(FRANK, ALICE),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_pin_is_gone_from_home_as_soon_as_any_rule_says_so(run: Run, at: Pinning, end: str) -> None:
    async def live() -> None:
        post = (await at.home.post(FRANK)).id
        board = await at.board(ERIN)
        await at.pin(board, post)
        first = await at.home.page()
        assert ids_of(first.posts) == [post]
        await ENDS[end](at, board, post)
        assert await at.both() == []

    run(live())


def test_a_board_comes_home_by_its_new_owner_as_soon_as_it_is_moved(run: Run, at: Pinning) -> None:
    async def live() -> None:
        posts = [(await at.home.post(FRANK)).id for _ in range(2)]
        # one followed explicitly, one through its owner
        boards = [await at.board(ERIN), await at.board(BOB, followed=False)]
        for board, post, by in zip(boards, posts, (ERIN, BOB), strict=True):
            await at.pin(board, post, by)
        assert await at.both() == posts[::-1]
        for board, owner, to in ((boards[0], ERIN, HEIR), (boards[1], BOB, CAROL)):
            await Collaborators(at.boards).invite(owner, board, to)
            await at.boards.move(owner, board, to)
        assert await at.both() == posts[::-1]
        for owner in (HEIR, CAROL):
            await at.home.graph.people.mute(ALICE, owner)
        assert await at.both() == []

    run(live())


def test_paged_home_is_a_naive_merge_of_posts_and_newest_pins(run: Run, at: Pinning) -> None:
    chosen = random.Random(3)

    async def live() -> None:
        posts = [(await at.home.post(chosen.choice((FRANK, BOB, ALICE)))) for _ in range(60)]
        dates = {post.id: post.created_at for post in posts if post.author != FRANK}
        boards = [await at.board(ERIN), await at.board(ERIN), await at.board(ERIN, followed=False)]
        for _ in range(PINS_EACH):
            for board in boards[:2] if chosen.random() < 0.5 else boards:
                post = chosen.choice(posts).id
                pinned = set(ids_of((await at.pins.of_board(ERIN, board, Window(100)))[0]))
                await at.pin(board, post)
                if board != boards[2] and post not in pinned:
                    dates[post] = at.home.clock.ms
        wanted = sorted(dates, key=lambda post: dates[post], reverse=True)
        for limit in (1, 3, 7, 50):
            assert await at.latest(limit) == wanted
        pages = await at.home.all(5)
        assert sorted(pages) == sorted(wanted)

    run(live())


def test_a_pin_stays_where_it_is_in_a_scroll_however_many_come_meanwhile(
    run: Run, at: Pinning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "SLATE_MAX", 10)

    async def live() -> None:
        made = [(await at.home.post(BOB)).id for _ in range(40)]
        board = await at.board(ERIN)
        for post in made[:PINS_EACH]:
            await at.pin(board, post)
        newest, ranked = await at.home.feed.latest(ALICE, Window(5)), await at.home.page(5)
        assert ids_of(newest.posts) == made[PINS_EACH - 1 : PINS_EACH - 6 : -1]
        scrolled, found = ids_of(newest.posts), ids_of(ranked.posts)
        for later in range(PINS_EACH, 2 * PINS_EACH):  # until newer pins have displaced all earlier ones
            if newest.rest is not None:
                window = Window(5, after=newest.rest, until=newest.until)
                newest = await at.home.feed.latest(ALICE, window)
                scrolled += ids_of(newest.posts)
            if ranked.rest is not None:
                ranked = await at.home.page(5, ranked.rest)
                found += ids_of(ranked.posts)
            await at.pin(board, made[later])
        for ids in (scrolled, found):
            assert len(ids) == len(set(ids)), "a post came twice"
            assert set(ids) >= set(made[:PINS_EACH])

    run(live())


@pytest.mark.parametrize("again", [False, True])
def test_a_pin_removed_during_a_scroll_does_not_repeat_its_post(
    run: Run, at: Pinning, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(visits, "SLATE_MAX", 10)

    async def live() -> None:
        made = [(await at.home.post(BOB)).id for _ in range(30)]
        board = await at.board(ERIN)
        for post in (made[5], made[0], made[1]):
            await at.pin(board, post)
        await at.pins.remove(ERIN, board, made[5])  # before the scroll
        at.home.clock.ms += 1_000
        newest, ranked = await at.home.feed.latest(ALICE, Window(5)), await at.home.page(5)
        scrolled, found = ids_of(newest.posts), ids_of(ranked.posts)
        at.home.clock.ms += 1_000
        await at.pins.remove(ERIN, board, made[0])
        if again:
            await at.pin(board, made[0])
        while newest.rest is not None:
            window = Window(5, after=newest.rest, until=newest.until)
            newest = await at.home.feed.latest(ALICE, window)
            scrolled += ids_of(newest.posts)
        while ranked.rest is not None:
            ranked = await at.home.page(5, ranked.rest)
            found += ids_of(ranked.posts)
        for ids in (scrolled, found):
            assert sorted(ids) == sorted(made)

    run(live())


def test_home_works_without_boards_where_they_are_away(run: Run, at: Pinning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at.home.feed._pins, "_candidates", failing(StoreUnavailable("away")))

    async def live() -> None:
        post = (await at.home.post(BOB)).id
        await at.boards.create(ERIN, "a board")
        page = await at.home.feed.latest(ALICE, Window(5))
        assert (ids_of(page.posts), page.degraded) == ([post], ["boards"])

    run(live())
