"""Stories over both kinds of engine: who sees them, until when, in which order, and that they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import Run, answer
from reference_edges import ReferenceEdges, ScrambledEdges
from reference_records import ReferenceRecords
from services import Social

from kith.core.clock import HybridClock
from kith.core.errors import Forbidden, InvalidContent, PostNotFound, StoryNotFound
from kith.core.ids import NodeId, Snowflakes
from kith.core.paging import Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graphs import AUTHORED, BUILT_IN, STORIES, STORY_VIEWS, Graphs
from kith.graph.store import Listing
from kith.posts.post import Draft, Post
from kith.posts.posts import Posts
from kith.records.store import RecordKind
from kith.stories import strip as strips
from kith.stories.reclaiming import GRACE_MS, reclaim
from kith.stories.stories import HOUR_MS, Stories
from kith.stories.strip import Strip, StripEntry, StripPage

DAY_MS = 24 * HOUR_MS
FIRST_PAGE = Window(50)


class Theatre:
    """The services over one store, and how close everybody is to everybody."""

    def __init__(self, run: Run, clock: FakeClock, edges: ReferenceEdges) -> None:
        self.run, self.clock, self.edges = run, clock, edges
        self.graph = Social(edges, Graphs(run(edges.declare(BUILT_IN))), HybridClock(clock))
        self.store = ReferenceRecords(edges)
        self.posts = Posts(self.store, self.graph, Snowflakes(0, clock))
        self.stories = Stories(self.store, self.graph, self.posts.snowflakes, hours=24, now_ms=clock)
        self.close: dict[int, float] = {}
        self.strips = Strip(self.graph, self.stories, self.closeness)

    async def closeness(self, viewer: NodeId, authors: Sequence[int]) -> list[float]:
        return [self.close.get(author, 0.0) for author in authors]

    def settle(self) -> None:
        if isinstance(self.edges, ScrambledEdges):
            self.edges.settle()

    def tell(self, author: NodeId = ALICE, later_ms: int = 1_000, **fields: Any) -> Post:
        """A new story, some time after what was before."""
        self.clock.ms += later_ms
        made = self.run(self.stories.create(author, Draft(**{"text": "look", **fields}))).post
        self.settle()
        return made

    def follow(self, *pairs: tuple[NodeId, NodeId]) -> None:
        for pair in pairs:
            self.run(self.graph.people.follow(*pair))
        self.settle()

    def found(self, viewer: NodeId | None, story: Post) -> bool:
        """Whether the viewer gets it, at both doors for one story."""
        (listed,) = self.run(self.stories.visible(viewer, [story.id]))
        got = self.run(answer(self.stories.get(viewer, story.id)))
        assert (listed is not None) == (got is not StoryNotFound)
        return listed is not None

    def of(self, author: NodeId, viewer: NodeId | None = BOB, window: Window = FIRST_PAGE) -> list[int]:
        return [story.id for story in self.run(self.stories.of_author(viewer, author, window))[0]]

    def strip(self, viewer: NodeId = BOB, window: Window = FIRST_PAGE) -> StripPage:
        return self.run(self.strips.page(viewer, window))

    def authors(self, viewer: NodeId = BOB) -> list[int]:
        return [entry.author for entry in self.strip(viewer).entries]

    def view(self, viewer: NodeId, *stories: Post) -> None:
        for story in stories:
            self.run(self.stories.view(viewer, story.id))
        self.settle()

    def viewers(self, story: Post, actor: NodeId | None = ALICE) -> list[int]:
        return [mark.id for mark in self.run(self.stories.viewers(actor, story.id, FIRST_PAGE)).items]


@pytest.fixture(params=["transactions", "none"])
def theatre(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> Theatre:
    return Theatre(run, clock, ReferenceEdges() if request.param == "transactions" else ScrambledEdges(seed=2))


# --- until when ------------------------------------------------------------------------------------------


def test_a_story_is_there_until_its_last_millisecond_and_then_for_nobody(theatre: Theatre) -> None:
    theatre.follow((BOB, ALICE))
    story = theatre.tell()
    theatre.view(BOB, story)
    theatre.clock.ms = story.created_at + DAY_MS - 1
    assert theatre.stories.over_at(story) == theatre.clock.ms + 1
    assert all(theatre.found(viewer, story) for viewer in (ALICE, BOB, None))
    assert (theatre.of(ALICE), theatre.authors(), theatre.viewers(story)) == ([story.id], [ALICE], [BOB])
    theatre.clock.ms += 1
    assert not any(theatre.found(viewer, story) for viewer in (ALICE, BOB, None))
    assert (theatre.of(ALICE), theatre.of(ALICE, ALICE), theatre.of(ALICE, None)) == ([], [], [])
    assert theatre.authors() == theatre.authors(ALICE) == []
    for asked in (
        theatre.stories.view(BOB, story.id),
        theatre.stories.viewers(ALICE, story.id, FIRST_PAGE),
        theatre.stories.viewers(None, story.id, FIRST_PAGE),
        theatre.stories.delete(ALICE, story.id),
    ):
        assert theatre.run(answer(asked)) is StoryNotFound


def test_hours_are_a_setting_that_holds_for_old_stories_too(theatre: Theatre) -> None:
    story = theatre.tell()
    longer = Stories(theatre.store, theatre.graph, theatre.posts.snowflakes, hours=48, now_ms=theatre.clock)
    theatre.clock.ms += DAY_MS
    assert not theatre.found(ALICE, story)
    assert theatre.run(longer.get(ALICE, story.id)) == story


def test_ids_that_were_never_a_story_are_nothing(theatre: Theatre) -> None:
    post = theatre.run(theatre.posts.create(ALICE, Draft(text="a post"))).post
    story = theatre.tell()
    for id_ in (0, 5, post.id, story.id + 1, DANA):
        assert theatre.run(answer(theatre.stories.get(ALICE, NodeId(id_)))) is StoryNotFound
    assert theatre.run(theatre.stories.visible(ALICE, [0, story.id, story.id, 5])) == [None, story, story, None]


# --- its own shelf ---------------------------------------------------------------------------------------


def test_a_story_is_no_post_at_any_door(theatre: Theatre) -> None:
    story = theatre.tell()
    posts = theatre.posts
    assert theatre.run(posts.visible(None, [story.id])) == [None]
    assert theatre.run(posts.outbox(None, ALICE, FIRST_PAGE))[0] == []
    assert theatre.run(answer(posts.delete(ALICE, story.id))) is PostNotFound
    number = theatre.graph.graphs.number(AUTHORED)
    assert theatre.run(theatre.edges.count_many([Listing(number, ALICE, Direction.OUT)])) == [0]


def test_one_key_makes_one_story_and_may_make_one_post(theatre: Theatre) -> None:
    draft = Draft(text="same")
    first, again = (theatre.run(theatre.stories.create(ALICE, draft, "key")).post for _ in range(2))
    post = theatre.run(theatre.posts.create(ALICE, draft, "key")).post
    theatre.settle()
    assert first == again
    assert post.id != first.id
    assert theatre.of(ALICE) == [first.id]


def test_a_story_for_nobody_is_refused(theatre: Theatre) -> None:
    for fields in ({"visibility": "private"}, {"text": ""}, {"visibility": "custom"}):
        asked = theatre.stories.create(ALICE, Draft(**{"text": "x", **fields}))  # type: ignore[arg-type]
        assert theatre.run(answer(asked)) is InvalidContent


# --- who sees it -----------------------------------------------------------------------------------------


def test_the_hard_rules_hold_at_every_door(theatre: Theatre) -> None:
    theatre.follow((BOB, ALICE), (CAROL, ALICE), (ALICE, BOB))
    public = theatre.tell()
    friends = theatre.tell(visibility="friends")
    custom = theatre.tell(visibility="custom", audience=(CAROL,))
    everything = [public.id, friends.id, custom.id]
    assert theatre.of(ALICE, ALICE) == theatre.of(ALICE, None) == everything
    assert theatre.of(ALICE, BOB) == [public.id, friends.id]
    assert theatre.of(ALICE, CAROL) == [public.id, custom.id]
    assert [entry.stories for entry in theatre.strip(CAROL).entries] == [2]
    assert not theatre.found(BOB, custom)
    assert theatre.run(answer(theatre.stories.view(BOB, custom.id))) is StoryNotFound
    assert theatre.run(answer(theatre.stories.viewers(BOB, custom.id, FIRST_PAGE))) is StoryNotFound
    for block in ((ALICE, BOB), (CAROL, ALICE)):
        theatre.run(theatre.graph.people.block(*block))
    theatre.settle()
    for viewer in (BOB, CAROL):
        assert theatre.of(ALICE, viewer) == theatre.authors(viewer) == []
        assert not any(theatre.found(viewer, story) for story in (public, friends, custom))


def test_stories_of_private_accounts_are_for_followers(theatre: Theatre) -> None:
    theatre.follow((BOB, ALICE))
    theatre.run(theatre.edges.change_node(ALICE, private=True))
    story = theatre.tell()
    assert theatre.found(BOB, story)
    assert not theatre.found(CAROL, story)


@pytest.mark.parametrize("state", [State.ARCHIVED, State.REMOVED])
def test_stories_of_accounts_that_are_gone_are_gone(theatre: Theatre, state: State) -> None:
    theatre.follow((BOB, ALICE))
    story = theatre.tell()
    theatre.run(theatre.edges.change_node(ALICE, state=state))
    assert not theatre.found(BOB, story)
    assert theatre.of(ALICE) == theatre.authors() == []


def test_only_its_author_deletes_a_story_and_nothing_of_it_stays_readable(theatre: Theatre) -> None:
    story = theatre.tell(text="a secret")
    assert theatre.run(answer(theatre.stories.delete(BOB, story.id))) is Forbidden
    theatre.run(theatre.stories.delete(ALICE, story.id))
    theatre.settle()
    assert not any(theatre.found(viewer, story) for viewer in (ALICE, BOB, None))
    assert theatre.of(ALICE, ALICE) == []
    assert b"secret" not in b"".join(record.data for record in theatre.store.records.values())


# --- seen ------------------------------------------------------------------------------------------------


def test_seen_is_remembered_once_and_its_author_reads_who(theatre: Theatre) -> None:
    story = theatre.tell()
    first = theatre.run(theatre.stories.view(BOB, story.id))
    theatre.clock.ms += 5_000
    theatre.view(CAROL, story)
    assert theatre.run(theatre.stories.view(BOB, story.id)).at_ms == first.at_ms
    theatre.settle()
    assert theatre.viewers(story) == theatre.viewers(story, None) == [CAROL, BOB]
    assert theatre.run(theatre.stories.view_counts([story.id])) == [2]
    assert theatre.run(answer(theatre.stories.viewers(BOB, story.id, FIRST_PAGE))) is Forbidden
    seen = [theatre.run(theatre.stories.seen(viewer, [story])) for viewer in (BOB, DANA, ALICE, None)]
    assert seen == [[True], [False], [True], [False]]


def test_authors_are_not_among_their_viewers(theatre: Theatre) -> None:
    story = theatre.tell()
    theatre.view(ALICE, story)
    assert theatre.viewers(story) == []


def test_a_block_either_way_hides_a_viewer(theatre: Theatre) -> None:
    story = theatre.tell()
    theatre.view(BOB, story)
    theatre.view(CAROL, story)
    theatre.view(DANA, story)
    theatre.run(theatre.graph.people.block(ALICE, BOB))
    theatre.run(theatre.graph.people.block(CAROL, ALICE))
    theatre.settle()
    assert theatre.viewers(story) == [DANA]


def test_a_deactivated_viewer_cannot_view(theatre: Theatre) -> None:
    story = theatre.tell()
    theatre.run(theatre.edges.change_node(BOB, state=State.ARCHIVED))
    assert theatre.run(answer(theatre.stories.view(BOB, story.id))) is Forbidden


# --- lists -----------------------------------------------------------------------------------------------


def test_an_authors_stories_are_paged_oldest_first_both_ways(theatre: Theatre) -> None:
    told = [theatre.tell(text=str(number)).id for number in range(7)]
    window, pages = Window(3), []
    for _ in range(3):
        stories, page = theatre.run(theatre.stories.of_author(BOB, ALICE, window))
        pages.append([story.id for story in stories])
        window = Window(3, after=page.oldest)
    assert pages == [told[:3], told[3:6], told[6:]]
    assert (page.more_after, page.more_before) == (False, True)
    back, _ = theatre.run(theatre.stories.of_author(BOB, ALICE, Window(3, before=page.newest)))
    assert [story.id for story in back] == told[3:6]


def test_the_strip_begins_with_ones_own_then_the_unseen_then_the_closest(theatre: Theatre) -> None:
    others = [NodeId(author) for author in range(10, 16)]
    theatre.follow(*((BOB, author) for author in others))
    stories = {author: theatre.tell(author) for author in [*others, BOB]}
    theatre.close = {10: 0.5, 11: 7.25, 12: 0.5, 13: 0.0, 14: 3e5}
    theatre.view(BOB, stories[NodeId(11)], stories[NodeId(12)])
    assert theatre.authors() == [BOB, 14, 10, 15, 13, 11, 12]
    theatre.close = {}
    assert theatre.authors() == [BOB, 15, 14, 13, 10, 12, 11], "who told last, where nobody is closer"


def test_an_entry_counts_what_the_reader_may_see_and_has_not_seen(theatre: Theatre) -> None:
    theatre.follow((BOB, ALICE))
    one, two = theatre.tell(), theatre.tell()
    theatre.tell(visibility="friends")
    theatre.view(BOB, one)
    assert theatre.strip().entries == [StripEntry(ALICE, 2, 1, two.created_at, False)]
    theatre.view(BOB, two)
    assert theatre.strip().entries == [StripEntry(ALICE, 2, 0, two.created_at, False)]
    assert theatre.strip(ALICE).entries[0][1:3] == (3, 0), "one's own are seen"


def test_who_is_not_followed_muted_or_has_nothing_to_show_is_not_in_the_strip(theatre: Theatre) -> None:
    theatre.follow((BOB, ALICE), (BOB, CAROL))
    theatre.tell(ALICE)
    theatre.tell(CAROL, visibility="custom", audience=(DANA,))
    theatre.tell(DANA)
    assert theatre.authors() == [ALICE]
    theatre.run(theatre.graph.people.mute(BOB, ALICE))
    theatre.settle()
    assert theatre.authors() == []


def test_the_strip_is_paged_and_whole(theatre: Theatre) -> None:
    others = [NodeId(author) for author in range(10, 20)]
    theatre.follow(*((BOB, author) for author in others))
    for author in others:
        theatre.tell(author)
    whole, window, found = theatre.authors(), Window(3), []
    while True:
        part = theatre.strip(BOB, window)
        found += [entry.author for entry in part.entries]
        if not part.page.more_after:
            break
        window = Window(3, after=part.page.oldest)
    assert found == whole
    assert len(whole) == 10


def test_of_very_many_authors_the_closest_are_shown_and_the_strip_says_so(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "AUTHORS_MAX", 3)
    monkeypatch.setattr(strips, "STORIES_MAX", 2)
    others = [NodeId(author) for author in range(10, 15)]
    theatre.follow(*((BOB, author) for author in others))
    for author in [*others, NodeId(12), NodeId(12), BOB]:
        theatre.tell(author)
    theatre.close = {10: 1.0, 12: 3.0, 14: 2.0}
    shown = theatre.strip()
    assert [entry.author for entry in shown.entries] == [BOB, 12, 14, 10]
    assert [(entry.stories, entry.more) for entry in shown.entries] == [(1, False), (2, True), (1, False), (1, False)]
    assert shown.partial
    theatre.run(theatre.graph.people.unfollow(BOB, NodeId(11)))
    theatre.run(theatre.graph.people.unfollow(BOB, NodeId(13)))
    theatre.settle()
    assert not theatre.strip().partial


def test_stories_that_one_may_not_see_neither_hide_others_nor_count(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "STORIES_MAX", 2)
    theatre.follow((BOB, ALICE))
    shown = theatre.tell(ALICE)
    for _ in range(3):
        theatre.tell(ALICE, visibility="custom", audience=(CAROL,))
    assert theatre.strip().entries == [StripEntry(ALICE, 1, 1, shown.created_at, False)]
    second = theatre.tell(ALICE)
    assert theatre.strip().entries == [StripEntry(ALICE, 2, 2, second.created_at, False)]
    third = theatre.tell(ALICE)
    assert theatre.strip().entries == [StripEntry(ALICE, 2, 2, third.created_at, True)]


def test_others_get_their_turn_while_a_long_strip_is_read(theatre: Theatre) -> None:
    others = [NodeId(author) for author in range(10, 10 + 4 * strips.PART)]
    theatre.follow(*((BOB, author) for author in others))
    for author in others:
        theatre.tell(author)

    async def turns() -> int:
        reading, taken = asyncio.ensure_future(theatre.strips.page(BOB, FIRST_PAGE)), 0
        while not reading.done():
            taken += 1
            await asyncio.sleep(0)
        return taken

    assert theatre.run(turns()) > 4


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), -5.0, 1e300])
def test_any_closeness_makes_an_order(theatre: Theatre, odd: float) -> None:
    theatre.follow((BOB, ALICE), (BOB, CAROL))
    theatre.tell(CAROL)
    theatre.tell(ALICE)
    theatre.close = {ALICE: odd, CAROL: 1.0}
    assert theatre.authors() == ([ALICE, CAROL] if odd > 1 else [CAROL, ALICE])


# --- room given back -------------------------------------------------------------------------------------


def test_nothing_of_a_story_stays_when_its_time_is_long_over(theatre: Theatre, run: Run) -> None:
    views = theatre.graph.graphs.number(STORY_VIEWS)
    old, deleted, archived = theatre.tell(), theatre.tell(BOB), theatre.tell(CAROL)
    theatre.view(BOB, old, archived)
    theatre.view(DANA, old)
    run(theatre.stories.delete(BOB, deleted.id))
    for state in (State.ARCHIVED, State.NEGATIVE, State.REMOVED):
        edge = theatre.graph.now(views, NodeId(20 + state), old.id, state)
        run(theatre.graph.write([EdgeWrite(edge)]))
    run(theatre.edges.change_node(CAROL, state=State.ARCHIVED))
    theatre.clock.ms += HOUR_MS
    young = theatre.tell()
    theatre.view(BOB, young)
    theatre.clock.ms = archived.created_at + DAY_MS + GRACE_MS
    theatre.settle()
    done = run(reclaim(theatre.store, theatre.graph, 24, theatre.clock))
    theatre.settle()
    assert done.stories == 3
    assert {(row.source, row.destination) for row in theatre.edges.rows.values() if row.graph == views} == {
        (BOB, young.id)
    }
    stories = theatre.graph.graphs.number(STORIES)
    assert [row.destination for row in theatre.edges.rows.values() if row.graph == stories] == [young.id]
    assert [id_ for kind, id_ in theatre.store.records if kind is RecordKind.STORY] == [young.id]
    assert run(theatre.edges.count_many([Listing(views, old.id, Direction.IN)])) == [0]
    assert theatre.found(BOB, young)


def test_a_story_that_is_just_over_is_left_alone_for_whoever_is_writing(theatre: Theatre, run: Run) -> None:
    story = theatre.tell()
    theatre.clock.ms = story.created_at + DAY_MS + GRACE_MS - 1
    assert run(reclaim(theatre.store, theatre.graph, 24, theatre.clock)).stories == 0
    theatre.clock.ms += 1
    assert run(reclaim(theatre.store, theatre.graph, 24, theatre.clock)).stories == 1
    assert run(reclaim(theatre.store, theatre.graph, 24, theatre.clock)).stories == 0


def test_a_run_that_was_stopped_anywhere_is_finished_by_the_next(
    theatre: Theatre, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        """The process ends here."""

    calls = 0

    def stopping(real: Any, at: int) -> Any:
        async def forget(*args: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Stopped
            await real(*args)

        return forget

    for at in range(1, 6):  # the views of three stories, their records, their edges
        for author in (ALICE, BOB, CAROL):
            theatre.view(DANA, theatre.tell(author))
        theatre.clock.ms += DAY_MS + GRACE_MS
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(theatre.edges, "forget", stopping(theatre.edges.forget, at))
            patch.setattr(theatre.store, "forget", stopping(theatre.store.forget, at))
            with pytest.raises(Stopped):
                run(reclaim(theatre.store, theatre.graph, 24, theatre.clock))
        run(reclaim(theatre.store, theatre.graph, 24, theatre.clock))
        assert theatre.edges.rows == {}
        assert theatre.store.records == {}


def test_times_of_stories_told_at_once_still_differ(theatre: Theatre) -> None:
    told = [theatre.tell(later_ms=0) for _ in range(5)]
    assert all(one.id < other.id for one, other in pairwise(told))
    assert theatre.of(ALICE) == [story.id for story in told]
    assert told[0].created_at == START_MS
