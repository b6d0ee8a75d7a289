"""Stories over both kinds of engine: who sees them, until when, in which order, and that they are deleted."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS, FakeClock
from coroutines import Run, answer
from services import Services

from kith.core.errors import Forbidden, InvalidContent, PostNotFound, StoryNotFound
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graphs import AUTHORED, STORIES, STORY_VIEWS
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM, Viewer
from kith.posts.post import Draft, Post
from kith.records.store import RecordKind
from kith.stories import strip as strips
from kith.stories.reclaiming import GRACE_MS, reclaim
from kith.stories.stories import HOUR_MS, Stories
from kith.stories.strip import Strip, StripEntry, StripPage

DAY_MS = 24 * HOUR_MS
FIRST_PAGE = Window(50)


class StoryScene:
    """Stories and their strip over one store, and how close everybody is to everybody."""

    def __init__(self, run: Run, services: Services) -> None:
        self.run, self.services, self.settle = run, services, services.settle
        self.clock, self.graph, self.posts = services.clock, services.graph, services.posts
        self.stories = Stories(services.records, self.graph, services.snowflakes, hours=24, now_ms=self.clock)
        self.close: dict[int, float] = {}
        self.strips = Strip(self.graph, self.stories, self.closeness)

    async def closeness(self, viewer: NodeId) -> dict[int, float]:
        return self.close

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

    def found(self, viewer: Viewer, story: Post) -> bool:
        """Whether the viewer gets it, at both doors for one story."""
        (listed,) = self.run(self.stories.visible(viewer, [story.id]))
        got = self.run(answer(self.stories.get(viewer, story.id)))
        assert (listed is not None) == (got is not StoryNotFound)
        return listed is not None

    def of(self, author: NodeId, viewer: Viewer = BOB, window: Window = FIRST_PAGE) -> list[int]:
        return [story.id for story in self.run(self.stories.of_author(viewer, author, window))[0]]

    def strip(self, viewer: NodeId = BOB, window: Window = FIRST_PAGE) -> StripPage:
        return self.run(self.strips.page(viewer, window))

    def authors(self, viewer: NodeId = BOB) -> list[int]:
        return [entry.author for entry in self.strip(viewer).entries]

    def view(self, viewer: NodeId, *stories: Post) -> None:
        for story in stories:
            self.run(self.stories.view(viewer, story.id))
        self.settle()

    def viewers(self, story: Post, actor: Viewer = ALICE) -> list[int]:
        return [mark.id for mark in self.run(self.stories.viewers(actor, story.id, FIRST_PAGE)).items]


@pytest.fixture(params=["transactions", "none"])
def scene(request: pytest.FixtureRequest, run: Run, clock: FakeClock) -> StoryScene:
    transactional = request.param == "transactions"
    return StoryScene(run, run(Services.in_memory(transactional=transactional, seed=2, clock=clock)))


# --- until when ------------------------------------------------------------------------------------------


def test_a_story_is_there_until_its_last_millisecond_and_then_for_nobody(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    story = scene.tell()
    scene.view(BOB, story)
    scene.clock.ms = story.created_at + DAY_MS - 1
    assert scene.stories.over_at(story) == scene.clock.ms + 1
    assert all(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert (scene.of(ALICE), scene.authors(), scene.viewers(story)) == ([story.id], [ALICE], [BOB])
    scene.clock.ms += 1
    assert not any(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert (scene.of(ALICE), scene.of(ALICE, ALICE), scene.of(ALICE, SYSTEM)) == ([], [], [])
    assert scene.authors() == scene.authors(ALICE) == []
    for asked in (
        scene.stories.view(BOB, story.id),
        scene.stories.viewers(ALICE, story.id, FIRST_PAGE),
        scene.stories.viewers(SYSTEM, story.id, FIRST_PAGE),
        scene.stories.delete(ALICE, story.id),
    ):
        assert scene.run(answer(asked)) is StoryNotFound


def test_hours_are_a_setting_that_holds_for_old_stories_too(scene: StoryScene) -> None:
    story = scene.tell()
    longer = Stories(scene.services.records, scene.graph, scene.services.snowflakes, hours=48, now_ms=scene.clock)
    scene.clock.ms += DAY_MS
    assert not scene.found(ALICE, story)
    assert scene.run(longer.get(ALICE, story.id)) == story


def test_ids_that_were_never_a_story_are_nothing(scene: StoryScene) -> None:
    post = scene.run(scene.posts.create(ALICE, Draft(text="a post"))).post
    story = scene.tell()
    for id_ in (0, 5, post.id, story.id + 1, DANA):
        assert scene.run(answer(scene.stories.get(ALICE, NodeId(id_)))) is StoryNotFound
    assert scene.run(scene.stories.visible(ALICE, [0, story.id, story.id, 5])) == [None, story, story, None]


# --- its own shelf ---------------------------------------------------------------------------------------


def test_a_story_is_no_post_at_any_door(scene: StoryScene) -> None:
    story = scene.tell()
    posts = scene.posts
    assert scene.run(posts.visible(SYSTEM, [story.id])) == [None]
    assert scene.run(posts.outbox(SYSTEM, ALICE, FIRST_PAGE))[0] == []
    assert scene.run(answer(posts.delete(ALICE, story.id))) is PostNotFound
    number = scene.graph.graphs.number(AUTHORED)
    assert scene.run(scene.services.edges.count_many([Listing(number, ALICE, Direction.OUT)])) == [0]


def test_one_key_makes_one_story_and_may_make_one_post(scene: StoryScene) -> None:
    draft = Draft(text="same")
    first, again = (scene.run(scene.stories.create(ALICE, draft, "key")).post for _ in range(2))
    post = scene.run(scene.posts.create(ALICE, draft, "key")).post
    scene.settle()
    assert first == again
    assert post.id != first.id
    assert scene.of(ALICE) == [first.id]


def test_a_story_for_nobody_is_refused(scene: StoryScene) -> None:
    for fields in ({"visibility": "private"}, {"text": ""}, {"visibility": "custom"}):
        asked = scene.stories.create(ALICE, Draft(**{"text": "x", **fields}))  # type: ignore[arg-type]
        assert scene.run(answer(asked)) is InvalidContent


# --- who sees it -----------------------------------------------------------------------------------------


def test_the_hard_rules_hold_at_every_door(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE), (CAROL, ALICE), (ALICE, BOB))
    public = scene.tell()
    friends = scene.tell(visibility="friends")
    custom = scene.tell(visibility="custom", audience=(CAROL,))
    everything = [public.id, friends.id, custom.id]
    assert scene.of(ALICE, ALICE) == scene.of(ALICE, SYSTEM) == everything
    assert scene.of(ALICE, None) == [public.id]
    assert scene.of(ALICE, BOB) == [public.id, friends.id]
    assert scene.of(ALICE, CAROL) == [public.id, custom.id]
    assert [entry.stories for entry in scene.strip(CAROL).entries] == [2]
    assert not scene.found(BOB, custom)
    assert scene.run(answer(scene.stories.view(BOB, custom.id))) is StoryNotFound
    assert scene.run(answer(scene.stories.viewers(BOB, custom.id, FIRST_PAGE))) is StoryNotFound
    for block in ((ALICE, BOB), (CAROL, ALICE)):
        scene.run(scene.graph.people.block(*block))
    scene.settle()
    for viewer in (BOB, CAROL):
        assert scene.of(ALICE, viewer) == scene.authors(viewer) == []
        assert not any(scene.found(viewer, story) for story in (public, friends, custom))


def test_stories_of_private_accounts_are_for_followers(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    scene.run(scene.services.edges.change_node(ALICE, private=True))
    story = scene.tell()
    assert scene.found(BOB, story)
    assert not scene.found(CAROL, story)


@pytest.mark.parametrize("state", [State.ARCHIVED, State.REMOVED])
def test_stories_of_accounts_that_are_gone_are_gone(scene: StoryScene, state: State) -> None:
    scene.follow((BOB, ALICE))
    story = scene.tell()
    scene.run(scene.services.edges.change_node(ALICE, state=state))
    assert not scene.found(BOB, story)
    assert scene.of(ALICE) == scene.authors() == []


def test_only_its_author_deletes_a_story_and_nothing_of_it_stays_readable(scene: StoryScene) -> None:
    story = scene.tell(text="a secret")
    assert scene.run(answer(scene.stories.delete(BOB, story.id))) is Forbidden
    scene.run(scene.stories.delete(ALICE, story.id))
    scene.settle()
    assert not any(scene.found(viewer, story) for viewer in (ALICE, BOB, SYSTEM, None))
    assert scene.of(ALICE, ALICE) == []
    assert b"secret" not in b"".join(record.data for record in scene.services.records.records.values())


# --- seen ------------------------------------------------------------------------------------------------


def test_seen_is_remembered_once_and_its_author_reads_who(scene: StoryScene) -> None:
    story = scene.tell()
    first = scene.run(scene.stories.view(BOB, story.id))
    scene.clock.ms += 5_000
    scene.view(CAROL, story)
    assert scene.run(scene.stories.view(BOB, story.id)).at_ms == first.at_ms
    scene.settle()
    assert scene.viewers(story) == scene.viewers(story, SYSTEM) == [CAROL, BOB]
    assert scene.run(scene.stories.view_counts([story.id])) == [2]
    assert scene.run(answer(scene.stories.viewers(BOB, story.id, FIRST_PAGE))) is Forbidden
    seen = [scene.run(scene.stories.seen(viewer, [story])) for viewer in (BOB, DANA, ALICE, SYSTEM)]
    assert seen == [[True], [False], [True], [False]]


def test_authors_are_not_among_their_viewers(scene: StoryScene) -> None:
    story = scene.tell()
    scene.view(ALICE, story)
    assert scene.viewers(story) == []


def test_a_block_either_way_hides_a_viewer(scene: StoryScene) -> None:
    story = scene.tell()
    scene.view(BOB, story)
    scene.view(CAROL, story)
    scene.view(DANA, story)
    scene.run(scene.graph.people.block(ALICE, BOB))
    scene.run(scene.graph.people.block(CAROL, ALICE))
    scene.settle()
    assert scene.viewers(story) == [DANA]


def test_a_deactivated_viewer_cannot_view(scene: StoryScene) -> None:
    story = scene.tell()
    scene.run(scene.services.edges.change_node(BOB, state=State.ARCHIVED))
    assert scene.run(answer(scene.stories.view(BOB, story.id))) is Forbidden


# --- lists -----------------------------------------------------------------------------------------------


def test_an_authors_stories_are_paged_oldest_first_both_ways(scene: StoryScene) -> None:
    told = [scene.tell(text=str(number)).id for number in range(7)]
    window, pages = Window(3), []
    for _ in range(3):
        stories, page = scene.run(scene.stories.of_author(BOB, ALICE, window))
        pages.append([story.id for story in stories])
        window = Window(3, after=page.oldest)
    assert pages == [told[:3], told[3:6], told[6:]]
    assert (page.more_after, page.more_before) == (False, True)
    back, _ = scene.run(scene.stories.of_author(BOB, ALICE, Window(3, before=page.newest)))
    assert [story.id for story in back] == told[3:6]


def test_the_strip_begins_with_ones_own_then_the_unseen_then_the_closest(scene: StoryScene) -> None:
    others = [NodeId(author) for author in range(10, 16)]
    scene.follow(*((BOB, author) for author in others))
    stories = {author: scene.tell(author) for author in [*others, BOB]}
    scene.close = {10: 0.5, 11: 7.25, 12: 0.5, 13: 0.0, 14: 3e5}
    scene.view(BOB, stories[NodeId(11)], stories[NodeId(12)])
    assert scene.authors() == [BOB, 14, 10, 15, 13, 11, 12]
    scene.close = {}
    assert scene.authors() == [BOB, 15, 14, 13, 10, 12, 11], "who told last, where nobody is closer"


def test_an_entry_counts_what_the_reader_may_see_and_has_not_seen(scene: StoryScene) -> None:
    scene.follow((BOB, ALICE))
    one, two = scene.tell(), scene.tell()
    scene.tell(visibility="friends")
    scene.view(BOB, one)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 1, two.created_at, False)]
    scene.view(BOB, two)
    assert scene.strip().entries == [StripEntry(ALICE, 2, 0, two.created_at, False)]
    assert scene.strip(ALICE).entries[0][1:3] == (3, 0), "one's own are seen"


def test_who_is_not_followed_muted_or_has_nothing_to_show_is_not_in_the_strip(scene: StoryScene) -> None:
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


def test_of_whom_one_follows_beyond_the_bound_the_newest_are_looked_at_and_the_strip_says_so(
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


def test_stories_that_one_may_not_see_neither_hide_others_nor_count(
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


def test_others_get_their_turn_while_a_long_strip_is_read(scene: StoryScene) -> None:
    others = [NodeId(author) for author in range(10, 10 + 4 * strips.PART)]
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


# --- room given back -------------------------------------------------------------------------------------


def test_nothing_of_a_story_stays_when_its_time_is_long_over(scene: StoryScene, run: Run) -> None:
    views = scene.graph.graphs.number(STORY_VIEWS)
    old, deleted, archived = scene.tell(), scene.tell(BOB), scene.tell(CAROL)
    scene.view(BOB, old, archived)
    scene.view(DANA, old)
    run(scene.stories.delete(BOB, deleted.id))
    for state in (State.ARCHIVED, State.NEGATIVE, State.REMOVED):
        edge = scene.graph.now(views, NodeId(20 + state), old.id, state)
        run(scene.graph.write([EdgeWrite(edge)]))
    run(scene.services.edges.change_node(CAROL, state=State.ARCHIVED))
    scene.clock.ms += HOUR_MS
    young = scene.tell()
    scene.view(BOB, young)
    scene.clock.ms = archived.created_at + DAY_MS + GRACE_MS
    scene.settle()
    done = run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
    scene.settle()
    assert done.stories == 3
    assert {(row.source, row.destination) for row in scene.services.edges.rows.values() if row.graph == views} == {
        (BOB, young.id)
    }
    stories = scene.graph.graphs.number(STORIES)
    assert [row.destination for row in scene.services.edges.rows.values() if row.graph == stories] == [young.id]
    assert [id_ for kind, id_ in scene.services.records.records if kind is RecordKind.STORY] == [young.id]
    assert run(scene.services.edges.count_many([Listing(views, old.id, Direction.IN)])) == [0]
    assert scene.found(BOB, young)


def test_a_story_that_is_just_over_is_left_alone_for_whoever_is_writing(scene: StoryScene, run: Run) -> None:
    story = scene.tell()
    scene.clock.ms = story.created_at + DAY_MS + GRACE_MS - 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 0
    scene.clock.ms += 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 1
    assert run(reclaim(scene.services.records, scene.graph, 24, scene.clock)).stories == 0


def test_a_run_that_was_stopped_anywhere_is_finished_by_the_next(
    scene: StoryScene, run: Run, monkeypatch: pytest.MonkeyPatch
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
            scene.view(DANA, scene.tell(author))
        scene.clock.ms += DAY_MS + GRACE_MS
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(scene.services.edges, "forget", stopping(scene.services.edges.forget, at))
            patch.setattr(scene.services.records, "forget", stopping(scene.services.records.forget, at))
            with pytest.raises(Stopped):
                run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
        run(reclaim(scene.services.records, scene.graph, 24, scene.clock))
        assert scene.services.edges.rows == {}
        assert scene.services.records.records == {}


def test_times_of_stories_told_at_once_still_differ(scene: StoryScene) -> None:
    told = [scene.tell(later_ms=0) for _ in range(5)]
    assert all(one.id < other.id for one, other in pairwise(told))
    assert scene.of(ALICE) == [story.id for story in told]
    assert told[0].created_at == START_MS
